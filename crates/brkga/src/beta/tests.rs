//! The tables against distribution functions from other formulas: closed forms and the continued fraction.

use super::*;
use crate::random::child_rng;

/// The regularised incomplete beta function at `x` with complement `y` = 1-x.
///
/// # Source
/// Press et al., "Numerical recipes", 6.4: the continued fraction, by Lentz's method.
fn distribution(alpha: f64, beta: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 || y <= 0.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    if x > (alpha + 1.0) / (alpha + beta + 2.0) {
        return 1.0 - distribution(beta, alpha, y, x);
    }
    let ln_gamma = libm::lgamma;
    let ln_front =
        ln_gamma(alpha + beta) - ln_gamma(alpha) - ln_gamma(beta) + alpha * x.ln() + beta * y.ln();
    let nonzero = |z: f64| if z.abs() < 1e-300 { 1e-300 } else { z };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (alpha + beta) * x / (alpha + 1.0)));
    let mut fraction = d;
    for m in 1..2000 {
        let m = f64::from(m);
        let even = m * (beta - m) * x / ((alpha + 2.0 * m - 1.0) * (alpha + 2.0 * m));
        let odd =
            -(alpha + m) * (alpha + beta + m) * x / ((alpha + 2.0 * m) * (alpha + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    ln_front.exp() * fraction / alpha
}

fn borders(alpha: f64, beta: f64) -> Vec<f32> {
    quantile::borders(Beta::new(alpha, beta).unwrap(), N_CELLS)
}

/// Checks the inner borders against a distribution function: the share lies between those of the border's two neighbours.
fn check(alpha: f64, beta: f64, distribution: impl Fn(f64, f64) -> f64) {
    let borders = borders(alpha, beta);
    assert!(borders.is_sorted(), "Beta({alpha}, {beta})");
    assert!(
        borders
            .iter()
            .all(|x| (0.0..1.0).contains(x) && !x.is_subnormal())
    );
    for (i, border) in borders.iter().enumerate().skip(1).take(N_CELLS - 1) {
        let share = i as f64 / N_CELLS as f64;
        // One f32 down and two up: rounding goes either way, and what is below the smallest normal f32 counts as 0.
        let below = f64::from(border.next_down().max(0.0));
        let above = f64::from(border.next_up().next_up().max(f32::MIN_POSITIVE));
        let low = if *border == 0.0 {
            0.0
        } else {
            distribution(below, 1.0 - below)
        };
        let high = if above >= 1.0 {
            1.0
        } else {
            distribution(above, 1.0 - above)
        };
        assert!(
            low - 1e-9 <= share && share <= high + 1e-9,
            "Beta({alpha}, {beta}), border {i}: {border:e} has shares {low}..{high}, not {share}"
        );
    }
}

#[test]
fn shapes_with_a_closed_form() {
    for alpha in [0.001, 0.0037, 0.1, 0.5, 1.5, 3.0, 15.0, 1000.0] {
        check(alpha, 1.0, |x, _| x.powf(alpha));
        check(1.0, alpha, |_, y| 1.0 - y.powf(alpha));
    }
    check(1.0, 1.0, |x, _| x);
    let pi = std::f64::consts::PI;
    check(0.5, 0.5, |x, y| x.sqrt().atan2(y.sqrt()) * 2.0 / pi);
    check(2.0, 2.0, |x, _| x * x * (3.0 - 2.0 * x));
}

#[test]
fn shapes_of_all_kinds_against_the_continued_fraction() {
    let sizes = [1e-4, 0.0037, 0.0588, 0.3, 1.0, 2.5, 15.0, 90.0, 1000.0];
    for alpha in sizes {
        for beta in sizes {
            check(alpha, beta, |x, y| distribution(alpha, beta, x, y));
        }
    }
}

#[test]
fn all_levels_of_two_four_five_and_sixteen() {
    for k in [2, 4, 5, 16] {
        for (m, v) in (0..k * k).map(|i| (i / k, i % k)) {
            let Beta { alpha, beta } = Beta::quantised(m, v, k).unwrap();
            let mean = f64::from(m + 1) / f64::from(k + 1);
            let variance = mean * (1.0 - mean) * f64::from(v + 1) / f64::from(k + 1);
            let sum = alpha + beta;
            assert!((alpha / sum - mean).abs() < 1e-12);
            assert!((alpha * beta / (sum * sum * (sum + 1.0)) - variance).abs() < 1e-12);
            check(alpha, beta, |x, y| distribution(alpha, beta, x, y));
        }
    }
    // The smallest alpha of 16 levels.
    assert!((Beta::quantised(0, 15, 16).unwrap().alpha() - 1.0 / 272.0).abs() < 1e-15);
}

#[test]
fn only_five_levels_have_the_uniform() {
    for k in [2, 4, 5, 16] {
        let uniform = (0..k * k)
            .filter(|i| Beta::quantised(i / k, i % k, k).unwrap() == Beta::UNIFORM)
            .map(|i| (i / k, i % k));
        let expected = if k == 5 { vec![(2, 1)] } else { Vec::new() };
        assert_eq!(uniform.collect::<Vec<_>>(), expected, "{k} levels");
    }
    let tables = BetaTables::quantised(5).unwrap();
    assert_eq!(tables.n_tables(), 26);
    let choice = BetaTables::quantised_choice(2, 1, 5);
    assert_eq!((choice, tables.canonical(choice)), (12, 0));
    assert_eq!(tables.canonical(13), 13);
}

#[test]
fn quantiles_rise_and_stay_in_the_unit_interval() {
    let shapes = [
        (1.0 / 272.0, 15.0 / 272.0),
        (15.0, 1.0),
        (1e-4, 1e-4),
        (1e3, 1e3),
        (1.0, 1e-4),
    ];
    let shapes = shapes.map(|(alpha, beta)| Beta::new(alpha, beta).unwrap());
    let tables = BetaTables::new(&shapes).unwrap();
    for choice in 1..=5 {
        let mut last = 0.0;
        for share in (0..1 << 24).step_by(61).chain([(1 << 24) - 1]) {
            let key = tables.quantile(choice, share);
            assert!(
                last <= key && key < 1.0,
                "table {choice}, share {share}: {key}"
            );
            last = key;
        }
    }
}

#[test]
fn draws_have_the_mean_and_the_spread() {
    let tables = BetaTables::quantised(16).unwrap();
    let mut stream = child_rng(3, 0, 0, 0);
    for (m, v) in [(0, 15), (0, 0), (15, 15), (7, 3), (8, 15), (12, 1)] {
        let choices = vec![BetaTables::quantised_choice(m, v, 16); 200_001];
        let mut keys = vec![0.0; choices.len()];
        tables.draw(&mut stream, &choices, &mut keys);
        let n = keys.len() as f64;
        let mean = keys.iter().map(|key| f64::from(*key)).sum::<f64>() / n;
        let square = keys.iter().map(|key| f64::from(*key).powi(2)).sum::<f64>() / n;
        let expected = f64::from(m + 1) / 17.0;
        let variance = expected * (1.0 - expected) * f64::from(v + 1) / 17.0;
        // Four standard errors of the mean, and what the straight cells add.
        assert!(
            (mean - expected).abs() < 4.0 * (variance / n).sqrt() + 2e-4,
            "({m}, {v}): {mean}"
        );
        assert!((square - mean * mean - variance).abs() < 2e-3, "({m}, {v})");
    }
}

#[test]
fn wrong_shapes_are_named() {
    for (alpha, beta) in [
        (0.0, 1.0),
        (1.0, 1e-5),
        (1001.0, 1.0),
        (f64::NAN, 1.0),
        (1.0, f64::INFINITY),
    ] {
        let text = Beta::new(alpha, beta).unwrap_err().to_string();
        let expected = "expected two numbers of [0.0001, 1000]";
        assert_eq!(
            text,
            format!("mutant proposals: Beta({alpha}, {beta}): {expected}")
        );
    }
    for (m, v, k) in [(2, 0, 2), (0, 2, 2), (0, 0, 1), (0, 0, 65)] {
        let text = Beta::quantised(m, v, k).unwrap_err().to_string();
        assert!(
            text.starts_with(&format!("mutant proposals: levels ({m}, {v}) of {k}: ")),
            "{text}"
        );
    }
    assert!(BetaTables::quantised(1).is_err());
}
