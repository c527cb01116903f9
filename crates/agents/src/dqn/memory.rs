//! The replay memory of the settings: uniform or prioritised, with one interface for the training loop.

use shardgraph_random::KeyedRng;
use shardgraph_replay::{
    ColumnLayout, ElementKind, LeafRef, Prioritization, PrioritizedBatch, PrioritizedMemory, Rows,
    UniformMemory,
};

use super::config::{PrioritizedConfig, ReplayConfig};
use crate::error::Error;
use crate::run_environments::Spaces;

/// The columns of a transition, by position.
pub(crate) mod column {
    pub(crate) const OBSERVATION: usize = 0;
    pub(crate) const ACTION: usize = 1;
    pub(crate) const REWARD: usize = 2;
    pub(crate) const NEXT_OBSERVATION: usize = 3;
    /// What the value of the next observation counts: 0 where the episode terminated before it.
    pub(crate) const DISCOUNT: usize = 4;
    /// 1 for each action that the next observation's state allows; absent where all always do.
    pub(crate) const NEXT_MASK: usize = 5;
}

/// The layout of transitions between observations of `width` numbers: observation, action, reward, next observation, and the discount, which
/// is what the value of the next observation counts: 0 where the episode terminated before it.
///
/// # Errors
/// When `width` is 0 or beyond 32 bits.
pub fn transition_layout(width: usize) -> Result<ColumnLayout, Error> {
    Ok(ColumnLayout::new(&[
        ("observation", ElementKind::F32, width),
        ("action", ElementKind::U32, 1),
        ("reward", ElementKind::F32, 1),
        ("next_observation", ElementKind::F32, width),
        ("discount", ElementKind::F32, 1),
    ])?)
}

/// The layout of the transitions of environments: as [`transition_layout`], with the elements of an
/// action of a box, and where there are masks with that of the next observation's state.
pub(crate) fn layout_of(spaces: &Spaces) -> Result<ColumnLayout, Error> {
    let plain = transition_layout(spaces.n_features())?;
    let (is_box, width) = spaces.action_form();
    if !spaces.has_mask() && !is_box {
        return Ok(plain);
    }
    let named = plain.columns().iter();
    let mut columns: Vec<_> = named
        .map(|column| (column.name.as_str(), column.kind, column.width))
        .collect();
    if is_box {
        columns[column::ACTION] = ("action", ElementKind::F32, width);
    }
    if spaces.has_mask() {
        columns.push(("next_mask", ElementKind::U8, spaces.n_actions()?));
    }
    Ok(ColumnLayout::new(&columns)?)
}

/// A replay memory and the last batch that was drawn from it.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    memory: Memory,
    /// Which rows were drawn, and their importance weights where draws are prioritised.
    batch: PrioritizedBatch,
    rows: Rows,
}

#[derive(Debug, Clone)]
enum Memory {
    Uniform(UniformMemory),
    Prioritized(PrioritizedMemory, PrioritizedConfig),
}

impl Replay {
    pub(crate) fn new(settings: &ReplayConfig, layout: ColumnLayout) -> Result<Replay, Error> {
        let (rows, capacity) = (Rows::new(layout.clone()), settings.capacity);
        let memory = match settings.prioritized {
            None => Memory::Uniform(UniformMemory::new(layout, capacity)?),
            Some(draws) => {
                let prioritization = Prioritization {
                    alpha: draws.alpha,
                    epsilon: draws.epsilon,
                };
                let memory = PrioritizedMemory::new(layout, capacity, prioritization)?;
                Memory::Prioritized(memory, draws)
            }
        };
        Ok(Replay {
            memory,
            batch: PrioritizedBatch::default(),
            rows,
        })
    }

    /// A new transition is as likely to be drawn as the likeliest, until its TD error is known.
    pub(crate) fn insert(&mut self, cells: &[LeafRef<'_>]) -> Result<(), Error> {
        match &mut self.memory {
            Memory::Uniform(memory) => memory.insert(cells)?,
            Memory::Prioritized(memory, _) => memory.insert(cells)?,
        };
        Ok(())
    }

    /// Draws a batch: its rows, and an importance weight for each where draws are prioritised. `progress` is the part of the run that
    /// is done.
    pub(crate) fn sample(
        &mut self,
        n_rows: usize,
        progress: f32,
        stream: &mut KeyedRng,
    ) -> Result<(&Rows, Option<&[f32]>), Error> {
        let batch = &mut self.batch;
        match &mut self.memory {
            Memory::Uniform(memory) => {
                memory.sample_into(n_rows, &mut |n| stream.below(n), &mut batch.ids)?;
                memory.gather_into(&batch.ids, &mut self.rows)?;
                Ok((&self.rows, None))
            }
            Memory::Prioritized(memory, draws) => {
                let rise = draws.beta_end - draws.beta_start;
                let beta = draws.beta_start + rise * progress.min(1.0);
                memory.sample_into(n_rows, beta, &mut || stream.uniform_f64(), batch)?;
                memory.gather_into(&batch.ids, &mut self.rows)?;
                Ok((&self.rows, Some(&batch.weights)))
            }
        }
    }

    /// Gives the rows of the last batch the priorities of their TD errors.
    pub(crate) fn update(&mut self, td_errors: &[f32]) -> Result<(), Error> {
        if let Memory::Prioritized(memory, _) = &mut self.memory {
            memory.update(&self.batch.ids, td_errors)?;
        }
        Ok(())
    }

    /// The priorities of all rows, the oldest first.
    #[cfg(test)]
    pub(super) fn priorities(&self) -> Vec<f32> {
        let Memory::Prioritized(memory, _) = &self.memory else {
            panic!("for tests of prioritised memories");
        };
        let oldest = memory.n_inserted() - memory.len() as u64;
        let ids = (oldest..memory.n_inserted()).map(shardgraph_replay::ItemId);
        ids.filter_map(|id| memory.priority(id)).collect()
    }

    /// All rows, the oldest first.
    #[cfg(test)]
    pub(super) fn rows_in_order(&self) -> Rows {
        let mut rows = Rows::new(self.rows.layout().clone());
        let Memory::Uniform(memory) = &self.memory else {
            panic!("for tests of uniform memories");
        };
        let oldest = memory.n_inserted() - memory.len() as u64;
        let ids = (oldest..memory.n_inserted()).map(shardgraph_replay::ItemId);
        let ids: Vec<_> = ids.collect();
        memory
            .gather_into(&ids, &mut rows)
            .expect("the rows are there");
        rows
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match &self.memory {
            Memory::Uniform(memory) => memory.to_bytes(),
            Memory::Prioritized(memory, _) => memory.to_bytes(),
        }
    }

    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.memory {
            Memory::Uniform(memory) => memory.restore(bytes)?,
            Memory::Prioritized(memory, _) => memory.restore(bytes)?,
        }
        Ok(())
    }
}
