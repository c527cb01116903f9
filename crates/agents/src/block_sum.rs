//! What the blocks of a batch give, summed over the ranks that share them.

use shardgraph_collectives::{Comm, Timeout};

use crate::error::Error;
use crate::rules::Rule;

/// A batch is cut into blocks whose borders do not depend on the ranks. Each rank computes its share of them, and all results are summed
/// exactly: every rank has the same bits, whoever computed what.
#[derive(Debug)]
pub(crate) struct BlockSum {
    n_blocks: usize,
    /// Of one block of this rank after the other.
    pub(crate) partials: Vec<f32>,
    /// Their sum over all blocks.
    pub(crate) total: Vec<f32>,
}

impl BlockSum {
    /// Of blocks with `width` numbers each.
    pub(crate) fn new(n_blocks: usize, width: usize) -> BlockSum {
        BlockSum {
            n_blocks,
            partials: Vec::new(),
            total: vec![0.0; width],
        }
    }

    /// Begins a batch; gives the blocks that this rank computes.
    pub(crate) fn begin(
        &mut self,
        comm: &Comm,
    ) -> Result<impl Iterator<Item = usize> + use<>, Error> {
        if comm.size() as usize > self.n_blocks {
            Rule::ranks(comm.size(), self.n_blocks).check()?;
        }
        self.partials.clear();
        Ok((comm.rank() as usize..self.n_blocks).step_by(comm.size() as usize))
    }

    /// Sums the partial results of all ranks; all call it.
    pub(crate) fn sum(&mut self, comm: &mut Comm, deadline: Timeout) -> Result<(), Error> {
        match self.n_blocks {
            1 => std::mem::swap(&mut self.total, &mut self.partials),
            _ => comm.exact_sum(&self.partials, &mut self.total, deadline)?,
        }
        Ok(())
    }
}
