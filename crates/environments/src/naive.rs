//! The plainest forms of what this crate does, for its tests: everything recomputed from the edges
//! at every step, and values flattened into new lists.

use shardgraph_graph::Graph;

use crate::space::{Space, SpaceKind, Value};

/// The number of neighbours of `v` that are not removed; 0 when `v` is.
pub(crate) fn degree(graph: &Graph, removed: &[bool], v: u32) -> u32 {
    if removed[v as usize] {
        return 0;
    }
    let present = |&&u: &&u32| !removed[u as usize];
    graph.neighbors(v).iter().filter(present).count() as u32
}

/// The sum of [`degree`] over the neighbours of `v` that are not removed; 0 when `v` is.
pub(crate) fn d2(graph: &Graph, removed: &[bool], v: u32) -> u64 {
    if removed[v as usize] {
        return 0;
    }
    let degrees = graph
        .neighbors(v)
        .iter()
        .map(|&u| u64::from(degree(graph, removed, u)));
    degrees.sum()
}

pub(crate) fn n_edges(graph: &Graph, removed: &[bool]) -> u64 {
    let is_left = |&(u, v): &(u32, u32)| !removed[u as usize] && !removed[v as usize];
    graph.edges().filter(is_left).count() as u64
}

pub(crate) fn is_cover(graph: &Graph, picks: &[u32]) -> bool {
    graph
        .edges()
        .all(|(u, v)| picks.contains(&u) || picks.contains(&v))
}

/// Picks by a full scan: the smallest key among the nodes with an edge left, then the lowest index.
pub(crate) fn greedy(graph: &Graph, key: impl Fn(&[bool], u32) -> (u64, u64)) -> Vec<u32> {
    let mut removed = vec![false; graph.n_nodes() as usize];
    let mut picks = Vec::new();
    loop {
        let candidates = (0..graph.n_nodes()).filter(|&v| degree(graph, &removed, v) > 0);
        let Some(v) = candidates.min_by_key(|&v| (key(&removed, v), v)) else {
            return picks;
        };
        removed[v as usize] = true;
        picks.push(v);
    }
}

/// The independent set by a full scan for the smallest residual degree, then the lowest index.
pub(crate) fn min_degree_independent_set(graph: &Graph) -> Vec<u32> {
    let mut removed = vec![false; graph.n_nodes() as usize];
    let mut set = Vec::new();
    loop {
        let present = (0..graph.n_nodes()).filter(|&v| !removed[v as usize]);
        let Some(v) = present.min_by_key(|&v| (degree(graph, &removed, v), v)) else {
            return set;
        };
        set.push(v);
        removed[v as usize] = true;
        graph
            .neighbors(v)
            .iter()
            .for_each(|&u| removed[u as usize] = true);
    }
}

/// The size of the smallest cover, by trying every set of nodes. At most 24 nodes.
pub(crate) fn smallest_cover(graph: &Graph) -> u32 {
    let n = graph.n_nodes();
    assert!(n <= 24);
    let covers = |set: u32| {
        graph
            .edges()
            .all(|(u, v)| set >> u & 1 == 1 || set >> v & 1 == 1)
    };
    let sets = (0..1u32 << n).filter(|&set| covers(set));
    sets.map(u32::count_ones).min().unwrap()
}

/// The largest worth of a set of nodes; `None` stands for a set that is no answer. At most 16
/// nodes.
fn best_set(n_nodes: u32, worth: impl Fn(&[bool]) -> Option<f64>) -> f64 {
    assert!(n_nodes <= 16);
    let marks = |set: u32| {
        (0..n_nodes)
            .map(move |v| set >> v & 1 == 1)
            .collect::<Vec<_>>()
    };
    let sets = (0..1u32 << n_nodes).filter_map(|set| worth(&marks(set)));
    sets.fold(f64::NEG_INFINITY, f64::max)
}

fn size(marks: &[bool]) -> f64 {
    marks.iter().filter(|&&mark| mark).count() as f64
}

pub(crate) fn is_independent(graph: &Graph, marks: &[bool]) -> bool {
    !graph
        .edges()
        .any(|(u, v)| marks[u as usize] && marks[v as usize])
}

pub(crate) fn is_clique(graph: &Graph, marks: &[bool]) -> bool {
    let nodes = 0..graph.n_nodes();
    let pairs = nodes.flat_map(|u| (0..u).map(move |v| (u, v)));
    pairs
        .filter(|&(u, v)| marks[u as usize] && marks[v as usize])
        .all(|(u, v)| graph.edges().any(|edge| edge == (v, u)))
}

pub(crate) fn is_dominating(graph: &Graph, marks: &[bool]) -> bool {
    let has = |v: u32| marks[v as usize];
    let by_edge = |v: u32| {
        graph
            .edges()
            .any(|(a, b)| (a == v && has(b)) || (b == v && has(a)))
    };
    (0..graph.n_nodes()).all(|v| has(v) || by_edge(v))
}

pub(crate) fn cut(graph: &Graph, marks: &[bool]) -> f64 {
    let between = graph
        .weighted_edges()
        .filter(|&(u, v, _)| marks[u as usize] != marks[v as usize]);
    between.fold(0.0, |sum, edge| sum + f64::from(edge.2))
}

pub(crate) fn largest_independent_set(graph: &Graph) -> f64 {
    best_set(graph.n_nodes(), |set| {
        is_independent(graph, set).then(|| size(set))
    })
}

pub(crate) fn largest_clique(graph: &Graph) -> f64 {
    best_set(graph.n_nodes(), |set| {
        is_clique(graph, set).then(|| size(set))
    })
}

pub(crate) fn largest_cut(graph: &Graph) -> f64 {
    best_set(graph.n_nodes(), |set| Some(cut(graph, set)))
}

pub(crate) fn smallest_dominating_set(graph: &Graph) -> f64 {
    -best_set(graph.n_nodes(), |set| {
        is_dominating(graph, set).then(|| -size(set))
    })
}

/// Picks by a full scan for the largest worth above 0, then the lowest index; `worth` of a node
/// given the picks.
pub(crate) fn most(n_nodes: u32, worth: impl Fn(&[bool], u32) -> f64) -> Vec<u32> {
    let mut taken = vec![false; n_nodes as usize];
    let mut picks = Vec::new();
    loop {
        let mut best = (0.0, None);
        for v in (0..n_nodes).filter(|&v| !taken[v as usize]) {
            let worth = worth(&taken, v);
            if worth > best.0 {
                best = (worth, Some(v));
            }
        }
        let Some(v) = best.1 else { return picks };
        taken[v as usize] = true;
        picks.push(v);
    }
}

/// A value as floats, leaf by leaf.
pub(crate) fn flatten(space: &Space, value: &Value) -> Vec<f32> {
    match (space.kind(), value) {
        (SpaceKind::Discrete { n }, Value::U32(number)) => {
            (0..*n).map(|idx| f32::from(idx == *number)).collect()
        }
        (_, Value::F32(list)) => list.clone(),
        (_, Value::Bits(bits)) => bits.iter().map(|&bit| f32::from(bit)).collect(),
        (SpaceKind::Dict { spaces }, Value::Dict(members)) => {
            let member = |(name, space): &(String, Space)| flatten(space, &members[name]);
            spaces.iter().flat_map(member).collect()
        }
        (SpaceKind::Tuple { spaces }, Value::Tuple(members)) => {
            let pairs = spaces.iter().zip(members);
            pairs
                .flat_map(|(space, member)| flatten(space, member))
                .collect()
        }
        _ => panic!("{value:?} has no floats"),
    }
}
