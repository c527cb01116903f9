//! The problems of a training run, with what is found out about each once: its features, and what uniform keys reach.

use std::sync::OnceLock;

use shardgraph_brkga::{BetaTables, Outcome};
use shardgraph_components::environments::space::Value;
use shardgraph_costgraph::{Graph, Objective, Problem};
use shardgraph_random::KeyedRng;

use super::TrainConfig;
use super::queue::{Job, SearchQueue, number_of, words_of};
use crate::error::Error;
use crate::features::{Read, value_of_nodes};
use crate::options::PlaceOptions;
use crate::policy::PolicyConfig;
use crate::proposals::CheapSchedule;
use crate::search::{Proposals, search};

/// The reward where uniform keys reach 0 and proposals do not: there is nothing to compare with.
const WORSE_THAN_NOTHING: f32 = -2.0;

/// A problem to learn on, and what does not depend on the policy, each from its first use on.
struct Instance<'g> {
    problem: Problem<'g>,
    /// What the networks read.
    value: OnceLock<Value>,
    /// The mean of what searches with uniform keys reach.
    denominator: OnceLock<f64>,
    /// What is imitated.
    by_hand: OnceLock<CheapSchedule>,
}

/// Proposals to search with, and the seed of that search.
pub(crate) struct RewardJob {
    /// The number of the problem.
    pub(crate) problem: usize,
    pub(crate) choices: Vec<u16>,
    pub(crate) rho: Option<f64>,
    pub(crate) seed: u64,
}

/// A search whose result counts in rewards.
#[derive(Clone, Copy)]
enum Search {
    /// With uniform keys: the problem, and which of its searches.
    Uniform(usize, u64),
    /// With the proposals of a reward job.
    Proposed(usize),
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
}

impl<'g> Instances<'g> {
    pub(crate) fn new(config: &TrainConfig, graphs: &'g [Graph]) -> Result<Instances<'g>, Error> {
        if graphs.is_empty() {
            return Err(Error::options(
                "no graphs to learn on: expected at least one",
            ));
        }
        let devices = config.devices()?;
        let options = config.place_options();
        let instance = |graph| {
            Ok(Instance {
                problem: Problem::new(graph, &devices, options.objective, options.model)?,
                value: OnceLock::new(),
                denominator: OnceLock::new(),
                by_hand: OnceLock::new(),
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
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn problem(&self, idx: usize) -> &Problem<'g> {
        &self.instances[idx].problem
    }

    /// The schedule without a search that a policy may imitate.
    pub(crate) fn by_hand(&self, idx: usize) -> &CheapSchedule {
        let Instance {
            problem, by_hand, ..
        } = &self.instances[idx];
        by_hand.get_or_init(|| CheapSchedule::of(problem, &mut || true))
    }

    /// What the networks read of these problems; the ranks share the short searches behind those that are read for the first time.
    pub(crate) fn read(
        &self,
        batch: &[usize],
        queue: &mut SearchQueue<'_, '_>,
    ) -> Result<Vec<Read<'_>>, Error> {
        let missing = self.missing(batch, |instance| instance.value.get().is_none());
        let n_features = self.policy.n_node_features();
        let job = |&idx: &usize| Job {
            cost: self.cost(idx, self.policy.feature_evaluations),
            n_words: self.problem(idx).graph().n_ops() * n_features,
        };
        let jobs: Vec<Job> = missing.iter().map(job).collect();
        let found = match jobs.is_empty() {
            true => Vec::new(),
            false => queue.run(&jobs, &|at| self.node_features(missing[at]))?,
        };
        for (&idx, words) in missing.iter().zip(found) {
            let node_features = words.into_iter().map(f32::from_bits).collect();
            let value = value_of_nodes(self.problem(idx), node_features);
            // Each problem is there once, so nobody was faster.
            let _ = self.instances[idx].value.set(Value::Graph(value));
        }
        let read = batch.iter().map(|&idx| {
            let Instance { value, problem, .. } = &self.instances[idx];
            let value = value.get().expect("set above where it was missing");
            (value, problem.graph().topological_order())
        });
        Ok(read.collect())
    }

    /// Those of a batch of which something is not known yet, each once.
    fn missing(&self, batch: &[usize], is_missing: fn(&Instance<'g>) -> bool) -> Vec<usize> {
        let mut missing: Vec<usize> = batch.to_vec();
        missing.sort_unstable();
        missing.dedup();
        missing.retain(|&idx| is_missing(&self.instances[idx]));
        missing
    }

    /// What so many evaluations take: ops and uses of tensors are what a schedule is made of.
    fn cost(&self, idx: usize, evaluations: u64) -> u64 {
        let graph = self.problem(idx).graph();
        evaluations.saturating_mul((graph.n_ops() + graph.n_uses()).max(1) as u64)
    }

    /// The seed of one of the searches with uniform keys, by the problem and the run's seed alone: the first is for features.
    fn uniform_seed(&self, idx: usize, nth: u64) -> u64 {
        let mut seeds = KeyedRng::new(self.seed, "regal uniform searches", idx as u64);
        for _ in 0..nth {
            seeds.next_u64();
        }
        seeds.next_u64()
    }

    /// The features of a problem's ops, as bits.
    fn node_features(&self, idx: usize) -> Result<Vec<u32>, Error> {
        let options = PlaceOptions {
            seed: self.uniform_seed(idx, 0),
            ..self.options.clone()
        };
        let features = self.policy.features_of(self.problem(idx), &options)?;
        let Value::Graph(value) = features.value else {
            return Err(Error::policy("the features are no graph"));
        };
        Ok(value.node_features.iter().map(|x| x.to_bits()).collect())
    }

    /// What a plan counts, after a search with or without proposals.
    fn search(&self, idx: usize, seed: u64, by: Option<Proposals>) -> Result<f64, Error> {
        let options = PlaceOptions {
            seed,
            evaluations: self.reward_evaluations,
            ..self.options.clone()
        };
        let problem = self.problem(idx);
        let found: Outcome = search(problem, &options, Vec::new(), by)?;
        let fitness = found.best.fitness;
        Ok(counted(problem.objective(), fitness, self.memory_bytes))
    }

    /// The rewards of choices of distributions for some problems, each searched with a seed of its own; the ranks share the searches, and
    /// those behind denominators that are needed for the first time.
    ///
    /// # Source
    /// Section 4.1: minus what is reached, divided by what uniform keys reach.
    pub(crate) fn rewards(
        &self,
        jobs: &[RewardJob],
        tables: &BetaTables,
        queue: &mut SearchQueue<'_, '_>,
    ) -> Result<Vec<f32>, Error> {
        let batch: Vec<usize> = jobs.iter().map(|job| job.problem).collect();
        let missing = self.missing(&batch, |instance| instance.denominator.get().is_none());
        let n_each = self.denominator_seeds;
        let of_problem = |&idx: &usize| (1..=n_each).map(move |nth| Search::Uniform(idx, nth));
        let uniform = missing.iter().flat_map(of_problem);
        let searches: Vec<Search> = uniform
            .chain((0..jobs.len()).map(Search::Proposed))
            .collect();
        let shared: Vec<Job> = searches.iter().map(|&of| self.job(of, &batch)).collect();
        let found = queue.run(&shared, &|at| {
            let value = match searches[at] {
                Search::Uniform(idx, nth) => self.search(idx, self.uniform_seed(idx, nth), None),
                Search::Proposed(job) => self.proposed(&jobs[job], tables),
            };
            Ok(words_of(value?.to_bits()).to_vec())
        })?;
        let mut values = found.iter().map(|words| f64::from_bits(number_of(words)));
        for idx in missing {
            let sum: f64 = values.by_ref().take(n_each as usize).sum();
            // Each problem is there once, so nobody was faster.
            let _ = self.instances[idx].denominator.set(sum / n_each as f64);
        }
        let rewards = batch.iter().zip(values).map(|(&idx, value)| {
            let denominator = self.instances[idx].denominator.get();
            reward(value, *denominator.expect("set above where it was missing"))
        });
        Ok(rewards.collect())
    }

    fn job(&self, search: Search, batch: &[usize]) -> Job {
        let idx = match search {
            Search::Uniform(idx, _) => idx,
            Search::Proposed(job) => batch[job],
        };
        Job {
            cost: self.cost(idx, self.reward_evaluations),
            n_words: 2,
        }
    }

    fn proposed(&self, job: &RewardJob, tables: &BetaTables) -> Result<f64, Error> {
        let proposals = Proposals {
            tables: tables.clone(),
            choices: job.choices.clone(),
            rho: job.rho,
        };
        self.search(job.problem, job.seed, Some(proposals))
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
