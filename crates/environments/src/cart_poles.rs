//! Many carts with poles at once, as a structure of arrays that the compiler turns into vector
//! instructions.

use crate::cart_pole::{N_ACTIONS, Start, not_a_push, observation_space};
use crate::cart_shard::{Block, CartShard, LANES};
use crate::error::Error;
use crate::space::Space;
use crate::threads::Threads;
use crate::vector::{Actions, Autoreset, VectorStep, check_count, check_length};
use crate::vector_environment::VectorEnvironment;

/// Carts side by side: the steps of as many [`crate::CartPole`]s, bit for bit,
/// and several times as fast.
///
/// # Complexity
/// 101 B for each cart.
///
/// # Determinism
/// Cart i begins its episodes as `CartPole::new(seed, i)` does.
///
/// ```
/// use shardgraph_environments::{Autoreset, CartPoles};
///
/// let mut carts = CartPoles::new(64, Autoreset::NextStep)?;
/// carts.reset(7);
/// let actions: Vec<u32> = carts.observations().iter().map(|o| u32::from(o[2] > 0.0)).collect();
/// assert_eq!(carts.step(&actions)?.rewards, [1.0; 64]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CartPoles {
    pub(crate) autoreset: Autoreset,
    pub(crate) blocks: Vec<Block>,
    pub(crate) starts: Vec<Start>,
    pub(crate) observations: Vec<[f32; 4]>,
    final_observations: Vec<[f32; 4]>,
    pub(crate) has_final: Vec<bool>,
    pub(crate) is_done: Vec<bool>,
    pub(crate) step: VectorStep,
    threads: Threads,
}

impl CartPoles {
    /// `n_environments` carts that stand still in the middle; [`CartPoles::reset`] begins their
    /// episodes.
    ///
    /// # Errors
    /// When `n_environments` is 0 or does not fit 32 bits.
    pub fn new(n_environments: usize, autoreset: Autoreset) -> Result<CartPoles, Error> {
        check_count("CartPoles::new", n_environments)?;
        let mut carts = CartPoles {
            autoreset,
            blocks: vec![Block::default(); n_environments.div_ceil(LANES)],
            starts: (0..n_environments as u32)
                .map(|index| Start::new(0, index, 0))
                .collect(),
            observations: vec![[0.0; 4]; n_environments],
            final_observations: vec![[0.0; 4]; n_environments],
            has_final: vec![false; n_environments],
            is_done: vec![false; n_environments],
            step: VectorStep::default(),
            threads: Threads::default(),
        };
        carts.reset(0);
        Ok(carts)
    }

    /// Begins an episode everywhere, cart i with (seed, i).
    pub fn reset(&mut self, seed: u64) {
        let n = self.len();
        self.step.clear(n);
        self.has_final.fill(false);
        for idx in 0..n {
            self.starts[idx] = Start::new(seed, idx as u32, 0);
        }
        self.with_carts(|mut carts| (0..n).for_each(|idx| carts.begin(idx)));
    }

    /// Begins the next episode of the carts that are marked, whether theirs ended or not.
    ///
    /// # Errors
    /// When there is not one mark for each cart.
    pub fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        check_length("CartPoles::reset_where", "marks", self.len(), marks.len())?;
        let marked = marks.iter().enumerate().filter(|(_, mark)| **mark);
        self.with_carts(|mut carts| marked.for_each(|(idx, _)| carts.begin(idx)));
        Ok(())
    }

    /// Takes an action in every environment.
    ///
    /// # Errors
    /// When there is not one action for each cart, an action is neither 0 nor 1, or, with
    /// [`Autoreset::Disabled`], a cart is done. The carts stay as they were.
    pub fn step(&mut self, actions: &[u32]) -> Result<&VectorStep, Error> {
        check_length("CartPoles::step", "actions", self.len(), actions.len())?;
        self.check_actions(actions)?;
        let threads = self.threads.clone();
        self.with_carts(|carts| threads.step(carts, Actions::Discrete(actions), 1));
        Ok(&self.step)
    }

    fn check_actions(&self, actions: &[u32]) -> Result<(), Error> {
        let largest = actions.iter().fold(0, |largest, &action| largest | action);
        let has_done = self.is_done.iter().fold(false, |any, &done| any | done);
        if largest <= 1 && !(has_done && self.autoreset == Autoreset::Disabled) {
            return Ok(());
        }
        for (idx, &action) in actions.iter().enumerate() {
            let begins = self.is_done[idx] && self.autoreset == Autoreset::NextStep;
            if self.is_done[idx] && !begins {
                let n_steps = self.blocks[idx / LANES].n_steps[idx % LANES];
                return Err(Error::Ended { n_steps }.in_vector(idx));
            }
            if action > 1 && !begins {
                return Err(not_a_push(action).in_vector(idx));
            }
        }
        Ok(())
    }

    /// Calls `work` with all carts.
    fn with_carts<R>(&mut self, work: impl FnOnce(CartShard<'_>) -> R) -> R {
        work(CartShard {
            autoreset: self.autoreset,
            blocks: &mut self.blocks,
            starts: &mut self.starts,
            observations: &mut self.observations,
            final_observations: &mut self.final_observations,
            has_final: &mut self.has_final,
            is_done: &mut self.is_done,
            step: self.step.as_mut(),
        })
    }

    /// The result of the last step.
    pub fn last_step(&self) -> &VectorStep {
        &self.step
    }

    /// The number of carts.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Never: there is at least one cart.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The space of the observation of one cart.
    pub fn observation_space(&self) -> Space {
        observation_space()
    }

    /// The discrete space of the actions of one cart: 0 pushes to the left, 1 to the right.
    pub fn action_space(&self) -> Space {
        Space::discrete(N_ACTIONS).expect("there are actions")
    }

    /// The present observation of each cart: a row-major matrix of 4 columns (`as_flattened`).
    pub fn observations(&self) -> &[[f32; 4]] {
        &self.observations
    }

    /// The last observation of the episode of cart `idx` that ended within the last step
    /// ([`Autoreset::SameStep`] only).
    ///
    /// # Panics
    /// When there is no cart `idx`.
    pub fn final_observation(&self, idx: usize) -> Option<&[f32; 4]> {
        self.has_final[idx].then_some(&self.final_observations[idx])
    }
}

impl VectorEnvironment for CartPoles {
    fn n_environments(&self) -> usize {
        self.len()
    }

    fn observation_space(&self) -> Space {
        CartPoles::observation_space(self)
    }

    fn action_space(&self) -> Space {
        CartPoles::action_space(self)
    }

    fn reset(&mut self, seed: u64) {
        CartPoles::reset(self, seed);
    }

    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Error> {
        CartPoles::reset_where(self, marks)
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error> {
        let Actions::Discrete(actions) = actions else {
            let (expected, given) = ("discrete actions".into(), "continuous ones".into());
            return Err(Error::mismatch(
                "CartPoles::step",
                "actions",
                expected,
                given,
            ));
        };
        CartPoles::step(self, actions)
    }

    fn set_threads(&mut self, threads: &Threads) {
        self.threads = threads.clone();
    }

    fn last_step(&self) -> &VectorStep {
        CartPoles::last_step(self)
    }

    fn observations(&self) -> &[f32] {
        self.observations.as_flattened()
    }

    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        CartPoles::final_observation(self, idx).map(<[f32; 4]>::as_slice)
    }

    fn to_bytes(&self) -> Vec<u8> {
        CartPoles::to_bytes(self)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        CartPoles::restore(self, bytes)
    }
}
