//! Replicas of a learner on threads of its process, whose gradients are summed exactly.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use shardgraph_collectives::{Comm, threads};
use shardgraph_job::Tensors;

use crate::error::Error;

/// A copy of a learner.
pub(crate) trait Replica: Send + 'static {
    /// What an update learns from.
    type Batch: Send + Sync + 'static;

    /// Its part of an update: all replicas take the same step.
    fn learn(&mut self, batch: &Self::Batch, comm: &mut Comm) -> Result<(), Error>;

    /// Goes on where a checkpoint was made.
    fn restore(&mut self, state: &LearnerState) -> Result<(), Error>;
}

/// A learner's part of a checkpoint.
#[derive(Debug)]
pub(crate) struct LearnerState {
    pub(crate) n_updates: u64,
    pub(crate) weights: Vec<f32>,
    pub(crate) optimiser: Vec<u8>,
}

impl LearnerState {
    /// Of the tensors of a checkpoint that was made after so many updates.
    pub(crate) fn of_tensors(n_updates: u64, state: &Tensors<'_>) -> Result<LearnerState, Error> {
        Ok(LearnerState {
            n_updates,
            weights: state.f32s("weights")?,
            optimiser: state.u8s("optimiser")?.to_vec(),
        })
    }
}

/// The replicas beside the learner, and its place among them. The learner hands each batch to all and takes part in the sum.
///
/// # Determinism
/// A batch is cut into blocks whose borders do not depend on the replicas, and sums are exact: weights have the same bits for every number
/// of replicas.
#[derive(Debug)]
pub(crate) struct LearnerGroup<B> {
    comm: Comm,
    orders: Vec<Sender<Order<B>>>,
    threads: Vec<JoinHandle<()>>,
}

/// What a replica is to do.
#[derive(Debug)]
enum Order<B> {
    Learn(Arc<B>),
    Restore(Arc<LearnerState>),
}

impl<B: Send + Sync + 'static> LearnerGroup<B> {
    /// A learner without replicas.
    pub(crate) fn alone() -> LearnerGroup<B> {
        LearnerGroup {
            comm: Comm::solo(),
            orders: Vec::new(),
            threads: Vec::new(),
        }
    }

    /// So many replicas, the learner among them; `make` makes the others.
    pub(crate) fn new<R: Replica<Batch = B>>(
        n_learners: u32,
        make: impl Fn() -> Result<R, Error>,
    ) -> Result<LearnerGroup<B>, Error> {
        let mut comms = threads::world(n_learners).into_iter();
        let comm = comms.next();
        let mut group = LearnerGroup::alone();
        group.comm = comm.ok_or_else(|| Error::internal("a group without a learner"))?;
        for comm in comms {
            let (replica, (orders, taken)) = (make()?, channel());
            let name = format!("learner {}", comm.rank());
            let thread = Builder::new()
                .name(name)
                .spawn(move || follow(replica, comm, &taken))
                .map_err(|error| {
                    Error::internal(format!("the system gives no more threads: {error}"))
                })?;
            group.orders.push(orders);
            group.threads.push(thread);
        }
        Ok(group)
    }

    /// Hands a batch to the others, and gives the learner's place in the sum of its update.
    pub(crate) fn share(&mut self, batch: impl FnOnce() -> B) -> &mut Comm {
        if !self.orders.is_empty() {
            let batch = Arc::new(batch());
            self.send(|| Order::Learn(Arc::clone(&batch)));
        }
        &mut self.comm
    }

    /// Lets the others go on where a checkpoint was made.
    pub(crate) fn restore(&self, state: LearnerState) {
        let state = Arc::new(state);
        self.send(|| Order::Restore(Arc::clone(&state)));
    }

    /// A replica that has ended is missed in the next sum, which names it.
    fn send(&self, order: impl Fn() -> Order<B>) {
        for orders in &self.orders {
            let _ = orders.send(order());
        }
    }
}

/// Takes orders until the learner is gone. An error ends the replica and with it the communicator, so that the learner's sum fails; where
/// training has diverged, the learner sees it by itself.
fn follow<R: Replica>(mut replica: R, mut comm: Comm, orders: &Receiver<Order<R::Batch>>) {
    while let Ok(order) = orders.recv() {
        let done = match order {
            Order::Learn(batch) => replica.learn(&batch, &mut comm),
            Order::Restore(state) => replica.restore(&state),
        };
        if done.is_err() {
            return;
        }
    }
}

impl<B> Drop for LearnerGroup<B> {
    fn drop(&mut self) {
        self.orders.clear(); // which ends the threads
        self.comm = Comm::solo(); // and a sum that one of them waits in
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
