//! Seeded random graphs of known models: Erdos-Renyi, Barabasi-Albert, Watts-Strogatz, stochastic
//! blocks, Model RB, Chung-Lu.
//!
//! Same specification and seed, same graph, on every machine. Each row, node or constraint draws from its own stream of
//! `shardgraph_random::KeyedRng`, so a part of a graph can be made without the rest where the model allows.

mod barabasi_albert;
mod chung_lu;
mod erdos_renyi;
mod model_rb;
mod spec;
mod stochastic_block;
mod watts_strogatz;

use crate::{EdgeSink, Error, ErrorKind, Graph, GraphBuilder};

/// A random graph model with its parameters, written `er:n:p`, `ba:n:m`, `ws:n:k:p`,
/// `sbm:n:blocks:p_in:p_out`,
/// `rb:cliques:size:p:r` or `cl:n:mean:exponent`.
///
/// ```
/// use shardgraph_graph::generate::GeneratorSpec;
///
/// let spec: GeneratorSpec = "er:1000:0.15".parse()?;
/// let graph = spec.graph(1)?;
/// assert_eq!(graph, spec.graph(1)?);
/// assert!((graph.n_edges() as f64 / spec.expected_edges() - 1.0).abs() < 0.02);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GeneratorSpec {
    /// Every pair of nodes is an edge with probability `p`, independently.
    ///
    /// Rows come ascending, by geometric skipping: time proportional to nodes and edges, not to pairs (Batagelj and
    /// Brandes, "Efficient generation of large random networks").
    ErdosRenyi {
        /// Nodes.
        n_nodes: u32,
        /// Probability of an edge, from 0 to 1.
        p: f64,
    },
    /// A star of `m + 1` nodes, then each further node joins `m` different earlier ones, chosen in proportion to degree.
    BarabasiAlbert {
        /// Nodes.
        n_nodes: u32,
        /// Edges that each further node brings, from 1 to `n_nodes - 1`.
        m: u32,
    },
    /// A ring where each node is joined to its `k` nearest, every edge then moved to a random end with probability `p`.
    WattsStrogatz {
        /// Nodes.
        n_nodes: u32,
        /// Neighbours before moving: even and below `n_nodes`.
        k: u32,
        /// Probability that an edge moves, from 0 to 1.
        p: f64,
    },
    /// Nodes in consecutive blocks of equal size (the first ones one larger where it does not divide).
    StochasticBlock {
        /// Nodes.
        n_nodes: u32,
        /// Blocks, from 1 to `n_nodes`.
        n_blocks: u32,
        /// Probability of an edge within a block.
        p_in: f64,
        /// Probability of an edge between blocks.
        p_out: f64,
    },
    /// Model RB of Xu and Li, forced satisfiable, as a conflict graph: the BHOSLIB family (frb30-15 is about
    /// `rb:30:15:0.25:2.78`).
    ///
    /// A node is (variable, value); the values of a variable form a clique; each of `r * cliques * ln(cliques)` constraints
    /// picks two variables and forbids a share `p` of their value pairs, as edges, never those of a planted assignment. The
    /// planted nodes are a largest independent set, so the smallest vertex cover has `n_nodes - cliques` nodes.
    ModelRb {
        /// Variables: cliques of the graph, and the size of its largest independent set.
        n_cliques: u32,
        /// Values of a variable: nodes in each clique.
        clique_size: u32,
        /// Constraint tightness: the share of value pairs that a constraint forbids, from 0 to 1.
        p: f64,
        /// Constraint density: the number of constraints is `r * cliques * ln(cliques)`.
        r: f64,
    },
    /// Chung-Lu graphs, whose degrees fall as a power law: a few hubs and many nodes of small
    /// degree, some of none.
    ///
    /// Node i has the weight `w_i`, in proportion to `(i + 1)^(-1 / (exponent - 1))`, and each pair
    /// is an edge with probability
    /// `min(1, w_i w_j / sum w)`, independently (Chung and Lu, 2002). Edges come by geometric
    /// skipping (Miller and Hagberg, "Efficient generation of networks with given expected
    /// degrees").
    ChungLu {
        /// Nodes.
        n_nodes: u32,
        /// The mean weight: the mean degree, but for pairs whose product of weights is above the
        /// sum.
        mean_degree: f64,
        /// Exponent of the power law of degrees, above 2.
        exponent: f64,
    },
}

impl GeneratorSpec {
    /// Number of nodes.
    #[must_use]
    pub fn n_nodes(&self) -> u32 {
        match *self {
            GeneratorSpec::ErdosRenyi { n_nodes, .. }
            | GeneratorSpec::BarabasiAlbert { n_nodes, .. }
            | GeneratorSpec::WattsStrogatz { n_nodes, .. }
            | GeneratorSpec::StochasticBlock { n_nodes, .. }
            | GeneratorSpec::ChungLu { n_nodes, .. } => n_nodes,
            GeneratorSpec::ModelRb {
                n_cliques,
                clique_size,
                ..
            } => n_cliques.saturating_mul(clique_size),
        }
    }

    /// Expected number of edges; exact for Barabasi-Albert and Watts-Strogatz, and not too small
    /// for Chung-Lu.
    #[must_use]
    pub fn expected_edges(&self) -> f64 {
        match *self {
            GeneratorSpec::ErdosRenyi { n_nodes, p } => n_pairs(n_nodes) * p,
            GeneratorSpec::BarabasiAlbert { n_nodes, m } => {
                f64::from(m) * (f64::from(n_nodes) - f64::from(m))
            }
            GeneratorSpec::WattsStrogatz { n_nodes, k, .. } => {
                f64::from(n_nodes) * f64::from(k / 2)
            }
            GeneratorSpec::StochasticBlock {
                n_nodes,
                n_blocks,
                p_in,
                p_out,
            } => stochastic_block::expected_edges(n_nodes, n_blocks, p_in, p_out),
            GeneratorSpec::ModelRb { .. } => self.rb().map_or(0.0, |rb| rb.expected_edges()),
            GeneratorSpec::ChungLu {
                n_nodes,
                mean_degree,
                ..
            } => mean_degree * f64::from(n_nodes) / 2.0,
        }
    }

    /// Makes the graph edge by edge, without keeping it; only Model RB repeats edges.
    ///
    /// # Errors
    /// Parameters outside their range, and those of the sink.
    ///
    /// # Complexity
    /// Time O(nodes + edges), with a factor log k for Watts-Strogatz. Memory beside the sink: O(1) for Erdos-Renyi and
    /// stochastic blocks, O(size²) for Model RB, 8 B a node for Chung-Lu, 4 B per edge end for the
    /// other two.
    ///
    /// # Determinism
    /// The order of edges is fixed too; for Erdos-Renyi, stochastic blocks and Chung-Lu it is (u,
    /// v) ascending with u < v.
    pub fn stream(&self, seed: u64, sink: &mut dyn EdgeSink) -> Result<(), Error> {
        self.check()?;
        match *self {
            GeneratorSpec::ErdosRenyi { n_nodes, p } => erdos_renyi::stream(n_nodes, p, seed, sink),
            GeneratorSpec::BarabasiAlbert { n_nodes, m } => {
                barabasi_albert::stream(n_nodes, m, seed, sink)
            }
            GeneratorSpec::WattsStrogatz { n_nodes, k, p } => {
                watts_strogatz::stream(n_nodes, k, p, seed, sink)
            }
            GeneratorSpec::StochasticBlock {
                n_nodes,
                n_blocks,
                p_in,
                p_out,
            } => stochastic_block::stream(n_nodes, n_blocks, [p_in, p_out], seed, sink),
            GeneratorSpec::ModelRb { .. } => self.rb().map_or(Ok(()), |rb| rb.stream(seed, sink)),
            GeneratorSpec::ChungLu {
                n_nodes,
                mean_degree,
                exponent,
            } => chung_lu::stream(n_nodes, mean_degree, exponent, seed, sink),
        }
    }

    /// Bytes that [`GeneratorSpec::graph`] needs at least: 8 B an edge while it is built, 8 B an edge and 8 B a node after.
    #[must_use]
    pub fn list_bytes(&self) -> f64 {
        16.0 * self.expected_edges() + 8.0 * f64::from(self.n_nodes())
    }

    /// Asks the system whether it would give that much memory, and gives it back at once.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] when it would not: a graph that cannot fit is better refused than begun.
    pub fn check_memory(&self, bytes: f64) -> Result<(), Error> {
        let wanted = bytes.min(isize::MAX as f64) as usize;
        match Vec::<u8>::new().try_reserve_exact(wanted) {
            Ok(()) => Ok(()),
            Err(_) => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "{self} needs about {:.1} GiB, more than this machine gives",
                    bytes / f64::from(1 << 30)
                ),
            )),
        }
    }

    /// Makes the graph in memory.
    ///
    /// # Errors
    /// Parameters outside their range.
    pub fn graph(&self, seed: u64) -> Result<Graph, Error> {
        self.check()?;
        self.check_memory(self.list_bytes())?;
        let mut builder = GraphBuilder::new();
        self.stream(seed, &mut builder)?;
        Ok(builder.finish(self.n_nodes(), false)?.0)
    }

    /// The independent set that Model RB plants, one node of each clique, ascending; `None` for the other models.
    #[must_use]
    pub fn planted_independent_set(&self, seed: u64) -> Option<Vec<u32>> {
        self.rb().map(|rb| rb.planted_nodes(seed))
    }

    fn rb(&self) -> Option<model_rb::ModelRb> {
        match *self {
            GeneratorSpec::ModelRb {
                n_cliques,
                clique_size,
                p,
                r,
            } => Some(model_rb::ModelRb {
                n_cliques,
                clique_size,
                p,
                r,
            }),
            _ => None,
        }
    }
}

fn n_pairs(n: u32) -> f64 {
    f64::from(n) * (f64::from(n) - 1.0) / 2.0
}
