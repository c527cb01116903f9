//! Synthetic computation graphs after the paper's recipe, and noisy copies of graphs; everything follows from seeds.
//!
//! A random undirected graph gets a random order of its nodes, which directs its edges; a source and a sink without cost are
//! added; ops make 0, 1 or 2 tensors; an edge is a control dependency or carries one of its producer's tensors.

mod draw;
mod noise;
mod random_graph;

pub use noise::noisy_copy;
pub use random_graph::RandomGraph;

use crate::{Error, ErrorKind, Graph, GraphBuilder, OpSpec, TensorSpec, topology};
use draw::{normal, shuffle};
use shardgraph_random::KeyedRng;
use std::collections::BTreeSet;

/// The recipe for synthetic graphs; the default is the paper's.
///
/// # Source
/// A.1.4 and Table 2. Two things the paper leaves open: the models take turns (candidate k is of model k modulo their number),
/// and sizes and costs are rounded to whole numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// The random graph models, which take turns.
    pub models: Vec<RandomGraph>,
    /// The fewest nodes, without source and sink.
    pub min_nodes: u32,
    /// The most nodes, without source and sink.
    pub max_nodes: u32,
}

impl Default for Synthetic {
    fn default() -> Synthetic {
        Synthetic {
            models: RandomGraph::PAPER.to_vec(),
            min_nodes: 50,
            max_nodes: 200,
        }
    }
}

/// An op makes no tensor with this probability,
const P_NO_OUTPUT: f64 = 0.1;
/// and two with this one.
const P_TWO_OUTPUTS: f64 = 0.1;
/// An edge from an op that makes tensors is a control dependency with this probability.
const P_CONTROL: f64 = 0.2;
const SIZE_MEAN: f64 = 50.0;
const SIZE_DEVIATION: f64 = 10.0;
/// Of the noise on an op's cost, as a fraction of the cost.
const COST_DEVIATION: f64 = 0.1;

/// Candidate `index` of the set with that seed.
///
/// Op 0 is the source, the last op the sink; the ops between are numbered in topological order. An op's cost is the sum of the
/// sizes of its inputs and outputs, with noise.
///
/// # Errors
/// `Argument` for no models, no nodes, or a model's parameters that make no sense.
///
/// # Determinism
/// The graph depends on `recipe`, `seed` and `index` only, and is the same on every machine.
///
/// ```
/// use shardgraph_costgraph::generate::{Synthetic, synthetic};
///
/// let graph = synthetic(&Synthetic::default(), 7, 0)?;
/// assert!((52..=202).contains(&graph.n_ops()));
/// assert_eq!(graph, synthetic(&Synthetic::default(), 7, 0)?);
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn synthetic(recipe: &Synthetic, seed: u64, index: u64) -> Result<Graph, Error> {
    check(recipe)?;
    let mut stream = KeyedRng::new(seed, "synthetic computation graph", index);
    let model = recipe.models[(index % recipe.models.len() as u64) as usize];
    let spread = (recipe.max_nodes - recipe.min_nodes) as usize + 1;
    let n = recipe.min_nodes as usize + stream.index(spread);
    let mut order: Vec<u32> = (0..n as u32).collect();
    let edges = model.edges(n, &mut stream);
    shuffle(&mut order, &mut stream);
    let mut directed: Vec<(u32, u32)> = edges
        .into_iter()
        .map(|(a, b)| {
            let (a, b) = (order[a as usize], order[b as usize]);
            (a.min(b), a.max(b))
        })
        .collect();
    directed.sort_unstable();
    let tensors = draw_tensors(n, &directed, &mut stream);
    let name = format!("{}-{seed}-{index}", model.name());
    assemble(name, n, &directed, &tensors, &mut stream)
}

fn check(recipe: &Synthetic) -> Result<(), Error> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Argument, message));
    if recipe.models.is_empty() {
        return invalid("no random graph models; at least one is needed".into());
    }
    let (min, max) = (recipe.min_nodes, recipe.max_nodes);
    if min == 0 || min > max || max > 1 << 24 {
        return invalid(format!(
            "from {min} to {max} nodes; the fewest must be at least 1, the most at least the fewest and at most 2^24"
        ));
    }
    recipe.models.iter().try_for_each(|model| model.check())
}

/// The tensors, and what each edge is.
struct Tensors {
    specs: Vec<TensorSpec>,
    /// For each edge whether it is a control dependency.
    is_control: Vec<bool>,
}

fn draw_tensors(n: usize, edges: &[(u32, u32)], stream: &mut KeyedRng) -> Tensors {
    let mut specs = Vec::new();
    let mut first = Vec::with_capacity(n + 1);
    for node in 0..n as u32 {
        first.push(specs.len());
        let draw = stream.uniform_f64();
        let n_outputs = if draw < P_NO_OUTPUT {
            0
        } else {
            1 + usize::from(draw >= 1.0 - P_TWO_OUTPUTS)
        };
        for _ in 0..n_outputs {
            let size = SIZE_MEAN + SIZE_DEVIATION * normal(stream);
            // Op 0 is the source, so nodes move up by one.
            specs.push(TensorSpec::new(node + 1, size.round().max(0.0) as u64, &[]));
        }
    }
    first.push(specs.len());
    let mut is_control = Vec::with_capacity(edges.len());
    for &(from, to) in edges {
        let outputs = first[from as usize]..first[from as usize + 1];
        let control = outputs.is_empty() || stream.uniform_f64() < P_CONTROL;
        is_control.push(control);
        if !control {
            let tensor = outputs.start + stream.index(outputs.len());
            specs[tensor].consumers.push(to + 1);
        }
    }
    Tensors { specs, is_control }
}

fn assemble(
    name: String,
    n: usize,
    edges: &[(u32, u32)],
    tensors: &Tensors,
    stream: &mut KeyedRng,
) -> Result<Graph, Error> {
    let mut bytes = vec![0u64; n + 2];
    for tensor in &tensors.specs {
        bytes[tensor.producer as usize] += tensor.bytes;
        for &consumer in &tensor.consumers {
            bytes[consumer as usize] += tensor.bytes;
        }
    }
    let mut builder = GraphBuilder::new(name);
    builder.op(OpSpec::new("_SOURCE", 0));
    for node in 0..n {
        let noise = 1.0 + COST_DEVIATION * normal(stream);
        let cost = (bytes[node + 1] as f64 * noise).round().max(0.0);
        builder.op(OpSpec::new(format!("node_{node}"), cost as u64));
    }
    let sink = builder.op(OpSpec::new("_SINK", 0));
    for tensor in &tensors.specs {
        builder.tensor(tensor.clone());
    }
    let mut is_head = vec![true; n];
    let mut is_tail = vec![true; n];
    for (&(from, to), &control) in edges.iter().zip(&tensors.is_control) {
        is_tail[from as usize] = false;
        is_head[to as usize] = false;
        if control {
            builder.control(from + 1, to + 1);
        }
    }
    for node in 0..n as u32 {
        if is_head[node as usize] {
            builder.control(0, node + 1);
        }
        if is_tail[node as usize] {
            builder.control(node + 1, sink);
        }
    }
    builder.build()
}

/// A set of synthetic graphs and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticSet {
    /// The graphs, no two with the same in-degree sequence.
    pub graphs: Vec<Graph>,
    /// How many candidates were drawn.
    pub n_candidates: u64,
    /// How many of them had the topology of one before.
    pub n_duplicates: u64,
    /// How many of them the filter turned away.
    pub n_filtered: u64,
}

/// The first `n_graphs` candidates whose topology is new and that `keep` accepts.
///
/// The paper keeps the graphs on which ten times the evaluations gain at least 18 %: that filter needs an optimiser and is the
/// caller's; `keep` sees every candidate of a new topology, in order, once.
///
/// # Errors
/// Those of [`synthetic`]; `Argument` when `max_candidates` candidates do not give `n_graphs` graphs.
///
/// ```
/// use shardgraph_costgraph::generate::{Synthetic, synthetic_set};
///
/// let set = synthetic_set(&Synthetic::default(), 1, 10, 100, &mut |graph| graph.n_ops() < 150)?;
/// assert_eq!(set.graphs.len(), 10);
/// assert_eq!(set.n_candidates, 10 + set.n_duplicates + set.n_filtered);
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn synthetic_set(
    recipe: &Synthetic,
    seed: u64,
    n_graphs: usize,
    max_candidates: u64,
    keep: &mut dyn FnMut(&Graph) -> bool,
) -> Result<SyntheticSet, Error> {
    let mut set = SyntheticSet {
        graphs: Vec::new(),
        n_candidates: 0,
        n_duplicates: 0,
        n_filtered: 0,
    };
    let mut seen = BTreeSet::new();
    while set.graphs.len() < n_graphs {
        if set.n_candidates == max_candidates {
            let message = format!(
                "{max_candidates} candidates gave {} of {n_graphs} graphs ({} of a topology seen before, {} filtered); allow more",
                set.graphs.len(),
                set.n_duplicates,
                set.n_filtered
            );
            return Err(Error::new(ErrorKind::Argument, message));
        }
        let graph = synthetic(recipe, seed, set.n_candidates)?;
        set.n_candidates += 1;
        if !seen.insert(topology::in_degree_hash(&graph)) {
            set.n_duplicates += 1;
        } else if keep(&graph) {
            set.graphs.push(graph);
        } else {
            set.n_filtered += 1;
        }
    }
    Ok(set)
}
