//! The problems of a training run, with what is found out about each once: its features, and what uniform keys reach.

use std::sync::OnceLock;

use shardgraph_agents::rewards;
use shardgraph_brkga::{BetaTables, Outcome};
use shardgraph_components::autodiff::collectives::{Comm, Deadline, Op, Reduction};
use shardgraph_costgraph::{Graph, Objective, Problem};
use shardgraph_graph::random::Stream;

use super::TrainConfig;
use crate::error::Error;
use crate::features::Features;
use crate::options::PlaceOptions;
use crate::policy::PolicyConfig;
use crate::search::{Proposals, search};

/// The reward where uniform keys reach 0 and proposals do not: there is nothing to compare with.
const WORSE_THAN_NOTHING: f32 = -2.0;

/// A problem to learn on.
pub(crate) struct Instance<'g> {
    pub(crate) problem: Problem<'g>,
    /// From its first use on.
    known: OnceLock<Known>,
}

/// What does not depend on the policy.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) features: Features,
    /// The mean of what searches with uniform keys reach.
    pub(crate) denominator: f64,
}

/// Proposals to search with, and the seed of that search.
pub(crate) struct RewardJob {
    pub(crate) choices: Vec<u16>,
    pub(crate) rho: Option<f64>,
    pub(crate) seed: u64,
}

/// All problems, and how they are searched.
pub(crate) struct Instances<'g> {
    instances: Vec<Instance<'g>>,
    options: PlaceOptions,
    policy: PolicyConfig,
    reward_evaluations: u64,
    denominator_seeds: u64,
    memory_bytes: Option<u64>,
    seed: u64,
    n_threads: usize,
}

impl<'g> Instances<'g> {
    pub(crate) fn new(
        config: &TrainConfig,
        graphs: &'g [Graph],
        n_threads: usize,
    ) -> Result<Instances<'g>, Error> {
        if graphs.is_empty() {
            return Err(Error::options(
                "no graphs to learn on: expected at least one",
            ));
        }
        if n_threads == 0 {
            return Err(Error::options("threads = 0: expected at least 1"));
        }
        let devices = config.devices()?;
        let options = config.place_options();
        let instance = |graph| {
            Ok(Instance {
                problem: Problem::new(graph, &devices, options.objective, options.model)?,
                known: OnceLock::new(),
            })
        };
        Ok(Instances {
            instances: graphs.iter().map(instance).collect::<Result<_, Error>>()?,
            options,
            policy: config.policy.clone(),
            reward_evaluations: config.reward_evaluations,
            denominator_seeds: config.denominator_seeds,
            memory_bytes: config.memory_bytes,
            seed: config.seed,
            n_threads,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn problem(&self, idx: usize) -> &Problem<'g> {
        &self.instances[idx].problem
    }

    /// What is known of these problems, found out in parallel where it was not.
    pub(crate) fn known(&self, batch: &[usize]) -> Result<Vec<&Known>, Error> {
        let mut missing: Vec<usize> = batch.to_vec();
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|&idx| self.instances[idx].known.get().is_none());
        rewards(missing.len(), self.n_threads, &|job| {
            let known = self.find_out(missing[job])?;
            // Each problem is there once, so nobody was faster.
            let _ = self.instances[missing[job]].known.set(known);
            Ok::<f32, Error>(0.0)
        })?;
        let known = batch.iter().map(|&idx| {
            let known = self.instances[idx].known.get();
            known.expect("set above where it was missing")
        });
        Ok(known.collect())
    }

    /// By the problem and the run's seed alone.
    fn find_out(&self, idx: usize) -> Result<Known, Error> {
        let problem = &self.instances[idx].problem;
        let mut seeds = Stream::new(self.seed, "regal uniform searches", idx as u64);
        let options = PlaceOptions {
            seed: seeds.next_u64(),
            ..self.options.clone()
        };
        let features = self.policy.features_of(problem, &options)?;
        let mut sum = 0.0;
        for _ in 0..self.denominator_seeds {
            let found = self.search(idx, seeds.next_u64(), None)?;
            sum += self.value_of(problem, &found);
        }
        Ok(Known {
            features,
            denominator: sum / self.denominator_seeds as f64,
        })
    }

    fn value_of(&self, problem: &Problem<'_>, found: &Outcome) -> f64 {
        counted(problem.objective(), found.best.fitness, self.memory_bytes)
    }

    fn search(&self, idx: usize, seed: u64, by: Option<Proposals>) -> Result<Outcome, Error> {
        let options = PlaceOptions {
            seed,
            evaluations: self.reward_evaluations,
            ..self.options.clone()
        };
        search(&self.instances[idx].problem, &options, Vec::new(), by)
    }

    /// The rewards of choices of distributions for some problems, each searched with a seed of its own.
    ///
    /// # Source
    /// Section 4.1: minus what is reached, divided by what uniform keys reach.
    pub(crate) fn rewards(
        &self,
        batch: &[usize],
        tables: &BetaTables,
        jobs: &[RewardJob],
        ranks: &mut Comm,
    ) -> Result<Vec<f32>, Error> {
        let known = self.known(batch)?;
        // Every P-th job is this rank's; its threads share those as a queue.
        let (rank, n_ranks) = (ranks.rank() as usize, ranks.size() as usize);
        let own: Vec<usize> = (rank..batch.len()).step_by(n_ranks).collect();
        let found = rewards(own.len(), self.n_threads, &|at| {
            let job = own[at];
            let proposals = Proposals {
                tables: tables.clone(),
                choices: jobs[job].choices.clone(),
                rho: jobs[job].rho,
            };
            let found = self.search(batch[job], jobs[job].seed, Some(proposals))?;
            let value = self.value_of(self.problem(batch[job]), &found);
            Ok::<f32, Error>(reward(value, known[job].denominator))
        })?;
        let mut bits = vec![0u32; batch.len()];
        for (&job, reward) in own.iter().zip(found) {
            bits[job] = reward.to_bits();
        }
        // One rank has each reward's bits and the others zero: the sum is those bits.
        let op = Op::AllReduce {
            buf: bits.as_mut_slice().into(),
            reduction: Reduction::Sum,
        };
        ranks.run(op, Deadline::default())?;
        Ok(bits.into_iter().map(f32::from_bits).collect())
    }
}

/// Minus a ratio, finite whatever the two are.
fn reward(value: f64, denominator: f64) -> f32 {
    match denominator > 0.0 {
        true => -(value / denominator) as f32,
        false if value > 0.0 => WORSE_THAN_NOTHING,
        false => -1.0,
    }
}

/// What a plan counts in rewards: its runtime or its peak. One that is beyond the limit of memory counts as if it took as many times as long
/// as 2 and the part of the limit that it is beyond: more than any that fits is likely to, and less where it is beyond by less.
fn counted(objective: Objective, fitness: (u64, u64), limit: Option<u64>) -> f64 {
    match (objective, limit) {
        (Objective::Memory, _) => fitness.0 as f64,
        (Objective::Runtime, Some(limit)) if fitness.0 > 0 => {
            fitness.1 as f64 * (2.0 + fitness.0 as f64 / limit.max(1) as f64)
        }
        (Objective::Runtime, _) => fitness.1 as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact by definition")]
    fn rewards_are_finite_where_there_is_nothing_to_compare_with() {
        assert_eq!(reward(30.0, 40.0), -0.75);
        assert_eq!(reward(0.0, 0.0), -1.0);
        assert_eq!(reward(5.0, 0.0), WORSE_THAN_NOTHING);
        assert_eq!(reward(0.0, 5.0), -0.0);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "exact by definition")]
    fn a_plan_beyond_its_memory_counts_for_more_than_twice_its_runtime() {
        let counted = |fitness, limit| counted(Objective::Runtime, fitness, limit);
        assert_eq!(counted((0, 40), Some(100)), 40.0);
        assert_eq!(counted((50, 40), Some(100)), 100.0);
        assert_eq!(counted((50, 40), None), 40.0);
        assert_eq!(super::counted(Objective::Memory, (50, 40), Some(100)), 50.0);
    }
}
