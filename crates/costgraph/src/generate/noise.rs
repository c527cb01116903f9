//! Noisy copies: other sizes and costs on the same topology.

use crate::{Error, ErrorKind, Graph, MAX_TOTAL};
use shardgraph_random::KeyedRng;

/// Copy `copy_idx` of `graph`: every tensor's size and every op's cost times a factor of its own, uniform on (0.5, 1.5).
///
/// An op's costs on several device classes share a factor. Zero stays zero; scratch and persistent memory stay as they are.
///
/// # Errors
/// `TooLarge` when sums grow beyond [`MAX_TOTAL`].
///
/// # Determinism
/// The copy depends on the graph, `seed` and `copy_idx` only.
///
/// # Source
/// A.1.2: "one sample per tensor size per copy plus one sample per TF Op per copy".
///
/// ```
/// use shardgraph_costgraph::{generate::noisy_copy, topology::structural_hash};
/// # use shardgraph_costgraph::generate::{Synthetic, synthetic};
/// # let graph = synthetic(&Synthetic::default(), 7, 0)?;
/// let copy = noisy_copy(&graph, 7, 3)?;
/// assert_eq!(structural_hash(&copy), structural_hash(&graph));
/// assert_ne!(copy, graph);
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
pub fn noisy_copy(graph: &Graph, seed: u64, copy_idx: u64) -> Result<Graph, Error> {
    let mut copy = graph.clone();
    let n_ops = graph.n_ops();
    let mut stream = KeyedRng::new(seed, "noise on op costs", copy_idx);
    for op in 0..n_ops {
        let factor = 0.5 + stream.uniform_f64();
        for cost in copy.ops.cost_ns[op..].iter_mut().step_by(n_ops) {
            *cost = scaled(*cost, factor);
        }
    }
    let mut stream = KeyedRng::new(seed, "noise on tensor sizes", copy_idx);
    for bytes in &mut copy.tensors.bytes {
        let factor = 0.5 + stream.uniform_f64();
        *bytes = scaled(*bytes, factor);
    }
    let sums = [
        ("costs", &copy.ops.cost_ns),
        ("tensor sizes", &copy.tensors.bytes),
    ];
    for (what, values) in sums {
        let total: u128 = values.iter().map(|&v| u128::from(v)).sum();
        if total > u128::from(MAX_TOTAL) {
            let message = format!("with noise, all {what} sum up to {total}; 2^62 is the most");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
    }
    Ok(copy)
}

fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).round() as u64
}
