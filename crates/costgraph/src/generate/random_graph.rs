//! The four random graph models of the paper, undirected and simple.

use crate::{Error, ErrorKind};
use shardgraph_random::KeyedRng;
use std::collections::BTreeSet;

/// A random graph model and its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RandomGraph {
    /// Every pair is an edge with probability `p`.
    ErdosRenyi {
        /// Probability of an edge.
        p: f64,
    },
    /// Nodes come one after the other and connect to `m` others, each chosen in proportion to its degree.
    BarabasiAlbert {
        /// Edges that each new node brings.
        m: u32,
    },
    /// A ring in which each node knows its `k` nearest; each edge moves its far end to a random node with probability `p`.
    WattsStrogatz {
        /// Neighbours on the ring, half of them on each side.
        k: u32,
        /// Probability that an edge is moved.
        p: f64,
    },
    /// Blocks of equal size; pairs within a block are edges more often than others.
    StochasticBlock {
        /// Number of blocks.
        n_blocks: u32,
        /// Probability of an edge within a block.
        p_within: f64,
        /// Probability of an edge between blocks.
        p_between: f64,
    },
}

impl RandomGraph {
    /// The models of Table 2 with the paper's parameters.
    pub const PAPER: [RandomGraph; 4] = [
        RandomGraph::ErdosRenyi { p: 0.05 },
        RandomGraph::BarabasiAlbert { m: 2 },
        RandomGraph::WattsStrogatz { k: 4, p: 0.3 },
        RandomGraph::StochasticBlock {
            n_blocks: 4,
            p_within: 0.3,
            p_between: 0.01,
        },
    ];

    /// A short name for file names and tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            RandomGraph::ErdosRenyi { .. } => "erdos-renyi",
            RandomGraph::BarabasiAlbert { .. } => "barabasi-albert",
            RandomGraph::WattsStrogatz { .. } => "watts-strogatz",
            RandomGraph::StochasticBlock { .. } => "stochastic-block",
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let is_probability = |p: f64| (0.0..=1.0).contains(&p);
        let wrong = match *self {
            RandomGraph::ErdosRenyi { p } if !is_probability(p) => "p from 0 to 1",
            RandomGraph::BarabasiAlbert { m: 0 } => "m of at least 1",
            RandomGraph::WattsStrogatz { k, .. } if k < 2 || k % 2 == 1 => {
                "an even k of at least 2"
            }
            RandomGraph::WattsStrogatz { p, .. } if !is_probability(p) => "p from 0 to 1",
            RandomGraph::StochasticBlock { n_blocks: 0, .. } => "at least one block",
            RandomGraph::StochasticBlock {
                p_within,
                p_between,
                ..
            } if !is_probability(p_within) || !is_probability(p_between) => {
                "probabilities from 0 to 1"
            }
            _ => return Ok(()),
        };
        let message = format!("{self:?} is not possible; {} needs {wrong}", self.name());
        Err(Error::new(ErrorKind::Argument, message))
    }

    /// The edges of one graph of `n` nodes, each once; how they are ordered and directed means nothing.
    pub(super) fn edges(&self, n: usize, stream: &mut KeyedRng) -> Vec<(u32, u32)> {
        match *self {
            RandomGraph::ErdosRenyi { p } => pairs(n, stream, |_, _| p),
            RandomGraph::BarabasiAlbert { m } => barabasi_albert(n, m as usize, stream),
            RandomGraph::WattsStrogatz { k, p } => watts_strogatz(n, k as usize, p, stream),
            RandomGraph::StochasticBlock {
                n_blocks,
                p_within,
                p_between,
            } => {
                let block = |node: usize| node * n_blocks as usize / n;
                let p = |a, b| {
                    if block(a) == block(b) {
                        p_within
                    } else {
                        p_between
                    }
                };
                pairs(n, stream, p)
            }
        }
    }
}

/// Every pair with its own probability.
fn pairs(n: usize, stream: &mut KeyedRng, p: impl Fn(usize, usize) -> f64) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    for a in 0..n {
        for b in a + 1..n {
            if stream.uniform_f64() < p(a, b) {
                edges.push((a as u32, b as u32));
            }
        }
    }
    edges
}

/// The first m nodes begin without edges; node m connects to all of them.
fn barabasi_albert(n: usize, m: usize, stream: &mut KeyedRng) -> Vec<(u32, u32)> {
    let mut edges = Vec::new();
    // Every end of every edge, so that a uniform draw chooses in proportion to the degree.
    let mut ends: Vec<u32> = Vec::new();
    for node in m..n {
        let mut chosen = BTreeSet::new();
        if node == m {
            chosen.extend(0..m as u32);
        }
        while chosen.len() < m {
            chosen.insert(ends[stream.index(ends.len())]);
        }
        for other in chosen {
            edges.push((other, node as u32));
            ends.extend([other, node as u32]);
        }
    }
    edges
}

fn watts_strogatz(n: usize, k: usize, p: f64, stream: &mut KeyedRng) -> Vec<(u32, u32)> {
    let mut edges = BTreeSet::new();
    let key = |a: usize, b: usize| (a.min(b) as u32, a.max(b) as u32);
    // A ring of few nodes has fewer neighbours than asked for.
    let reach = (k / 2).min(n.saturating_sub(1) / 2);
    for distance in 1..=reach {
        edges.extend((0..n).map(|node| key(node, (node + distance) % n)));
    }
    let mut degree = vec![2 * reach; n];
    for distance in 1..=reach {
        for node in 0..n {
            let old = (node + distance) % n;
            // A node that knows everyone has nowhere to move an edge to.
            if stream.uniform_f64() >= p || degree[node] == n - 1 {
                continue;
            }
            let new = loop {
                let new = stream.index(n);
                if new != node && !edges.contains(&key(node, new)) {
                    break new;
                }
            };
            edges.remove(&key(node, old));
            edges.insert(key(node, new));
            degree[old] -= 1;
            degree[new] += 1;
        }
    }
    edges.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean number of edges over many graphs, and that all are simple.
    fn mean_edges(model: RandomGraph, n: usize) -> f64 {
        let n_graphs = 200;
        let mut total = 0;
        for index in 0..n_graphs {
            let edges = model.edges(n, &mut KeyedRng::new(3, "edges", index));
            let distinct: BTreeSet<_> = edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
            assert_eq!(distinct.len(), edges.len(), "{model:?}: an edge twice");
            assert!(edges.iter().all(|&(a, b)| a != b), "{model:?}: a loop");
            assert!(edges.iter().all(|&(a, b)| (a.max(b) as usize) < n));
            total += edges.len();
        }
        total as f64 / n_graphs as f64
    }

    #[test]
    fn models_have_the_expected_numbers_of_edges() {
        let n = 120;
        let n_pairs = (n * (n - 1) / 2) as f64;
        let [er, ba, ws, sbm] = RandomGraph::PAPER.map(|model| mean_edges(model, n));
        // 200 graphs: the standard error is about 18 / sqrt(200) = 1.3.
        assert!((er - 0.05 * n_pairs).abs() < 7.0, "{er}");
        assert!((ba - 2.0 * (n as f64 - 2.0)).abs() < 1e-9, "{ba}");
        assert!((ws - 2.0 * n as f64).abs() < 1e-9, "{ws}");
        let within = 4.0 * 30.0 * 29.0 / 2.0;
        let expected = 0.3 * within + 0.01 * (n_pairs - within);
        assert!((sbm - expected).abs() < 10.0, "{sbm} for {expected}");
    }

    #[test]
    fn barabasi_albert_prefers_what_has_edges() {
        let edges = barabasi_albert(400, 2, &mut KeyedRng::new(1, "ba", 0));
        let mut degree = vec![0; 400];
        for (a, b) in edges {
            degree[a as usize] += 1;
            degree[b as usize] += 1;
        }
        // Uniform attachment would hardly reach 2 ln 400 + 3 standard deviations = 20.
        assert!(degree.iter().max() > Some(&20), "{:?}", degree.iter().max());
        assert!(degree[2..].iter().all(|&d| d >= 2));
    }

    #[test]
    fn watts_strogatz_moves_a_share_of_p() {
        let (n, p) = (200, 0.3);
        let mut moved = 0;
        for index in 0..50 {
            let edges = watts_strogatz(n, 4, p, &mut KeyedRng::new(2, "ws", index));
            let is_near = |&(a, b): &(u32, u32)| matches!((b - a).min(n as u32 - (b - a)), 1 | 2);
            moved += edges.iter().filter(|e| !is_near(e)).count();
        }
        let share = moved as f64 / (50 * 2 * n) as f64;
        // A moved edge lands near again with probability about 4 / 200.
        assert!((share - p * 0.99).abs() < 0.02, "{share}");
    }

    #[test]
    fn small_rings_do_not_hang() {
        for n in 1..8 {
            let edges = watts_strogatz(n, 4, 1.0, &mut KeyedRng::new(9, "ring", n as u64));
            assert!(edges.len() <= n * (n - 1) / 2, "{n}");
            let _ = barabasi_albert(n, 2, &mut KeyedRng::new(9, "ring", n as u64));
        }
    }
}
