//! Eight lanes at a time, for what vectors of any width do not give: the sums of several registers at once, and a search for equal ids.

#[cfg(target_arch = "x86_64")]
mod avx2;

use pulp::Simd;

use super::scratch::SIDE_BY_SIDE;

/// Rows that are worked on together: with 5 negatives, all; their sums stay in 12 of AVX2's 16 registers.
pub(super) const TILE: usize = 6;

/// A number for each of [`TILE`] targets, the edge's own first, and two more.
pub(super) type Lanes<T> = [T; SIDE_BY_SIDE];

/// The sum of each register's lanes: halves are added to one another, then their halves, as in `reduce_sum_f32s`.
#[inline(always)]
pub(super) fn sums<S: Simd, const K: usize>(simd: S, registers: &[S::f32s; K]) -> Lanes<f32> {
    const { assert!(K <= SIDE_BY_SIDE) };
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES == SIDE_BY_SIDE && K >= 4 {
        let mut wide = [[0.0f32; SIDE_BY_SIDE]; SIDE_BY_SIDE];
        for k in 0..K {
            // SAFETY: a register of eight f32.
            wide[k] = unsafe { std::mem::transmute_copy(&registers[k]) };
        }
        // SAFETY: vectors of eight f32 come from a processor with these instructions.
        return unsafe { avx2::sums(&wide) };
    }
    let mut out = [0.0; SIDE_BY_SIDE];
    for k in 0..K {
        out[k] = simd.reduce_sum_f32s(registers[k]);
    }
    out
}

/// Whether the last of these has an id twice, or one of an earlier. Lanes behind the targets hold the first target.
#[inline(always)]
pub(super) fn has_repeat<S: Simd>(ids: &[Lanes<u32>]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES >= SIDE_BY_SIDE {
        // SAFETY: as in `sums`, or a later processor.
        return unsafe { avx2::has_repeat(ids) };
    }
    repeats(ids)
}

/// A bit for each of these that is this id.
#[inline(always)]
pub(super) fn equal<S: Simd>(ids: &Lanes<u32>, id: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if S::F32_LANES >= SIDE_BY_SIDE {
        // SAFETY: as in `has_repeat`.
        return unsafe { avx2::equal(ids, id) };
    }
    let mut same = 0;
    for (lane, &other) in ids.iter().enumerate() {
        same |= u32::from(other == id) << lane;
    }
    same
}

/// As [`has_repeat`], one by one.
fn repeats(ids: &[Lanes<u32>]) -> bool {
    let Some((last, before)) = ids.split_last() else {
        return false;
    };
    let last = &last[..TILE];
    let is_old = |id: &u32| before.as_flattened().contains(id);
    (0..TILE).any(|k| last[k + 1..].contains(&last[k]) || is_old(&last[k]))
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, Simd, WithSimd};

    use super::*;

    /// Both ways of each function, on the processor's widest vectors.
    struct Both;

    impl WithSimd for Both {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let mut registers = [simd.splat_f32s(0.0); TILE];
            for (k, register) in registers.iter_mut().enumerate() {
                // Numbers of many sizes, so that the order of additions shows.
                let numbers: Vec<f32> = (0..S::F32_LANES)
                    .map(|lane| 1.37f32.powi((lane * 11 + k * 5) as i32 % 23) / 3.0)
                    .collect();
                *register = simd.partial_load_f32s(&numbers);
            }
            let found = sums(simd, &registers);
            for k in 0..TILE {
                let alone = simd.reduce_sum_f32s(registers[k]);
                assert_eq!(found[k].to_bits(), alone.to_bits(), "row {k}");
            }
            let of_sample = |first: u32| {
                let ids: [u32; TILE] = std::array::from_fn(|k| first + 3 * k as u32);
                [
                    ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[0], ids[0],
                ]
            };
            let apart = [of_sample(0), of_sample(1), of_sample(100)];
            assert!(!has_repeat::<S>(&apart) && !repeats(&apart));
            for (sample, a) in (0..3).flat_map(|sample| (0..TILE).map(move |a| (sample, a))) {
                for b in (0..TILE).filter(|&b| sample < 2 || b != a) {
                    let mut ids = apart;
                    let same = ids[sample][a];
                    ids[2][b] = same;
                    (ids[2][6], ids[2][7]) = (ids[2][0], ids[2][0]);
                    assert!(has_repeat::<S>(&ids) && repeats(&ids), "{sample} {a} {b}");
                }
            }
            for (lane, &id) in apart[1].iter().enumerate().take(TILE) {
                let others = if lane == 0 { 0b1100_0000 } else { 0 };
                assert_eq!(equal::<S>(&apart[1], id), 1 << lane | others);
            }
        }
    }

    #[test]
    fn vectors_give_what_is_found_one_by_one() {
        Arch::new().dispatch(Both);
    }
}
