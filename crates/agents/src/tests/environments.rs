//! What the tests of several modules share.

use shardgraph_environments::space::Space;
use shardgraph_environments::{Actions, Error as Refused, VectorEnvironment, VectorStep};

use crate::run_environments::EnvironmentConfig;
use crate::run_environments::Environments;

/// Carts with poles.
pub(crate) fn cartpole() -> Environments {
    Environments::named(&EnvironmentConfig::named("cartpole", 1))
        .expect("it comes with the program")
}

/// Corridors of [`N_CELLS`] cells, from the first of which the last one is to be reached: a caller's own environment, with masks.
///
/// An action is `[turn, pace]`, or `turn` alone: 0 to the left, 1 to the right, 2 nowhere. Left is forbidden in the first cell, and 2 is
/// allowed in the first cell alone: an action that is forbidden is refused. A limit stops an episode after [`LIMIT`] steps.
#[derive(Debug, Clone)]
pub(crate) struct Corridors {
    cells: Vec<u32>,
    n_steps: Vec<u32>,
    observations: Vec<f32>,
    masks: Vec<bool>,
    finals: Vec<Option<(Vec<f32>, Vec<bool>)>>,
    step: VectorStep,
    has_pace: bool,
}

pub(crate) const N_CELLS: u32 = 5;
pub(crate) const LIMIT: u32 = 12;

/// So many corridors; with a pace, of which only 1 moves.
pub(crate) fn corridors(has_pace: bool) -> Environments {
    Environments::new(move |n| {
        let mut corridors = Corridors {
            cells: vec![0; n],
            n_steps: vec![0; n],
            observations: Vec::new(),
            masks: Vec::new(),
            finals: vec![None; n],
            step: VectorStep::default(),
            has_pace,
        };
        corridors.show();
        Ok(Box::new(corridors))
    })
    .expect("spaces of fixed widths")
}

impl Corridors {
    fn observation(cell: u32) -> Vec<f32> {
        (0..N_CELLS)
            .map(|of| f32::from(u8::from(of == cell)))
            .collect()
    }

    fn mask(&self, cell: u32) -> Vec<bool> {
        let mut mask = vec![cell > 0, true, cell == 0];
        mask.extend(if self.has_pace {
            vec![true; 2]
        } else {
            Vec::new()
        });
        mask
    }

    fn show(&mut self) {
        self.observations = self
            .cells
            .iter()
            .flat_map(|&cell| Self::observation(cell))
            .collect();
        self.masks = self
            .cells
            .iter()
            .flat_map(|&cell| self.mask(cell))
            .collect();
    }

    fn begin(&mut self, idx: usize) {
        (self.cells[idx], self.n_steps[idx]) = (0, 0);
    }
}

impl VectorEnvironment for Corridors {
    fn n_environments(&self) -> usize {
        self.cells.len()
    }

    fn observation_space(&self) -> Space {
        Space::boxed(&[N_CELLS as usize], 0.0, 1.0).expect("a box")
    }

    fn action_space(&self) -> Space {
        let turn = Space::discrete(3).expect("actions");
        match self.has_pace {
            false => turn,
            true => Space::tuple(vec![turn, Space::discrete(2).expect("paces")]).expect("both"),
        }
    }

    fn reset(&mut self, _seed: u64) {
        (0..self.cells.len()).for_each(|idx| self.begin(idx));
        self.show();
    }

    fn reset_where(&mut self, marks: &[bool]) -> Result<(), Refused> {
        for (idx, _) in marks.iter().enumerate().filter(|(_, mark)| **mark) {
            self.begin(idx);
        }
        self.show();
        Ok(())
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Refused> {
        let Actions::Discrete(actions) = actions else {
            panic!("an action of another kind");
        };
        let (n, n_parts) = (self.cells.len(), 1 + usize::from(self.has_pace));
        assert_eq!(actions.len(), n * n_parts);
        self.step = VectorStep {
            rewards: vec![-0.1; n],
            terminated: vec![false; n],
            truncated: vec![false; n],
            reset: vec![false; n],
        };
        for (idx, action) in actions.chunks(n_parts).enumerate() {
            if !self.mask(self.cells[idx])[action[0] as usize] {
                let (action, reason) = (action[0], "is forbidden here");
                return Err(Refused::NotACandidate { action, reason });
            }
            let moves = action.get(1).is_none_or(|&pace| pace == 1);
            match action[0] {
                0 if moves => self.cells[idx] -= 1,
                1 if moves => self.cells[idx] += 1,
                _ => {}
            }
            self.n_steps[idx] += 1;
            let cell = self.cells[idx];
            self.step.terminated[idx] = cell == N_CELLS - 1;
            self.step.truncated[idx] = cell < N_CELLS - 1 && self.n_steps[idx] == LIMIT;
            if self.step.terminated[idx] {
                self.step.rewards[idx] = 1.0;
            }
            self.finals[idx] = None;
            if self.step.ended(idx) {
                self.finals[idx] = Some((Self::observation(cell), self.mask(cell)));
                self.begin(idx);
            }
        }
        self.show();
        Ok(&self.step)
    }

    fn last_step(&self) -> &VectorStep {
        &self.step
    }

    fn observations(&self) -> &[f32] {
        &self.observations
    }

    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        self.finals[idx].as_ref().map(|(seen, _)| &seen[..])
    }

    fn action_mask(&self) -> Option<&[bool]> {
        Some(&self.masks)
    }

    fn final_action_mask(&self, idx: usize) -> Option<&[bool]> {
        self.finals[idx].as_ref().map(|(_, mask)| &mask[..])
    }

    fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.cells.iter().chain(&self.n_steps);
        numbers.flat_map(|x| x.to_le_bytes()).collect()
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let (words, _) = bytes.as_chunks::<4>();
        let n = self.cells.len();
        assert_eq!(words.len(), 2 * n);
        for idx in 0..n {
            self.cells[idx] = u32::from_le_bytes(words[idx]);
            self.n_steps[idx] = u32::from_le_bytes(words[n + idx]);
        }
        self.show();
        Ok(())
    }
}
