//! Conversions of sixteen numbers at a time.

use std::arch::x86_64::*;

use super::exponent;

/// Numbers of a register.
const N: usize = 16;

/// The first so many of a register's numbers.
#[inline]
fn first(n: usize) -> __mmask16 {
    if n < N { (1 << n) - 1 } else { __mmask16::MAX }
}

/// Gives how many columns are done: all.
///
/// # Safety
/// Both have `dim` columns, and the processor has these instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn widen_row(from: *const u16, to: *mut f32, dim: usize) -> usize {
    for at in (0..dim).step_by(N) {
        let columns = first(dim - at);
        // SAFETY: of what is behind the row, nothing is read or written.
        unsafe {
            let half = _mm256_maskz_loadu_epi16(columns, from.add(at).cast());
            _mm512_mask_storeu_ps(to.add(at), columns, _mm512_cvtph_ps(half));
        }
    }
    dim
}

/// As `widen_row`; none, where a number is beyond the format.
///
/// # Safety
/// As `widen_row`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn round_row(from: *const f32, to: *mut u16, dim: usize, random: u32) -> usize {
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut largest = _mm512_setzero_si512();
    for at in (0..dim).step_by(2 * N) {
        let words = random.wrapping_add((at / 2) as u32);
        let low = mix(_mm512_add_epi32(splat(words), lanes));
        let high = _mm512_srli_epi32::<16>(low);
        // Eight words have the bits of 16 columns.
        let two = [
            _mm512_shuffle_i64x2::<0b01_00_01_00>(low, high),
            _mm512_shuffle_i64x2::<0b11_10_11_10>(low, high),
        ];
        for (at, words) in [at, at + N].into_iter().zip(two) {
            let columns = first(dim.saturating_sub(at));
            // SAFETY: of what is behind the row, nothing is read or written.
            unsafe {
                let value = _mm512_maskz_loadu_ps(columns, from.wrapping_add(at));
                let half = round(value, words, &mut largest);
                _mm256_mask_storeu_epi16(to.wrapping_add(at).cast(), columns, half);
            }
        }
    }
    match _mm512_cmpgt_epi32_mask(largest, splat(exponent(15))) {
        0 => dim,
        _ => 0,
    }
}

/// As `round` of `f16c`.
#[inline]
#[target_feature(enable = "avx512f")]
fn round(value: __m512, words: __m512i, largest: &mut __m512i) -> __m256i {
    let bits = _mm512_castps_si512(value);
    let coin = _mm512_cvtepi32_ps(_mm512_and_si512(words, splat(0x1fff)));
    let power = _mm512_and_si512(bits, splat(0x7f80_0000));
    *largest = _mm512_max_epi32(*largest, power);
    let power = _mm512_max_epi32(power, splat(exponent(-14)));
    let unit = _mm512_sub_epi32(power, splat(23 << 23));
    let unit = _mm512_or_si512(unit, _mm512_and_si512(bits, splat(1 << 31)));
    let sum = _mm512_fmadd_ps(_mm512_castsi512_ps(unit), coin, value);
    _mm512_cvtps_ph::<_MM_FROUND_TO_ZERO>(sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(bits: u32) -> __m512i {
    _mm512_set1_epi32(bits.cast_signed())
}

/// The scalar `mix`, sixteen times.
#[inline]
#[target_feature(enable = "avx512f")]
fn mix(x: __m512i) -> __m512i {
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x));
    let x = _mm512_mullo_epi32(x, splat(0x7feb_352d));
    let x = _mm512_xor_si512(x, _mm512_srli_epi32::<15>(x));
    let x = _mm512_mullo_epi32(x, splat(0x846c_a68b));
    _mm512_xor_si512(x, _mm512_srli_epi32::<16>(x))
}
