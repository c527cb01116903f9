//! The update of half-precision tables: rows become f32, are worked on there, and are rounded at random when they go back.
//!
//! Negatives that samples share are in f32 from the first of these samples to the last: a row is converted, and rounded, once for the
//! group. A row that is in a group's copies already, as another negative, target or (with one table for both roles) source, is worked on
//! there. Rows are converted by the processor's F16C where it has it, to the bits of the portable way (of NaN, only that it is one).

use pulp::Simd;

use super::super::element::{round_at_random, widen};
use super::kernel::{add_row, descend};
use super::{MAX_SLOTS, Raw, Scratch, mix, word_of_slot};

/// A sample, and where it stands among those that share its negatives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample<'a> {
    pub(super) source: u32,
    pub(super) targets: &'a [u32],
    /// Decides how rows are rounded.
    pub(super) random: u32,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// One update.
///
/// # Safety
/// T is the bits of half-precision numbers. The source is a row of `tables.vertex`, the targets are rows of `tables.context`, at most
/// [`MAX_SLOTS`] of them, and nothing else reads or writes the tables between the first and the last sample of a group; likewise the
/// squares, of one column. `scratch.rows` has room for all targets.
#[inline(always)]
pub(super) unsafe fn sample<T, S: Simd, const R: usize>(
    simd: S,
    sample: &Sample<'_>,
    rate: f32,
    (tables, squares): (Raw<T>, Option<Raw<f32>>),
    scratch: &mut Scratch,
) {
    debug_assert_eq!(size_of::<T>(), size_of::<u16>());
    let (vertex, context): (*mut u16, *mut u16) = (tables.vertex.cast(), tables.context.cast());
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let copies = scratch.rows.as_mut_ptr();
    // SAFETY: rows of the tables and of `scratch.rows`, the caller's promise.
    unsafe {
        take_targets(context, sample, scratch);
        let mut rows = [copies; MAX_SLOTS];
        for (row, &slot) in rows.iter_mut().zip(&scratch.slots[..targets.len()]) {
            *row = copies.add(slot * dim);
        }
        let of_source = vertex.add(sample.source as usize * dim);
        // With one table, the source's row may be among the copies.
        let found = match std::ptr::eq(vertex, context) {
            true => targets.iter().position(|&target| target == sample.source),
            false => None,
        };
        match found {
            Some(slot) => {
                let copy = std::slice::from_raw_parts(rows[slot], dim);
                scratch.source.copy_from_slice(copy);
            }
            None => widen_row(of_source, scratch.source.as_mut_ptr(), dim),
        }
        let (ids, rows) = ((sample.source, targets), &rows[..targets.len()]);
        let scale = descend::<S, R>(simd, (ids, rows), rate, squares, scratch);
        match found {
            Some(slot) => add_row::<S>(simd, rows[slot], scale, &scratch.gradient),
            None => {
                let source = scratch.source.as_mut_ptr();
                add_row::<S>(simd, source, scale, &scratch.gradient);
                round_row(source, of_source, dim, sample.random);
            }
        }
        give_back(context, sample, scratch);
    }
}

/// Copies the target's row and, at the beginning of a group, the negatives', each row once.
///
/// # Safety
/// As [`sample`].
#[inline(always)]
unsafe fn take_targets(context: *const u16, sample: &Sample<'_>, scratch: &mut Scratch) {
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let end = if sample.is_first { targets.len() } else { 1 };
    // The edge's own target comes last: if it is a negative too, that is the copy that stays.
    for slot in (1..end).chain([0]) {
        let before = match slot {
            0 => &targets[1..],
            _ => &targets[1..slot],
        };
        let same = before.iter().position(|&row| row == targets[slot]);
        scratch.slots[slot] = same.map_or(slot, |at| scratch.slots[at + 1]);
        if same.is_none() {
            // SAFETY: the caller's promise.
            unsafe {
                let row = context.add(targets[slot] as usize * dim);
                widen_row(row, scratch.rows.as_mut_ptr().add(slot * dim), dim);
            }
        }
    }
}

/// Rounds the target's row and, at the end of a group, the negatives', back to the table.
///
/// # Safety
/// As [`sample`].
#[inline(always)]
unsafe fn give_back(context: *mut u16, sample: &Sample<'_>, scratch: &Scratch) {
    let (dim, targets) = (scratch.source.len(), sample.targets);
    let end = if sample.is_last { targets.len() } else { 1 };
    for (slot, &target) in targets.iter().enumerate().take(end) {
        if scratch.slots[slot] != slot {
            continue;
        }
        let word = word_of_slot(sample.random, slot);
        // SAFETY: the caller's promise.
        unsafe {
            let row = context.add(target as usize * dim);
            round_row(scratch.rows.as_ptr().add(slot * dim), row, dim, word);
        }
    }
}

/// Whether the processor converts by itself.
#[inline(always)]
fn has_f16c() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("fma")
        && std::arch::is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// A row as f32.
///
/// # Safety
/// Both have `dim` columns.
#[inline(always)]
pub(super) unsafe fn widen_row(from: *const u16, to: *mut f32, dim: usize) {
    let done = match has_f16c() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise, and the processor has the instructions.
        true => unsafe { f16c::widen_row(from, to, dim) },
        _ => 0,
    };
    for column in done..dim {
        // SAFETY: a column.
        unsafe { *to.add(column) = widen(*from.add(column)) };
    }
}

/// A row rounded at random; `random` is the word of its first column.
///
/// # Safety
/// Both have `dim` columns.
#[inline(always)]
pub(super) unsafe fn round_row(from: *const f32, to: *mut u16, dim: usize, random: u32) {
    let done = match has_f16c() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the caller's promise, and the processor has the instructions.
        true => unsafe { f16c::round_row(from, to, dim, random) },
        _ => 0,
    };
    // SAFETY: columns.
    unsafe { round_columns(from, to, done..dim, random) };
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

/// The random bits of a column: of every 16, the first eight and the others have the two halves of eight words.
#[inline(always)]
fn word_of_column(random: u32, column: usize) -> u32 {
    let word = mix(random.wrapping_add((column / 16 * 8 + column % 8) as u32));
    word >> (column % 16 / 8 * 16)
}

/// Eight numbers at a time.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use std::arch::x86_64::*;

    /// Numbers of a register.
    const N: usize = 8;

    /// Gives how many columns are done.
    ///
    /// # Safety
    /// Both have `dim` columns, and the processor has these instructions.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub(super) unsafe fn widen_row(from: *const u16, to: *mut f32, dim: usize) -> usize {
        let whole = dim / N * N;
        for at in (0..whole).step_by(N) {
            // SAFETY: `at + N <= dim`.
            unsafe {
                let half = _mm_loadu_si128(from.add(at).cast());
                _mm256_storeu_ps(to.add(at), _mm256_cvtph_ps(half));
            }
        }
        whole
    }

    /// As `widen_row`.
    ///
    /// # Safety
    /// As `widen_row`.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    pub(super) unsafe fn round_row(
        from: *const f32,
        to: *mut u16,
        dim: usize,
        random: u32,
    ) -> usize {
        let whole = dim / (2 * N) * (2 * N);
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut largest = _mm256_setzero_si256();
        for at in (0..whole).step_by(2 * N) {
            let first = random.wrapping_add((at / 2) as u32);
            let words = _mm256_add_epi32(_mm256_set1_epi32(first.cast_signed()), lanes);
            let low = mix(words);
            // SAFETY: `at + 2 N <= dim`.
            unsafe {
                round(from.add(at), to.add(at), low, &mut largest);
                let high = _mm256_srli_epi32::<16>(low);
                round(from.add(at + N), to.add(at + N), high, &mut largest);
            }
        }
        let beyond = _mm256_cmpgt_epi32(largest, _mm256_set1_epi32(exponent(15).cast_signed()));
        match _mm256_testz_si256(beyond, beyond) {
            0 => 0, // some number is beyond the format, or none at all: all again
            _ => whole,
        }
    }

    /// The bits of 2^k.
    const fn exponent(k: i32) -> u32 {
        ((127 + k) as u32) << 23
    }

    /// Rounds N numbers by the last bits of these words; `largest` becomes the largest exponent, as its bits.
    ///
    /// A step of the format is `2^-10` of the number's power of two, which counts as `2^-14` where it is less. A share of the step that is
    /// drawn is added to the magnitude, and what is behind the step is cut: in all but what carries to the next power of two the sum is
    /// exact, and there the format's step is larger than what is lost.
    ///
    /// # Safety
    /// There are N numbers, and the processor has the instructions.
    #[inline]
    #[target_feature(enable = "avx2,f16c,fma")]
    unsafe fn round(from: *const f32, to: *mut u16, words: __m256i, largest: &mut __m256i) {
        let bits_of = |bits: u32| _mm256_set1_epi32(bits.cast_signed());
        // SAFETY: the caller's promise.
        unsafe {
            let value = _mm256_loadu_ps(from);
            let bits = _mm256_castps_si256(value);
            let coin = _mm256_cvtepi32_ps(_mm256_and_si256(words, bits_of(0x1fff)));
            let power = _mm256_and_si256(bits, bits_of(0x7f80_0000));
            *largest = _mm256_max_epi32(*largest, power);
            let power = _mm256_max_epi32(power, bits_of(exponent(-14)));
            // 2^-23 of it: of 2^13 coins, 2^-10.
            let unit = _mm256_sub_epi32(power, bits_of(23 << 23));
            let sign = _mm256_and_si256(bits, bits_of(1 << 31));
            let unit = _mm256_castsi256_ps(_mm256_or_si256(unit, sign));
            let sum = _mm256_fmadd_ps(unit, coin, value);
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_ZERO>(sum));
        }
    }

    /// The scalar `mix`, eight times.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mix(x: __m256i) -> __m256i {
        let factor = |bits: u32| _mm256_set1_epi32(bits.cast_signed());
        let x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
        let x = _mm256_mullo_epi32(x, factor(0x7feb_352d));
        let x = _mm256_xor_si256(x, _mm256_srli_epi32::<15>(x));
        let x = _mm256_mullo_epi32(x, factor(0x846c_a68b));
        _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(got: u16, want: u16) -> bool {
        let is_nan = |bits: u16| bits & 0x7fff > 0x7c00;
        got == want || (is_nan(got) && is_nan(want))
    }

    #[test]
    fn every_half_is_widened_as_by_the_portable_way() {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        let mut wide = vec![0.0f32; halves.len()];
        // SAFETY: as many columns.
        unsafe { widen_row(halves.as_ptr(), wide.as_mut_ptr(), halves.len()) };
        for (&half, &got) in halves.iter().zip(&wide) {
            let want = widen(half);
            let both_nan = got.is_nan() && want.is_nan();
            assert!(got.to_bits() == want.to_bits() || both_nan, "{half:#x}");
        }
        match has_f16c() {
            true => {}
            false => println!("SKIPPED: no F16C here, the portable way was compared with itself"),
        }
    }

    /// Numbers around all borders of the format, with many coins, in rows of odd lengths.
    #[test]
    fn rows_are_rounded_as_by_the_portable_way() {
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
        let numbers: Vec<f32> = numbers.flat_map(|v| [v, -v]).collect();
        for (len, random) in [(128, 7), (31, u32::MAX - 3), (8, 99), (1, 5)] {
            for (at, row) in numbers.chunks(len).enumerate() {
                let random = mix(random).wrapping_add(at as u32);
                let (mut got, mut want) = (vec![0u16; row.len()], vec![0u16; row.len()]);
                // SAFETY: as many columns.
                unsafe {
                    round_row(row.as_ptr(), got.as_mut_ptr(), row.len(), random);
                    round_columns(row.as_ptr(), want.as_mut_ptr(), 0..row.len(), random);
                }
                let all = got.iter().zip(&want).all(|(&got, &want)| same(got, want));
                assert!(all, "{row:?} {got:x?} {want:x?}");
            }
        }
    }
}
