//! Measures against their definitions, axes against all eigenvalues, fits against known weights.

use proptest::prelude::*;
use shardgraph_random::KeyedRng;

use super::*;

proptest! {
    #[test]
    fn auc_is_the_share_of_won_comparisons(
        positives in prop::collection::vec(-3i32..3, 1..65),
        negatives in prop::collection::vec(-3i32..3, 1..65),
    ) {
        // Few values, so that most are tied; halves of them, so that -0 comes up.
        let score = |v: i32| f64::from(v) * -0.5;
        let positives: Vec<f64> = positives.into_iter().map(score).collect();
        let negatives: Vec<f64> = negatives.into_iter().map(score).collect();
        let expected = naive::auc(&positives, &negatives);
        prop_assert!((auc(&positives, &negatives) - expected).abs() < 1e-12);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn mutual_information_is_its_definition(
        pairs in prop::collection::vec((0u32..4, 0u32..4), 1..65),
    ) {
        let (a, b): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let (found, expected) = (mutual_information(&a, &b), naive::mutual_information(&a, &b, 4));
        prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        prop_assert!((found - mutual_information(&b, &a)).abs() < 1e-9);
    }

    #[test]
    fn axes_have_the_largest_variances(n in 1usize..33, dim in 1usize..9, seed in 0u64..1000) {
        let mut rng = KeyedRng::new(seed, "test", 0);
        // Columns of different spread, so that the axes are told apart within the steps.
        let spread = |i: usize| (1 << (i % dim)) as f32;
        let draw = |i: usize| rng.normal() as f32 / spread(i);
        let values: Vec<f32> = (0..n * dim).map(draw).collect();
        let found = principal_plane(&values, dim, &mut rng);
        let cell = |r: usize, c: usize| f64::from(values[r * dim + c]);
        let mean = |c: usize| (0..n).map(|r| cell(r, c)).sum::<f64>() / n as f64;
        let means: Vec<f64> = (0..dim).map(mean).collect();
        let moved = |r: usize, c: usize| cell(r, c) - means[c];
        let product = |a: usize, b: usize| (0..n).map(|r| moved(r, a) * moved(r, b)).sum::<f64>();
        let matrix = (0..dim).map(|a| (0..dim).map(|b| product(a, b)).collect()).collect();
        let eigenvalues = naive::eigenvalues(matrix);
        let total: f64 = eigenvalues.iter().sum();
        for (axis, share) in found.shares.into_iter().enumerate() {
            let eigenvalue = eigenvalues.get(axis).copied().unwrap_or(0.0);
            let expected = if total > 1e-12 { eigenvalue / total } else { 0.0 };
            prop_assert!((share - expected).abs() < 1e-3, "axis {axis}: {share} {expected}");
        }
    }

    #[test]
    fn f1_is_its_definition(seed in 0u64..1000, n in 1usize..40) {
        let mut rng = KeyedRng::new(seed, "test", 0);
        let mut classes = || -> Vec<Vec<u32>> {
            let node = |_| (0..5).filter(|class| rng.chance(0.1 * f64::from(class + 1))).collect();
            (0..n).map(node).collect()
        };
        let (mut own, predicted) = (classes(), classes());
        own[0] = vec![1];
        let mut counts = F1Counts::new(5);
        own.iter().zip(&predicted).for_each(|(own, predicted)| counts.add(own, predicted));
        let (found, expected) = (counts.f1(), naive::f1(&own, &predicted, 5));
        prop_assert!((found.micro - expected.micro).abs() < 1e-12, "{found:?} {expected:?}");
        prop_assert!((found.mean - expected.mean).abs() < 1e-12, "{found:?} {expected:?}");
    }
}

#[test]
fn clusters_are_the_nearest_of_their_means() {
    let mut rng = KeyedRng::new(5, "test", 0);
    for (n, k) in [(1, 1), (1, 5), (7, 7), (60, 3), (65, 8)] {
        let rows: Vec<f32> = (0..n * 2).map(|_| rng.normal() as f32).collect();
        let clusters = kmeans(&rows, 2, k, 1);
        assert_eq!(clusters.len(), n);
        let row = |at: usize| [f64::from(rows[2 * at]), f64::from(rows[2 * at + 1])];
        let mean = |c: u32| {
            let own: Vec<usize> = (0..n).filter(|&at| clusters[at] == c).collect();
            let sum = own.iter().fold([0.0; 2], |sum, &at| {
                [sum[0] + row(at)[0], sum[1] + row(at)[1]]
            });
            sum.map(|x| x / own.len() as f64)
        };
        let means: Vec<[f64; 2]> = (0..k.min(n) as u32).map(mean).collect();
        for at in 0..n {
            let to = |m: &[f64; 2]| (row(at)[0] - m[0]).powi(2) + (row(at)[1] - m[1]).powi(2);
            let own = to(&means[clusters[at] as usize]);
            assert!(
                means.iter().all(|m| own <= to(m) + 1e-9),
                "{n} {k} row {at}"
            );
        }
    }
    let same = kmeans(&[1.0; 12], 2, 3, 1);
    assert!(same.iter().all(|&c| c == same[0]), "equal rows: {same:?}");
}

#[test]
fn the_regression_finds_the_weights_that_made_the_labels() {
    let mut rng = KeyedRng::new(4, "test", 0);
    let true_weights = [2.0, -1.0, 0.0, 0.5];
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..20_000 {
        let row: Vec<f64> = (0..4)
            .map(|c| rng.normal() * f64::from(c + 1) + 3.0)
            .collect();
        let terms = row.iter().zip(true_weights).map(|(x, w)| x * w);
        let x = terms.sum::<f64>() - 1.5;
        labels.push(rng.chance(1.0 / (1.0 + (-x).exp())));
        features.extend(row.iter().map(|&x| x as f32));
    }
    let fitted = Logistic::fit(&features, &labels, 4, 0.0);
    let bias = fitted.score(&[0.0; 4]);
    assert!((bias + 1.5).abs() < 0.15, "{bias}");
    for (column, weight) in true_weights.into_iter().enumerate() {
        let mut unit = [0.0; 4];
        unit[column] = 1.0;
        let found = fitted.score(&unit) - bias;
        assert!((found - weight).abs() < 0.1, "column {column}: {found}");
    }
}

/// More rows than a block, more columns than running sums, and labels that depend on chance.
#[test]
fn the_regression_is_that_of_newtons_method() {
    for (n, dim, l2) in [(30, 1, 0.1), (300, 5, 1e-2), (700, 19, 1e-3)] {
        let mut rng = KeyedRng::new(9, "test", n);
        // Columns of mean 0 and variance 1, which fitting does not change.
        let mut rows = vec![vec![0.0; dim]; n as usize];
        for column in 0..dim {
            let values: Vec<f64> = rows.iter().map(|_| rng.normal()).collect();
            let mean = values.iter().sum::<f64>() / n as f64;
            let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
            let scale = (squares / n as f64).sqrt();
            for (row, x) in rows.iter_mut().zip(&values) {
                row[column] = f64::from(((x - mean) / scale) as f32);
            }
        }
        let labels: Vec<bool> = rows
            .iter()
            .map(|row| rng.chance(0.5 + 0.2 * row[0].tanh()))
            .collect();
        let features: Vec<f32> = rows.iter().flatten().map(|&x| x as f32).collect();
        let expected = naive::logistic(&rows, &labels, l2);
        let fitted = Logistic::fit(&features, &labels, dim, l2);
        for row in &rows {
            let x: Vec<f32> = row.iter().map(|&x| x as f32).collect();
            let terms = row.iter().zip(&expected).map(|(x, w)| x * w);
            let score = terms.sum::<f64>() + expected[dim];
            assert!(
                (fitted.score(&x) - score).abs() < 2e-3,
                "{n} {dim}: {score}"
            );
        }
        let early = Logistic::fit_in_steps(&features, &labels, dim, l2, 0);
        assert_eq!(early.score(&vec![1.0; dim]).to_bits(), 0.0f64.to_bits());
    }
}

#[test]
fn a_regression_without_rows_or_columns_is_flat() {
    let empty = Logistic::fit(&[], &[], 3, 0.1).score(&[1.0; 3]);
    assert_eq!(empty.to_bits(), 0.0f64.to_bits());
    let constant = Logistic::fit(&[7.0; 4], &[true, false, true, false], 1, 0.1);
    assert!(constant.score(&[7.0]).abs() < 1e-9);
}

#[test]
fn a_class_without_a_row_is_never_predicted() {
    let fitted = OneVsRest::fit(&[0.0, 1.0], &[&[0], &[2]], 3, 0.1);
    assert_eq!(fitted.predict(&[0.9], 3), [2, 0]);
}

#[test]
fn means_spreads_and_quantiles() {
    let (mean, std) = mean_and_std(&[1.0, 2.0, 3.0, 4.0]);
    assert!((mean - 2.5).abs() < 1e-12 && (std - 1.290_994_4).abs() < 1e-6);
    assert!(mean_and_std(&[7.0]).1 < 1e-12);
    assert!((student_t(10) - 2.262).abs() < 1e-9 && (student_t(2) - 12.706).abs() < 1e-9);
    assert!((student_t(30) - 2.045).abs() < 1e-9 && (student_t(31) - 2.042).abs() < 6e-3);
    assert_eq!(t_interval(&[7.0]), None);
    // 20, 0 and -10: deviations 50/3, -10/3 and -40/3, squares of 4200/9, over 2 and 3 700/9.
    let error = standard_error(&[20.0, 0.0, -10.0]).unwrap();
    assert!((error - (700.0_f64 / 9.0).sqrt()).abs() < 1e-12);
}

#[test]
fn shares_and_confusions_of_counts() {
    let (low, high) = wilson_interval(36, 36);
    assert!(high >= 1.0 - 1e-12 && low > 0.9);
    let (low, _) = wilson_interval(0, 0);
    assert!(low.abs() < 1e-12);
    let matrix = confusion_matrix(2, [(0, 1), (0, 0), (1, 1)]);
    assert_eq!(matrix, [[1, 1], [0, 1]]);
}

#[test]
fn ranks_of_both_sides_add_up() {
    let sums = |ranks: &[f64]| {
        let mut sums = RankSums::default();
        ranks.iter().for_each(|&rank| sums.add(rank));
        sums
    };
    let both = sums(&[1.0, 2.5]).merged(sums(&[4.0, 11.0])).scores();
    assert_eq!(both, sums(&[1.0, 2.5, 4.0, 11.0]).scores());
    let hits = [both.hits_at_1, both.hits_at_3, both.hits_at_10];
    assert_eq!((hits, both.mean_rank), ([0.25, 0.5, 0.75], 4.625));
    assert_eq!(RankSums::default().scores(), RankScores::default());
}
