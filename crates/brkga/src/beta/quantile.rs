//! Quantiles of a Beta distribution, by integrating its density.
//!
//! In t = ln(x / (1-x)) the density is x^alpha (1-x)^beta up to a constant: smooth, log-concave, and exponential in both tails.
//! The middle is integrated panel by panel, the tails are known, and the total gives the constant, so that no gamma function is
//! needed; and an alpha or beta close to 0, whose mass lies at x = 10^-300 or 1 - 10^-300, needs no special treatment.
//!
//! Within a panel the exponent is a polynomial, its Taylor series: logarithms are taken once a panel, not once a node, and the nodes'
//! exponentials together.

use libm::{exp, log, log1p, sqrt};

use super::Beta;

/// Where the left tail begins: 1-x is 1 up to rounding.
const FIRST_T: f64 = -37.0;
/// Where the right tail begins: x is 1 up to rounding.
const LAST_T: f64 = 37.0;
/// Up to here, in both directions, panels are narrow.
const BEND_T: f64 = 10.0;
/// Exponents so far below the largest add nothing: all panels of them are below the rounding of the whole.
const NEGLIGIBLE: f64 = -45.0;
/// Shares of the first and the last border, half a unit of the 24 bits a key is made of.
const TAIL_SHARE: f64 = 1.0 / (1u64 << 25) as f64;
/// Halley's steps for one border; one or two suffice.
const MAX_STEPS: usize = 60;

/// Nodes and weights of the five-point Gauss-Legendre rule on [-1, 1], and its upper end without weight: the density there is wanted
/// too.
///
/// # Source
/// Abramowitz and Stegun, "Handbook of mathematical functions", table 25.4.
const NODES: [f64; N_NODES] = [
    -0.906_179_845_938_664,
    -0.538_469_310_105_683_1,
    0.0,
    0.538_469_310_105_683_1,
    0.906_179_845_938_664,
    1.0,
];
const WEIGHTS: [f64; N_NODES] = [
    0.236_926_885_056_189_08,
    0.478_628_670_499_366_47,
    0.568_888_888_888_888_9,
    0.478_628_670_499_366_47,
    0.236_926_885_056_189_08,
    0.0,
];
/// Five, and the upper end.
const N_NODES: usize = 6;

/// The exponent of the density around the middle of a panel, as a series in the distance from there.
struct Panel {
    middle: f64,
    /// Half the width.
    half: f64,
    /// The coefficients, from the constant on.
    series: [f64; 7],
    /// The integral over the panel.
    mass: f64,
}

impl Panel {
    /// Without its mass where that is negligible.
    fn new(shape: Beta, largest: f64, from: f64, to: f64) -> Panel {
        let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
        let sum = shape.alpha + shape.beta;
        // The derivatives of ln(1 + e^t) are polynomials of x and of v = x (1-x).
        let small = exp(-middle.abs());
        let x = if middle < 0.0 { small } else { 1.0 } / (1.0 + small);
        let (v, odd) = (small / ((1.0 + small) * (1.0 + small)), 1.0 - 2.0 * x);
        let ln_largest_part = log1p(small);
        let constant = if middle < 0.0 {
            shape.alpha * middle
        } else {
            -shape.beta * middle
        };
        let mut panel = Panel {
            middle,
            half,
            series: [
                constant - sum * ln_largest_part - largest,
                shape.alpha - sum * x,
                -sum * v / 2.0,
                -sum * v * odd / 6.0,
                -sum * v * (1.0 - 6.0 * v) / 24.0,
                -sum * v * odd * (1.0 - 12.0 * v) / 120.0,
                -sum * v * (1.0 - 30.0 * v + 120.0 * v * v) / 720.0,
            ],
            mass: 0.0,
        };
        let highest = panel.exponent(-half).max(panel.exponent(half));
        let is_mode_inside = panel.series[1].abs() <= -2.0 * panel.series[2] * 2.0 * half;
        if highest > NEGLIGIBLE || is_mode_inside {
            panel.mass = panel.between(-half, half).0;
        }
        panel
    }

    /// At this distance from the middle.
    fn exponent(&self, s: f64) -> f64 {
        let terms = self.series.iter().rev();
        terms.fold(0.0, |sum, coefficient| sum * s + coefficient)
    }

    /// The first derivative of the exponent, to the second order.
    fn slope(&self, s: f64) -> f64 {
        let [_, first, second, third, ..] = self.series;
        first + s * (2.0 * second + s * 3.0 * third)
    }

    /// The integral between two distances, and the density at the second.
    fn between(&self, from: f64, to: f64) -> (f64, f64) {
        let (middle, half) = ((from + to) / 2.0, (to - from) / 2.0);
        let mut at = NODES.map(|node| middle + half * node);
        at[N_NODES - 1] = to;
        let mut sums = [0.0; N_NODES];
        for coefficient in self.series.iter().rev() {
            for (sum, s) in sums.iter_mut().zip(&at) {
                *sum = *sum * s + coefficient;
            }
        }
        let densities = exps(sums);
        let weighted = densities.iter().zip(&WEIGHTS).map(|(d, w)| d * w);
        (weighted.sum::<f64>() * half, densities[N_NODES - 1])
    }

    /// Where the integral from the panel's start reaches `part` of its mass.
    fn solve(&self, part: f64) -> f64 {
        let (mut low, mut high) = (-self.half, self.half);
        let mut s = self.guess(part);
        for _ in 0..MAX_STEPS {
            let (integral, density) = self.between(-self.half, s);
            let excess = integral - part;
            if excess > 0.0 {
                high = s;
            } else {
                low = s;
            }
            // Halley's step, unless it leaves what is known: Newton's, corrected for the slope of the exponent.
            let newton = excess / density;
            let slope = self.slope(s);
            let mut next = s - newton / (1.0 - newton * slope / 2.0);
            if !(low..=high).contains(&next) {
                next = (low + high) / 2.0;
            }
            let step = (next - s).abs();
            s = next;
            // What is left is about the cube of the step, times squares of the slope and the bend.
            let bend = 2.0 * self.series[2].abs();
            if step * step * step * (1.0 + slope * slope + bend) < 1e-10 {
                break;
            }
        }
        self.middle + s
    }

    /// As if the density were e^(c s) over the panel.
    fn guess(&self, part: f64) -> f64 {
        let slope = (self.exponent(self.half) - self.exponent(-self.half)) / (2.0 * self.half);
        let share = (part / self.mass).clamp(0.0, 1.0);
        let whole = slope * 2.0 * self.half;
        let s = if whole.abs() < 1e-6 {
            share * 2.0 * self.half
        } else {
            log1p(share * (exp(whole) - 1.0)) / slope
        };
        (s - self.half).clamp(-self.half, self.half)
    }
}

/// e^x for each x of [-700, 700], to a few units in the last place; 0 below. All at once and without branches, which several lanes of
/// a processor share; on every machine the same.
fn exps(xs: [f64; N_NODES]) -> [f64; N_NODES] {
    /// 1.5 * 2^52: added and taken off, it rounds to a whole number, which its lowest bits then are.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// ln 2 in two parts, the first of which has room for the product.
    const LN_2: [f64; 2] = [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10];
    let mut results = [0.0; N_NODES];
    for (result, x) in results.iter_mut().zip(xs) {
        let shifted = x.max(-700.0) * std::f64::consts::LOG2_E + ROUND;
        let n = shifted - ROUND;
        let r = x.max(-700.0) - n * LN_2[0] - n * LN_2[1];
        // |r| is at most ln 2 / 2: the next term is below 2^-53.
        let mut sum = 1.0 / 479_001_600.0;
        for inverse in FACTORIALS {
            sum = sum * r + inverse;
        }
        let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0_f64.to_bits()));
        *result = sum * power;
    }
    results
}

/// 1 / 11! to 1 / 0!.
const FACTORIALS: [f64; 12] = [
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// ln(x^alpha (1-x)^beta) at its largest.
fn largest_exponent(shape: Beta) -> f64 {
    let sum = shape.alpha + shape.beta;
    shape.alpha * log(shape.alpha / sum) + shape.beta * log(shape.beta / sum)
}

/// Where panels begin and end: of this width where x and 1-x change, four times as wide where one of them is nearly 1.
fn ends(width: f64) -> Vec<f64> {
    let bends = [FIRST_T, -BEND_T, BEND_T, LAST_T];
    let mut ends = vec![FIRST_T];
    for (part, width) in bends.windows(2).zip([4.0 * width, width, 4.0 * width]) {
        let [from, to] = [part[0], part[1]];
        let n_panels = ((to - from) / width) as usize + 1;
        let end = |panel: usize| from + (to - from) * panel as f64 / n_panels as f64;
        ends.extend((1..=n_panels).map(end));
    }
    ends
}

/// Quantiles of the shares i / `n_cells`, as f32 of [0, 1); the first and the last are those of [`TAIL_SHARE`] and its complement.
pub(super) fn borders(shape: Beta, n_cells: usize) -> Vec<f32> {
    let largest = largest_exponent(shape);
    // Fine enough that the exponent bends by little within a panel.
    let curvature = shape.alpha * shape.beta / (shape.alpha + shape.beta);
    let width = 0.25 / sqrt(curvature.max(1.0));
    let ends = ends(width);
    let panels = ends
        .windows(2)
        .map(|of| Panel::new(shape, largest, of[0], of[1]));
    let panels: Vec<Panel> = panels.collect();
    // Up to each panel's start: the tail left of it and the panels between.
    let mut integral = vec![exp(shape.alpha * FIRST_T - largest) / shape.alpha];
    let mut sum = integral[0];
    for panel in &panels {
        sum += panel.mass;
        integral.push(sum);
    }
    let total = sum + exp(-shape.beta * LAST_T - largest) / shape.beta;

    let quantile = |i: usize| {
        let share = (i as f64 / n_cells as f64).clamp(TAIL_SHARE, 1.0 - TAIL_SHARE) * total;
        let n_below = integral.partition_point(|sum| *sum <= share);
        if n_below == 0 {
            // The tail's integral is e^(alpha t) / alpha, x is e^t.
            return rounded(exp((log(share * shape.alpha) + largest) / shape.alpha));
        }
        match panels.get(n_below - 1) {
            None => LARGEST_KEY,
            Some(panel) => {
                let t = panel.solve(share - integral[n_below - 1]);
                rounded(1.0 / (1.0 + exp(-t)))
            }
        }
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
