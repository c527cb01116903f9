//! The constants of a machine, from measured times.

use super::{Network, Work};
use shardgraph_collectives::{Algorithm, OpKind};

/// The constants that a fit looks for: latency, message, byte, reduced byte.
const N_CONSTANTS: usize = 4;
/// Rounds in which outliers lose weight.
const N_ROUNDS: usize = 20;
/// Relative errors below this are all alike.
const SMALL_ERROR: f64 = 0.02;

/// One measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// The operation.
    pub(crate) op: OpKind,
    /// How it was done.
    pub(crate) algorithm: Algorithm,
    /// Bytes in the longer buffer of a rank.
    pub(crate) bytes: usize,
    /// Ranks, all on one machine.
    pub(crate) n_ranks: u32,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// What a fit found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// The machine, with all ranks on it.
    pub(crate) network: Network,
    /// How far the model is off, relative to the measurement: half of the measurements are nearer.
    pub(crate) median_error: f64,
    /// Nine of ten measurements are nearer.
    pub(crate) p90_error: f64,
    /// How many measurements there were.
    pub(crate) n_measured: usize,
}

/// Finds the constants of one machine with `n_cores` processors: those, none below zero, with the
/// least sum of relative errors.
///
/// `None` if there are fewer than four measurements of more than one rank that have a formula and
/// took any time.
///
/// # Complexity
/// 20 rounds of 15 small systems of equations over all measurements.
pub(crate) fn fit(measured: &[Measured], n_cores: u32) -> Option<Fit> {
    let is_of_use = |m: &&Measured| m.n_ranks > 1 && m.seconds > 0.0 && m.seconds.is_finite();
    let rows: Vec<[f64; N_CONSTANTS]> = measured
        .iter()
        .filter(is_of_use)
        .filter_map(|m| relative_row(m, n_cores))
        .collect();
    if rows.len() < N_CONSTANTS {
        return None;
    }
    let mut weights = vec![1.0; rows.len()];
    let mut constants = [0.0; N_CONSTANTS];
    for _ in 0..N_ROUNDS {
        constants = best_above_zero(&rows, &weights)?;
        for (weight, row) in weights.iter_mut().zip(&rows) {
            *weight = 1.0 / error(row, &constants).abs().max(SMALL_ERROR);
        }
    }
    let mut errors: Vec<f64> = rows
        .iter()
        .map(|row| error(row, &constants).abs())
        .collect();
    errors.sort_by(f64::total_cmp);
    let [latency, message, byte, reduced_byte] = constants;
    Some(Fit {
        network: Network {
            latency,
            message,
            byte,
            reduced_byte,
            ranks_per_node: u32::MAX,
            cores_per_node: n_cores,
            ..Network::default()
        },
        median_error: errors[errors.len() / 2],
        p90_error: errors[errors.len() * 9 / 10],
        n_measured: errors.len(),
    })
}

/// What multiplies the constants, divided by the measured time: for constants that fit, the sum of
/// products is one.
fn relative_row(measured: &Measured, n_cores: u32) -> Option<[f64; N_CONSTANTS]> {
    let machine = Network {
        ranks_per_node: u32::MAX,
        cores_per_node: n_cores,
        ..Network::default()
    };
    let (op, algorithm) = (measured.op, measured.algorithm);
    let work = Work::of(op, algorithm, measured.bytes, measured.n_ranks, &machine)?;
    let busy = machine.busiest(&work);
    let row = [work.steps, busy.messages, busy.bytes, busy.reduced_bytes];
    Some(row.map(|x| x / measured.seconds))
}

fn error(row: &[f64; N_CONSTANTS], constants: &[f64; N_CONSTANTS]) -> f64 {
    let products = row.iter().zip(constants).map(|(x, constant)| x * constant);
    products.sum::<f64>() - 1.0
}

/// Weighted least squares without constants below zero: of all sets of constants that are not zero,
/// the best whose solution is allowed.
fn best_above_zero(rows: &[[f64; N_CONSTANTS]], weights: &[f64]) -> Option<[f64; N_CONSTANTS]> {
    let cost = |constants: &[f64; N_CONSTANTS]| -> f64 {
        let terms = rows.iter().zip(weights);
        terms
            .map(|(row, weight)| weight * error(row, constants).powi(2))
            .sum()
    };
    let sets = 1..1usize << N_CONSTANTS;
    let solutions = sets.filter_map(|set| least_squares(rows, weights, set));
    solutions
        .filter(|constants| constants.iter().all(|&constant| constant >= 0.0))
        .min_by(|a, b| cost(a).total_cmp(&cost(b)))
}

/// The solution in which only the constants of `set` are not zero.
fn least_squares(
    rows: &[[f64; N_CONSTANTS]],
    weights: &[f64],
    set: usize,
) -> Option<[f64; N_CONSTANTS]> {
    let chosen: Vec<usize> = (0..N_CONSTANTS).filter(|i| set >> i & 1 == 1).collect();
    let n = chosen.len();
    // Columns differ by many orders of magnitude: each is scaled to length one.
    let lengths: Vec<f64> = chosen
        .iter()
        .map(|&i| rows.iter().map(|row| row[i] * row[i]).sum::<f64>().sqrt())
        .collect();
    if lengths.contains(&0.0) {
        return None;
    }
    let mut system = vec![vec![0.0; n + 1]; n];
    for (row, weight) in rows.iter().zip(weights) {
        let x: Vec<f64> = chosen
            .iter()
            .zip(&lengths)
            .map(|(&i, length)| row[i] / length)
            .collect();
        for a in 0..n {
            for b in 0..n {
                system[a][b] += weight * x[a] * x[b];
            }
            system[a][n] += weight * x[a];
        }
    }
    let solved = solve(system)?;
    let mut constants = [0.0; N_CONSTANTS];
    for ((&i, x), length) in chosen.iter().zip(solved).zip(lengths) {
        constants[i] = x / length;
    }
    Some(constants)
}

/// Gaussian elimination with pivots; `None` if the system has no single solution.
fn solve(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = system.len();
    for column in 0..n {
        let pivot = (column..n)
            .max_by(|&a, &b| system[a][column].abs().total_cmp(&system[b][column].abs()))?;
        system.swap(column, pivot);
        let pivot_row = system[column].clone();
        if pivot_row[column].abs() < 1e-12 {
            return None;
        }
        for (row_idx, row) in system.iter_mut().enumerate() {
            let factor = row[column] / pivot_row[column];
            if row_idx != column {
                row.iter_mut()
                    .zip(&pivot_row)
                    .for_each(|(x, p)| *x -= factor * p);
            }
        }
    }
    Some((0..n).map(|i| system[i][n] / system[i][i]).collect())
}
