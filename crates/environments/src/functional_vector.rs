//! Vectors of copies of a functional environment: episodes, masks, autoreset and checkpoint bytes.

use serde::{Deserialize, Serialize};
use shardgraph_random::{KeyedRng, mix};

use crate::error::Error;
use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::{Space, SpaceKind};
use crate::vector::{Autoreset, VectorStep, check_count, check_length};
use crate::vector_environment::{Actions, VectorEnvironment};

/// Copies of a [`FunctionalEnvironment`] that take their steps together.
///
/// # Complexity
/// O(N) a step, without an allocation.
///
/// # Determinism
/// Step t of episode e of environment i draws from the stream of (seed, i, e, t).
#[derive(Clone, Debug)]
pub struct FunctionalVector<E: FunctionalEnvironment> {
    environment: E,
    autoreset: Autoreset,
    step_limit: Option<u32>,
    action_layout: ActionLayout,
    seed: u64,
    copies: Vec<Copy<E::State>>,
    n_features: usize,
    observations: Vec<f32>,
    final_observations: Vec<f32>,
    has_final: Vec<bool>,
    n_mask_columns: usize,
    masks: Vec<bool>,
    final_masks: Vec<bool>,
    step: VectorStep,
}

/// One environment of a vector.
#[derive(Clone, Debug)]
struct Copy<S> {
    state: S,
    /// Key of the episode's chance.
    key: u64,
    /// Number of the episode, counted from 0.
    episode: u32,
    n_steps: u32,
    is_done: bool,
}

/// What an action row looks like.
#[derive(Clone, Debug, PartialEq)]
enum ActionLayout {
    /// Sizes of the discrete spaces.
    Discrete(Vec<u32>),
    /// Elements of a box.
    Continuous(usize),
}

impl ActionLayout {
    fn of(space: &Space) -> Result<ActionLayout, Error> {
        let wrong = |given: &Space| {
            Error::mismatch(
                "FunctionalVector::new",
                "action space",
                "a discrete space, a tuple of them, or a box".into(),
                format!("{given:?}"),
            )
        };
        match space.kind() {
            SpaceKind::Discrete { n } => Ok(ActionLayout::Discrete(vec![*n])),
            SpaceKind::Box { .. } => Ok(ActionLayout::Continuous(space.flat_width()?)),
            SpaceKind::Tuple { spaces } => {
                let size = |space: &Space| match space.kind() {
                    SpaceKind::Discrete { n } => Ok(*n),
                    _ => Err(wrong(space)),
                };
                spaces
                    .iter()
                    .map(size)
                    .collect::<Result<_, _>>()
                    .map(ActionLayout::Discrete)
            }
            _ => Err(wrong(space)),
        }
    }

    /// Numbers of one action.
    fn width(&self) -> usize {
        match self {
            ActionLayout::Discrete(sizes) => sizes.len(),
            ActionLayout::Continuous(width) => *width,
        }
    }

    /// Flags of one mask.
    fn n_mask_columns(&self) -> usize {
        match self {
            ActionLayout::Discrete(sizes) => sizes.iter().map(|&n| n as usize).sum(),
            ActionLayout::Continuous(_) => 0,
        }
    }
}

impl<E: FunctionalEnvironment> FunctionalVector<E> {
    /// `n_environments` copies whose episodes are truncated after `step_limit` steps, reset with
    /// seed 0.
    ///
    /// # Errors
    /// When `n_environments` is 0 or does not fit 32 bits, or a space has no fixed width.
    pub fn new(
        environment: E,
        n_environments: usize,
        autoreset: Autoreset,
        step_limit: Option<u32>,
    ) -> Result<FunctionalVector<E>, Error> {
        check_count("FunctionalVector::new", n_environments)?;
        let action_layout = ActionLayout::of(&environment.action_space())?;
        let n_features = environment.observation_space().flat_width()?;
        let n_mask_columns = match environment.has_mask() {
            true => action_layout.n_mask_columns(),
            false => 0,
        };
        let first = |index: usize| Copy::new(&environment, EpisodeKey::first(0, index as u32));
        let mut vector = FunctionalVector {
            copies: (0..n_environments).map(first).collect(),
            autoreset,
            step_limit,
            action_layout,
            seed: 0,
            n_features,
            observations: vec![0.0; n_environments * n_features],
            final_observations: vec![0.0; n_environments * n_features],
            has_final: vec![false; n_environments],
            n_mask_columns,
            masks: vec![true; n_environments * n_mask_columns],
            final_masks: vec![true; n_environments * n_mask_columns],
            step: VectorStep::default(),
            environment,
        };
        vector.reset(0);
        Ok(vector)
    }

    /// The state of environment `idx`.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn state(&self, idx: usize) -> &E::State {
        &self.copies[idx].state
    }

    /// Puts environment `idx` in a state, within its present episode.
    ///
    /// # Panics
    /// When there is no environment `idx`.
    pub fn set_state(&mut self, idx: usize, state: E::State) {
        self.copies[idx].state = state;
        self.show(idx);
    }

    /// What bytes must be of, to be restored here.
    fn identity(&self) -> String {
        format!(
            "{:?} {:?} {:?}",
            self.environment, self.autoreset, self.step_limit
        )
    }

    fn begin(&mut self, idx: usize, episode: u32) {
        let key = EpisodeKey {
            seed: self.seed,
            index: idx as u32,
            episode,
        };
        self.copies[idx] = Copy::new(&self.environment, key);
        self.show(idx);
    }

    /// Writes the row of environment `idx` in observations and masks.
    fn show(&mut self, idx: usize) {
        let state = &self.copies[idx].state;
        let row = idx * self.n_features;
        let out = &mut self.observations[row..row + self.n_features];
        self.environment.observe(state, out);
        if self.n_mask_columns > 0 {
            let row = idx * self.n_mask_columns;
            let out = &mut self.masks[row..row + self.n_mask_columns];
            self.environment.mask(state, out);
        }
    }

    fn advance(&mut self, idx: usize, action: Action<'_>) {
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
        let transition = self
            .environment
            .transition(&mut copy.state, action, &mut rng);
        let truncated = !transition.terminated && self.step_limit == Some(copy.n_steps);
        copy.is_done = transition.terminated || truncated;
        let ends = copy.is_done;
        let episode = copy.episode.wrapping_add(1);
        self.show(idx);
        self.record(idx, transition, truncated);
        if ends && self.autoreset == Autoreset::SameStep {
            self.keep_final(idx);
            self.begin(idx, episode);
        }
    }

    fn record(&mut self, idx: usize, transition: Transition, truncated: bool) {
        self.step.rewards[idx] = transition.reward;
        self.step.terminated[idx] = transition.terminated;
        self.step.truncated[idx] = truncated;
        self.step.reset[idx] = false;
    }

    fn keep_final(&mut self, idx: usize) {
        self.has_final[idx] = true;
        let row = idx * self.n_features..(idx + 1) * self.n_features;
        self.final_observations[row.clone()].copy_from_slice(&self.observations[row]);
        let row = idx * self.n_mask_columns..(idx + 1) * self.n_mask_columns;
        self.final_masks[row.clone()].copy_from_slice(&self.masks[row]);
    }

    fn check(&self, actions: Actions<'_>) -> Result<(), Error> {
        let n_numbers = self.copies.len() * self.action_layout.width();
        match (actions, &self.action_layout) {
            (Actions::Discrete(numbers), ActionLayout::Discrete(sizes)) => {
                check_length(
                    "VectorEnvironment::step",
                    "actions",
                    n_numbers,
                    numbers.len(),
                )?;
                let rows = numbers.chunks_exact(sizes.len());
                for (idx, row) in rows.enumerate().filter(|(idx, _)| self.takes_action(*idx)) {
                    self.check_discrete(idx, row, sizes)?;
                }
            }
            (Actions::Continuous(elements), ActionLayout::Continuous(width)) => {
                check_length(
                    "VectorEnvironment::step",
                    "actions",
                    n_numbers,
                    elements.len(),
                )?;
                let not_finite = elements.iter().position(|element| !element.is_finite());
                if let Some(at) = not_finite {
                    let (expected, given) = ("finite numbers".into(), elements[at].to_string());
                    let error =
                        Error::mismatch("VectorEnvironment::step", "action", expected, given);
                    return Err(error.in_vector(at / width));
                }
            }
            (actions, layout) => {
                let (expected, given) = (format!("{layout:?}"), format!("{actions:?}"));
                let given = given.chars().take(60).collect();
                return Err(Error::mismatch(
                    "VectorEnvironment::step",
                    "actions",
                    expected,
                    given,
                ));
            }
        }
        self.check_ended()
    }

    /// True unless the next step begins an episode there.
    fn takes_action(&self, idx: usize) -> bool {
        !(self.copies[idx].is_done && self.autoreset == Autoreset::NextStep)
    }

    fn check_ended(&self) -> Result<(), Error> {
        if self.autoreset != Autoreset::Disabled {
            return Ok(());
        }
        match self.copies.iter().position(|copy| copy.is_done) {
            None => Ok(()),
            Some(idx) => {
                let n_steps = self.copies[idx].n_steps;
                Err(Error::Ended { n_steps }.in_vector(idx))
            }
        }
    }

    fn check_discrete(&self, idx: usize, row: &[u32], sizes: &[u32]) -> Result<(), Error> {
        let mut column = idx * self.n_mask_columns;
        for (&number, &size) in row.iter().zip(sizes) {
            let is_allowed =
                number < size && (self.n_mask_columns == 0 || self.masks[column + number as usize]);
            if !is_allowed {
                let expected = format!("one of the allowed actions below {size}");
                let (method, given) = ("VectorEnvironment::step", number.to_string());
                return Err(Error::mismatch(method, "action", expected, given).in_vector(idx));
            }
            column += size as usize;
        }
        Ok(())
    }
}

/// Whose episode, and which.
#[derive(Clone, Copy)]
struct EpisodeKey {
    seed: u64,
    index: u32,
    episode: u32,
}

impl EpisodeKey {
    fn first(seed: u64, index: u32) -> EpisodeKey {
        EpisodeKey {
            seed,
            index,
            episode: 0,
        }
    }

    /// Bijective in (index, episode) for each seed.
    fn mixed(self) -> u64 {
        let within = u64::from(self.index) << 32 | u64::from(self.episode);
        mix(mix(self.seed) ^ mix(within))
    }
}

impl<S> Copy<S> {
    fn new<E: FunctionalEnvironment<State = S>>(environment: &E, episode: EpisodeKey) -> Copy<S> {
        let key = episode.mixed();
        Copy {
            state: environment.initial(&mut stream(key, 0)),
            key,
            episode: episode.episode,
            n_steps: 0,
            is_done: false,
        }
    }
}

/// The generator of a step; that of step 0 is for the first state.
fn stream(key: u64, step: u32) -> KeyedRng {
    KeyedRng::from_key(mix(key ^ mix(u64::from(step))))
}

const MAGIC: [u8; 8] = *b"SGFNV\0\0\x01";

/// The bytes' content: the form, the seed and the copies.
#[derive(Serialize, Deserialize)]
struct Saved<S> {
    magic: [u8; 8],
    /// The environment with its options, the autoreset mode and the limit of steps, as text.
    of: String,
    seed: u64,
    copies: Vec<SavedCopy<S>>,
}

#[derive(Serialize, Deserialize)]
struct SavedCopy<S> {
    state: S,
    episode: u32,
    n_steps: u32,
    is_done: bool,
}

impl<E: FunctionalEnvironment> VectorEnvironment for FunctionalVector<E> {
    fn n_environments(&self) -> usize {
        self.copies.len()
    }

    fn observation_space(&self) -> Space {
        self.environment.observation_space()
    }

    fn action_space(&self) -> Space {
        self.environment.action_space()
    }

    fn reset(&mut self, seed: u64) {
        self.seed = seed;
        self.step.clear(self.copies.len());
        self.has_final.fill(false);
        (0..self.copies.len()).for_each(|idx| self.begin(idx, 0));
    }

    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        let n = self.copies.len();
        check_length("VectorEnvironment::reset_where", "marks", n, marks.len())?;
        for (idx, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            self.begin(idx, self.copies[idx].episode.wrapping_add(1));
        }
        Ok(())
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error> {
        self.check(actions)?;
        let width = self.action_layout.width();
        for idx in 0..self.copies.len() {
            let row = idx * width..(idx + 1) * width;
            let action = match actions {
                Actions::Discrete(numbers) => Action::Discrete(&numbers[row]),
                Actions::Continuous(elements) => Action::Continuous(&elements[row]),
            };
            self.advance(idx, action);
        }
        Ok(&self.step)
    }

    fn last_step(&self) -> &VectorStep {
        &self.step
    }

    fn observations(&self) -> &[f32] {
        &self.observations
    }

    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        let row = idx * self.n_features;
        self.has_final[idx].then(|| &self.final_observations[row..row + self.n_features])
    }

    fn action_mask(&self) -> Option<&[bool]> {
        (self.n_mask_columns > 0).then_some(self.masks.as_slice())
    }

    fn final_action_mask(&self, idx: usize) -> Option<&[bool]> {
        let row = idx * self.n_mask_columns;
        let has_mask = self.n_mask_columns > 0 && self.has_final[idx];
        has_mask.then(|| &self.final_masks[row..row + self.n_mask_columns])
    }

    fn to_bytes(&self) -> Vec<u8> {
        let copies = self.copies.iter().map(|copy| SavedCopy {
            state: copy.state.clone(),
            episode: copy.episode,
            n_steps: copy.n_steps,
            is_done: copy.is_done,
        });
        let saved = Saved {
            magic: MAGIC,
            of: self.identity(),
            seed: self.seed,
            copies: copies.collect(),
        };
        postcard::to_allocvec(&saved).expect("states have a form as bytes")
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let malformed = |reason| Err(Error::Malformed { reason });
        let Ok((saved, rest)) = postcard::take_from_bytes::<Saved<E::State>>(bytes) else {
            return malformed("they are damaged, or of another environment");
        };
        if saved.magic != MAGIC || !rest.is_empty() {
            return malformed("they are not of this form and version");
        }
        if saved.of != self.identity() {
            return malformed("they are of another environment, option or autoreset mode");
        }
        let n = self.copies.len();
        check_length(
            "VectorEnvironment::restore",
            "environments",
            n,
            saved.copies.len(),
        )?;
        let limit = self.step_limit.unwrap_or(u32::MAX - 1);
        let is_right = |copy: &SavedCopy<E::State>| {
            let may_go_on = copy.n_steps < limit || copy.is_done && copy.n_steps == limit;
            may_go_on && self.environment.is_state(&copy.state)
        };
        if !saved.copies.iter().all(is_right) {
            return malformed("they hold a state that this environment never is in");
        }
        self.seed = saved.seed;
        for (idx, saved) in saved.copies.into_iter().enumerate() {
            let episode = EpisodeKey {
                seed: self.seed,
                index: idx as u32,
                episode: saved.episode,
            };
            self.copies[idx] = Copy {
                key: episode.mixed(),
                state: saved.state,
                episode: saved.episode,
                n_steps: saved.n_steps,
                is_done: saved.is_done,
            };
            self.show(idx);
        }
        self.step.clear(n);
        self.has_final.fill(false);
        Ok(())
    }
}
