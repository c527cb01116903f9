//! What stands in for a heap: keys sorted once, and sets of ranks as bits.

/// The bits of a key that count: keys in [0, 1) are multiples of 2^-24, as random f32 are.
const KEY_BITS: u32 = 24;

/// In larger buckets insertion sort would crawl: keys that are bunched, as those of narrow Beta distributions are.
const BUNCHED: u32 = 16;

/// Items in descending order of their keys, ties by ascending code.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranking {
    /// Inverted key above, code below: ascending order is what is wanted.
    entries: Vec<u64>,
    /// How many of the entries count.
    n: usize,
    sorted: Vec<u64>,
    counts: Vec<u32>,
    /// By code; of no meaning for codes that are not ranked.
    rank_of: Vec<u32>,
}

impl Ranking {
    pub(super) fn new(n_codes: usize) -> Ranking {
        Ranking {
            entries: vec![0; n_codes],
            n: 0,
            sorted: vec![0; n_codes],
            counts: vec![0; 1 << bucket_bits(n_codes)],
            rank_of: vec![0; n_codes],
        }
    }

    pub(super) fn clear(&mut self) {
        self.n = 0;
    }

    /// Keys at or beyond the ends of [0, 1) count as the ends, NaN as 0.
    #[inline]
    pub(super) fn push(&mut self, key: f32, code: u32) {
        self.push_if(key, code, true);
    }

    /// As `push` if `present`, without a branch that the processor would have to guess.
    #[inline]
    pub(super) fn push_if(&mut self, key: f32, code: u32, present: bool) {
        // The conversion saturates and takes NaN to 0.
        let key = ((key * (1u32 << KEY_BITS) as f32) as u32).min((1 << KEY_BITS) - 1);
        let inverted = (1 << KEY_BITS) - 1 - key;
        // Past the last slot there is nothing to push: a chromosome has a key for each code, and no code comes twice.
        if let Some(slot) = self.entries.get_mut(self.n) {
            *slot = u64::from(inverted) << 32 | u64::from(code);
        }
        self.n += usize::from(present);
    }

    /// Ranks what was pushed.
    ///
    /// One pass into about twice as many buckets as items, then an insertion sort of an order that is nearly right; buckets with many
    /// items are sorted for themselves in between.
    #[inline]
    pub(super) fn sort(&mut self) {
        let n = self.n;
        let entries = &self.entries[..n];
        let bits = bucket_bits(n);
        let shift = 32 + KEY_BITS - bits;
        let counts = &mut self.counts[..1 << bits];
        counts.fill(0);
        for &entry in entries {
            counts[(entry >> shift) as usize] += 1;
        }
        let (mut begin, mut largest) = (0, 0);
        for count in counts.iter_mut() {
            largest = largest.max(*count);
            begin += std::mem::replace(count, begin);
        }
        let sorted = &mut self.sorted[..n];
        for &entry in entries {
            let next = &mut counts[(entry >> shift) as usize];
            sorted[*next as usize] = entry;
            *next += 1;
        }
        if largest > BUNCHED {
            sort_large_buckets(sorted, counts);
        }
        insertion_sort(sorted);
        for (rank, &entry) in sorted.iter().enumerate() {
            self.rank_of[entry as u32 as usize] = rank as u32;
        }
    }

    /// What `rank_of` looks up.
    pub(super) fn ranks(&self) -> &[u32] {
        &self.rank_of
    }

    #[inline]
    pub(super) fn code_at(&self, rank: u32) -> u32 {
        self.sorted[rank as usize] as u32
    }

    #[inline]
    pub(super) fn rank_of(&self, code: u32) -> u32 {
        self.rank_of[code as usize]
    }
}

fn bucket_bits(n: usize) -> u32 {
    // At most 2^16 buckets: beyond that they would no longer fit the second-level cache.
    (2 * n.max(4)).ilog2().min(16)
}

/// Sorts the buckets with more than `BUNCHED` items, which end at `ends`.
fn sort_large_buckets(items: &mut [u64], ends: &[u32]) {
    let mut begin = 0;
    for &end in ends {
        if end - begin > BUNCHED {
            items[begin as usize..end as usize].sort_unstable();
        }
        begin = end;
    }
}

fn insertion_sort(items: &mut [u64]) {
    for i in 1..items.len() {
        let item = items[i];
        let mut at = i;
        while at > 0 && items[at - 1] > item {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}

/// A set of ranks with its minimum at hand: a word for 64 ranks and a bit for each such word.
#[derive(Clone, Debug, Default)]
pub(super) struct RankSet {
    pub(super) words: Vec<u64>,
    occupied: Vec<u64>,
}

impl RankSet {
    pub(super) fn new(n: usize) -> RankSet {
        let n_words = n.div_ceil(64).max(1);
        RankSet {
            words: vec![0; n_words],
            occupied: vec![0; n_words.div_ceil(64)],
        }
    }

    /// True when one word tells which words are occupied.
    pub(super) fn is_small(&self) -> bool {
        self.occupied.len() == 1
    }

    /// Adds `rank` if `present`, without a branch that the processor would have to guess.
    #[inline]
    pub(super) fn insert_if(&mut self, rank: u32, present: bool) {
        let word = (rank >> 6) as usize;
        self.words[word] |= u64::from(present) << (rank & 63);
        self.occupied[word >> 6] |= u64::from(present) << (word & 63);
    }

    #[inline]
    pub(super) fn remove(&mut self, rank: u32) {
        let word = (rank >> 6) as usize;
        self.words[word] &= !(1 << (rank & 63));
        let is_empty = self.words[word] == 0;
        self.occupied[word >> 6] &= !(u64::from(is_empty) << (word & 63));
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        for (at, &occupied) in self.occupied.iter().enumerate() {
            if occupied != 0 {
                let word = at * 64 + occupied.trailing_zeros() as usize;
                return Some(word as u32 * 64 + self.words[word].trailing_zeros());
            }
        }
        None
    }

    /// The smallest rank above `rank`.
    pub(super) fn next_after(&self, rank: u32) -> Option<u32> {
        let word = (rank >> 6) as usize;
        let above = self.words[word] & (u64::MAX << (rank & 63)) & !(1 << (rank & 63));
        if above != 0 {
            return Some(word as u32 * 64 + above.trailing_zeros());
        }
        let later = self.words[word + 1..].iter().position(|&word| word != 0)?;
        let word = word + 1 + later;
        Some(word as u32 * 64 + self.words[word].trailing_zeros())
    }

    #[inline]
    pub(super) fn contains(&self, rank: u32) -> bool {
        self.words[(rank >> 6) as usize] >> (rank & 63) & 1 == 1
    }

    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<u32> {
        let rank = self.first()?;
        self.remove(rank);
        Some(rank)
    }
}

#[cfg(test)]
mod tests {
    use super::{RankSet, Ranking};

    #[test]
    fn ranks_are_those_of_a_plain_sort() {
        for (n, spread) in [
            (0, 1),
            (1, 1),
            (33, 7),
            (1000, 1 << 24),
            (1000, 3),
            (5000, 100),
        ] {
            let mut ranking = Ranking::new(n as usize);
            for round in 0..3u32 {
                ranking.clear();
                let n = n - n / 3 * round;
                let keys: Vec<f32> = (0..n)
                    .map(|i| (i * 7919 + round) as f32 % spread as f32 / spread as f32)
                    .collect();
                let mut expected: Vec<u32> = (0..n).collect();
                expected.sort_by(|&a, &b| keys[b as usize].total_cmp(&keys[a as usize]));
                keys.iter()
                    .zip(0..)
                    .for_each(|(&key, code)| ranking.push(key, code));
                ranking.sort();
                for (rank, &code) in expected.iter().enumerate() {
                    assert_eq!(ranking.code_at(rank as u32), code, "n {n}, spread {spread}");
                    assert_eq!(ranking.rank_of(code), rank as u32);
                }
            }
        }
    }

    #[test]
    fn keys_outside_of_the_interval_count_as_its_ends() {
        let keys = [
            f32::NAN,
            -1.0,
            2.0,
            1.0,
            f32::INFINITY,
            0.999_999_94,
            0.0,
            0.5,
        ];
        let mut ranking = Ranking::new(keys.len());
        keys.iter()
            .zip(0..)
            .for_each(|(&key, code)| ranking.push(key, code));
        ranking.sort();
        let order: Vec<u32> = (0..8).map(|rank| ranking.code_at(rank)).collect();
        assert_eq!(order, [2, 3, 4, 5, 7, 0, 1, 6]);
    }

    #[test]
    fn a_set_gives_its_ranks_in_order() {
        for n in [1, 63, 64, 65, 4095, 4096, 4097, 70_000] {
            let mut set = RankSet::new(n);
            let ranks: Vec<u32> = (0..n as u32)
                .filter(|r| r % 37 == 0 || *r + 1 == n as u32)
                .collect();
            for &rank in ranks.iter().rev() {
                set.insert_if(rank, true);
                set.insert_if(rank / 2, false);
            }
            let members = (0..n as u32).filter(|&rank| set.contains(rank));
            assert!(members.eq(ranks.iter().copied()));
            let walk = std::iter::successors(set.first(), |&rank| set.next_after(rank));
            assert_eq!(walk.collect::<Vec<u32>>(), ranks);
            let taken: Vec<u32> = std::iter::from_fn(|| set.pop_first()).collect();
            assert_eq!(taken, ranks);
        }
    }
}
