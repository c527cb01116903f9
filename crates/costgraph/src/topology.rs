//! Two hashes of a graph's topology: the in-degree sequence that the paper tells graphs apart by, and one of the whole structure.
//!
//! Neither looks at names, kinds, costs or sizes, and neither depends on how ops are numbered.

use crate::Graph;

/// Hash of the sorted in-degrees of all ops, an in-degree being the number of tensors that an op consumes.
///
/// Graphs that differ may share it: the paper accepts that, and so does this.
///
/// # Complexity
/// O(ops log ops) time.
///
/// # Source
/// A.1.2: "we de-duplicate the dataset by graph topology (specifically node in-degree sequence)".
#[must_use]
pub fn in_degree_hash(graph: &Graph) -> u64 {
    let mut degrees: Vec<u64> = (0..graph.n_ops() as u32)
        .map(|op| graph.inputs(op).len() as u64)
        .collect();
    degrees.sort_unstable();
    fold(degrees)
}

/// Hash of the structure: ops, tensors, who makes and who uses them, and which are control dependencies or views.
///
/// Graphs that differ in numbering only share it. Graphs of other structure share it by chance (2^-64) or when the colours of
/// Weisfeiler and Leman cannot tell them apart, which needs regular parts that computation graphs hardly have.
///
/// ```
/// use shardgraph_costgraph::{GraphBuilder, OpSpec, TensorSpec, topology::structural_hash};
///
/// let chain = |order: [u32; 3]| {
///     let mut builder = GraphBuilder::new("chain");
///     for name in ["a", "b", "c"] {
///         builder.op(OpSpec::new(name, 1));
///     }
///     builder.tensor(TensorSpec::new(order[0], 8, &[order[1]]));
///     builder.tensor(TensorSpec::new(order[1], 9, &[order[2]]));
///     builder.build()
/// };
/// assert_eq!(structural_hash(&chain([0, 1, 2])?), structural_hash(&chain([2, 0, 1])?));
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
///
/// # Complexity
/// O(rounds * uses) time; a round is made while it tells more ops apart, at most one for each op, a few for real graphs.
///
/// # Source
/// Weisfeiler and Leman, "The reduction of a graph to canonical form" (colour refinement), on ops with tensors as hyperedges.
#[must_use]
pub fn structural_hash(graph: &Graph) -> u64 {
    let n_ops = graph.n_ops();
    let mut colours = depth_colours(graph);
    let mut n_colours = count_distinct(&colours);
    loop {
        let next = refine(graph, &colours);
        let n_next = count_distinct(&next);
        colours = next;
        if n_next <= n_colours || n_next == n_ops {
            break;
        }
        n_colours = n_next;
    }
    colours.sort_unstable();
    fold(colours)
}

/// A first colour that sees all that comes before an op: hashed in topological order, so that long chains need no long rounds.
fn depth_colours(graph: &Graph) -> Vec<u64> {
    let mut colours = vec![0; graph.n_ops()];
    for &op in graph.topological_order() {
        let inputs = graph.inputs(op).iter();
        let seen = inputs.map(|&t| mix(colours[graph.producer(t) as usize] ^ mark(graph, t)));
        colours[op as usize] = fold_sorted(seen.collect());
    }
    colours
}

/// Each op's colour from its own, those of its tensors' producers and those of its outputs' consumers.
fn refine(graph: &Graph, colours: &[u64]) -> Vec<u64> {
    let tensor_colour = |t: u32| {
        let consumers = graph.consumers(t).iter();
        let uses = fold_sorted(consumers.map(|&c| colours[c as usize]).collect());
        let base = graph
            .alias_of(t)
            .map_or(0, |base| mix(colours[graph.producer(base) as usize] ^ 3));
        fold([
            colours[graph.producer(t) as usize],
            uses,
            base,
            mark(graph, t),
        ])
    };
    let tensors: Vec<u64> = (0..graph.n_tensors() as u32).map(tensor_colour).collect();
    let op_colour = |op: u32| {
        let inputs = graph.inputs(op).iter().map(|&t| tensors[t as usize]);
        let outputs = graph.outputs(op).map(|t| tensors[t as usize]);
        fold([
            colours[op as usize],
            fold_sorted(inputs.collect()),
            fold_sorted(outputs.collect()),
        ])
    };
    (0..graph.n_ops() as u32).map(op_colour).collect()
}

/// What kind of tensor it is.
fn mark(graph: &Graph, tensor: u32) -> u64 {
    u64::from(graph.is_control(tensor)) + 2 * u64::from(graph.alias_of(tensor).is_some())
}

fn count_distinct(colours: &[u64]) -> usize {
    let mut sorted = colours.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

fn fold_sorted(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    fold(values)
}

/// Order matters, and so does the number of values.
fn fold(values: impl IntoIterator<Item = u64>) -> u64 {
    let mut n = 0u64;
    let hash = values.into_iter().fold(0, |hash, value| {
        n += 1;
        mix(hash ^ mix(value))
    });
    mix(hash ^ n)
}

/// SplitMix64's finaliser: a bijection that scatters neighbouring inputs.
fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
