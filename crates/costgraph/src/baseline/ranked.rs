//! List scheduling by upward rank, known as HEFT.

use crate::{Decoder, DecoderKind, Problem, Schedule};

/// List scheduling with the longest path to the end as priority.
///
/// Over free links between equal devices this is the non-idling list schedule of [`DecoderKind::List`], else HEFT without
/// insertion: each op, by falling rank among those that are ready, where it ends first.
///
/// # Source
/// Topcuoglu, Hariri and Wu, "Performance-effective and low-complexity task scheduling for heterogeneous computing", 2002.
#[must_use]
pub fn upward_rank(problem: &Problem<'_>) -> Schedule {
    Decoder::new(problem, DecoderKind::List).schedule(&upward_rank_keys(problem))
}

/// A chromosome whose priorities are upward ranks; affinities and transfer priorities are 0.5.
///
/// The rank of an op is its mean cost over the devices plus the largest rank of a consumer with the mean time of the transfer to it.
#[must_use]
pub fn upward_rank_keys(problem: &Problem<'_>) -> Vec<f32> {
    let graph = problem.graph();
    // Keys by position, not by value: values can be closer than keys resolve.
    let order = upward_rank_order(problem);
    let mut keys = vec![0.5; problem.n_keys()];
    let priorities = &mut keys[graph.n_ops() * problem.n_devices()..];
    for (position, &op) in order.iter().enumerate() {
        priorities[op as usize] = (1.0 - (position + 1) as f64 / (order.len() + 1) as f64) as f32;
    }
    keys
}

/// The ops by falling upward rank, a topological order; equal ranks follow the graph's topological order.
pub(crate) fn upward_rank_order(problem: &Problem<'_>) -> Vec<u32> {
    let graph = problem.graph();
    let n = problem.n_devices();
    let mut ranks = vec![0.0f64; graph.n_ops()];
    for &op in graph.topological_order().iter().rev() {
        let mut longest = 0.0f64;
        for tensor in graph.outputs(op) {
            let transfer = mean_transfer_ns(problem, tensor);
            for &consumer in graph.consumers(tensor) {
                longest = longest.max(ranks[consumer as usize] + transfer);
            }
        }
        let cost: f64 = (0..n)
            .map(|device| problem.cost_ns(op, device) as f64)
            .sum();
        ranks[op as usize] = longest + cost / n as f64;
    }
    let mut order = graph.topological_order().to_vec();
    order.sort_by(|&a, &b| ranks[b as usize].total_cmp(&ranks[a as usize]));
    order
}

/// Over all ordered pairs of devices, the own device included.
fn mean_transfer_ns(problem: &Problem<'_>, tensor: u32) -> f64 {
    let n = problem.n_devices();
    if problem.free_links || !problem.is_transferred(tensor) {
        return 0.0;
    }
    let pairs = (0..n * n).map(|pair| (pair / n, pair % n));
    let times = pairs.filter(|(from, to)| from != to);
    let total: f64 = times
        .map(|(from, to)| problem.transfer_ns(tensor, from, to) as f64)
        .sum();
    total / (n * n) as f64
}
