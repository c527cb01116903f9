//! Neighbouring carts of a vector: what a thread steps alone.

use crate::cart_pole::{Motion, STEP_LIMIT, Start, advance, has_fallen, observe};
use crate::threads::half;
use crate::vector::{Autoreset, StepMut};

/// Environments to a block; the last block may have carts that nobody sees.
pub(crate) const LANES: usize = 8;
/// Carts to a shard: whole blocks, with some microseconds of work.
const SHARD: usize = 128 * LANES;

/// Coordinate by coordinate, then cart by cart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    motions: [[f64; LANES]; 4],
    pub(crate) n_steps: [u32; LANES],
}

impl Block {
    pub(crate) fn motion(&self, lane: usize) -> Motion {
        self.motions.each_ref().map(|numbers| numbers[lane])
    }

    pub(crate) fn set(&mut self, lane: usize, motion: &Motion, n_steps: u32) {
        for (numbers, &number) in self.motions.iter_mut().zip(motion) {
            numbers[lane] = number;
        }
        self.n_steps[lane] = n_steps;
    }

    #[inline(always)]
    fn observations(&self) -> [[f32; 4]; LANES] {
        let coordinates = self
            .motions
            .map(|numbers| numbers.map(|number| number as f32));
        std::array::from_fn(|lane| coordinates.map(|numbers| numbers[lane]))
    }

    /// One step of every cart: which fell, and which stand after the last step.
    #[inline(always)]
    fn step(&mut self, actions: &[u32; LANES]) -> ([bool; LANES], [bool; LANES]) {
        let mut fallen = [false; LANES];
        let [x, x_dot, theta, theta_dot] = &mut self.motions;
        for lane in 0..LANES {
            let motion = [x[lane], x_dot[lane], theta[lane], theta_dot[lane]];
            let motion = advance(&motion, actions[lane]);
            [x[lane], x_dot[lane], theta[lane], theta_dot[lane]] = motion;
            fallen[lane] = has_fallen(&motion);
        }
        self.n_steps = self.n_steps.map(|n| n.wrapping_add(1));
        (fallen, self.n_steps.map(|n| n == STEP_LIMIT))
    }
}

/// Neighbouring carts, from a block's first on.
#[derive(Debug)]
pub(crate) struct CartShard<'a> {
    pub(crate) autoreset: Autoreset,
    pub(crate) blocks: &'a mut [Block],
    pub(crate) starts: &'a mut [Start],
    pub(crate) observations: &'a mut [[f32; 4]],
    pub(crate) final_observations: &'a mut [[f32; 4]],
    pub(crate) has_final: &'a mut [bool],
    pub(crate) is_done: &'a mut [bool],
    pub(crate) step: StepMut<'a>,
}

impl<'a> CartShard<'a> {
    /// Takes checked actions, a block after the other, by the widest vectors of the machine; no
    /// width changes a bit.
    pub(crate) fn advance_all(&mut self, actions: &[u32]) {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                for block in 0..self.blocks.len() {
                    self.step_block(block, actions);
                }
            },
        );
    }

    /// Whether there is work for a second thread.
    pub(crate) fn has_several_shards(&self) -> bool {
        self.starts.len() > SHARD
    }

    /// Takes checked actions, the shards on the threads of the surrounding pool.
    pub(crate) fn advance_in_shards(mut self, actions: &[u32]) {
        if !self.has_several_shards() {
            return self.advance_all(actions);
        }
        let n = half(self.starts.len(), SHARD);
        let (first, second) = actions.split_at(n);
        let (left, right) = self.split_at(n);
        rayon::join(
            || left.advance_in_shards(first),
            || right.advance_in_shards(second),
        );
    }

    /// The first `n` carts, and the others; `n` is a number of whole blocks.
    fn split_at(self, n: usize) -> (CartShard<'a>, CartShard<'a>) {
        let (blocks, later_blocks) = self.blocks.split_at_mut(n / LANES);
        let (starts, later_starts) = self.starts.split_at_mut(n);
        let (observations, later_observations) = self.observations.split_at_mut(n);
        let (final_observations, later_finals) = self.final_observations.split_at_mut(n);
        let (has_final, later_has_final) = self.has_final.split_at_mut(n);
        let (is_done, later_is_done) = self.is_done.split_at_mut(n);
        let (step, later_step) = self.step.split_at(n);
        let autoreset = self.autoreset;
        let left = CartShard {
            autoreset,
            blocks,
            starts,
            observations,
            final_observations,
            has_final,
            is_done,
            step,
        };
        let right = CartShard {
            autoreset,
            blocks: later_blocks,
            starts: later_starts,
            observations: later_observations,
            final_observations: later_finals,
            has_final: later_has_final,
            is_done: later_is_done,
            step: later_step,
        };
        (left, right)
    }

    /// Begins the next episode of a cart.
    pub(crate) fn begin(&mut self, idx: usize) {
        let motion = self.starts[idx].next();
        self.blocks[idx / LANES].set(idx % LANES, &motion, 0);
        self.observations[idx] = observe(&motion);
        self.is_done[idx] = false;
    }

    #[inline(always)]
    fn step_block(&mut self, block: usize, actions: &[u32]) {
        let first = block * LANES;
        let range = first..self.starts.len().min(first + LANES);
        let n = range.len();
        let mut pushes = [0; LANES];
        for (push, &action) in pushes.iter_mut().zip(&actions[range.clone()]) {
            *push = action & 1; // of a cart that begins an episode it may be anything
        }
        let (fallen, at_limit) = self.blocks[block].step(&pushes);
        let truncated: [bool; LANES] = std::array::from_fn(|lane| at_limit[lane] & !fallen[lane]);
        let observations = self.blocks[block].observations();
        self.observations[range.clone()].copy_from_slice(&observations[..n]);
        self.step.terminated[range.clone()].copy_from_slice(&fallen[..n]);
        self.step.truncated[range.clone()].copy_from_slice(&truncated[..n]);
        self.step.rewards[range.clone()].fill(1.0);
        self.step.reset[range.clone()].fill(false);
        self.has_final[range.clone()].fill(false);
        let ends = fallen.iter().zip(&truncated).take(n);
        let has_ends = ends.fold(false, |any, (fell, cut)| any | fell | cut);
        let was_done = self.is_done[range.clone()].iter();
        if was_done.fold(has_ends, |any, done| any | done) {
            range.for_each(|idx| self.end(idx));
        }
    }

    /// Ends or begins the episode of a cart after a step that ended one, or that came after the end
    /// of one.
    fn end(&mut self, idx: usize) {
        if self.is_done[idx] {
            self.begin(idx);
            self.step.terminated[idx] = false;
            self.step.truncated[idx] = false;
            self.step.rewards[idx] = 0.0;
            self.step.reset[idx] = true;
        } else if self.step.terminated[idx] || self.step.truncated[idx] {
            self.is_done[idx] = true;
            if self.autoreset == Autoreset::SameStep {
                self.final_observations[idx] = self.observations[idx];
                self.has_final[idx] = true;
                self.begin(idx);
            }
        }
    }
}
