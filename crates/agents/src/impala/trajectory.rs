//! An unroll: the trajectories of all environments of an actor over the same time steps, and the batch that unrolls are joined to.

use serde::{Deserialize, Serialize};

use crate::episodes::Episode;
use crate::policy_program::MemoryState;

/// E trajectories of T steps, with time first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Unroll {
    /// `[(T + 1) * E, width]`: with those after the last step.
    pub(super) observations: Vec<f32>,
    /// `[(T + 1) * E]`: 1 where an episode begins.
    pub(super) begins: Vec<f32>,
    /// `[T * E]`.
    pub(super) actions: Vec<u32>,
    /// `[T * E]`: with what the actor thought that the last state was worth, where a limit stopped an episode.
    pub(super) rewards: Vec<f32>,
    /// `[T * E]`: 0 where an episode ended.
    pub(super) discounts: Vec<f32>,
    /// `[T * E]`: log-probabilities of the actions.
    pub(super) behaviour: Vec<f32>,
    /// `[T * E, n_actions]`: what masks add to the logits; empty without masks.
    pub(super) masks: Vec<f32>,
    /// The memory before the first step; empty without one.
    pub(super) hidden: Vec<f32>,
    pub(super) cell: Vec<f32>,
    /// The version of the weights that acted.
    pub(super) version: u64,
    /// Episodes that ended meanwhile.
    pub(super) episodes: Vec<Episode>,
}

impl Unroll {
    pub(super) fn begin(&mut self, state: &MemoryState, version: u64) {
        *self = Unroll {
            hidden: state.hidden.clone(),
            cell: state.cell.clone(),
            version,
            ..Unroll::default()
        };
    }

    /// How long its lists are.
    pub(super) fn lengths(&self) -> [usize; 9] {
        [
            self.actions.len(),
            self.rewards.len(),
            self.discounts.len(),
            self.behaviour.len(),
            self.begins.len(),
            self.observations.len(),
            self.hidden.len(),
            self.cell.len(),
            self.masks.len(),
        ]
    }
}

/// The numbers that `list` has of unrolls, side by side: at each time step, one unroll's environments behind the other's.
pub(super) fn side_by_side<'a, T: 'a>(
    unrolls: &'a [Unroll],
    list: impl Fn(&'a Unroll) -> &'a [T],
    n_times: usize,
) -> impl Iterator<Item = &'a T> {
    let times = (0..n_times).flat_map(move |t| unrolls.iter().map(move |unroll| (t, unroll)));
    times.flat_map(move |(t, unroll)| {
        let list = list(unroll);
        let n = list.len() / n_times;
        &list[t * n..(t + 1) * n]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::wire::{from_bytes, to_bytes};

    #[test]
    fn unrolls_stand_side_by_side_in_time() {
        let unroll = |rewards: &[f32]| Unroll {
            rewards: rewards.to_vec(),
            ..Unroll::default()
        };
        let unrolls = [unroll(&[1.0, 2.0, 3.0, 4.0]), unroll(&[5.0, 6.0])];
        let rewards = side_by_side(&unrolls, |unroll| &unroll.rewards, 2);
        assert!(rewards.eq(&[1.0, 2.0, 5.0, 3.0, 4.0, 6.0]));
    }

    #[test]
    fn bytes_make_an_equal_unroll() {
        let unroll = Unroll {
            observations: vec![0.5; 16],
            begins: vec![1.0, 0.0, 0.0, 1.0],
            actions: vec![1, 0],
            hidden: vec![0.25],
            version: 9,
            episodes: vec![Episode {
                episodic_return: 12.0,
                length: 12,
            }],
            ..Unroll::default()
        };
        let bytes = to_bytes(&unroll);
        assert_eq!(from_bytes::<Unroll>("an unroll", &bytes).unwrap(), unroll);
        for end in 0..bytes.len() {
            assert!(from_bytes::<Unroll>("an unroll", &bytes[..end]).is_err());
        }
    }
}
