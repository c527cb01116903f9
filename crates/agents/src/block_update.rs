//! An update on a batch: the gradients of its blocks, their sum over the ranks that share them, and the optimiser's step.

use shardgraph_autodiff::{Axis, CapturedStep, Ctx, Params, Program, Recorder, Var};
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::Optimiser;
use shardgraph_device::Device;

use crate::error::Error;
use crate::rules::Rule;

/// A batch is cut into blocks whose borders do not depend on the ranks. Each rank computes its share of them, and all results are summed
/// exactly: every rank has the same bits, whoever computed what.
///
/// On a device, a batch of one block needs no sum: its gradient and the step against it are one captured launch, and neither
/// parameters nor moments nor derivatives leave the device's memory.
#[derive(Debug)]
pub(crate) struct BlockUpdate {
    device: Device,
    shape: BatchShape,
    target_rate: Option<f32>,
    learner: BlockLearner,
    /// Numbers and rows of the batch.
    told: Vec<f32>,
}

/// The sizes of a batch's results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchShape {
    /// Trained parameters.
    pub(crate) n_params: usize,
    /// Blocks of the batch.
    pub(crate) n_blocks: usize,
    /// Numbers of a block that are summed over the blocks.
    pub(crate) n_numbers: usize,
    /// Rows of a block with a number of their own, which follow those.
    pub(crate) n_rows: usize,
}

impl BatchShape {
    /// Numbers and rows of the batch.
    fn n_told(self) -> usize {
        self.n_numbers + self.n_blocks * self.n_rows
    }
}

/// What an update changes.
#[derive(Debug)]
pub(crate) struct Trained<'a> {
    pub(crate) params: &'a mut Params,
    pub(crate) optimiser: &'a mut Optimiser,
}

/// How a block is learned from.
#[derive(Debug)]
enum BlockLearner {
    Summed(SummedBlocks),
    Captured {
        step: Box<CapturedStep>,
        /// The norm of the step that was taken with the block.
        norm: Option<Result<f32, shardgraph_components::Error>>,
    },
}

/// The gradients of blocks, in host memory.
#[derive(Debug)]
struct SummedBlocks {
    program: Box<Program>,
    solo: Comm,
    /// Gradient, numbers and rows of one block of this rank after the other.
    partials: Vec<f32>,
    /// Their sum over all blocks.
    total: Vec<f32>,
}

const NUMBERS: &str = "numbers";

impl BlockUpdate {
    /// The update whose program was recorded for one block, with the block's part of the batch's loss and what is told of it:
    /// single numbers, then a column of the rows if there is one.
    pub(crate) fn load(
        mut record: Recorder<'_>,
        loss: Var,
        numbers: &[Var],
        shape: BatchShape,
        device: &Device,
    ) -> Result<BlockUpdate, Error> {
        let mut column = numbers[0];
        for &number in &numbers[1..] {
            column = record.concat(column, number, Axis::Rows)?;
        }
        debug_assert_eq!(record.shape(column).rows, shape.n_numbers + shape.n_rows);
        record.output(NUMBERS, column);
        record.output_param_gradient(loss)?;
        let plan = record.plan();
        let learner = match shape.n_blocks == 1 && !device.is_host() {
            true => BlockLearner::Captured {
                step: Box::new(CapturedStep::load(plan, device)?),
                norm: None,
            },
            false => BlockLearner::Summed(SummedBlocks {
                program: Box::new(plan.load(device)?),
                solo: Comm::solo(),
                partials: Vec::new(),
                total: Vec::new(),
            }),
        };
        Ok(BlockUpdate {
            device: device.clone(),
            shape,
            target_rate: None,
            learner,
            told: Vec::new(),
        })
    }

    /// The same, where frozen parameters follow the trained ones by `tau` of the way behind each step.
    pub(crate) fn with_target_rate(mut self, tau: f32) -> BlockUpdate {
        self.target_rate = Some(tau);
        if let BlockLearner::Captured { step, norm } = self.learner {
            let step = Box::new(step.with_target_rate(tau));
            self.learner = BlockLearner::Captured { step, norm };
        }
        self
    }

    /// Begins a batch; gives the blocks that this rank computes.
    pub(crate) fn begin(
        &mut self,
        comm: &Comm,
    ) -> Result<impl Iterator<Item = usize> + use<>, Error> {
        let (rank, size, n_blocks) = (comm.rank(), comm.size(), self.shape.n_blocks);
        if size as usize > n_blocks {
            Rule::ranks(size, n_blocks).check()?;
        }
        if let BlockLearner::Summed(blocks) = &mut self.learner {
            blocks.partials.clear();
        }
        Ok((rank as usize..n_blocks).step_by(size as usize))
    }

    /// The values of an input for the next block.
    pub(crate) fn input_mut(&mut self, var: Var) -> Result<&mut [f32], Error> {
        Ok(match &mut self.learner {
            BlockLearner::Summed(blocks) => blocks.program.input_mut(var)?,
            BlockLearner::Captured { step, .. } => step.input_mut(var)?,
        })
    }

    /// Sets an input for the next block.
    pub(crate) fn set_input(&mut self, var: Var, values: &[f32]) -> Result<(), Error> {
        match &mut self.learner {
            BlockLearner::Summed(blocks) => blocks.program.set_input(var, values)?,
            BlockLearner::Captured { step, .. } => step.set_input(var, values)?,
        }
        Ok(())
    }

    /// Computes a block's gradient by the inputs that were set.
    pub(crate) fn run_block(
        &mut self,
        block: usize,
        params: &mut Params,
        optimiser: &mut Optimiser,
    ) -> Result<(), Error> {
        match &mut self.learner {
            BlockLearner::Summed(blocks) => blocks.run(block, self.shape, params),
            BlockLearner::Captured { step, norm } => {
                *norm = Some(match optimiser.step_captured(params, step) {
                    // Where training has diverged, the batch's numbers say more.
                    taken @ (Ok(_) | Err(shardgraph_components::Error::Diverged { .. })) => taken,
                    Err(error) => return Err(error.into()),
                });
                Ok(())
            }
        }
    }

    /// Sums over the blocks of all ranks; all call it. Gives the batch's numbers, of which the caller checks that they are finite.
    pub(crate) fn sum(&mut self, comm: &mut Comm, deadline: Timeout) -> Result<&[f32], Error> {
        match &mut self.learner {
            BlockLearner::Captured { step, .. } => self.told = step.read(NUMBERS)?,
            BlockLearner::Summed(blocks) => {
                blocks.sum(self.shape, comm, deadline)?;
                self.told.clear();
                self.told
                    .extend_from_slice(&blocks.total[self.shape.n_params..]);
            }
        }
        Ok(self.numbers())
    }

    /// The step against the batch's gradient.
    pub(crate) fn step(
        &mut self,
        params: &mut Params,
        optimiser: &mut Optimiser,
    ) -> Result<(), Error> {
        match &mut self.learner {
            // It was taken with the block.
            BlockLearner::Captured { norm, .. } => norm.take().transpose()?,
            BlockLearner::Summed(blocks) => {
                let gradient = &mut blocks.total[..self.shape.n_params];
                let norm = optimiser.step(&self.device, params, gradient)?;
                if let Some(tau) = self.target_rate {
                    params.blend_trained_into_frozen(tau)?;
                }
                Some(norm)
            }
        };
        Ok(())
    }

    /// The numbers of the last batch.
    pub(crate) fn numbers(&self) -> &[f32] {
        &self.told[..self.shape.n_numbers]
    }

    /// The rows' numbers of the last batch.
    pub(crate) fn rows(&self) -> &[f32] {
        &self.told[self.shape.n_numbers..]
    }
}

impl SummedBlocks {
    fn run(&mut self, block: usize, shape: BatchShape, params: &Params) -> Result<(), Error> {
        self.program.run(&mut self.solo, params)?;
        let partials = &mut self.partials;
        self.program.append_param_gradient(partials)?;
        let told = self.program.read(NUMBERS)?;
        let (numbers, rows) = told.split_at(shape.n_numbers);
        partials.extend(numbers);
        let behind = partials.len() + shape.n_blocks * shape.n_rows;
        partials.resize(partials.len() + block * shape.n_rows, 0.0);
        partials.extend(rows);
        partials.resize(behind, 0.0);
        Ok(())
    }

    fn sum(&mut self, shape: BatchShape, comm: &mut Comm, deadline: Timeout) -> Result<(), Error> {
        match shape.n_blocks {
            1 => std::mem::swap(&mut self.total, &mut self.partials),
            _ => {
                self.total.resize(shape.n_params + shape.n_told(), 0.0);
                comm.exact_sum(&self.partials, &mut self.total, deadline)?;
            }
        }
        Ok(())
    }
}
