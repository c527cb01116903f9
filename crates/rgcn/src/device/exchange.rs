//! Exchanges of a network whose messages are dealt to several ranks, each on a device.
//!
//! A rank owns the rows of its sources. Where it computes messages of other ranks' sources, their
//! owners hand it the rows before, and get the rows' gradients back. The sums over messages of all
//! ranks are added, and each rank keeps those of its own nodes.

use std::sync::Arc;

use shardgraph_autodiff::{
    Adjoint, Ctx, Error, Operation, PartLengths, Role, Run, Shape, Var, World,
};
use shardgraph_device::{self as device, Device};

use super::operations::{Lists, Matrix, Product};
use crate::model::messages::RankMessages;

/// Rows that owners hand to the ranks that compute with them.
#[derive(Debug, Clone)]
pub(super) struct Handover {
    /// Rows for each rank, rank by rank, by this rank's rows: ones.
    selection: Arc<Matrix>,
    /// Rows to each rank.
    sent: Arc<[usize]>,
    /// Rows from each rank.
    received: Arc<[usize]>,
}

impl Handover {
    /// Of `n_rows` own rows of sources; with `by_pair` a row is a pair's.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new(
        device: &Device,
        messages: &RankMessages,
        n_rows: usize,
        by_pair: bool,
    ) -> Result<Handover, device::Error> {
        let index: Vec<u32> = match by_pair {
            true => pairs_by_rank(messages),
            false => messages.read_by.concat(),
        };
        let (sent, received) = match by_pair {
            true => (
                messages.pairs_by_computing_rank.clone(),
                &messages.pairs_by_owner,
            ),
            false => (
                messages.read_by.iter().map(Vec::len).collect(),
                &messages.sources_by_owner,
            ),
        };
        let lists = Lists {
            starts: (0..=index.len() as u64).collect(),
            weights: vec![1.0; index.len()],
            columns: index,
            n_columns: n_rows,
        };
        Ok(Handover {
            selection: Arc::new(Matrix::upload(device, &lists)?),
            sent: sent.into(),
            received: received.as_slice().into(),
        })
    }

    /// The rows that this rank computes with, by owners, of its own rows `x`.
    pub(super) fn rows(&self, ctx: &mut dyn Ctx, x: Var) -> Result<Var, Error> {
        let selection = Product {
            matrix: Arc::clone(&self.selection),
            is_transposed: false,
        };
        let sent = ctx.apply(Arc::new(selection), &[x])?;
        let exchange = RowExchange {
            sent: Arc::clone(&self.sent),
            received: Arc::clone(&self.received),
        };
        ctx.apply(Arc::new(exchange), &[sent])
    }
}

/// The pairs of own sources, by the rank that computes them.
fn pairs_by_rank(messages: &RankMessages) -> Vec<u32> {
    let n_ranks = messages.pairs_by_computing_rank.len();
    let of_rank = |rank: usize| {
        let pairs = (0u32..).zip(&messages.computing_ranks);
        pairs
            .filter(move |&(_, &computing)| usize::from(computing) == rank)
            .map(|(pair, _)| pair)
    };
    (0..n_ranks).flat_map(of_rank).collect()
}

/// Some rows to each rank, and those of each rank in rank order.
#[derive(Debug, Clone)]
struct RowExchange {
    sent: Arc<[usize]>,
    received: Arc<[usize]>,
}

impl Operation for RowExchange {
    fn name(&self) -> &'static str {
        "row_exchange"
    }

    fn shape(&self, operands: &[Shape], world: World) -> Result<Shape, String> {
        let n_ranks = world.size as usize;
        if [&self.sent, &self.received].map(|counts| counts.len()) != [n_ranks; 2] {
            return Err(format!("counts for {n_ranks} ranks are expected"));
        }
        let [n_sent, n_received]: [usize; 2] =
            [&self.sent, &self.received].map(|counts| counts.iter().sum());
        match operands[0].rows == n_sent {
            true => Ok(Shape::new(n_received, operands[0].cols)),
            false => Err(format!("{n_sent} rows are expected")),
        }
    }

    fn compute(&self, run: &mut Run<'_>) -> Result<(), Error> {
        let width = run.out.shape.cols;
        let elements = |rows: &[usize]| rows.iter().map(|n| n * width).collect::<Vec<usize>>();
        let (sent, received) = (elements(&self.sent), elements(&self.received));
        let parts = PartLengths {
            sent: &sent,
            received: &received,
        };
        let x = run.operands[0].values;
        run.comm.all_to_all(x, parts, run.out.values)
    }

    /// Gradients go the way back.
    fn adjoint(&self, ctx: &mut dyn Ctx, at: &Adjoint<'_>) -> Result<Vec<Option<Var>>, Error> {
        let back = RowExchange {
            sent: Arc::clone(&self.received),
            received: Arc::clone(&self.sent),
        };
        Ok(vec![Some(ctx.apply(Arc::new(back), &[at.dy])?)])
    }

    fn numbers(&self) -> Vec<u64> {
        let counts = self.sent.iter().chain(self.received.iter());
        counts.map(|&n| n as u64).collect()
    }

    fn role(&self) -> Role {
        Role::Exchange
    }
}
