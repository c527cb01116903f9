//! How one chromosome is made: crossed from two parents, or drawn from the proposals.

use crate::beta::BetaTables;
use crate::outcome::Individual;
use shardgraph_random::KeyedRng;

/// Where mutants come from.
pub(crate) enum Proposals {
    /// Every key is uniform.
    Uniform,
    /// Each key has its own distribution: the table's index, 0 for the uniform.
    Beta {
        tables: BetaTables,
        choices: Vec<u16>,
        /// For each block of [`BLOCK`] keys, whether all of them are uniform.
        is_uniform: Vec<bool>,
    },
}

/// Keys that are looked at together to find whether all are uniform; even, since one random number makes two keys.
const BLOCK: usize = 64;

impl Proposals {
    /// Proposals by table, one choice for each key; the choices are below the number of tables.
    pub(crate) fn beta(tables: BetaTables, choices: Vec<u16>) -> Proposals {
        let choices: Vec<u16> = choices.iter().map(|&i| tables.canonical(i)).collect();
        let is_uniform: Vec<bool> = choices
            .chunks(BLOCK)
            .map(|block| block.iter().all(|choice| *choice == 0))
            .collect();
        if is_uniform.iter().all(|uniform| *uniform) {
            return Proposals::Uniform;
        }
        Proposals::Beta {
            tables,
            choices,
            is_uniform,
        }
    }
}

/// Draws a mutant. A uniform key is the same number whether or not others have a distribution of their own.
pub(crate) fn mutant(stream: &mut KeyedRng, proposals: &Proposals, keys: &mut [f32]) {
    let Proposals::Beta {
        tables,
        choices,
        is_uniform,
    } = proposals
    else {
        return uniform(stream, keys);
    };
    let blocks = keys.chunks_mut(BLOCK).zip(choices.chunks(BLOCK));
    for ((keys, choices), is_uniform) in blocks.zip(is_uniform) {
        match is_uniform {
            true => uniform(stream, keys),
            false => tables.draw(stream, choices, keys),
        }
    }
}

/// Uniform keys, multiples of 2^-24; two of each random number.
fn uniform(stream: &mut KeyedRng, keys: &mut [f32]) {
    let key = |bits: u32| (bits >> 8) as f32 * (1.0 / (1u32 << 24) as f32);
    let (pairs, last) = keys.as_chunks_mut::<2>();
    for pair in pairs {
        let bits = stream.next_u64();
        *pair = [key(bits as u32), key((bits >> 32) as u32)];
    }
    for last in last {
        *last = key(stream.next_u64() as u32);
    }
}

/// rho in units of 2^-16, below 2^16 so that a child can always take a key from its other parent.
pub(crate) fn rho_u16(rho: f64) -> u16 {
    // The conversion saturates at 65535.
    (rho * 65536.0 + 0.5) as u16
}

/// Crosses a random elite (the first `n_elites` of `members`) with a random other: each key is the elite's with probability
/// `rho` / 2^16.
///
/// # Panics
/// When there is no elite or nothing else, which [`crate::Config::check`] rules out.
pub(crate) fn cross(
    stream: &mut KeyedRng,
    members: &[Individual],
    n_elites: usize,
    rho: u16,
    keys: &mut [f32],
) {
    let (elites, others) = members.split_at(n_elites);
    let elite = &elites[stream.index(elites.len())].keys;
    let other = &others[stream.index(others.len())].keys;
    let (quads, last) = keys.as_chunks_mut::<4>();
    let (elite_quads, elite_last) = elite.as_chunks::<4>();
    let (other_quads, other_last) = other.as_chunks::<4>();
    for ((keys, elite), other) in quads.iter_mut().zip(elite_quads).zip(other_quads) {
        let bits = stream.next_u64();
        for i in 0..4 {
            keys[i] = pick((bits >> (16 * i)) as u16, rho, elite[i], other[i]);
        }
    }
    let bits = stream.next_u64();
    for (i, last) in last.iter_mut().enumerate() {
        *last = pick((bits >> (16 * i)) as u16, rho, elite_last[i], other_last[i]);
    }
}

/// `elite` if `bits` are below `rho`, `other` if not; without a branch, which would be mispredicted three times in ten.
#[inline]
fn pick(bits: u16, rho: u16, elite: f32, other: f32) -> f32 {
    // The sign of the difference, in every bit.
    let is_elite = ((i32::from(bits) - i32::from(rho)) >> 31) as u32;
    let (elite, other) = (elite.to_bits(), other.to_bits());
    f32::from_bits(other ^ ((elite ^ other) & is_elite))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rho_close_to_one_stays_below_it() {
        assert_eq!(rho_u16(0.5), 1 << 15);
        assert_eq!(rho_u16(0.7), 45875);
        assert_eq!(rho_u16(0.999_999_9), u16::MAX);
    }
}
