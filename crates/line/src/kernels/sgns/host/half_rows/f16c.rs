//! Conversions of eight numbers at a time.

use std::arch::x86_64::*;

use super::exponent;

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
pub(super) unsafe fn round_row(from: *const f32, to: *mut u16, dim: usize, random: u32) -> usize {
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
