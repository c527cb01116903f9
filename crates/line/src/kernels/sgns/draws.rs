//! Random draws that depend on a seed and a counter only: the same on the host and in the kernels.

use std::hint::select_unpredictable;

use shardgraph_device::{Buffer, Device, Error};

/// What a random number is for; part of its counter, so that no number serves twice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Negative = 0,
    Edge = 1,
    Rounding = 2,
}

/// Philox4x32-10 of the counter (`counter`, `slot`, `purpose`) under the key `seed`.
///
/// # Source
/// Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
#[inline(always)]
pub(super) fn philox(seed: u64, counter: u64, slot: u32, purpose: u32) -> [u32; 4] {
    philox_slots::<1>(seed, counter, slot, purpose)[0]
}

/// The same for `N` slots from `first_slot` on, side by side.
#[inline(always)]
pub(super) fn philox_slots<const N: usize>(
    seed: u64,
    counter: u64,
    first_slot: u32,
    purpose: u32,
) -> [[u32; 4]; N] {
    let mut c = [
        [counter as u32; N],
        [(counter >> 32) as u32; N],
        std::array::from_fn(|lane| first_slot + lane as u32),
        [purpose; N],
    ];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        c = philox_round(c, key);
        key[0] = key[0].wrapping_add(0x9E37_79B9);
        key[1] = key[1].wrapping_add(0xBB67_AE85);
    }
    std::array::from_fn(|lane| [c[0][lane], c[1][lane], c[2][lane], c[3][lane]])
}

/// The keys of the ten rounds of Philox.
pub(super) type RoundKeys = [[u64; 2]; 10];

pub(super) fn round_keys(seed: u64) -> RoundKeys {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut keys = RoundKeys::default();
    for of_round in &mut keys {
        *of_round = key.map(u64::from);
        key = [
            key[0].wrapping_add(0x9E37_79B9),
            key[1].wrapping_add(0xBB67_AE85),
        ];
    }
    keys
}

/// The first two words for many counters and slots, side by side.
///
/// Words lie in the low halves of 64 bits, where the vector unit multiplies them without moving any; what stands in the high halves is
/// of no importance.
#[inline(always)]
pub(super) fn philox_lanes<const N: usize>(
    keys: &RoundKeys,
    counters: [u64; N],
    slots: [u64; N],
    purpose: u32,
) -> [[u64; N]; 2] {
    const LOW: u64 = 0xffff_ffff;
    let mut c = [
        counters,
        counters.map(|counter| counter >> 32),
        slots,
        [u64::from(purpose); N],
    ];
    for key in keys {
        let mut next = [[0; N]; 4];
        for lane in 0..N {
            let p0 = 0xD251_1F53 * (c[0][lane] & LOW);
            let p1 = 0xCD9E_8D57 * (c[2][lane] & LOW);
            next[0][lane] = (p1 >> 32) ^ c[1][lane] ^ key[0];
            next[1][lane] = p1;
            next[2][lane] = (p0 >> 32) ^ c[3][lane] ^ key[1];
            next[3][lane] = p0;
        }
        c = next;
    }
    [c[0], c[1]]
}

#[inline(always)]
fn philox_round<const N: usize>(c: [[u32; N]; 4], key: [u32; 2]) -> [[u32; N]; 4] {
    let mut next = [[0; N]; 4];
    for lane in 0..N {
        let p0 = 0xD251_1F53 * u64::from(c[0][lane]);
        let p1 = 0xCD9E_8D57 * u64::from(c[2][lane]);
        next[0][lane] = (p1 >> 32) as u32 ^ c[1][lane] ^ key[0];
        next[1][lane] = p1 as u32;
        next[2][lane] = (p0 >> 32) as u32 ^ c[3][lane] ^ key[1];
        next[3][lane] = p0 as u32;
    }
    next
}

/// Spreads one random word over many uses (the "lowbias32" mixer of C. Wellons' hash prospector).
#[inline(always)]
pub(super) fn mix(x: u32) -> u32 {
    let x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// An index drawn from `pairs` of (threshold, alias).
#[inline(always)]
pub(super) fn draw(pairs: &[u32], random: [u32; 4]) -> u32 {
    let n = (pairs.len() / 2) as u64;
    pick(pairs, spot(n, random[0], random[1]))
}

/// Where a draw from `n` pairs falls: the index in the high half, the coin in the low one.
#[inline(always)]
pub(super) fn spot(n: u64, first: u32, second: u32) -> u64 {
    u64::from(first) * n + ((u64::from(second) * n) >> 32)
}

/// The same side by side, where words lie in the low halves of 64 bits.
#[inline(always)]
pub(super) fn spot_lanes<const N: usize>(n: u32, words: [[u64; N]; 2]) -> [u64; N] {
    const LOW: u64 = 0xffff_ffff;
    let mut spots = [0; N];
    for lane in 0..N {
        let first = (words[0][lane] & LOW) * u64::from(n);
        spots[lane] = first + (((words[1][lane] & LOW) * u64::from(n)) >> 32);
    }
    spots
}

/// The index at a spot, or its alias.
#[inline(always)]
pub(super) fn pick(pairs: &[u32], spot: u64) -> u32 {
    let (index, coin) = ((spot >> 32) as u32, spot as u32);
    let entry = &pairs[2 * index as usize..][..2];
    // Without a branch: no processor can guess a coin.
    select_unpredictable(coin < entry[0], index, entry[1])
}

/// A distribution over `0..n` from which a draw takes one random number and one read of 8 B.
///
/// # Source
/// Walker, "An efficient method for generating discrete random variables" (1977), built as in Vose (1991).
#[derive(Debug)]
pub struct AliasTable {
    pub(super) pairs: Buffer<u32>,
}

impl AliasTable {
    /// Bytes of a table of so many outcomes.
    #[must_use]
    pub const fn bytes_of(n_outcomes: u64) -> u64 {
        n_outcomes * size_of::<[u32; 2]>() as u64
    }

    /// Bytes of host memory for the making of a table of so many outcomes, besides the weights and the table:
    /// a share and a place in one of two lists for each, and the entries before they are sent.
    #[must_use]
    pub const fn scratch_bytes(n_outcomes: u64) -> u64 {
        let of_outcome = size_of::<f64>() + size_of::<u32>() + size_of::<[u32; 2]>();
        n_outcomes * of_outcome as u64
    }

    /// Probabilities in proportion to the weights. Probabilities are exact to 2^-32 of `1 / n`; a weight of 0 is never
    /// drawn.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::Invalid`] for a weight that is negative or not finite, for weights that are all 0, and for more than
    /// 2^32 - 1 of them; what the upload fails with.
    pub fn upload(device: &Device, weights: &[f64]) -> Result<Self, Error> {
        let pairs = device.upload(&alias_pairs(weights)?)?;
        Ok(Self { pairs })
    }

    /// Probabilities in proportion to `degree^0.75`, the noise distribution of LINE (a degree of 0 is never drawn).
    ///
    /// # Errors
    /// As [`AliasTable::upload`].
    /// # Source
    /// Mikolov et al., "Distributed representations of words and phrases" (2013), section 2.2.
    pub fn from_degrees(device: &Device, degrees: &[u32]) -> Result<Self, Error> {
        let weights: Vec<f64> = degrees.iter().map(|&d| f64::from(d).powf(0.75)).collect();
        Self::upload(device, &weights)
    }

    /// The probability of each outcome.
    ///
    /// # Errors
    /// [`shardgraph_device::ErrorKind::OtherDevice`] where the table is not in host memory.
    pub fn probabilities(&self) -> Result<Vec<f64>, Error> {
        let pairs = self.pairs.on_host("alias table")?;
        let n = self.len();
        let mut probabilities = vec![0.0; n];
        for (i, entry) in pairs.chunks_exact(2).enumerate() {
            let stays = f64::from(entry[0]) / 2f64.powi(32);
            probabilities[i] += stays / n as f64;
            probabilities[entry[1] as usize] += (1.0 - stays) / n as f64;
        }
        Ok(probabilities)
    }

    /// The number of outcomes.
    pub fn len(&self) -> usize {
        self.pairs.len() / 2
    }

    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// (threshold, alias) of every index, interleaved: index `i` stays where a 32-bit coin is below its threshold.
fn alias_pairs(weights: &[f64]) -> Result<Vec<u32>, Error> {
    let (total, heaviest) = checked_total(weights)?;
    let n = weights.len();
    let mut share: Vec<f64> = weights.iter().map(|w| w / total * n as f64).collect();
    let is_small = |share: &f64| *share < 1.0;
    let n_small = share.iter().copied().filter(is_small).count();
    // A place for each index, and no more: see `AliasTable::scratch_bytes`.
    let (mut small, mut large) = (Vec::with_capacity(n_small), Vec::with_capacity(n - n_small));
    for (i, share) in (0u32..).zip(&share) {
        match is_small(share) {
            true => small.push(i),
            false => large.push(i),
        }
    }
    let mut pairs = vec![0u32; 2 * n];
    while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
        small.pop();
        pairs[2 * low as usize] = (share[low as usize] * 2f64.powi(32)) as u32; // saturates
        pairs[2 * low as usize + 1] = high;
        share[high as usize] -= 1.0 - share[low as usize];
        if share[high as usize] < 1.0 {
            large.pop();
            small.push(high);
        }
    }
    // What is left is 1 but for rounding: it stays, unless its weight is 0.
    for &left in small.iter().chain(&large) {
        let stays = weights[left as usize] > 0.0;
        pairs[2 * left as usize] = if stays { u32::MAX } else { 0 };
        pairs[2 * left as usize + 1] = if stays { left } else { heaviest };
    }
    Ok(pairs)
}

/// The sum of the weights and the index of the largest.
fn checked_total(weights: &[f64]) -> Result<(f64, u32), Error> {
    const OP: &str = "alias table";
    if weights.len() > u32::MAX as usize {
        return Err(Error::invalid(OP, "at most 2^32 - 1 weights"));
    }
    let fits = |w: &f64| w.is_finite() && *w >= 0.0;
    if let Some(at) = weights.iter().position(|w| !fits(w)) {
        let why = format!(
            "weight {at} is {}: must be finite and not negative",
            weights[at]
        );
        return Err(Error::invalid(OP, why));
    }
    let total: f64 = weights.iter().sum();
    let heaviest = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
    match heaviest {
        Some(heaviest) if total > 0.0 && total.is_finite() => Ok((total, heaviest as u32)),
        _ => Err(Error::invalid(
            OP,
            "some weight must be above 0, and their sum finite",
        )),
    }
}
