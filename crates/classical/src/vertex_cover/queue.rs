//! Nodes that wait to be looked at, each at most once.

use std::collections::VecDeque;

/// First in, first out; a node that waits already is not put in again.
pub(crate) struct Queue {
    waiting: VecDeque<u32>,
    is_waiting: Vec<bool>,
}

impl Queue {
    pub(crate) fn new(n_nodes: usize) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            is_waiting: vec![false; n_nodes],
        }
    }

    pub(crate) fn push(&mut self, v: u32) {
        if !std::mem::replace(&mut self.is_waiting[v as usize], true) {
            self.waiting.push_back(v);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        let v = self.waiting.pop_front()?;
        self.is_waiting[v as usize] = false;
        Some(v)
    }
}
