//! Sums of neighbours' degrees of a batch's states, counted on the device that evaluates them.

use std::sync::Arc;

use shardgraph_device::{Buffer, Device};
use shardgraph_layers::RowShard;

use crate::Error;
use crate::kernels::cover::{MAX_STATES, RowPlace, StateCounter};
use crate::rows::StateRows;

/// The states of one graph, all of whose rows this rank has.
pub(super) struct WholeGroup<'g> {
    pub(super) states: Vec<StateRows<'g>>,
    /// The graph in the device's memory.
    pub(super) shard: RowShard,
    /// The first of its rows in the batch.
    pub(super) first_row: usize,
}

/// For each row of a batch the scaled sum of its neighbours' degrees, in the device's memory.
///
/// # Complexity
/// Two passes over each graph for each 32 of its states. 4 B a node and 32 states go to the device, and nothing comes back.
/// # Determinism
/// Counts are integers, and are scaled as on the host.
pub(super) fn neighbor_degrees(
    device: &Device,
    groups: &[WholeGroup<'_>],
    n_rows: usize,
) -> Result<Arc<Buffer>, Error> {
    let mut rows = device.zeros(n_rows)?;
    for group in groups {
        let Some(graph) = group.shard.resident_adjacency() else {
            return Err(Error::internal("a graph of a batch is not on its device"));
        };
        let stride = group.states.len();
        for (chunk_idx, states) in group.states.chunks(MAX_STATES as usize).enumerate() {
            let alive = device.upload(&presence_words(states))?;
            let scale: Vec<f32> = states.iter().map(|state| state.scale).collect();
            let n_counts = alive.len() * states.len();
            let (mut degree, mut d2) = (device.zeros(n_counts)?, device.zeros(n_counts)?);
            let mut counter = StateCounter::new(device, graph, states.len() as u32)?;
            counter.count(&alive, &mut degree, &mut d2)?;
            let place = RowPlace {
                first: group.first_row + chunk_idx * MAX_STATES as usize,
                stride,
            };
            counter.write_rows(&d2, &device.upload(&scale)?, place, &mut rows)?;
        }
    }
    Ok(Arc::new(rows))
}

/// For each node a word: bit `b` says whether it is present in state `b`.
fn presence_words(states: &[StateRows<'_>]) -> Vec<u32> {
    let n_nodes = states.first().map_or(0, |state| state.graph.n_nodes());
    let word = |node: u32| {
        let bits = states.iter().enumerate();
        bits.fold(0, |word, (b, state)| {
            word | u32::from(state.residual.is_present(node)) << b
        })
    };
    (0..n_nodes).map(word).collect()
}
