//! Connected components of a computation graph: what devices can share without a transfer.

use super::multilevel::{Level, load};
use crate::{Objective, Problem};

/// Places whole connected components, the heaviest first, each where it would end first: nothing is sent.
///
/// None for a graph of one component.
///
/// # Complexity
/// O(uses + components x (log components + devices)) time.
///
/// # Source
/// Graham, "Bounds on multiprocessing timing anomalies", 1969: the longest processing time first.
#[must_use]
pub fn component_placement(problem: &Problem<'_>) -> Option<Vec<u8>> {
    let components = components(problem);
    if components.len() < 2 {
        return None;
    }
    let n = problem.n_devices();
    let work = |component: u32, device: usize| -> u64 {
        let ops = components.ops(component).iter();
        match problem.objective() {
            Objective::Runtime => ops.map(|&op| problem.cost_ns(op, device)).sum(),
            Objective::Memory => ops.map(|&op| load(problem, op)).sum(),
        }
    };
    let mut order: Vec<u32> = (0..components.len() as u32).collect();
    order.sort_by_key(|&component| {
        let least = (0..n).map(|device| work(component, device)).min();
        (std::cmp::Reverse(least), component)
    });
    let mut loads = vec![0u64; n];
    let mut placement = vec![0; problem.graph().n_ops()];
    for component in order {
        let after = |device: usize| loads[device] + work(component, device);
        let device = (0..n).min_by_key(|&device| (after(device), device))?;
        loads[device] = after(device);
        for &op in components.ops(component) {
            placement[op as usize] = device as u8;
        }
    }
    problem.colocate(&mut placement);
    Some(placement)
}

/// The connected components of the ops, by what is sent between devices.
pub(super) fn components(problem: &Problem<'_>) -> Level {
    let graph = problem.graph();
    let n_ops = graph.n_ops();
    let mut parents: Vec<u32> = (0..n_ops as u32).collect();
    let root = |parents: &mut Vec<u32>, mut op: u32| {
        while parents[op as usize] != op {
            parents[op as usize] = parents[parents[op as usize] as usize];
            op = parents[op as usize];
        }
        op
    };
    let sent = (0..graph.n_tensors() as u32).filter(|&t| problem.is_transferred(t));
    for tensor in sent {
        for &consumer in graph.consumers(tensor) {
            let home = root(&mut parents, graph.producer(tensor));
            let other = root(&mut parents, consumer);
            let (low, high) = (home.min(other), home.max(other));
            parents[high as usize] = low;
        }
    }
    let mut number_of = vec![u32::MAX; n_ops];
    let mut n_components = 0;
    let mut of_op = vec![0; n_ops];
    for op in 0..n_ops as u32 {
        let number = &mut number_of[root(&mut parents, op) as usize];
        if *number == u32::MAX {
            *number = n_components;
            n_components += 1;
        }
        of_op[op as usize] = *number;
    }
    Level::new(of_op, n_components as usize)
}
