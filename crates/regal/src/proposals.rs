//! Proposals made by hand, from upward ranks and the list schedule: what learned ones have to beat.

use shardgraph_brkga::{Beta, BetaTables};
use shardgraph_costgraph::baseline::{greedy_memory, upward_rank, upward_rank_keys};
use shardgraph_costgraph::{Decoder, Objective, Problem, Step};

use crate::error::Error;
use crate::options::PlaceOptions;
use crate::plan::Draft;
use crate::search::{Proposals, search_on};
use crate::watch::Search;

/// Levels of the mean of a priority, and the level of its variance.
const PRIORITY_LEVELS: u32 = 16;
const PRIORITY_VARIANCE: u32 = 1;
/// An affinity is 2/3 or 1/3 in the mean.
const AFFINITY_LEVELS: u32 = 2;

/// Distributions around what list scheduling by upward rank does, with the shapes that a policy can propose too.
///
/// An op's priority has the mean (m + 1) / 17 for the m-th sixteenth of the ops by rising rank and 2/17 of the variance that this
/// mean allows at most; its affinity has the mean 2/3 for the device of the list schedule, and 1/3 for the others.
///
/// # Errors
/// None but those of [`Beta::quantised`], whose levels are constants here.
pub fn rank_proposals(problem: &Problem<'_>) -> Result<Proposals, Error> {
    let (n_ops, d) = (problem.graph().n_ops(), problem.n_devices());
    let shape = |m| Beta::quantised(m, PRIORITY_VARIANCE, PRIORITY_LEVELS);
    let priorities = (0..PRIORITY_LEVELS).map(shape);
    let affinities = (0..AFFINITY_LEVELS).map(|m| Beta::quantised(m, 0, AFFINITY_LEVELS));
    let shapes: Result<Vec<Beta>, _> = affinities.chain(priorities).collect();
    let tables = BetaTables::new(&shapes?)?;
    let mut choices = vec![BetaTables::UNIFORM; problem.n_keys()];
    let CheapSchedule { placement, ranks } = CheapSchedule::by_upward_rank(problem);
    for (affinities, &device) in choices.chunks_exact_mut(d).zip(&placement) {
        affinities.fill(1);
        affinities[usize::from(device)] = 2;
    }
    for (choice, rank) in choices[n_ops * d..].iter_mut().zip(&ranks) {
        *choice = 1 + AFFINITY_LEVELS as u16 + level_of(*rank, PRIORITY_LEVELS) as u16;
    }
    Ok(Proposals {
        tables,
        choices,
        rho: None,
    })
}

/// What a schedule that is made without a search says of each op.
pub(crate) struct CheapSchedule {
    pub(crate) placement: Vec<u8>,
    /// From the last op to the first, spread evenly over (0, 1).
    pub(crate) ranks: Vec<f32>,
}

impl CheapSchedule {
    /// The list schedule by upward rank.
    fn by_upward_rank(problem: &Problem<'_>) -> CheapSchedule {
        let (n_ops, d) = (problem.graph().n_ops(), problem.n_devices());
        CheapSchedule {
            placement: upward_rank(problem).placement,
            ranks: upward_rank_keys(problem)[n_ops * d..n_ops * (d + 1)].to_vec(),
        }
    }

    /// The greedy schedule for memory; `go_on` as of [`greedy_memory`].
    fn by_greedy_memory(problem: &Problem<'_>, go_on: &mut dyn FnMut() -> bool) -> CheapSchedule {
        let n_ops = problem.graph().n_ops();
        let schedule = greedy_memory(problem, 0, 0.0, go_on);
        let mut ranks = vec![0.0; n_ops];
        let ops = schedule.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(*op),
            Step::Transfer { .. } => None,
        });
        for (position, op) in ops.enumerate() {
            ranks[op as usize] = 1.0 - (position + 1) as f32 / (n_ops + 1) as f32;
        }
        CheapSchedule {
            placement: schedule.placement,
            ranks,
        }
    }

    /// That of the problem's objective.
    pub(crate) fn of(problem: &Problem<'_>, go_on: &mut dyn FnMut() -> bool) -> CheapSchedule {
        match problem.objective() {
            Objective::Runtime => CheapSchedule::by_upward_rank(problem),
            Objective::Memory => CheapSchedule::by_greedy_memory(problem, go_on),
        }
    }

    /// The levels of mean and variance for each key of an op, key by key, that are as close to this schedule as so many levels of
    /// affinities and of priorities have them; keys without levels are left out.
    pub(crate) fn levels(
        &self,
        n_devices: usize,
        of_affinities: Option<u32>,
        of_priorities: Option<u32>,
    ) -> Vec<[Vec<u32>; 2]> {
        let lowest = vec![0; self.placement.len()];
        let mut levels = Vec::new();
        if let Some(k) = of_affinities {
            for device in 0..n_devices {
                let mean = |&of: &u8| u32::from(usize::from(of) == device) * (k - 1);
                levels.push([self.placement.iter().map(mean).collect(), lowest.clone()]);
            }
        }
        if let Some(k) = of_priorities {
            let means = self.ranks.iter().map(|&rank| level_of(rank, k));
            levels.push([means.collect(), lowest]);
        }
        levels
    }
}

fn level_of(rank: f32, k: u32) -> u32 {
    ((rank * k as f32) as u32).min(k - 1)
}

/// The genetic algorithm with these proposals.
pub(crate) fn by_rank(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    search: &mut Search<'_, '_>,
) -> Result<Draft, Error> {
    let proposals = rank_proposals(problem)?;
    let outcome = search_on(problem, options, Vec::new(), Some(proposals), search)?;
    Ok(Draft {
        schedule: Decoder::new(problem, options.decoder()).schedule(&outcome.best.keys),
        evaluations: outcome.evaluations,
        history: outcome.history,
        proposal_seconds: None,
        baselines: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_costgraph::{
        DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, TensorSpec,
    };

    #[test]
    fn a_chain_has_falling_levels_and_the_devices_of_its_list_schedule() {
        let mut builder = GraphBuilder::new("chain");
        for op in 0..32u32 {
            builder.op(OpSpec::new(format!("op {op}"), 10));
        }
        for op in 0..31u32 {
            builder.tensor(TensorSpec::new(op, 8, &[op + 1]));
        }
        let graph = builder.build().unwrap();
        let devices = DeviceSet::uniform(2, None).unwrap();
        let model = ModelOptions::default();
        let problem = Problem::new(&graph, &devices, Objective::Runtime, model).unwrap();
        let Proposals {
            tables, choices, ..
        } = rank_proposals(&problem).unwrap();
        assert_eq!((tables.n_tables(), choices.len()), (19, problem.n_keys()));
        let placement = upward_rank(&problem).placement;
        for (op, &device) in placement.iter().enumerate() {
            assert_eq!(choices[2 * op + usize::from(device)], 2);
            assert_eq!(choices[2 * op + usize::from(1 - device)], 1);
            // Keys 32/33 to 1/33: two ops a level, the first the highest.
            assert_eq!(choices[64 + op], 3 + 15 - op as u16 / 2);
        }
        assert!(
            choices[96..]
                .iter()
                .all(|&choice| choice == BetaTables::UNIFORM)
        );
    }
}
