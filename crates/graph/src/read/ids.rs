//! The integer ids of an edge list, made dense in ascending order: collected in one pass, looked up in the next.

use crate::{Error, ErrorKind, Labels, MAX_NODES};

/// Bytes of bitmap that need no justification by the file's length.
const FREE_BITMAP: u64 = 4 << 20;

/// A set of u64 ids: a bitmap for the small ones, a list for the rest.
///
/// The bitmap may be as long as the text seen so far (or [`FREE_BITMAP`]), so one huge id in a short file costs 8 bytes.
#[derive(Default)]
pub(crate) struct IdSet {
    bitmap: Vec<u64>,
    n_in_bitmap: u64,
    /// Ids beyond the bitmap; distinct and ascending up to `n_sorted`, then as they came.
    sparse: Vec<u64>,
    n_sorted: usize,
}

impl IdSet {
    pub(crate) fn insert(&mut self, id: u64, bytes_seen: u64) {
        let word = (id / 64) as usize;
        if word >= self.bitmap.len() {
            if id / 8 >= FREE_BITMAP.max(bytes_seen) {
                return self.insert_sparse(id);
            }
            self.bitmap.resize(word + 1, 0);
        }
        let bit = 1 << (id % 64);
        self.n_in_bitmap += u64::from(self.bitmap[word] & bit == 0);
        self.bitmap[word] |= bit;
    }

    fn insert_sparse(&mut self, id: u64) {
        self.sparse.push(id);
        if self.sparse.len() >= 2 * self.n_sorted.max(1 << 16) {
            self.sort();
        }
    }

    /// Bytes of the dense numbering: the bitmap with its counts, the list, and a label for each id.
    pub(crate) fn bytes(&self) -> u64 {
        12 * self.bitmap.len() as u64 + 8 * self.n_in_bitmap + 16 * self.sparse.capacity() as u64
    }

    fn sort(&mut self) {
        self.sparse.sort_unstable();
        self.sparse.dedup();
        self.n_sorted = self.sparse.len();
    }

    /// The dense numbering of the ids seen.
    pub(crate) fn into_map(mut self) -> Result<IdMap, Error> {
        let n_small = self.bitmap.len() as u64 * 64;
        let moved: Vec<u64> = self.sparse.extract_if(.., |id| *id < n_small).collect();
        for id in moved {
            self.bitmap[(id / 64) as usize] |= 1 << (id % 64);
        }
        self.sort();
        let n_in_bitmap: u64 = self
            .bitmap
            .iter()
            .map(|word| u64::from(word.count_ones()))
            .sum();
        let n_nodes = n_in_bitmap + self.sparse.len() as u64;
        if n_nodes > u64::from(MAX_NODES) {
            let message =
                format!("{n_nodes} different node ids: a graph holds at most {MAX_NODES}");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(IdMap::new(self.bitmap, self.sparse, n_nodes as u32))
    }
}

/// From original to dense ids.
pub(crate) struct IdMap {
    n_nodes: u32,
    /// Set when the ids are `first..first + n_nodes`.
    first: Option<u64>,
    bitmap: Vec<u64>,
    /// Ids below each word of the bitmap.
    ranks: Vec<u32>,
    n_in_bitmap: u32,
    sparse: Vec<u64>,
}

impl IdMap {
    fn new(bitmap: Vec<u64>, sparse: Vec<u64>, n_nodes: u32) -> IdMap {
        let mut map = IdMap {
            n_nodes,
            first: None,
            ranks: Vec::with_capacity(bitmap.len()),
            bitmap,
            n_in_bitmap: 0,
            sparse,
        };
        for word in &map.bitmap {
            map.ranks.push(map.n_in_bitmap);
            map.n_in_bitmap += word.count_ones();
        }
        map.first = map.first_of_range();
        map
    }

    fn first_of_range(&self) -> Option<u64> {
        let first = self.ids().next()?;
        let last = match self.sparse.last() {
            Some(&last) => last,
            None => {
                self.bitmap.len() as u64 * 64 - 1 - u64::from(self.bitmap.last()?.leading_zeros())
            }
        };
        (last - first == u64::from(self.n_nodes) - 1).then_some(first)
    }

    pub(crate) fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    /// The dense id of `id`, if it was inserted.
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        if let Some(first) = self.first {
            let v = id.wrapping_sub(first);
            return (v < u64::from(self.n_nodes)).then_some(v as u32);
        }
        let Some(&word) = self.bitmap.get((id / 64) as usize) else {
            let position = self.sparse.binary_search(&id).ok()?;
            return Some(self.n_in_bitmap + position as u32);
        };
        let bit = 1u64 << (id % 64);
        let below = (word & (bit - 1)).count_ones();
        (word & bit != 0).then(|| self.ranks[(id / 64) as usize] + below)
    }

    fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let small = self.bitmap.iter().enumerate().flat_map(|(i, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| i as u64 * 64 + bit)
        });
        small.chain(self.sparse.iter().copied())
    }

    pub(crate) fn labels(&self) -> Labels {
        match self.first {
            Some(first) => Labels::offset(first, self.n_nodes),
            None => Labels::integers(self.ids().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id that came before the text was long enough for the bitmap, and is overtaken by it.
    #[test]
    fn early_large_ids_move_into_the_bitmap() {
        let mut set = IdSet::default();
        for (id, bytes_seen) in [
            (40_000_000, 0),
            (3, 9),
            (50_000_000, 10 << 20),
            (40_000_000, 11 << 20),
        ] {
            set.insert(id, bytes_seen);
        }
        set.insert(u64::MAX, 12 << 20);
        let map = set.into_map().unwrap();
        assert_eq!(map.n_nodes(), 4);
        let dense = [3, 40_000_000, 50_000_000, u64::MAX, 4].map(|id| map.get(id));
        assert_eq!(dense, [Some(0), Some(1), Some(2), Some(3), None]);
    }

    /// More sparse ids than fit before the first sort, each seen several times.
    #[test]
    fn many_sparse_ids_are_kept_once() {
        let mut set = IdSet::default();
        for i in 0..500_000u64 {
            set.insert(u64::MAX - i * 7919 % 1000, 0);
        }
        assert!(set.sparse.len() <= 4 << 16, "{}", set.sparse.len());
        let map = set.into_map().unwrap();
        assert_eq!(map.n_nodes(), 1000);
        assert_eq!(map.get(u64::MAX), Some(999));
    }
}
