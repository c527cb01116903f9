//! Which edges are held out, and which pairs that are no edges stand against them.

use std::collections::BTreeSet;

use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use crate::Error;

/// A graph's edges in two lists, each in random order, the smaller node first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// To train on.
    pub train: Vec<(u32, u32)>,
    /// Held out.
    pub test: Vec<(u32, u32)>,
}

/// Splits a graph's edges at random; both lists have at least one.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_line::eval::split;
///
/// let split = split(&builtin::by_name("karate").unwrap(), 0.7, 1)?;
/// assert_eq!((split.train.len(), split.test.len()), (55, 23));
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// [`Error::Graph`] for fewer than two edges.
pub fn split(graph: &Graph, train_share: f64, seed: u64) -> Result<Split, Error> {
    let above = |u: u32| {
        let later = graph.neighbors(u).iter().filter(move |&&v| u < v);
        later.map(move |&v| (u, v))
    };
    let mut train: Vec<(u32, u32)> = (0..graph.n_nodes()).flat_map(above).collect();
    if train.len() < 2 {
        let message = format!("{} edges: expected 2 or more to split", train.len());
        return Err(Error::graph(message));
    }
    KeyedRng::new(seed, "line split", 0).shuffle(&mut train);
    let n_train = (train.len() as f64 * train_share).round() as usize;
    let test = train.split_off(n_train.clamp(1, train.len() - 1));
    Ok(Split { train, test })
}

/// Different pairs of different nodes without an edge, drawn uniformly.
///
/// # Errors
/// [`Error::Graph`] where hardly a pair is without an edge, or there are not so many.
pub fn uniform_pairs(
    graph: &Graph,
    n: usize,
    stream: &mut KeyedRng,
) -> Result<Vec<(u32, u32)>, Error> {
    let n_nodes = graph.n_nodes();
    let draw = |stream: &mut KeyedRng| stream.below_u32(n_nodes);
    strangers(graph, n, stream, draw)
}

/// Different pairs of different nodes without an edge, whose ends are drawn as the ends of edges
/// are: in proportion to their degrees.
///
/// # Errors
/// As [`uniform_pairs`].
pub fn degree_matched_pairs(
    graph: &Graph,
    n: usize,
    stream: &mut KeyedRng,
) -> Result<Vec<(u32, u32)>, Error> {
    let ends: Vec<u32> = (0..graph.n_nodes())
        .flat_map(|u| graph.neighbors(u))
        .copied()
        .collect();
    let draw = |stream: &mut KeyedRng| ends[stream.below(ends.len() as u64) as usize];
    strangers(graph, n, stream, draw)
}

fn strangers(
    graph: &Graph,
    n: usize,
    stream: &mut KeyedRng,
    draw: impl Fn(&mut KeyedRng) -> u32,
) -> Result<Vec<(u32, u32)>, Error> {
    let (mut pairs, mut seen) = (Vec::new(), BTreeSet::new());
    let most = match graph.n_edges() {
        0 => 0,
        _ => 1000 * (n as u64 + 1),
    };
    for _ in 0..most {
        if pairs.len() == n {
            return Ok(pairs);
        }
        let (u, v) = (draw(stream), draw(stream));
        if u != v && !graph.has_edge(u, v) && seen.insert((u.min(v), u.max(v))) {
            pairs.push((u, v));
        }
    }
    let message = format!(
        "found {} pairs without an edge in {most} draws, wanted {n}: the graph is nearly complete, \
         or has no edge",
        pairs.len()
    );
    Err(Error::graph(message))
}
