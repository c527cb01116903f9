//! Axes: from values to places, with ticks at round numbers.

/// Ticks that an axis aims at.
const N_TICKS: f64 = 6.0;

/// One axis of a panel: its label and how values become places.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    scale: Scale,
    from_zero: bool,
    pub(crate) has_ticks: bool,
}

#[derive(Clone, Debug)]
enum Scale {
    Linear,
    Log,
    Named(Vec<String>),
}

impl Axis {
    /// Proportional to the values.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            scale: Scale::Linear,
            from_zero: false,
            has_ticks: true,
        }
    }

    /// Proportional to the logarithm; values that are not positive are left out.
    ///
    /// Without a positive value the axis is linear. A logarithmic axis is marked in its label.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear(label)
        }
    }

    /// One place per name: `0.0` is the first. As the vertical axis it runs downwards.
    #[must_use]
    pub fn named<S: Into<String>>(
        label: impl Into<String>,
        names: impl IntoIterator<Item = S>,
    ) -> Axis {
        Axis {
            scale: Scale::Named(names.into_iter().map(S::into).collect()),
            ..Axis::linear(label)
        }
    }

    /// A linear axis that shows 0.
    #[must_use]
    pub fn from_zero(self) -> Axis {
        Axis {
            from_zero: true,
            ..self
        }
    }

    /// An axis without numbers, for coordinates that have no meaning of their own.
    #[must_use]
    pub fn without_ticks(self) -> Axis {
        Axis {
            has_ticks: false,
            ..self
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        matches!(self.scale, Scale::Named(_))
    }

    /// The axis over these values.
    pub(crate) fn span(&self, values: impl Iterator<Item = f64>) -> Span {
        if let Scale::Named(names) = &self.scale {
            let ticks = (0..).map(f64::from).zip(names.iter().cloned());
            return Span {
                ends: [-0.5, names.len().max(1) as f64 - 0.5],
                is_log: false,
                ticks: ticks.collect(),
            };
        }
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let positive = finite.iter().copied().filter(|&value| value > 0.0);
        if let (Scale::Log, Some([low, high])) = (&self.scale, ends(positive)) {
            return log_span(low, high);
        }
        let zero = self.from_zero.then_some(0.0);
        let [low, high] = ends(finite.into_iter().chain(zero)).unwrap_or([0.0, 1.0]);
        linear_span(low, high)
    }
}

fn ends(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |ends, value| match ends {
        None => Some([value; 2]),
        Some([low, high]) => Some([f64::min(low, value), f64::max(high, value)]),
    })
}

/// An axis over given values: its ends and its ticks.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) ends: [f64; 2],
    pub(crate) is_log: bool,
    /// Places and what stands beside them.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Span {
    /// From 0 at the low end to 1 at the high one; `None` for a value that cannot be shown.
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let place = |value: f64| if self.is_log { value.ln() } else { value };
        let [low, high] = self.ends.map(place);
        let share = (place(value) - low) / (high - low);
        share.is_finite().then_some(share)
    }

    /// As [`Span::share`], with what lies outside moved to the nearer end.
    pub(crate) fn clamped(&self, value: f64) -> f64 {
        let [low, high] = self.ends;
        self.share(value.clamp(low, high)).unwrap_or(0.0)
    }
}

/// Ends and ticks at multiples of 1, 2 or 5 times a power of ten.
fn linear_span(low: f64, high: f64) -> Span {
    let (low, high) = match high > low {
        true => (low, high),
        // One value stands in the middle.
        false => (low - room(low), high + room(high)),
    };
    let step = nice_step((high - low) / N_TICKS);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let n_steps = (last - first).clamp(1.0, 4.0 * N_TICKS) as u32;
    let values = (0..=n_steps).map(|tick| (first + f64::from(tick)) * step);
    let largest = f64::max(low.abs(), high.abs());
    Span {
        ends: [first * step, (first + f64::from(n_steps)) * step],
        is_log: false,
        ticks: values.map(|v| (v, tick_label(v, step, largest))).collect(),
    }
}

fn room(value: f64) -> f64 {
    match value.abs() > 0.0 {
        true => value.abs() / 2.0,
        false => 1.0,
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let is_enough = |step: &f64| *step >= least * (1.0 - 1e-9);
    steps.into_iter().find(is_enough).unwrap_or(10.0 * power)
}

/// Just enough decimals to tell neighbours apart; powers of ten for large and tiny numbers.
fn tick_label(value: f64, step: f64, largest: f64) -> String {
    let value = if value.abs() < step / 2.0 { 0.0 } else { value };
    if largest >= 1e6 || step < 1e-4 {
        return match value.abs() > 0.0 {
            true => {
                let digits = (largest.log10().floor() - step.log10().floor()).max(0.0);
                exponent_label(value, digits as usize)
            }
            false => "0".to_owned(),
        };
    }
    let decimals = (-(step * (1.0 + 1e-9)).log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

/// As `2.5e6`, without zeros at the end of the digits.
fn exponent_label(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((digits, power)) if digits.contains('.') => {
            format!(
                "{}e{power}",
                digits.trim_end_matches('0').trim_end_matches('.')
            )
        }
        _ => text,
    }
}

/// Ends at decades; ticks at decades, and at 2 and 5 between them where there are few.
fn log_span(low: f64, high: f64) -> Span {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let last = last.max(first + 1);
    let n_decades = last - first;
    let every = (n_decades as u32).div_ceil(N_TICKS as u32 + 2).max(1) as usize;
    let factors: &[f64] = if n_decades <= 2 {
        &[1.0, 2.0, 5.0]
    } else {
        &[1.0]
    };
    let mut ticks = Vec::new();
    for power in (first..=last).step_by(every) {
        let decade = |factor: &f64| (factor * 10f64.powi(power), log_label(*factor, power));
        ticks.extend(factors.iter().map(decade));
    }
    let ends = [10f64.powi(first), 10f64.powi(last)];
    ticks.retain(|(value, _)| *value <= ends[1] * (1.0 + 1e-9));
    Span {
        ends,
        is_log: true,
        ticks,
    }
}

fn log_label(factor: f64, power: i32) -> String {
    match power {
        0..=5 => format!("{:.0}", factor * 10f64.powi(power)),
        -3..0 => format!(
            "{:.*}",
            power.unsigned_abs() as usize,
            factor * 10f64.powi(power)
        ),
        _ => format!("{factor:.0}e{power}"),
    }
}
