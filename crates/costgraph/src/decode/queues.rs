//! Many small queues of ranks, of which most are empty: what is ready for each device and each link.
//!
//! Together they take memory for what they hold, however many there are. Nothing is ever taken out of a queue: a set of all ranks
//! knows which still count, and the others are dropped when they come first.

use super::ranks::RankSet;
use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    queues: Vec<BinaryHeap<Reverse<u32>>>,
    /// The queues that may hold something, in no particular order.
    listed: Vec<u32>,
    is_listed: Vec<bool>,
}

impl Queues {
    pub(super) fn new(n: usize) -> Queues {
        Queues {
            queues: vec![BinaryHeap::new(); n],
            listed: Vec::new(),
            is_listed: vec![false; n],
        }
    }

    /// False where there are no queues at all.
    pub(super) fn are_used(&self) -> bool {
        !self.queues.is_empty()
    }

    pub(super) fn clear(&mut self) {
        for queue in self.listed.drain(..) {
            self.queues[queue as usize].clear();
            self.is_listed[queue as usize] = false;
        }
    }

    pub(super) fn push(&mut self, queue: usize, rank: u32) {
        if !std::mem::replace(&mut self.is_listed[queue], true) {
            self.listed.push(queue as u32);
        }
        self.queues[queue].push(Reverse(rank));
    }

    /// The smallest rank of one queue that is in `ready`.
    pub(super) fn first(&mut self, queue: usize, ready: &RankSet) -> Option<u32> {
        first(&mut self.queues[queue], ready)
    }

    /// Shows the first of each queue that has one, and the queue.
    pub(super) fn for_each_first(&mut self, ready: &RankSet, mut see: impl FnMut(u32, usize)) {
        let (queues, is_listed) = (&mut self.queues, &mut self.is_listed);
        self.listed.retain(|&queue| {
            let queue = queue as usize;
            let first = first(&mut queues[queue], ready);
            is_listed[queue] = first.is_some();
            first.inspect(|&rank| see(rank, queue)).is_some()
        });
    }
}

fn first(queue: &mut BinaryHeap<Reverse<u32>>, ready: &RankSet) -> Option<u32> {
    while let Some(&Reverse(rank)) = queue.peek() {
        if ready.contains(rank) {
            return Some(rank);
        }
        queue.pop();
    }
    None
}
