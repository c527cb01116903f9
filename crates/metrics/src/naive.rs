//! The measures by their definitions, for tests.

use crate::F1;

/// F1 from lists of true and given classes.
pub(super) fn f1(own: &[Vec<u32>], given: &[Vec<u32>], n_classes: u32) -> F1 {
    let count = |test: &dyn Fn(usize, u32) -> bool, class: u32| {
        (0..own.len()).filter(|&node| test(node, class)).count() as f64
    };
    let is_own = |node: usize, class: u32| own[node].contains(&class);
    let is_given = |node: usize, class: u32| given[node].contains(&class);
    let is_right = |node: usize, class: u32| is_own(node, class) && is_given(node, class);
    let (mut all, mut scores) = ([0.0; 3], Vec::new());
    for class in 0..n_classes {
        let counts = [
            count(&is_right, class),
            count(&is_given, class),
            count(&is_own, class),
        ];
        (0..3).for_each(|i| all[i] += counts[i]);
        if counts[1] + counts[2] > 0.0 {
            let (precision, recall) = (counts[0] / counts[1], counts[0] / counts[2]);
            let score = 2.0 * precision * recall / (precision + recall);
            scores.push(if score.is_nan() { 0.0 } else { score });
        }
    }
    F1 {
        micro: 2.0 * all[0] / (all[1] + all[2]),
        mean: scores.iter().sum::<f64>() / scores.len() as f64,
    }
}

/// All eigenvalues of a symmetric matrix, largest first, by Jacobi's rotations.
pub(super) fn eigenvalues(mut a: Vec<Vec<f64>>) -> Vec<f64> {
    let n = a.len();
    for _ in 0..100 {
        for p in 0..n {
            for q in p + 1..n {
                let angle = 0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p]);
                let (s, c) = angle.sin_cos();
                for row in &mut a {
                    (row[p], row[q]) = (c * row[p] - s * row[q], s * row[p] + c * row[q]);
                }
                let (above, below) = a.split_at_mut(q);
                for (x, y) in above[p].iter_mut().zip(&mut below[0]) {
                    (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
                }
            }
        }
    }
    let mut values: Vec<f64> = (0..n).map(|i| a[i][i]).collect();
    values.sort_by(|x, y| y.total_cmp(x));
    values
}

/// Mutual information from a full table of joint probabilities.
pub(super) fn mutual_information(a: &[u32], b: &[u32], n_labels: u32) -> f64 {
    let n = a.len() as f64;
    let p = |test: &dyn Fn(u32, u32) -> bool| {
        a.iter().zip(b).filter(|(a, b)| test(**a, **b)).count() as f64 / n
    };
    let plogp = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    let (mut shared, mut of_a, mut of_b) = (0.0, 0.0, 0.0);
    for i in 0..n_labels {
        let (is_a, is_b) = (p(&|a, _| a == i), p(&|_, b| b == i));
        of_a -= plogp(is_a, 1.0);
        of_b -= plogp(is_b, 1.0);
        for j in 0..n_labels {
            let (both, is_j) = (p(&|a, b| a == i && b == j), p(&|_, b| b == j));
            shared += plogp(both, is_a * is_j);
        }
    }
    let mean = (of_a + of_b) / 2.0;
    if mean > 0.0 { shared / mean } else { 1.0 }
}

/// All comparisons, one by one.
pub(super) fn auc(positives: &[f64], negatives: &[f64]) -> f64 {
    let mut wins = 0.0;
    for positive in positives {
        for negative in negatives {
            if positive > negative {
                wins += 1.0;
            } else if positive >= negative {
                wins += 0.5;
            }
        }
    }
    wins / (positives.len() * negatives.len()) as f64
}

/// Weights and bias of least mean logistic loss plus `l2 / 2` times the squared weights, of
/// columns as they are: Newton's method in f64, with elimination.
pub(super) fn logistic(rows: &[Vec<f64>], labels: &[bool], l2: f64) -> Vec<f64> {
    let dim = rows[0].len();
    let mut point = vec![0.0; dim + 1];
    for _ in 0..50 {
        let mut system = vec![vec![0.0; dim + 2]; dim + 1];
        for (row, &label) in rows.iter().zip(labels) {
            let x: Vec<f64> = row.iter().copied().chain([1.0]).collect();
            let score: f64 = x.iter().zip(&point).map(|(a, b)| a * b).sum();
            let p = 1.0 / (1.0 + (-score).exp());
            let n = rows.len() as f64;
            for i in 0..=dim {
                for j in 0..=dim {
                    system[i][j] += p * (1.0 - p) * x[i] * x[j] / n;
                }
                system[i][dim + 1] += (p - f64::from(u8::from(label))) * x[i] / n;
            }
        }
        for i in 0..dim {
            system[i][i] += l2;
            system[i][dim + 1] += l2 * point[i];
        }
        for i in 0..=dim {
            for j in (0..=dim).filter(|&j| j != i) {
                let (pivot, factor) = (system[i].clone(), system[j][i] / system[i][i]);
                for (to, from) in system[j].iter_mut().zip(pivot) {
                    *to -= factor * from;
                }
            }
        }
        for i in 0..=dim {
            point[i] -= system[i][dim + 1] / system[i][i];
        }
    }
    point
}
