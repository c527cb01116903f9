//! Things that can be made again, kept within a number of bytes: those used last.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shardgraph_layers::autodiff::BufferPool;

/// Values by number. Beyond `max_bytes` the one that was not used for longest goes, until one is left.
#[derive(Debug, Clone)]
pub(super) struct Kept<T> {
    max_bytes: u64,
    bytes: u64,
    n_uses: u64,
    values: BTreeMap<u64, Value<T>>,
}

#[derive(Debug, Clone)]
struct Value<T> {
    value: T,
    bytes: u64,
    last_use: u64,
}

impl<T: Clone> Kept<T> {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            n_uses: 0,
            values: BTreeMap::new(),
        }
    }

    /// Of all values.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&mut self, id: u64) -> Option<T> {
        self.n_uses += 1;
        let found = self.values.get_mut(&id)?;
        found.last_use = self.n_uses;
        Some(found.value.clone())
    }

    pub(super) fn put(&mut self, id: u64, value: T, bytes: u64) {
        self.n_uses += 1;
        let last_use = self.n_uses;
        let value = Value {
            value,
            bytes,
            last_use,
        };
        self.bytes += bytes;
        if let Some(before) = self.values.insert(id, value) {
            self.bytes -= before.bytes;
        }
        while self.bytes > self.max_bytes && self.values.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.values.iter().min_by_key(|(_, value)| value.last_use);
        let Some(id) = oldest.map(|(&id, _)| id) else {
            return;
        };
        if let Some(gone) = self.values.remove(&id) {
            self.bytes -= gone.bytes;
        }
    }
}

/// Memory of evaluations that have ended. A clone, which is for another rank, begins with none.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<BufferPool>);

impl Spare {
    pub(super) fn take(&self) -> BufferPool {
        // Whatever a panic left is empty or whole.
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn put(&self, spare: BufferPool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = spare;
    }
}

impl Clone for Spare {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let mut kept = Kept::new(10);
        kept.put(1, 'a', 4);
        kept.put(2, 'b', 4);
        assert_eq!(kept.get(1), Some('a'));
        kept.put(3, 'c', 4);
        assert_eq!(
            [1, 2, 3].map(|id| kept.get(id)),
            [Some('a'), None, Some('c')]
        );
        kept.put(3, 'd', 6);
        assert_eq!([1, 3].map(|id| kept.get(id)), [Some('a'), Some('d')]);
        kept.put(4, 'e', 99);
        assert_eq!([1, 3, 4].map(|id| kept.get(id)), [None, None, Some('e')]);
        kept.put(5, 'f', 1);
        assert_eq!([4, 5].map(|id| kept.get(id)), [None, Some('f')]);
    }
}
