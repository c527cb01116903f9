//! The plain form of the search, for tests: one thread, new lists everywhere, every key on its own.

use crate::beta::BetaTables;
use crate::config::Config;
use crate::outcome::{Fitness, Individual};
use crate::random::child_rng;
use shardgraph_random::KeyedRng;

/// What the naive search works on.
pub(crate) struct Naive<'a> {
    pub(crate) n_keys: usize,
    pub(crate) config: &'a Config,
    pub(crate) starts: &'a [Vec<f32>],
    pub(crate) proposals: Option<(&'a BetaTables, &'a [u16])>,
}

impl Naive<'_> {
    /// All generations of all populations, and every chromosome that was decoded, in order.
    pub(crate) fn run(&self, decode: impl Fn(&[f32]) -> Fitness) -> NaiveOutcome {
        let config = self.config;
        let n_populations = config.populations as usize;
        let mut populations: Vec<Vec<Individual>> = vec![Vec::new(); n_populations];
        let mut decoded: Vec<Vec<f32>> = Vec::new();
        let mut bests = Vec::new();
        let mut generation = 0;
        while (decoded.len() as u64) < config.evaluations {
            for (population_idx, members) in populations.iter_mut().enumerate() {
                let mut children = Vec::new();
                for child_idx in 0..self.n_children(generation) {
                    if decoded.len() as u64 == config.evaluations {
                        break;
                    }
                    let keys = self.keys(members, population_idx, generation, child_idx);
                    decoded.push(keys.clone());
                    let fitness = decode(&keys);
                    children.push(Individual { fitness, keys });
                }
                if generation > 0 {
                    members.truncate(members.len() - children.len());
                }
                members.extend(children);
                members.sort_by_key(|member| member.fitness);
            }
            let is_over = decoded.len() as u64 == config.evaluations;
            let every = u64::from(config.migration_generations);
            if generation > 0 && every > 0 && generation % every == 0 && !is_over {
                self.migrate(&mut populations);
            }
            bests.push(populations.iter().flatten().map(|m| m.fitness).min());
            generation += 1;
        }
        NaiveOutcome {
            populations,
            decoded,
            bests: bests.into_iter().flatten().collect(),
        }
    }

    fn n_children(&self, generation: u64) -> usize {
        let Config {
            population, elites, ..
        } = self.config;
        (population - if generation == 0 { 0 } else { *elites }) as usize
    }

    fn keys(
        &self,
        members: &[Individual],
        population_idx: usize,
        generation: u64,
        child_idx: usize,
    ) -> Vec<f32> {
        let config = self.config;
        let mut stream = child_rng(
            config.seed,
            population_idx as u32,
            generation,
            child_idx as u32,
        );
        if generation == 0 {
            let start = self.start_at(population_idx, child_idx);
            return start.cloned().unwrap_or_else(|| self.mutant(&mut stream));
        }
        let n_crossed = config.population - config.elites - config.mutants;
        if child_idx >= n_crossed as usize {
            return self.mutant(&mut stream);
        }
        let n_elites = config.elites as usize;
        let elite = &members[stream.index(n_elites)].keys;
        let other = &members[n_elites + stream.index(members.len() - n_elites)].keys;
        let bits: Vec<u64> = (0..self.n_keys).map(|_| stream.next_u64()).collect();
        let is_elite = |i: usize| {
            let sixteen = (bits[i / 4] >> (16 * (i % 4))) & 0xffff;
            (sixteen as f64) < (config.rho * 65536.0).round()
        };
        (0..self.n_keys)
            .map(|i| if is_elite(i) { elite[i] } else { other[i] })
            .collect()
    }

    /// The start of a place in the first generation: the places that the budget reaches are counted row by row, all populations'
    /// first ones before their second ones.
    fn start_at(&self, population_idx: usize, child_idx: usize) -> Option<&Vec<f32>> {
        let n_places = self.n_children(0);
        let is_reached = |p: usize, c: usize| ((p * n_places + c) as u64) < self.config.evaluations;
        let rows =
            (0..n_places).flat_map(|c| (0..self.config.populations as usize).map(move |p| (p, c)));
        let mut places = rows.filter(|&(p, c)| is_reached(p, c));
        let rank = places.position(|place| place == (population_idx, child_idx))?;
        self.starts.get(rank)
    }

    fn mutant(&self, stream: &mut KeyedRng) -> Vec<f32> {
        let bits: Vec<u64> = (0..self.n_keys).map(|_| stream.next_u64()).collect();
        let key = |i: usize| {
            let share = ((bits[i / 2] >> (32 * (i % 2))) as u32) >> 8;
            match self.proposals {
                Some((tables, choices)) if choices[i] != BetaTables::UNIFORM => {
                    tables.quantile(choices[i], share)
                }
                _ => share as f32 / 16_777_216.0,
            }
        };
        (0..self.n_keys).map(key).collect()
    }

    fn migrate(&self, populations: &mut [Vec<Individual>]) {
        let n_migrants = self.config.migrants as usize;
        let before = populations.to_vec();
        for (to, members) in populations.iter_mut().enumerate() {
            let mut place = members.len();
            for (from, others) in before.iter().enumerate() {
                for migrant in others.iter().take(n_migrants) {
                    if from != to {
                        place -= 1;
                        members[place] = migrant.clone();
                    }
                }
            }
            members.sort_by_key(|member| member.fitness);
        }
    }
}

/// What the naive search saw and found.
pub(crate) struct NaiveOutcome {
    pub(crate) populations: Vec<Vec<Individual>>,
    pub(crate) decoded: Vec<Vec<f32>>,
    /// The best fitness after each generation.
    pub(crate) bests: Vec<Fitness>,
}
