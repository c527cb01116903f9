//! Rows of half-precision tables as f32, and back, rounded at random.
//!
//! AVX-512 and F16C convert 16 and 8 numbers at a time, to the bits of the portable way (of NaN,
//! only that it is one).

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod f16c;

use pulp::Simd;

use super::super::draws::mix;
use super::super::element::{round_at_random, widen};

/// Instructions that convert numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    Portable,
    #[cfg(target_arch = "x86_64")]
    F16c,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The fastest beside vectors of this kind.
    #[inline(always)]
    fn beside<S: Simd>() -> Instructions {
        #[cfg(target_arch = "x86_64")]
        {
            // Vectors of 16 f32 come from a processor that has all of `avx512`.
            if S::F32_LANES == 16 {
                return Instructions::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2")
                && std::arch::is_x86_feature_detected!("fma")
                && std::arch::is_x86_feature_detected!("f16c")
            {
                return Instructions::F16c;
            }
        }
        Instructions::Portable
    }
}

/// A row as f32.
///
/// # Safety
/// Both have `dim` columns.
#[inline(always)]
pub(super) unsafe fn widen_row<S: Simd>(from: *const u16, to: *mut f32, dim: usize) {
    // SAFETY: the caller's promise, and the processor has the instructions.
    let n_done = unsafe {
        match Instructions::beside::<S>() {
            Instructions::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            Instructions::F16c => f16c::widen_row(from, to, dim),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::widen_row(from, to, dim),
        }
    };
    for column in n_done..dim {
        // SAFETY: a column.
        unsafe { *to.add(column) = widen(*from.add(column)) };
    }
}

/// A row rounded at random; `random` is the word of its first column.
///
/// # Safety
/// Both have `dim` columns.
#[inline(always)]
pub(super) unsafe fn round_row<S: Simd>(from: *const f32, to: *mut u16, dim: usize, random: u32) {
    // SAFETY: the caller's promise, and the processor has the instructions.
    let n_done = unsafe {
        match Instructions::beside::<S>() {
            Instructions::Portable => 0,
            #[cfg(target_arch = "x86_64")]
            Instructions::F16c => f16c::round_row(from, to, dim, random),
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512 => avx512::round_row(from, to, dim, random),
        }
    };
    // SAFETY: columns.
    unsafe { round_columns(from, to, n_done..dim, random) };
}

/// # Safety
/// Both have these columns.
unsafe fn round_columns(
    from: *const f32,
    to: *mut u16,
    columns: std::ops::Range<usize>,
    random: u32,
) {
    for column in columns {
        // SAFETY: the caller's promise.
        unsafe {
            let value = *from.add(column);
            *to.add(column) = round_at_random(value, word_of_column(random, column));
        }
    }
}

/// Where the random bits of a target's row begin.
#[inline(always)]
pub(super) fn word_of_slot(random: u32, slot: usize) -> u32 {
    random.wrapping_add((slot as u32 + 1).wrapping_mul(0xC2B2_AE35))
}

/// The random bits of a column: of every 16, the first eight and the others have the two halves of eight words.
#[inline(always)]
fn word_of_column(random: u32, column: usize) -> u32 {
    let word = mix(random.wrapping_add((column / 16 * 8 + column % 8) as u32));
    word >> (column % 16 / 8 * 16)
}

/// The bits of 2^k.
#[cfg(target_arch = "x86_64")]
const fn exponent(k: i32) -> u32 {
    ((127 + k) as u32) << 23
}

#[cfg(test)]
mod tests {
    use pulp::{Arch, Scalar, WithSimd};

    use super::*;

    fn same(got: u16, want: u16) -> bool {
        let is_nan = |bits: u16| bits & 0x7fff > 0x7c00;
        got == want || (is_nan(got) && is_nan(want))
    }

    /// Runs with the instructions beside the processor's widest vectors, and beside none.
    fn with_all_instructions(test: impl WithSimd<Output = ()> + Copy) {
        Arch::new().dispatch(test);
        test.with_simd(Scalar::new());
        if Instructions::beside::<Scalar>() == Instructions::Portable {
            println!("SKIPPED: no F16C here, the portable way was compared with itself");
        }
    }

    #[derive(Clone, Copy)]
    struct EveryHalf;

    impl WithSimd for EveryHalf {
        type Output = ();

        fn with_simd<S: Simd>(self, _: S) {
            let halves: Vec<u16> = (0..=u16::MAX).collect();
            let mut wide = vec![0.0f32; halves.len()];
            for len in [halves.len(), 128, 19] {
                for (from, to) in halves.chunks(len).zip(wide.chunks_mut(len)) {
                    // SAFETY: as many columns.
                    unsafe { widen_row::<S>(from.as_ptr(), to.as_mut_ptr(), from.len()) };
                }
                for (&half, &got) in halves.iter().zip(&wide) {
                    let want = widen(half);
                    let both_nan = got.is_nan() && want.is_nan();
                    assert!(got.to_bits() == want.to_bits() || both_nan, "{half:#x}");
                }
            }
        }
    }

    #[test]
    fn every_half_is_widened_as_by_the_portable_way() {
        with_all_instructions(EveryHalf);
    }

    /// Numbers around all borders of the format, with many coins, in rows of odd lengths.
    #[derive(Clone, Copy)]
    struct Borders;

    impl WithSimd for Borders {
        type Output = ();

        fn with_simd<S: Simd>(self, _: S) {
            let numbers = numbers();
            for (len, random) in [(128, 7), (47, u32::MAX - 3), (31, 3), (8, 99), (1, 5)] {
                for (at, row) in numbers.chunks(len).enumerate() {
                    let random = mix(random).wrapping_add(at as u32);
                    let (mut got, mut want) = (vec![0u16; row.len()], vec![0u16; row.len()]);
                    // SAFETY: as many columns.
                    unsafe {
                        round_row::<S>(row.as_ptr(), got.as_mut_ptr(), row.len(), random);
                        round_columns(row.as_ptr(), want.as_mut_ptr(), 0..row.len(), random);
                    }
                    let all = got.iter().zip(&want).all(|(&got, &want)| same(got, want));
                    assert!(all, "{row:?} {got:x?} {want:x?}");
                }
            }
        }
    }

    #[test]
    fn rows_are_rounded_as_by_the_portable_way() {
        with_all_instructions(Borders);
    }

    fn numbers() -> Vec<f32> {
        let near = |bits: u32| (0..64).map(move |k| f32::from_bits(bits.wrapping_sub(32) + k));
        let borders = [
            32,
            0x0080_0000,
            0x3300_0000,
            0x3380_0000,
            0x387f_ff00,
            0x3880_0000,
            0x3f80_0000,
            0x477f_e000,
            0x477f_f000,
            0x4780_0000,
            0x7f7f_ffd0,
            0x7f80_0000,
        ];
        let spread = (0..60_000u32).map(|k| f32::from_bits(mix(k)));
        // Of all exponents that fp16 has, so that whole rows go the vectors' way.
        let within = |k: u32| mix(k) & 0x807f_ffff | (100 + mix(k ^ 0x5555) % 42) << 23;
        let within = (0..60_000u32).map(|k| f32::from_bits(within(k)));
        let usual =
            (0..60_000u32).map(|k| (f64::from(mix(k)) / f64::from(u32::MAX) - 0.5) as f32 * 0.3);
        let numbers = borders
            .into_iter()
            .flat_map(near)
            .chain(spread)
            .chain(within)
            .chain(usual);
        numbers.flat_map(|v| [v, -v]).collect()
    }
}
