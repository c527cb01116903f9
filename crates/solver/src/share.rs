//! A rank's part of a graph, for all episodes of a solve.

use shardgraph_collectives::Comm;
use shardgraph_device::Device;
use shardgraph_layers::RowShard;
use shardgraph_ops::ResidentAdjacency;
use shardgraph_shard::{Adjacency, BitShard};

use crate::Error;
use crate::exchange::{cut_bits, cut_lists};
use crate::model_scorer::{ModelScorer, RankModel};
use crate::solver::{Instance, Solver};

/// A rank's part of a graph, for all episodes.
pub(crate) struct Share<'s> {
    pub(crate) instance: &'s Instance<'s>,
    pub(crate) device: Device,
    pub(crate) rank: u32,
    /// Own columns of a bit matrix; absent where the rank has all of it, or lists.
    pub(crate) bits: Option<BitShard>,
    /// Where neighbours are summed.
    pub(crate) shard: Option<RowShard>,
    /// The whole graph in the device's memory, where the closed form runs there.
    pub(crate) graph: Option<ResidentAdjacency>,
    /// The model, recorded once for all states of this graph.
    pub(crate) model: Option<Box<ModelScorer<'s>>>,
}

impl<'s> Share<'s> {
    pub(crate) fn new(
        solver: &'s Solver<'s>,
        instance: &'s Instance<'s>,
        device: &Device,
        comm: &Comm,
    ) -> Result<Self, Error> {
        let rank = comm.rank();
        let partition = &instance.partition;
        let bits = match instance.adjacency {
            Adjacency::Bits(bits) if partition.n_ranks() > 1 => Some(bits.part(partition, rank)),
            _ => None,
        };
        let mut share = Self {
            instance,
            device: device.clone(),
            rank,
            bits,
            shard: None,
            graph: None,
            model: None,
        };
        if solver.is_incremental && solver.table_of(instance).is_none() {
            let model = RankModel {
                policy: solver.policy,
                path: instance.path,
                shard: share.sum_neighbors(solver)?,
                device: device.clone(),
                partition: partition.clone(),
                weighted: instance.adjacency.weighted(),
            };
            let model = ModelScorer::new(model, comm, solver.options.deadline)?;
            share.model = Some(Box::new(model));
        }
        Ok(share)
    }

    /// Where this rank sums neighbours: cut, and in the device's memory, by the first call.
    pub(crate) fn sum_neighbors(&mut self, solver: &Solver<'_>) -> Result<RowShard, Error> {
        if let Some(shard) = &self.shard {
            return Ok(shard.clone());
        }
        let (partition, communication) = (&self.instance.partition, solver.communication());
        let shard = match self.instance.adjacency {
            Adjacency::Csr(graph) => cut_lists(graph, partition, self.rank, communication),
            Adjacency::Bits(bits) => {
                let part = self.bits.as_ref();
                cut_bits(bits, part, partition, self.rank, communication)
            }
        };
        Ok(self.shard.insert(shard.resident(&self.device)?).clone())
    }
}
