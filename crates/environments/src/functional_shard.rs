//! Neighbouring copies of a functional environment in a vector: what a thread steps alone.

use shardgraph_random::{KeyedRng, mix};

use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::threads;
use crate::vector::{Actions, Autoreset, StepMut, both_parts};

/// One environment of a vector.
#[derive(Clone, Debug)]
pub(crate) struct Copy<S> {
    pub(crate) state: S,
    /// Key of the episode's chance.
    pub(crate) key: u64,
    /// Number of the episode, counted from 0.
    pub(crate) episode: u32,
    pub(crate) n_steps: u32,
    pub(crate) is_done: bool,
    /// The state that the final row shows, of an environment that observes changes.
    pub(crate) last_of_episode: Option<S>,
}

impl<S> Copy<S> {
    pub(crate) fn new<E>(environment: &E, episode: EpisodeKey) -> Copy<S>
    where
        E: FunctionalEnvironment<State = S>,
    {
        let key = episode.mixed();
        Copy {
            state: environment.initial(&mut stream(key, 0)),
            key,
            episode: episode.episode,
            n_steps: 0,
            is_done: false,
            last_of_episode: None,
        }
    }
}

/// Whose episode, and which.
#[derive(Clone, Copy)]
pub(crate) struct EpisodeKey {
    pub(crate) seed: u64,
    pub(crate) index: u32,
    pub(crate) episode: u32,
}

impl EpisodeKey {
    /// Bijective in (index, episode) for each seed.
    pub(crate) fn mixed(self) -> u64 {
        let within = u64::from(self.index) << 32 | u64::from(self.episode);
        mix(mix(self.seed) ^ mix(within))
    }
}

/// The generator of a step; that of step 0 is for the first state.
fn stream(key: u64, step: u32) -> KeyedRng {
    KeyedRng::from_key(mix(key ^ mix(u64::from(step))))
}

/// What all copies of a vector share.
#[derive(Debug)]
pub(crate) struct Rules<'a, E> {
    pub(crate) environment: &'a E,
    pub(crate) autoreset: Autoreset,
    pub(crate) step_limit: Option<u32>,
    pub(crate) seed: u64,
    pub(crate) n_features: usize,
    pub(crate) n_mask_columns: usize,
    /// Numbers of an action.
    pub(crate) action_width: usize,
}

/// Observations and masks of neighbouring copies.
#[derive(Debug)]
pub(crate) struct RowsMut<'a> {
    pub(crate) observations: &'a mut [f32],
    pub(crate) masks: &'a mut [bool],
}

/// Neighbouring copies with their rows.
#[derive(Debug)]
pub(crate) struct Shard<'a, E: FunctionalEnvironment> {
    pub(crate) rules: &'a Rules<'a, E>,
    /// Index of the first copy in the vector.
    pub(crate) first: usize,
    pub(crate) copies: &'a mut [Copy<E::State>],
    pub(crate) rows: RowsMut<'a>,
    pub(crate) final_rows: RowsMut<'a>,
    pub(crate) has_final: &'a mut [bool],
    pub(crate) step: StepMut<'a>,
}

impl<E: FunctionalEnvironment> Shard<'_, E> {
    /// Begins an episode of copy `idx` of the shard.
    pub(crate) fn begin(&mut self, idx: usize, episode: u32) {
        self.copies[idx] = Copy::new(self.rules.environment, self.key(idx, episode));
        self.show(idx);
    }

    fn key(&self, idx: usize, episode: u32) -> EpisodeKey {
        EpisodeKey {
            seed: self.rules.seed,
            index: (self.first + idx) as u32,
            episode,
        }
    }

    /// Writes the row of copy `idx` in observations and masks.
    pub(crate) fn show(&mut self, idx: usize) {
        let (rules, state) = (self.rules, &self.copies[idx].state);
        let row = idx * rules.n_features;
        let out = &mut self.rows.observations[row..row + rules.n_features];
        rules.environment.observe(state, out);
        self.show_mask(idx);
    }

    /// The same after a transition, from the row of the state before it.
    fn show_change(&mut self, idx: usize) {
        let (rules, state) = (self.rules, &self.copies[idx].state);
        let row = idx * rules.n_features;
        let out = &mut self.rows.observations[row..row + rules.n_features];
        rules.environment.observe_change(state, out);
        self.show_mask(idx);
    }

    fn show_mask(&mut self, idx: usize) {
        let (rules, state) = (self.rules, &self.copies[idx].state);
        if rules.n_mask_columns > 0 {
            let row = idx * rules.n_mask_columns;
            let out = &mut self.rows.masks[row..row + rules.n_mask_columns];
            rules.environment.mask(state, out);
        }
    }

    fn advance_copy(&mut self, idx: usize, action: Action<'_>) {
        self.has_final[idx] = false;
        let copy = &mut self.copies[idx];
        if copy.is_done {
            // With `Autoreset::NextStep` alone: the check refuses it elsewhere.
            let episode = copy.episode.wrapping_add(1);
            self.begin(idx, episode);
            self.record(idx, Transition::default(), false);
            self.step.reset[idx] = true;
            return;
        }
        copy.n_steps += 1;
        let mut rng = stream(copy.key, copy.n_steps);
        let environment = self.rules.environment;
        let transition = environment.transition(&mut copy.state, action, &mut rng);
        let truncated = !transition.terminated && self.rules.step_limit == Some(copy.n_steps);
        copy.is_done = transition.terminated || truncated;
        let ends = copy.is_done;
        let episode = copy.episode.wrapping_add(1);
        self.show_change(idx);
        self.record(idx, transition, truncated);
        if ends && self.rules.autoreset == Autoreset::SameStep {
            self.begin_next(idx, episode);
        }
    }

    fn record(&mut self, idx: usize, transition: Transition, truncated: bool) {
        self.step.rewards[idx] = transition.reward;
        self.step.terminated[idx] = transition.terminated;
        self.step.truncated[idx] = truncated;
        self.step.reset[idx] = false;
    }

    /// Keeps the rows of the state that ended an episode, and begins the next one.
    fn begin_next(&mut self, idx: usize, episode: u32) {
        self.has_final[idx] = true;
        let (rules, key) = (self.rules, self.key(idx, episode));
        let masks = idx * rules.n_mask_columns..(idx + 1) * rules.n_mask_columns;
        self.final_rows.masks[masks.clone()].copy_from_slice(&self.rows.masks[masks]);
        let row = idx * rules.n_features..(idx + 1) * rules.n_features;
        let last = &mut self.final_rows.observations[row.clone()];
        if !E::OBSERVES_CHANGES {
            last.copy_from_slice(&self.rows.observations[row]);
            return self.begin(idx, episode);
        }
        let environment = rules.environment;
        let copy = &mut self.copies[idx];
        let ended = std::mem::replace(copy, Copy::new(environment, key));
        let out = &mut self.rows.observations[row];
        match &ended.last_of_episode {
            Some(shown) => environment.observe_instead(shown, &ended.state, last),
            None => last.copy_from_slice(out),
        }
        environment.observe_instead(&ended.state, &copy.state, out);
        copy.last_of_episode = Some(ended.state);
        self.show_mask(idx);
    }
}

impl<E: FunctionalEnvironment> threads::Shard for Shard<'_, E> {
    const GROUP: usize = 1;
    const LEAST: usize = 128;

    fn n_environments(&self) -> usize {
        self.copies.len()
    }

    fn advance(mut self, actions: Actions<'_>) {
        let width = self.rules.action_width;
        for idx in 0..self.copies.len() {
            let row = idx * width..(idx + 1) * width;
            let action = match actions {
                Actions::Discrete(numbers) => Action::Discrete(&numbers[row]),
                Actions::Continuous(elements) => Action::Continuous(&elements[row]),
            };
            self.advance_copy(idx, action);
        }
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        let same = self.rules;
        both_parts!(Shard {
            rules: (same, same),
            first: (self.first, self.first + n),
            copies: self.copies.split_at_mut(n),
            rows: self.rows.split_at(n, same),
            final_rows: self.final_rows.split_at(n, same),
            has_final: self.has_final.split_at_mut(n),
            step: self.step.split_at(n),
        })
    }
}

impl<'a> RowsMut<'a> {
    fn split_at<E>(self, n: usize, rules: &Rules<'_, E>) -> (RowsMut<'a>, RowsMut<'a>) {
        both_parts!(RowsMut {
            observations: self.observations.split_at_mut(n * rules.n_features),
            masks: self.masks.split_at_mut(n * rules.n_mask_columns),
        })
    }
}
