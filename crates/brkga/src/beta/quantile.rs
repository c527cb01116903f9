//! Quantiles of a Beta distribution, by integrating its density.
//!
//! In t = ln(x / (1-x)) the density is x^alpha (1-x)^beta up to a constant: smooth, log-concave, and exponential in both tails.
//! The middle is integrated panel by panel, the tails are known, and the total gives the constant, so that no gamma function is
//! needed; and an alpha or beta close to 0, whose mass lies at x = 10^-300 or 1 - 10^-300, needs no special treatment.

use libm::{exp, log, log1p, sqrt};

use super::Beta;

/// Where the left tail begins: x = e^-88 is below the smallest normal f32, and 1-x is 1 up to rounding.
const FIRST_T: f64 = -88.0;
/// Where the right tail begins: 1-x = e^-40, and x is 1 up to rounding.
const LAST_T: f64 = 40.0;
/// Shares of the first and the last border, half a unit of the 24 bits a key is made of.
const TAIL_SHARE: f64 = 1.0 / (1u64 << 25) as f64;
/// Newton steps for one border; two or three suffice.
const MAX_STEPS: usize = 60;

/// Nodes and weights of the five-point Gauss-Legendre rule on [-1, 1], the positive half.
///
/// # Source
/// Abramowitz and Stegun, "Handbook of mathematical functions", table 25.4.
const GAUSS: [(f64, f64); 3] = [
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.906_179_845_938_664, 0.236_926_885_056_189_08),
];

/// The density in t, up to a constant.
struct Density {
    shape: Beta,
    /// The exponent at the mode, taken off so that nothing underflows.
    largest: f64,
}

impl Density {
    fn new(shape: Beta) -> Density {
        let mode = log(shape.alpha / shape.beta);
        Density {
            shape,
            largest: exponent(shape, mode),
        }
    }

    fn at(&self, t: f64) -> f64 {
        exp(exponent(self.shape, t) - self.largest)
    }

    /// The integral from `from` to `to`, a panel or less.
    fn between(&self, from: f64, to: f64) -> f64 {
        let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
        let mut sum = GAUSS[0].1 * self.at(middle);
        for (node, weight) in &GAUSS[1..] {
            sum += weight * (self.at(middle - half * node) + self.at(middle + half * node));
        }
        sum * half
    }

    /// Where in the panel from `from` to `to` the integral reaches `part` of `whole`, its value over the panel.
    fn solve(&self, from: f64, to: f64, part: f64, whole: f64) -> f64 {
        let (mut low, mut high) = (from, to);
        let mut t = from + (to - from) * (part / whole).clamp(0.0, 1.0);
        for _ in 0..MAX_STEPS {
            let excess = self.between(from, t) - part;
            if excess > 0.0 {
                high = t;
            } else {
                low = t;
            }
            // Newton's step, unless it leaves what is known.
            let mut next = t - excess / self.at(t);
            if !(low..=high).contains(&next) {
                next = (low + high) / 2.0;
            }
            let step = next - t;
            t = next;
            // Steps shrink quadratically: the one after this would be below the precision of f64.
            if step.abs() < 1e-8 {
                break;
            }
        }
        t
    }
}

/// ln(x^alpha (1-x)^beta) at x = 1 / (1 + e^-t).
fn exponent(shape: Beta, t: f64) -> f64 {
    // The larger of x and 1-x is 1 / (1 + e^-|t|), the smaller e^-|t| times that.
    let ln_larger = -log1p(exp(-t.abs()));
    (shape.alpha + shape.beta) * ln_larger
        + if t < 0.0 {
            shape.alpha * t
        } else {
            -shape.beta * t
        }
}

/// Quantiles of the shares i / `n_cells`, as f32 of [0, 1); the first and the last are those of [`TAIL_SHARE`] and its complement.
pub(super) fn borders(shape: Beta, n_cells: usize) -> Vec<f32> {
    let density = Density::new(shape);
    // Fine enough that the exponent bends by little within a panel.
    let curvature = shape.alpha * shape.beta / (shape.alpha + shape.beta);
    let width = 0.25 / sqrt(curvature.max(1.0));
    let n_panels = ((LAST_T - FIRST_T) / width) as usize + 1;
    let start = |panel: usize| FIRST_T + (LAST_T - FIRST_T) * panel as f64 / n_panels as f64;
    // Up to each panel's start: the tail left of it and the panels between.
    let mut integral = vec![density.at(FIRST_T) / shape.alpha];
    for panel in 0..n_panels {
        let sum = integral[panel] + density.between(start(panel), start(panel + 1));
        integral.push(sum);
    }
    let total = integral[n_panels] + density.at(LAST_T) / shape.beta;

    let quantile = |i: usize| {
        let share = (i as f64 / n_cells as f64).clamp(TAIL_SHARE, 1.0 - TAIL_SHARE) * total;
        let n_below = integral.partition_point(|sum| *sum <= share);
        if n_below == 0 {
            return 0.0;
        }
        if n_below > n_panels {
            return LARGEST_KEY;
        }
        let panel = n_below - 1;
        let part = share - integral[panel];
        let whole = integral[panel + 1] - integral[panel];
        let t = density.solve(start(panel), start(panel + 1), part, whole);
        rounded(1.0 / (1.0 + exp(-t)))
    };
    (0..=n_cells).map(quantile).collect()
}

/// The largest f32 below 1.
const LARGEST_KEY: f32 = 1.0 - f32::EPSILON / 2.0;

/// As a key: no subnormal numbers, which are slow, and nothing that reaches 1.
fn rounded(x: f64) -> f32 {
    let key = (x as f32).min(LARGEST_KEY);
    if key.is_normal() { key } else { 0.0 }
}
