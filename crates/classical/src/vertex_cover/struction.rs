//! Struction: a node and its neighbours become a node for each two of the neighbours that are not joined.

use crate::vertex_cover::dynamic::Dynamic;
use crate::vertex_cover::marks::Marks;

/// Nodes with more neighbours are not looked at.
const MOST_NEIGHBORS: u32 = 64;

/// A node, its neighbours, and what takes their place.
pub(crate) struct Struction {
    /// The node, then its neighbours.
    pub(crate) nodes: Vec<u32>,
    /// The places in `nodes` of two neighbours that are not joined, the smaller one first, ascending: a new node each.
    pub(crate) pairs: Vec<(u32, u32)>,
    /// For each pair the nodes beyond `nodes` that one of the two has as a neighbour.
    pub(crate) beyond: Vec<Vec<u32>>,
}

impl Struction {
    /// The pairs, by number, whose new nodes are joined: those with another first neighbour, and those whose second neighbours are joined.
    pub(crate) fn joined(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let all = (0..self.pairs.len()).flat_map(|x| (0..x).map(move |y| (y, x)));
        all.filter(|&(y, x)| {
            let ((i, j), (k, l)) = (self.pairs[y], self.pairs[x]);
            i != k || self.pairs.binary_search(&(j, l)).is_err()
        })
    }

    /// Edges of the new nodes.
    fn n_new_edges(&self) -> usize {
        self.joined().count() + self.beyond.iter().map(Vec::len).sum::<usize>()
    }
}

/// The struction of `v`, if it leaves a node less at least, and the graph no more than `most_edges` edges.
///
/// # Complexity
/// The rows of the neighbours of `v` until as many pairs are not joined as `v` has neighbours; where there are fewer, two rows a pair more.
pub(crate) fn struction(
    graph: &Dynamic,
    v: u32,
    most_edges: u64,
    marks: &mut Marks,
) -> Option<Struction> {
    if graph.degree(v) < 2 || graph.degree(v) > MOST_NEIGHBORS {
        return None;
    }
    let mut found = Struction {
        nodes: std::iter::once(v).chain(graph.neighbors(v)).collect(),
        pairs: Vec::new(),
        beyond: Vec::new(),
    };
    for i in 1..found.nodes.len() {
        marks.clear();
        graph.neighbors(found.nodes[i]).for_each(|w| {
            marks.mark(w);
        });
        let apart = (i + 1..found.nodes.len()).filter(|&j| !marks.has(found.nodes[j]));
        let apart = apart.map(|j| (i as u32, j as u32));
        found.pairs.extend(apart);
        if found.pairs.len() > graph.degree(v) as usize {
            return None;
        }
    }
    for &(i, j) in &found.pairs {
        let both = [found.nodes[i as usize], found.nodes[j as usize]];
        found.beyond.push(beyond(graph, &found.nodes, both, marks));
    }
    let n_left = graph.n_edges() - n_edges_at(graph, &found.nodes, marks);
    (n_left + found.n_new_edges() as u64 <= most_edges).then_some(found)
}

/// The neighbours of two nodes, without those of a list.
fn beyond(graph: &Dynamic, without: &[u32], both: [u32; 2], marks: &mut Marks) -> Vec<u32> {
    marks.clear();
    for &w in without {
        marks.mark(w);
    }
    let all = both.into_iter().flat_map(|a| graph.neighbors(a));
    all.filter(|&w| marks.mark(w)).collect()
}

/// Edges with an end in a list of nodes.
fn n_edges_at(graph: &Dynamic, nodes: &[u32], marks: &mut Marks) -> u64 {
    marks.clear();
    for &a in nodes {
        marks.mark(a);
    }
    let (mut n_ends, mut n_inside) = (0, 0);
    for &a in nodes {
        n_ends += u64::from(graph.degree(a));
        n_inside += graph.neighbors(a).filter(|&w| marks.has(w)).count() as u64;
    }
    n_ends - n_inside / 2
}
