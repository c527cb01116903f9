//! What a rank scores the nodes of its graphs with.

use std::sync::Arc;

use shardgraph_device::{Device, DeviceKind};
use shardgraph_layers::{BatchLayout, Group, Path, Propagation, ScoreTable, StateBatch};

use super::{Instance, Rollout, Running};
use crate::rows::{StateRows, without_rows};
use crate::{Error, SolveOptions, TrainedPolicy};

/// The closed form, where the policy and the device have one.
pub(super) fn closed_form(policy: &TrainedPolicy, options: &SolveOptions) -> Option<ScoreTable> {
    match options.device.kind() {
        DeviceKind::Host => ScoreTable::new(&policy.model, &policy.params),
        _ => None,
    }
}

/// What one rank scores its nodes with.
pub(super) struct Scorer {
    /// The closed form, where the policy and the device have one.
    pub(super) table: Option<ScoreTable>,
    pub(super) device: Device,
    pub(super) rank: u32,
}

impl Scorer {
    pub(super) fn new(rollout: &Rollout<'_>, device: Device, rank: u32) -> Scorer {
        Scorer {
            table: closed_form(rollout.policy, rollout.options),
            device,
            rank,
        }
    }

    pub(super) fn table_of(&self, instance: &Instance<'_>) -> Option<&ScoreTable> {
        self.table
            .as_ref()
            .filter(|_| instance.path == Path::Collapsed)
    }
}

/// One state of each chosen graph.
pub(super) fn state_batch(
    chosen: &[usize],
    running: &[&mut Running<'_>],
    rows: &[Option<StateRows<'_>>],
    rank: u32,
) -> Result<StateBatch, Error> {
    let group = |&i: &usize| Group {
        partition: running[i].instance.partition.clone(),
        n_states: 1,
    };
    let layout = Arc::new(BatchLayout::new(chosen.iter().map(group).collect(), rank));
    let mut batch = without_rows(&layout);
    let mut shards = Vec::with_capacity(chosen.len());
    let rows = || chosen.iter().filter_map(|&i| rows[i].as_ref());
    for (&i, rows) in chosen.iter().zip(rows()) {
        for node in running[i].instance.partition.range(rank) {
            rows.push(node, &mut batch);
        }
        shards.extend(running[i].shard.clone());
    }
    let keep = rows().map(|rows| rows.keep().collect());
    let scale = rows().map(|rows| rows.scale);
    let propagation =
        Propagation::new(Arc::clone(&layout), shards, keep.collect(), scale.collect())?;
    batch.propagation = Some(Arc::new(propagation));
    Ok(batch)
}
