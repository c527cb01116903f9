//! What ranks keep and exchange for neighbour sums, counted, and beside it what the paper's formulas say.

use std::sync::Arc;

use shardgraph_collectives::{Op, Reduction};
use shardgraph_device::{Device, DeviceKind};
use shardgraph_graph::Graph;
use shardgraph_layers::PolicyShape;
use shardgraph_layers::RowShard;
use shardgraph_shard::{BitShard, BlockShard, Communication, CsrShard, Partition};

use crate::Error;
use crate::residual::Ranks;

/// What a job whose ranks share neighbour sums cost the rank that it cost most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// How the sums were shared.
    pub communication: Communication,
    /// Bytes that a rank took in from others in the whole job, picks and degrees included
    /// ([`Comm::received_bytes`](shardgraph_collectives::Comm::received_bytes)); absent where ranks read each other's buffers on a device.
    pub received_bytes: Option<u64>,
    /// Bytes of the adjacency that a rank multiplies by.
    pub matrix_bytes: u64,
}

impl Exchange {
    /// Agrees with the other ranks on the largest; `before` is what this rank had received when the job began.
    pub(crate) fn of_job(
        ranks: &mut Ranks<'_>,
        device: &Device,
        communication: Communication,
        before: u64,
        matrix_bytes: u64,
    ) -> Result<Exchange, Error> {
        let mut largest = [ranks.comm.received_bytes() - before, matrix_bytes];
        let op = Op::AllReduce {
            buf: (&mut largest).into(),
            reduction: Reduction::Max,
        };
        ranks.comm.run(op, ranks.timeout)?;
        Ok(Exchange {
            communication,
            received_bytes: (device.kind() == DeviceKind::Host).then_some(largest[0]),
            matrix_bytes: largest[1],
        })
    }
}

/// What OpenGraphGym-MG's analysis says of one evaluation of a policy, for as many ranks, states and nodes.
///
/// # Source
/// Sections 5.1 and 5.2.
///
/// ```
/// use shardgraph_solver::PaperModel;
/// let model = PaperModel { n_ranks: 6, n_states: 1, n_nodes: 21_000, n_entries: 66_150_000, embed_dim: 32, n_layers: 2 };
/// assert_eq!(model.evaluation_bytes(), 4 * (2 * 32 * 21_000 + 32));
/// assert_eq!(model.matrix_bytes(), 220_500_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaperModel {
    /// P.
    pub n_ranks: u32,
    /// B, states that are evaluated together.
    pub n_states: u64,
    /// N.
    pub n_nodes: u64,
    /// rho N^2: directed edges.
    pub n_entries: u64,
    /// K.
    pub embed_dim: u64,
    /// L.
    pub n_layers: u64,
}

impl PaperModel {
    /// The model of one state of a graph.
    pub fn of_state(n_ranks: u32, n_nodes: u32, n_edges: u64, shape: PolicyShape) -> Self {
        Self {
            n_ranks,
            n_states: 1,
            n_nodes: n_nodes.into(),
            n_entries: 2 * n_edges,
            embed_dim: shape.embed_dim as u64,
            n_layers: shape.n_layers as u64,
        }
    }

    /// Bytes of the messages of one evaluation: `L B K N` numbers (equation 3, the term of beta) and `B K` (equation 5).
    pub fn evaluation_bytes(&self) -> u64 {
        4 * self.n_states * self.embed_dim * (self.n_layers * self.n_nodes + 1)
    }

    /// The same for a training step, with the gradient's `4 K^2 + 4 K` numbers (section 5.1, paragraph 3).
    pub fn training_step_bytes(&self) -> u64 {
        self.evaluation_bytes() + 16 * self.embed_dim * (self.embed_dim + 1)
    }

    /// Bytes of a mini-batch's adjacency matrices on a rank in COO form: `20 rho N^2 B / P` (section 5.2).
    pub fn matrix_bytes(&self) -> u64 {
        20 * self.n_entries * self.n_states / u64::from(self.n_ranks)
    }
}

/// A rank's part of a graph for neighbour sums, as lists.
pub(crate) fn cut_lists(
    graph: &Graph,
    partition: &Partition,
    rank: u32,
    communication: Communication,
) -> RowShard {
    match communication {
        Communication::Gather => {
            RowShard::Csr(Arc::new(CsrShard::by_rows(graph, partition.range(rank))))
        }
        other => RowShard::Block(Arc::new(BlockShard::from_graph(
            graph, partition, rank, other,
        ))),
    }
}

/// The same of a whole bit matrix; `part` is the rank's part of it, where that is cut already.
pub(crate) fn cut_bits(
    matrix: &BitShard,
    part: Option<&BitShard>,
    partition: &Partition,
    rank: u32,
    communication: Communication,
) -> RowShard {
    match communication {
        Communication::Gather => RowShard::Bits(Arc::new(part.unwrap_or(matrix).clone())),
        other => RowShard::Block(Arc::new(BlockShard::from_bits(
            matrix, partition, rank, other,
        ))),
    }
}

/// Refuses a wish about exchanges that a job does not make.
pub(crate) fn check_wanted(wanted: Option<Communication>, has_sums: bool) -> Result<(), Error> {
    match wanted {
        Some(communication) if !has_sums => Err(Error::input(format!(
            "communication `{communication}`: this policy needs no sums of embeddings over neighbours here, so that none are shared: leave it out, or use another path"
        ))),
        _ => Ok(()),
    }
}
