//! Sums and searches in the registers of AVX2.

use std::arch::x86_64::*;

use super::{Lanes, TILE};

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sums(registers: &Lanes<Lanes<f32>>) -> Lanes<f32> {
    // SAFETY: eight numbers each.
    let [a, b, c, d, e, f, g, h] = registers.map(|r| unsafe { _mm256_loadu_ps(r.as_ptr()) });
    let (ab_cd, ef_gh) = (
        pairs(halves(a, b), halves(c, d)),
        pairs(halves(e, f), halves(g, h)),
    );
    let even = _mm256_shuffle_ps::<0b10_00_10_00>(ab_cd, ef_gh);
    let odd = _mm256_shuffle_ps::<0b11_01_11_01>(ab_cd, ef_gh);
    // a c e g b d f h
    let sums = _mm256_add_ps(even, odd);
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let mut out = [0.0; 8];
    // SAFETY: room for eight numbers.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), _mm256_permutevar8x32_ps(sums, order)) };
    out
}

/// The sums of each register's halves.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(a: __m256, b: __m256) -> __m256 {
    let low = _mm256_permute2f128_ps::<0x20>(a, b);
    _mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(a, b))
}

/// The sums of the halves of each four lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs(a: __m256, b: __m256) -> __m256 {
    let (a, b) = (_mm256_castps_pd(a), _mm256_castps_pd(b));
    let low = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
    _mm256_add_ps(low, _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn has_repeat(ids: &[Lanes<u32>]) -> bool {
    let Some((last, before)) = ids.split_last() else {
        return false;
    };
    let wide = load(last);
    // Each of the six beside those one, two and three behind it; the lanes behind, which hold the first, beside the second.
    let turned = |order| _mm256_cmpeq_epi32(wide, _mm256_permutevar8x32_epi32(wide, order));
    let mut same = _mm256_or_si256(
        turned(_mm256_setr_epi32(1, 2, 3, 4, 5, 0, 1, 1)),
        turned(_mm256_setr_epi32(2, 3, 4, 5, 0, 1, 1, 1)),
    );
    same = _mm256_or_si256(same, turned(_mm256_setr_epi32(3, 4, 5, 0, 1, 2, 1, 1)));
    for before in before {
        let before = load(before);
        for id in &last[..TILE] {
            let id = _mm256_set1_epi32(id.cast_signed());
            same = _mm256_or_si256(same, _mm256_cmpeq_epi32(before, id));
        }
    }
    _mm256_testz_si256(same, same) == 0
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal(ids: &Lanes<u32>, id: u32) -> u32 {
    let id = _mm256_set1_epi32(id.cast_signed());
    let same = _mm256_cmpeq_epi32(load(ids), id);
    _mm256_movemask_ps(_mm256_castsi256_ps(same)).cast_unsigned()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(ids: &Lanes<u32>) -> __m256i {
    // SAFETY: eight numbers.
    unsafe { _mm256_loadu_si256(ids.as_ptr().cast()) }
}
