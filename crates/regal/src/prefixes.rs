//! Searches on the first devices of a machine before the one on all of them, so that no device makes a plan worse.
//!
//! A plan for the first k devices is one for k + 1. The search on k devices begins with the plan for k - 1, and
//! depends on nothing else: more devices of the same kind, or appended ones, never have a worse plan.

use shardgraph_costgraph::Problem;

use crate::error::Error;
use crate::watch::Search;

/// Evaluations that a search has in any case, as far as the options give them.
const LEAST_EVALUATIONS: u64 = 200;
/// The share of the time to a deadline that the searches on fewer devices have together.
const SHARE_OF_TIME: f64 = 0.5;

/// The search on the first devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) n_devices: usize,
    pub(crate) evaluations: u64,
}

/// The searches, the one on all devices last; those on fewer have the devices that ops are pinned to.
pub(crate) fn stages(problem: &Problem<'_>, evaluations: u64) -> Vec<Stage> {
    let groups = problem.graph().colocation_groups().iter();
    let pinned = groups.filter_map(|group| Some(usize::from(group.device?) + 1));
    let n = problem.n_devices();
    let first = pinned.max().unwrap_or(0).max(2).min(n);
    let stage = |n_devices| Stage {
        n_devices,
        evaluations: match n_devices == first {
            true => evaluations,
            false => of_stage(n_devices, evaluations),
        },
    };
    (first..=n).map(stage).collect()
}

/// The evaluations of a search that begins with the plan for a device fewer.
fn of_stage(n_devices: usize, evaluations: u64) -> u64 {
    let share = u128::from(evaluations) * 2 / n_devices as u128;
    (share as u64).max(evaluations.min(LEAST_EVALUATIONS))
}

/// The most evaluations of a portfolio, or of a pipeline's search, on so many devices: those of the options on two, and on each
/// further number k of devices 2 / k of them.
///
/// ```
/// use shardgraph_regal::total_evaluations;
/// assert_eq!([1, 2, 3, 4].map(|n| total_evaluations(n, 6000)), [6000, 6000, 10_000, 13_000]);
/// ```
#[must_use]
pub fn total_evaluations(n_devices: usize, evaluations: u64) -> u64 {
    let further = (3..=n_devices).map(|n| of_stage(n, evaluations));
    further.fold(evaluations, u64::saturating_add)
}

/// Has a search on the first devices of each stage but the last, each with the plan of the one before, and gives back the last plan.
///
/// Together they have half of the time to a deadline. They end early where `on_stage` says so.
pub(crate) fn before_last<T>(
    problem: &Problem<'_>,
    stages: &[Stage],
    watch: &mut Search<'_, '_>,
    on_stage: &mut OnStage<'_, T>,
) -> Result<Option<T>, Error> {
    let Some((_, before)) = stages.split_last().filter(|(_, before)| !before.is_empty()) else {
        return Ok(None);
    };
    let of_all: u64 = before.iter().map(|stage| stage.evaluations).sum();
    let begin = watch.seconds();
    let seconds = watch.seconds_left().map(|left| left * SHARE_OF_TIME);
    let mut n_done = 0;
    let mut found = None;
    for stage in before {
        if watch.is_ended() {
            break;
        }
        n_done += stage.evaluations;
        watch.until = seconds.map(|all| begin + all * n_done as f64 / of_all as f64);
        let devices = problem.devices().first(stage.n_devices)?;
        let (graph, model) = (problem.graph(), problem.options());
        let of_stage = Problem::new(graph, &devices, problem.objective(), model)?;
        let next = on_stage(&of_stage, *stage, found, watch)?;
        found = Some(next.0);
        if !next.1 {
            break;
        }
    }
    watch.until = None;
    Ok(found)
}

/// Searches on the devices of a stage, from the plan of the one before; gives back a plan, and whether another may be better.
pub(crate) type OnStage<'f, T> =
    dyn FnMut(&Problem<'_>, Stage, Option<T>, &mut Search<'_, '_>) -> Result<(T, bool), Error> + 'f;

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_costgraph::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec};

    fn stages_of(n_devices: usize, pin: Option<u8>, evaluations: u64) -> Vec<(usize, u64)> {
        let mut builder = GraphBuilder::new("pair");
        builder.op(OpSpec::new("a", 1));
        builder.op(OpSpec::new("b", 1));
        let pins: Vec<(String, u8)> = pin
            .map(|device| ("a".to_owned(), device))
            .into_iter()
            .collect();
        let graph = builder
            .build()
            .and_then(|graph| graph.with_named_colocation(&[], &pins));
        let (graph, devices) = (graph.unwrap(), DeviceSet::uniform(n_devices, None).unwrap());
        let problem = Problem::new(
            &graph,
            &devices,
            Objective::Runtime,
            ModelOptions::default(),
        );
        let stages = stages(&problem.unwrap(), evaluations).into_iter();
        stages
            .map(|stage| (stage.n_devices, stage.evaluations))
            .collect()
    }

    #[test]
    fn every_machine_begins_with_the_stages_of_the_smaller_ones() {
        for pin in [None, Some(2)] {
            for evaluations in [1, 150, 5000] {
                let all = stages_of(12, pin, evaluations);
                for n in 3..12 {
                    assert_eq!(all[..all.len() - (12 - n)], stages_of(n, pin, evaluations));
                }
                assert!(all.iter().all(|&(_, of)| of >= evaluations.min(200)));
                let total: u64 = all.iter().map(|&(_, of)| of).sum();
                assert!(total <= total_evaluations(12, evaluations) || pin.is_some());
            }
        }
        assert_eq!(stages_of(1, None, 50), [(1, 50)]);
        assert_eq!(stages_of(3, Some(2), 50), [(3, 50)]);
    }
}
