//! Reference outputs, moments and ranges of the random streams.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// From the authors' xoshiro256plusplus.c with the state 1, 2, 3, 4.
const REFERENCE: [u64; 10] = [
    41_943_041,
    58_720_359,
    3_588_806_011_781_223,
    3_591_011_842_654_386,
    9_228_616_714_210_784_205,
    9_973_669_472_204_895_162,
    14_011_001_112_246_962_877,
    12_406_186_145_184_390_807,
    15_849_039_046_786_891_736,
    10_450_023_813_501_588_000,
];

#[test]
fn xoshiro_gives_the_reference_outputs() {
    let mut state = [1, 2, 3, 4];
    for expected in REFERENCE {
        let (output, after) = next(state);
        assert_eq!(output, expected);
        state = after;
    }
}

/// The library's generator, seeded by its SplitMix64.
#[test]
fn keys_seed_as_the_library_does() {
    for key in [0, 1, u64::MAX, GOLDEN, GOLDEN.wrapping_neg(), 7 << 40] {
        let mut expected = Xoshiro256PlusPlus::seed_from_u64(key);
        let mut found = KeyedRng::from_key(key);
        for _ in 0..100 {
            assert_eq!(found.next_u64(), expected.next_u64(), "{key}");
        }
    }
}

/// SplitMix64 from the state 1234567, as in its authors' splitmix64.c.
#[test]
fn mix_is_one_step_of_splitmix64() {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = 1_234_567u64;
    let outputs = [0, 1, 2].map(|i| mix(state.wrapping_add(GOLDEN.wrapping_mul(i))));
    assert_eq!(
        outputs,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423
        ]
    );
}

/// Pinned, so that a change of the keying (and with it of every generated graph) does not go unnoticed.
#[test]
fn the_keying_is_stable() {
    assert_eq!(
        KeyedRng::new(1, "er", 0).next_u64(),
        2_945_980_458_185_378_727
    );
    assert_eq!(
        KeyedRng::new(1, "er", 1).next_u64(),
        3_205_513_394_583_296_871
    );
}

#[test]
fn first_numbers_of_many_streams_are_those_of_each() {
    let streams = [3, 9, u64::MAX].map(|seed| KeyedStreams::new(seed, "streams"));
    for first in [0, 1, 1 << 32, u64::MAX - 1] {
        let indices = [first, first + 1, first ^ 0x5555];
        let numbers = first_uniforms(streams, indices);
        for (lane, index) in indices.into_iter().enumerate() {
            let mut stream = streams[lane].stream(index);
            let expected = [(); 4].map(|()| stream.uniform_f64().to_bits());
            assert_eq!(numbers.map(|numbers| numbers[lane].to_bits()), expected);
        }
    }
}

#[test]
fn every_part_of_the_key_matters() {
    let keys = [
        (0, "a", 0),
        (1, "a", 0),
        (0, "b", 0),
        (0, "a", 1),
        (0, "", 0),
        (0, "aa", 0),
        (0, "a\0", 0),
    ];
    let mut firsts =
        keys.map(|(seed, purpose, index)| KeyedRng::new(seed, purpose, index).next_u64());
    firsts.sort_unstable();
    assert!(firsts.windows(2).all(|pair| pair[0] != pair[1]));
}

#[test]
fn uniforms_stay_in_range_and_have_the_right_mean() {
    let mut random = KeyedRng::new(3, "uniform", 0);
    let n = 100_000;
    let mut sum = 0.0;
    for _ in 0..n {
        let (x, y) = (random.uniform_f64(), random.uniform_f32());
        assert!((0.0..1.0).contains(&x) && (0.0..1.0).contains(&y));
        sum += x + f64::from(y);
    }
    assert!((sum / f64::from(2 * n) - 0.5).abs() < 0.005, "{sum}");
}

#[test]
fn below_hits_every_value_equally() {
    let mut random = KeyedRng::new(4, "below", 0);
    for n in [1u64, 2, 3, 6, 7, 31] {
        let mut counts = vec![0u32; n as usize];
        for _ in 0..20_000 {
            counts[random.below(n) as usize] += 1;
        }
        let mean = 20_000.0 / n as f64;
        let chi2: f64 = counts
            .iter()
            .map(|&c| (f64::from(c) - mean).powi(2) / mean)
            .sum();
        assert!(
            chi2 < n as f64 + 5.0 * (2.0 * n as f64).sqrt(),
            "n {n}: {chi2}"
        );
    }
}

/// With 3 · 2^62 values a plain multiply-shift would give some values twice the chance of others.
#[test]
fn below_is_unbiased_for_huge_ranges() {
    let n = 3u64 << 62;
    let mut random = KeyedRng::new(5, "below", 0);
    let n_low = (0..30_000)
        .filter(|_| random.below(n).is_multiple_of(3))
        .count() as f64;
    assert!((n_low / 30_000.0 - 1.0 / 3.0).abs() < 0.015, "{n_low}");
}

#[test]
#[should_panic(expected = "below(0)")]
fn below_zero_panics() {
    KeyedRng::new(0, "below", 0).below(0);
}

#[test]
fn logarithm_agrees_with_the_platforms() {
    let mut random = KeyedRng::new(6, "ln", 0);
    let mut points = vec![
        1.0,
        0.5,
        2.0,
        std::f64::consts::SQRT_2,
        0.1,
        f64::MIN_POSITIVE,
        1e300,
        1.0 - f64::EPSILON / 2.0,
    ];
    points.extend((0..10_000).map(|_| random.uniform_f64() + 1e-17));
    points.extend((0..10_000).map(|_| 1e6 * random.uniform_f64() + 1e-3));
    for x in points {
        let (ours, platform) = (ln(x), x.ln());
        assert!(
            (ours - platform).abs() <= 4.0 * f64::EPSILON * platform.abs(),
            "{x}: {ours} {platform}"
        );
    }
}

#[test]
fn logarithm_of_one_minus_p_keeps_small_p() {
    for p in [
        1e-300, 1e-18, 1e-9, 1e-3, 0.15, 0.2499, 0.25, 0.5, 0.999_999,
    ] {
        let (ours, platform) = (ln_1m(p), (-p).ln_1p());
        assert!(
            (ours - platform).abs() <= 4.0 * f64::EPSILON * platform.abs(),
            "{p}: {ours} {platform}"
        );
    }
}

#[test]
fn geometric_has_the_right_mean_and_start() {
    for p in [0.01, 0.15, 0.5, 0.9] {
        let mut random = KeyedRng::new(7, "geometric", 0);
        let scale = KeyedRng::inverse_ln_q(p);
        let n = 50_000;
        let draws: Vec<u64> = (0..n).map(|_| random.geometric(scale)).collect();
        let mean = draws.iter().sum::<u64>() as f64 / f64::from(n);
        let deviation = (1.0 - p).sqrt() / p / f64::from(n).sqrt();
        assert!(
            (mean - (1.0 - p) / p).abs() < 5.0 * deviation,
            "p {p}: {mean}"
        );
        let at_once = draws.iter().filter(|&&d| d == 0).count() as f64 / f64::from(n);
        assert!((at_once - p).abs() < 0.01, "p {p}: {at_once}");
    }
}

#[test]
fn normal_has_the_right_moments() {
    let mut random = KeyedRng::new(8, "normal", 0);
    let n = 100_000;
    let draws: Vec<f64> = (0..n).map(|_| random.normal()).collect();
    let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
    assert!(moment(1).abs() < 0.02);
    assert!((moment(2) - 1.0).abs() < 0.03);
    assert!(moment(3).abs() < 0.06);
    assert!((moment(4) - 3.0).abs() < 0.15);
}

/// Moments k!, and e^-t of the draws above t.
#[test]
fn exponential_has_the_right_moments_and_tail() {
    let mut random = KeyedRng::new(12, "exponential", 0);
    let n = 100_000;
    let draws: Vec<f64> = (0..n).map(|_| random.exponential()).collect();
    assert!(draws.iter().all(|&x| (0.0..=37.0).contains(&x)));
    let moment = |k: i32| draws.iter().map(|x| x.powi(k)).sum::<f64>() / f64::from(n);
    assert!((moment(1) - 1.0).abs() < 0.02);
    assert!((moment(2) - 2.0).abs() < 0.1);
    for t in [0.5f64, 1.0, 3.0] {
        let above = draws.iter().filter(|&&x| x > t).count() as f64 / f64::from(n);
        assert!((above - (-t).exp()).abs() < 0.01, "{above} above {t}");
    }
}

#[test]
fn shuffle_reaches_every_order_equally() {
    let mut random = KeyedRng::new(9, "shuffle", 0);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..12_000 {
        let mut items = [0, 1, 2, 3];
        random.shuffle(&mut items);
        *counts.entry(items).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), 24);
    assert!(
        counts.values().all(|count| (380..620).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn samples_are_distinct_and_cover_the_range() {
    let mut random = KeyedRng::new(10, "sample", 0);
    for (n, k) in [(0, 0), (1, 1), (5, 0), (5, 3), (64, 64), (1 << 40, 257)] {
        let mut sample = random.sample_without_replacement(n, k);
        sample.sort_unstable();
        sample.dedup();
        assert_eq!(sample.len(), k);
        assert!(sample.iter().all(|&x| x < n));
    }
    let mut counts = [0u32; 6];
    for _ in 0..10_000 {
        for x in random.sample_without_replacement(6, 2) {
            counts[x as usize] += 1;
        }
    }
    assert!(
        counts.iter().all(|count| (3100..3570).contains(count)),
        "{counts:?}"
    );
}
