//! Neighbouring carts of a vector: what a thread steps alone, in the widest vectors that the processor has.

use pulp::Arch;

use crate::cart_pole::{Motion, STEP_LIMIT, Start, advance, first_motions, has_fallen, observe};
use crate::threads::Shard;
use crate::vector::{Actions, Autoreset, StepMut, both_parts};

/// Environments to a block; the last block may have carts that nobody sees.
pub(crate) const LANES: usize = 8;

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

    /// One step of every cart.
    #[inline(always)]
    fn step(&mut self, actions: &[u32; LANES]) -> Ends {
        let mut ends = Ends::default();
        let [x, x_dot, theta, theta_dot] = &mut self.motions;
        for lane in 0..LANES {
            let motion = [x[lane], x_dot[lane], theta[lane], theta_dot[lane]];
            let motion = advance(&motion, actions[lane]);
            [x[lane], x_dot[lane], theta[lane], theta_dot[lane]] = motion;
            ends.fallen[lane] = has_fallen(&motion);
        }
        self.n_steps = self.n_steps.map(|n| n.wrapping_add(1));
        for lane in 0..LANES {
            ends.truncated[lane] = (self.n_steps[lane] == STEP_LIMIT) & !ends.fallen[lane];
        }
        ends
    }

    /// The observations of the first carts, side by side.
    #[inline(always)]
    fn observe(&self, out: &mut [[f32; 4]]) {
        let [x, x_dot, theta, theta_dot] = self.motions.map(|numbers| numbers.map(|n| n as f32));
        for (lane, out) in out.iter_mut().enumerate() {
            *out = [x[lane], x_dot[lane], theta[lane], theta_dot[lane]];
        }
    }
}

/// The carts of a block that fell, and those that still stand after the last step.
#[derive(Clone, Copy, Default)]
struct Ends {
    fallen: [bool; LANES],
    truncated: [bool; LANES],
}

/// Carts whose episodes ended within the step: fewer than [`LANES`] of blocks before, and those of a block.
#[derive(Default)]
struct Ended {
    list: [u32; 2 * LANES],
    n: usize,
}

impl Ended {
    /// Puts a cart on the list if its episode ended, without a branch: ends are hard to predict.
    #[inline(always)]
    fn push(&mut self, idx: usize, has_ended: bool) {
        self.list[self.n % (2 * LANES)] = idx as u32;
        self.n += usize::from(has_ended);
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

impl Shard for CartShard<'_> {
    const GROUP: usize = LANES;
    const LEAST: usize = 1024;

    fn n_environments(&self) -> usize {
        self.starts.len()
    }

    fn advance(mut self, actions: Actions<'_>) {
        let Actions::Discrete(actions) = actions else {
            unreachable!("pushes are checked before they come here");
        };
        // The closure gives away what it has, so that it is inlined where the instructions are known.
        Arch::new().dispatch(
            #[inline(always)]
            move || {
                self.step.rewards.fill(1.0);
                self.step.reset.fill(false);
                self.has_final.fill(false);
                let mut ended = Ended::default();
                for block in 0..self.blocks.len() {
                    match self.starts.len() - block * LANES {
                        n if n < LANES => self.step_block(block, n, actions, &mut ended),
                        _ => self.step_block(block, LANES, actions, &mut ended),
                    }
                    if ended.n >= LANES {
                        self.begin_next(&mut ended);
                    }
                }
                self.begin_next(&mut ended);
            },
        );
    }

    fn split_at(self, n: usize) -> (Self, Self) {
        both_parts!(CartShard {
            autoreset: (self.autoreset, self.autoreset),
            blocks: self.blocks.split_at_mut(n / LANES),
            starts: self.starts.split_at_mut(n),
            observations: self.observations.split_at_mut(n),
            final_observations: self.final_observations.split_at_mut(n),
            has_final: self.has_final.split_at_mut(n),
            is_done: self.is_done.split_at_mut(n),
            step: self.step.split_at(n),
        })
    }
}

impl CartShard<'_> {
    /// Begins the next episode of a cart.
    pub(crate) fn begin(&mut self, idx: usize) {
        let motion = self.starts[idx].next();
        self.blocks[idx / LANES].set(idx % LANES, &motion, 0);
        self.observations[idx] = observe(&motion);
        self.is_done[idx] = false;
    }

    /// A step of the first `n` carts of a block. Carts whose next episode begins within the step are put
    /// on the list of `ended`.
    #[inline(always)]
    fn step_block(&mut self, block: usize, n: usize, actions: &[u32], ended: &mut Ended) {
        let first = block * LANES;
        let range = first..first + n;
        let mut pushes = [0; LANES];
        for (push, &action) in pushes.iter_mut().zip(&actions[range.clone()]) {
            *push = action & 1; // of a cart that begins an episode it may be anything
        }
        let ends = self.blocks[block].step(&pushes);
        self.blocks[block].observe(&mut self.observations[range.clone()]);
        self.step.terminated[range.clone()].copy_from_slice(&ends.fallen[..n]);
        self.step.truncated[range.clone()].copy_from_slice(&ends.truncated[..n]);
        let is_done = &self.is_done[range.clone()];
        let any_was_done = is_done.iter().fold(false, |any, &done| any | done);
        if self.autoreset == Autoreset::SameStep && !any_was_done {
            for lane in 0..n {
                ended.push(first + lane, ends.fallen[lane] | ends.truncated[lane]);
            }
            return;
        }
        let ends = ends.fallen.iter().zip(&ends.truncated);
        let any_ends = ends.fold(false, |any, (&fallen, &truncated)| any | fallen | truncated);
        if any_ends | any_was_done {
            range.for_each(|idx| self.end(idx));
        }
    }

    /// Begins the next episodes of the first carts on the list, up to [`LANES`] of them, and takes them off.
    #[inline(always)]
    fn begin_next(&mut self, ended: &mut Ended) {
        let n = LANES.min(ended.n);
        let mut streams = [self.starts[0].streams; LANES];
        let mut keys = [0; LANES];
        for lane in 0..n {
            let start = &mut self.starts[ended.list[lane] as usize];
            (streams[lane], keys[lane]) = (start.streams, start.next_key());
        }
        let motions = first_motions(streams, keys);
        for lane in 0..n {
            let idx = ended.list[lane] as usize;
            let motion = motions.map(|numbers| numbers[lane]);
            self.final_observations[idx] = self.observations[idx];
            self.has_final[idx] = true;
            self.blocks[idx / LANES].set(idx % LANES, &motion, 0);
            self.observations[idx] = observe(&motion);
        }
        ended.list.copy_within(LANES.., 0);
        ended.n -= n;
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
