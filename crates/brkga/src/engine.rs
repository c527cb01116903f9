//! The search itself: generations of populations, decoded by one thread or several, within an exact budget.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::beta::BetaTables;
use crate::breed::Proposals;
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::jobs::{Job, Origin, Rules};
use crate::outcome::{Fitness, Generation, Individual, Outcome, Stop};

/// A search, from the first generation to the last.
///
/// A decoder is any `FnMut(&[f32]) -> Fitness`: it owns its workspace. The first decodes in the calling thread, the others in
/// threads of the search's own, and they must all give equal chromosomes equal fitness.
///
/// ```
/// use shardgraph_brkga::{Brkga, Config};
///
/// let spread = |keys: &[f32]| {
///     let mean = keys.iter().sum::<f32>() / keys.len() as f32;
///     (keys.iter().map(|key| ((key - mean).abs() * 1e6) as u64).sum(), 0)
/// };
/// let config = Config { evaluations: 1000, ..Config::default() };
/// let mut search = Brkga::new(10, &config)?.with_starts(vec![vec![0.5; 10]])?;
/// let mut n_generations = 0;
/// while search.step(&mut [spread, spread])?.is_none() {
///     n_generations += 1;
/// }
/// let outcome = search.outcome().expect("a generation was made");
/// assert_eq!((n_generations, outcome.evaluations), (12, 1000));
/// assert_eq!(outcome.best.fitness, (0, 0)); // the warm start is an optimum already
/// # Ok::<(), shardgraph_brkga::Error>(())
/// ```
///
/// # Determinism
/// The same search gives the same bytes for any number of decoders: every chromosome has its own stream of random numbers,
/// keyed by (seed, population, generation, child), and equals keep their order.
///
/// # Complexity
/// Each generation makes and decodes `populations * (population - elites)` chromosomes. Memory: 4 bytes a key for
/// `populations * (2 * population - elites)` chromosomes; elites are neither copied nor decoded again.
pub struct Brkga {
    config: Config,
    n_keys: usize,
    proposals: Proposals,
    /// Given chromosomes, until the initial populations take them.
    starts: Vec<Vec<f32>>,
    populations: Vec<Population>,
    evaluations: u64,
    history: Vec<Generation>,
    /// Generations since the best got better.
    n_stalled: u32,
    stop: Option<Stop>,
    pool: Option<ThreadPool>,
}

/// One population.
struct Population {
    /// Given chromosomes, the first of the first generation.
    starts: Vec<Vec<f32>>,
    /// Best first; of equals the oldest first.
    members: Vec<Individual>,
    /// Room for the next generation's children.
    children: Vec<Individual>,
}

impl Population {
    /// No members yet, and room for children.
    fn empty(n_children: usize, n_keys: usize) -> Population {
        let child = Individual {
            fitness: (u64::MAX, u64::MAX),
            keys: vec![0.0; n_keys],
        };
        Population {
            starts: Vec::new(),
            members: Vec::new(),
            children: vec![child; n_children],
        }
    }
}

/// How the jobs of a generation are done.
trait Work:
    FnOnce(&Rules<'_>, &mut [Job<'_>], Option<&ThreadPool>) -> Result<(usize, bool), Error>
{
}

impl<W> Work for W where
    W: FnOnce(&Rules<'_>, &mut [Job<'_>], Option<&ThreadPool>) -> Result<(usize, bool), Error>
{
}

impl Brkga {
    /// A search over chromosomes of `n_keys` keys, with uniform mutants and no warm starts.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a field out of range, [`ErrorKind::Search`] for 0 keys.
    pub fn new(n_keys: usize, config: &Config) -> Result<Brkga, Error> {
        config.check()?;
        if n_keys == 0 {
            let reason = "a chromosome of 0 keys leaves nothing to search";
            return Err(ErrorKind::Search { reason }.into());
        }
        Ok(Brkga {
            config: config.clone(),
            n_keys,
            proposals: Proposals::Uniform,
            starts: Vec::new(),
            populations: Vec::new(),
            evaluations: 0,
            history: Vec::new(),
            n_stalled: 0,
            stop: None,
            pool: None,
        })
    }

    /// Draws mutants, and the initial populations, from these distributions: one choice for each key, an index that
    /// [`BetaTables`] gave out.
    ///
    /// # Errors
    /// [`ErrorKind::Proposal`] when there is not one choice for each key, or a choice is not in the tables.
    pub fn with_proposals(
        mut self,
        tables: &BetaTables,
        choices: Vec<u16>,
    ) -> Result<Brkga, Error> {
        if choices.len() != self.n_keys {
            let (n_choices, n_keys) = (choices.len(), self.n_keys);
            return Err(Error::proposal(format!(
                "{n_choices} choices for chromosomes of {n_keys} keys: give one for each key"
            )));
        }
        let n_tables = tables.n_tables();
        if let Some(key) = choices.iter().position(|i| usize::from(*i) >= n_tables) {
            return Err(Error::proposal(format!(
                "choice {} of key {key}: there are tables 0..{n_tables}",
                choices[key]
            )));
        }
        self.proposals = Proposals::beta(tables.clone(), choices);
        Ok(self)
    }

    /// Puts given chromosomes into the initial populations, where they are decoded like any other: the first into the first
    /// population, the second into the second, and so on in turn, past those without room. (A budget that does not fill the
    /// populations fills the first ones.) None is left out but by a caller who ends the search within its first generation.
    ///
    /// # Errors
    /// [`ErrorKind::Start`] for one of the wrong length or with a key outside of [0, 1), and when there are more than the
    /// initial populations hold or than `evaluations` allows.
    pub fn with_starts(mut self, starts: Vec<Vec<f32>>) -> Result<Brkga, Error> {
        let room = u64::from(self.config.population) * u64::from(self.config.populations);
        let budget = self.config.evaluations;
        for (start_idx, keys) in starts.iter().enumerate() {
            let wrong = keys.iter().position(|key| !(0.0..1.0).contains(key));
            let reason = if start_idx as u64 >= room {
                format!("the initial populations hold {room} chromosomes")
            } else if start_idx as u64 >= budget {
                format!("a warm start counts as an evaluation, and evaluations = {budget}")
            } else if keys.len() != self.n_keys {
                format!("{} keys, expected {}", keys.len(), self.n_keys)
            } else if let Some(key) = wrong {
                format!("key {key} is {}, expected a number of [0, 1)", keys[key])
            } else {
                continue;
            };
            return Err(ErrorKind::Start { start_idx, reason }.into());
        }
        self.starts = starts;
        Ok(self)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// As [`Brkga::step`].
    ///
    /// # Panics
    /// When a decoder panics.
    pub fn run<D>(mut self, decoders: &mut [D]) -> Result<Outcome, Error>
    where
        D: FnMut(&[f32]) -> Fitness + Send,
    {
        while self.step(decoders)?.is_none() {}
        self.outcome()
    }

    /// Makes the next generation, the first time the initial populations; why the search ended, once it has.
    ///
    /// # Errors
    /// [`ErrorKind::Search`] without decoders, [`ErrorKind::Threads`] when worker threads do not start.
    ///
    /// # Panics
    /// When a decoder panics; the search is of no use afterwards.
    pub fn step<D>(&mut self, decoders: &mut [D]) -> Result<Option<Stop>, Error>
    where
        D: FnMut(&[f32]) -> Fitness + Send,
    {
        self.step_while(decoders, &mut || true)
    }

    /// As [`Brkga::step`]; `go_on` is asked again and again while chromosomes are decoded, by the calling thread, and ends generation and
    /// search in their midst by returning false. At least one chromosome is decoded.
    ///
    /// # Errors
    /// As [`Brkga::step`].
    ///
    /// # Panics
    /// As [`Brkga::step`].
    ///
    /// # Determinism
    /// As long as `go_on` returns true, that of [`Brkga::step`]; how much of the last generation is made depends on when it does not.
    pub fn step_while<D>(
        &mut self,
        decoders: &mut [D],
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Stop>, Error>
    where
        D: FnMut(&[f32]) -> Fitness + Send,
    {
        if self.stop.is_some() {
            return Ok(self.stop);
        }
        if decoders.is_empty() {
            let reason = "no decoders: give one for each thread, at least one";
            return Err(ErrorKind::Search { reason }.into());
        }
        self.prepare_pool(decoders.len())?;
        self.generation(|rules, jobs, pool| Ok(rules.work(jobs, decoders, pool, go_on)))
    }

    /// As [`Brkga::step`], with a decoder that takes all new chromosomes of a generation at once and returns their fitness in that order.
    ///
    /// # Errors
    /// [`ErrorKind::Search`] for another number of fitnesses than of chromosomes.
    ///
    /// # Panics
    /// When the decoder panics; the search is of no use afterwards.
    ///
    /// # Determinism
    /// That of [`Brkga::step`].
    ///
    /// ```
    /// use shardgraph_brkga::{Brkga, Config};
    /// let sum = |keys: &[f32]| ((1000.0 * keys.iter().sum::<f32>()) as u64, 0);
    /// let config = Config { evaluations: 500, ..Config::default() };
    /// let mut search = Brkga::new(4, &config)?;
    /// while search.step_batch(&mut |all| all.iter().map(|keys| sum(keys)).collect())?.is_none() {}
    /// assert_eq!(search.outcome()?, Brkga::new(4, &config)?.run(&mut [sum])?);
    /// # Ok::<(), shardgraph_brkga::Error>(())
    /// ```
    pub fn step_batch(
        &mut self,
        decode: &mut dyn FnMut(&[&[f32]]) -> Vec<Fitness>,
    ) -> Result<Option<Stop>, Error> {
        if self.stop.is_some() {
            return Ok(self.stop);
        }
        self.generation(|rules, jobs, _| {
            for job in jobs.iter_mut() {
                rules.make(job);
            }
            let keys: Vec<&[f32]> = jobs.iter().map(|job| &job.child.keys[..]).collect();
            let found = decode(&keys);
            if found.len() != jobs.len() {
                let reason = "the decoder returned another number of fitnesses than of chromosomes";
                return Err(ErrorKind::Search { reason }.into());
            }
            for (job, fitness) in jobs.iter_mut().zip(found) {
                job.child.fitness = fitness;
            }
            Ok((jobs.len(), true))
        })
    }

    /// One generation, made and decoded by `work`, which returns how many of the jobs are done and whether the search goes on.
    fn generation(&mut self, work: impl Work) -> Result<Option<Stop>, Error> {
        if self.populations.is_empty() {
            self.make_room();
        }
        let (n_new, goes_on) = self.make_children(work)?;
        self.evaluations += n_new as u64;
        self.replace(n_new);
        if goes_on {
            self.migrate();
        }
        self.record();
        if !goes_on {
            self.stop = self.stop.or(Some(Stop::Caller));
        }
        Ok(self.stop)
    }

    /// The best chromosome so far; none before the first [`Brkga::step`].
    #[must_use]
    pub fn best(&self) -> Option<&Individual> {
        let bests = self.populations.iter().filter_map(|p| p.members.first());
        bests.min_by_key(|best| best.fitness)
    }

    /// One entry for each generation so far; the first is the initial population.
    #[must_use]
    pub fn history(&self) -> &[Generation] {
        &self.history
    }

    /// Ends the search, whether or not it has come to its end.
    ///
    /// # Errors
    /// [`ErrorKind::Search`] before the first [`Brkga::step`].
    pub fn outcome(self) -> Result<Outcome, Error> {
        let Some(best) = self.best().cloned() else {
            let reason = "no generation was made: call step before outcome";
            return Err(ErrorKind::Search { reason }.into());
        };
        Ok(Outcome {
            best,
            evaluations: self.evaluations,
            stop: self.stop.unwrap_or(Stop::Caller),
            history: self.history,
            populations: self.populations.into_iter().map(|p| p.members).collect(),
        })
    }

    fn prepare_pool(&mut self, n_threads: usize) -> Result<(), Error> {
        // The calling thread is one of them.
        let n_others = n_threads - 1;
        let has = self
            .pool
            .as_ref()
            .map_or(0, ThreadPool::current_num_threads);
        if has == n_others {
            return Ok(());
        }
        self.pool = None;
        if n_others > 0 {
            let pool = ThreadPoolBuilder::new().num_threads(n_others).build();
            let pool = pool.map_err(|error| ErrorKind::Threads {
                reason: error.to_string(),
            })?;
            self.pool = Some(pool);
        }
        Ok(())
    }

    /// Room for the initial populations, no more than the budget fills, with the starts dealt out in turn to those that have room.
    fn make_room(&mut self) {
        let mut left = self.config.evaluations;
        for _ in 0..self.config.populations {
            let n_children = left.min(u64::from(self.config.population));
            left -= n_children;
            let population = Population::empty(n_children as usize, self.n_keys);
            self.populations.push(population);
        }
        let n_populations = self.populations.len();
        let mut turn = 0;
        for keys in std::mem::take(&mut self.starts) {
            // There is always one: the starts are no more than the places.
            let has_room = |p: &Population| p.starts.len() < p.children.len();
            while !has_room(&self.populations[turn]) {
                turn = (turn + 1) % n_populations;
            }
            self.populations[turn].starts.push(keys);
            turn = (turn + 1) % n_populations;
        }
    }

    /// Makes and decodes the next children, as many as the budget allows; how many, and whether the search goes on.
    fn make_children(&mut self, work: impl Work) -> Result<(usize, bool), Error> {
        let rules = Rules {
            config: &self.config,
            proposals: &self.proposals,
            generation: self.history.len() as u64,
        };
        let mut jobs = Vec::new();
        for (population_idx, population) in self.populations.iter_mut().enumerate() {
            let Population {
                starts,
                members,
                children,
            } = population;
            for (child_idx, child) in children.iter_mut().enumerate() {
                let origin = match starts.get(child_idx) {
                    Some(keys) if members.is_empty() => Origin::Given(keys),
                    None if members.is_empty() => Origin::Mutant,
                    _ if child_idx < self.config.crossed() => Origin::Crossed(members),
                    _ => Origin::Mutant,
                };
                jobs.push(Job {
                    origin,
                    population_idx: population_idx as u32,
                    child_idx: child_idx as u32,
                    child,
                });
            }
        }
        let room = self.config.evaluations - self.evaluations;
        jobs.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        work(&rules, &mut jobs, self.pool.as_ref())
    }

    /// Puts the `n_new` new children, counted population by population, into the places of the worst members.
    fn replace(&mut self, mut n_new: usize) {
        let left = self.config.evaluations - self.evaluations;
        let n_children = left.min(self.config.children());
        for population in &mut self.populations {
            let n_taken = n_new.min(population.children.len());
            n_new -= n_taken;
            if population.members.is_empty() {
                let children = Population::empty(n_children as usize, self.n_keys).children;
                population.members = std::mem::replace(&mut population.children, children);
                population.members.truncate(n_taken);
            } else {
                let first = population.members.len() - n_taken;
                let places = &mut population.members[first..];
                places.swap_with_slice(&mut population.children[..n_taken]);
            }
            // Stable, and the members came before the children: the older of equals stays ahead.
            population.members.sort_by_key(|member| member.fitness);
        }
    }

    /// Copies the best of each population over the worst of the others, if it is time to and another generation will follow.
    fn migrate(&mut self) {
        let generation = self.history.len() as u64;
        let every = u64::from(self.config.migration_generations);
        let n_populations = self.populations.len();
        let has_room = self.evaluations < self.config.evaluations;
        if every == 0
            || generation == 0
            || !generation.is_multiple_of(every)
            || n_populations == 1
            || !has_room
        {
            return;
        }
        let n_migrants = self.config.migrants as usize;
        let migrants: Vec<Vec<Individual>> = self
            .populations
            .iter()
            .map(|population| population.members[..n_migrants].to_vec())
            .collect();
        for (to, population) in self.populations.iter_mut().enumerate() {
            let arrivals = migrants.iter().enumerate().filter(|(from, _)| *from != to);
            let arrivals = arrivals.flat_map(|(_, migrants)| migrants);
            for (place, arrival) in population.members.iter_mut().rev().zip(arrivals) {
                place.clone_from(arrival);
            }
            population.members.sort_by_key(|member| member.fitness);
        }
    }

    /// Writes the generation into the history and decides whether it was the last.
    fn record(&mut self) {
        let Some(best) = self.best().map(|best| best.fitness) else {
            return;
        };
        let is_better = self.history.last().is_none_or(|last| best < last.best);
        self.n_stalled = if is_better { 0 } else { self.n_stalled + 1 };
        self.history.push(Generation {
            evaluations: self.evaluations,
            best,
        });
        let stall_generations = self.config.stall_generations;
        self.stop = if self.config.target.is_some_and(|target| best <= target) {
            Some(Stop::Target)
        } else if self.evaluations == self.config.evaluations {
            Some(Stop::Evaluations)
        } else if stall_generations > 0 && self.n_stalled >= stall_generations {
            Some(Stop::Stall)
        } else {
            None
        };
    }
}

#[cfg(test)]
mod tests;
