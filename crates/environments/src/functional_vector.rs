//! Vectors of copies of a functional environment: episodes, masks, autoreset and checkpoint bytes.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::functional::FunctionalEnvironment;
use crate::functional_shard::{Copy, EpisodeKey, RowsMut, Rules, Shard};
use crate::space::{Space, SpaceKind};
use crate::threads::Threads;
use crate::vector::{Actions, Autoreset, VectorStep, check_count, check_length};
use crate::vector_environment::VectorEnvironment;

/// Copies of a [`FunctionalEnvironment`] that take their steps together.
///
/// # Complexity
/// O(N) a step, without an allocation but one for each thread beside the caller's.
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
    threads: Threads,
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
        let first = |index: usize| {
            let key = EpisodeKey {
                seed: 0,
                index: index as u32,
                episode: 0,
            };
            Copy::new(&environment, key)
        };
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
            threads: Threads::default(),
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
        self.with_copies(|mut copies| copies.show(idx));
    }

    /// What bytes must be of, to be restored here.
    fn identity(&self) -> String {
        format!(
            "{:?} {:?} {:?}",
            self.environment, self.autoreset, self.step_limit
        )
    }

    /// Calls `work` with all copies.
    fn with_copies<R>(&mut self, work: impl FnOnce(Shard<'_, E>) -> R) -> R {
        let rules = Rules {
            environment: &self.environment,
            autoreset: self.autoreset,
            step_limit: self.step_limit,
            seed: self.seed,
            n_features: self.n_features,
            n_mask_columns: self.n_mask_columns,
            action_width: self.action_layout.width(),
        };
        work(Shard {
            rules: &rules,
            first: 0,
            copies: &mut self.copies,
            rows: RowsMut {
                observations: &mut self.observations,
                masks: &mut self.masks,
            },
            final_rows: RowsMut {
                observations: &mut self.final_observations,
                masks: &mut self.final_masks,
            },
            has_final: &mut self.has_final,
            step: self.step.as_mut(),
        })
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

    /// True if an action may be taken in a state.
    fn has_action(&self, state: &E::State) -> bool {
        let ActionLayout::Discrete(sizes) = &self.action_layout else {
            return true;
        };
        let mut mask = vec![true; self.action_layout.n_mask_columns()];
        if self.n_mask_columns > 0 {
            self.environment.mask(state, &mut mask);
        }
        let mut rest = mask.as_slice();
        sizes.iter().all(|&size| {
            let (member, later) = rest.split_at(size as usize);
            rest = later;
            member.contains(&true)
        })
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
        let n = self.copies.len();
        self.with_copies(|mut copies| (0..n).for_each(|idx| copies.begin(idx, 0)));
    }

    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        let n = self.copies.len();
        check_length("VectorEnvironment::reset_where", "marks", n, marks.len())?;
        for (idx, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            let episode = self.copies[idx].episode.wrapping_add(1);
            self.with_copies(|mut copies| copies.begin(idx, episode));
        }
        Ok(())
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error> {
        self.check(actions)?;
        let threads = self.threads.clone();
        let width = self.action_layout.width();
        self.with_copies(|copies| threads.step(copies, actions, width));
        Ok(&self.step)
    }

    fn set_threads(&mut self, threads: &Threads) {
        self.threads = threads.clone();
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
            may_go_on
                && self.environment.is_state(&copy.state)
                && (copy.is_done || self.has_action(&copy.state))
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
                last_of_episode: None,
            };
        }
        self.step.clear(n);
        self.has_final.fill(false);
        self.with_copies(|mut copies| (0..n).for_each(|idx| copies.show(idx)));
        Ok(())
    }
}
