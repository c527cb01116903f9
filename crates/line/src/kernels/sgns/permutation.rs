//! A random order of edges as a function of the place: nothing is shuffled and nothing stored.

/// Rounds of the network. Mitchell et al. take 24 where every order has to be equally likely; a pass over edges needs far less.
const ROUNDS: u32 = 6;

/// A permutation of `0..n` by a Feistel network over an even number of bits, walked until it lies below `n`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    n: u32,
    pub(super) half_bits: u32,
    pub(super) keys: [u32; 2],
}

impl Permutation {
    pub(super) fn new(n: u32, key: u64) -> Self {
        let bits = 32 - n.saturating_sub(1).leading_zeros();
        Self {
            n,
            half_bits: bits.div_ceil(2).max(1),
            keys: [key as u32, (key >> 32) as u32],
        }
    }

    /// Where element `i`, which is below `n`, comes from: fewer than four rounds of the network on average.
    pub(super) fn of(&self, i: u32) -> u32 {
        let mask = (1u32 << self.half_bits) - 1;
        let mut at = i;
        loop {
            let (mut left, mut right) = (at >> self.half_bits, at & mask);
            for round in 0..ROUNDS {
                let key = self.keys[(round % 2) as usize]
                    .wrapping_add(0x9E37_79B9u32.wrapping_mul(round));
                let hash = (right ^ key).wrapping_mul(0x85EB_CA6B) >> (32 - self.half_bits);
                (left, right) = (right, (left ^ hash) & mask);
            }
            at = left << self.half_bits | right;
            if at < self.n {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u32; 14] = [1, 2, 3, 4, 5, 31, 33, 64, 65, 255, 256, 257, 1000, 4099];

    #[test]
    fn every_element_comes_once() {
        for n in SIZES {
            for key in [0, 1, u64::MAX, 0x1234_5678_9ABC_DEF0] {
                let order = Permutation::new(n, key);
                let mut all: Vec<u32> = (0..n).map(|i| order.of(i)).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..n), "{n} {key}");
            }
        }
        let order = Permutation::new(u32::MAX, 7);
        assert!(order.of(u32::MAX - 1) < u32::MAX);
    }

    /// Neighbours are torn apart and keys give other orders: as many fixed points, kept steps and agreements as chance gives.
    #[test]
    fn orders_look_random() {
        let n = 4099;
        let of = |key: u64| -> Vec<u32> {
            let order = Permutation::new(n, key);
            (0..n).map(|i| order.of(i)).collect()
        };
        let orders: Vec<Vec<u32>> = (0..8)
            .map(|key: u64| of(key.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
            .collect();
        let mut places = 0.0;
        for (k, order) in orders.iter().enumerate() {
            let n_fixed = order
                .iter()
                .zip(0..)
                .filter(|&(&to, from)| to == from)
                .count();
            assert!(n_fixed < 9, "{n_fixed} fixed points"); // 1 on average
            let n_steps = order
                .windows(2)
                .filter(|two| two[1].abs_diff(two[0]) == 1)
                .count();
            assert!(n_steps < 14, "{n_steps} neighbours"); // 2 on average
            let other = &orders[(k + 1) % orders.len()];
            let n_same = order.iter().zip(other).filter(|(a, b)| a == b).count();
            assert!(n_same < 9, "{n_same} places of two orders");
            places += f64::from(order[17]) / f64::from(n);
        }
        assert!((0.2..0.8).contains(&(places / 8.0)), "{places}");
    }
}
