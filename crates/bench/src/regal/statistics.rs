//! The numbers of a sample that points and their notes show, each a pure function.

use std::collections::BTreeMap;

/// What the method's objective over the reference's is shown as.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// 1 minus it, in %.
    Percent,
    /// Minus it.
    Reward,
}

impl Scale {
    /// A ratio on this scale, on which more is better.
    fn of(self, ratio: f64) -> f64 {
        match self {
            Scale::Percent => 100.0 * (1.0 - ratio),
            Scale::Reward => -ratio,
        }
    }

    /// What follows a number, in a note; rewards need the more digits.
    fn shown(self, value: f64) -> String {
        match self {
            Scale::Percent => format!("{value:.2} %"),
            Scale::Reward => format!("{value:.4}"),
        }
    }
}

/// Ratios on a scale.
pub(super) struct Gains {
    scale: Scale,
    values: Vec<f64>,
}

impl Gains {
    pub(super) fn new(scale: Scale, ratios: &[f64]) -> Gains {
        let values = ratios.iter().map(|&ratio| scale.of(ratio)).collect();
        Gains { scale, values }
    }

    /// `None` where there is no number.
    pub(super) fn mean(&self) -> Option<f64> {
        mean(&self.values)
    }

    /// Those of graphs on which the two differ.
    pub(super) fn untied(&self) -> Vec<f64> {
        let tie = self.scale.of(1.0);
        let values = self.values.iter().copied();
        values.filter(|x| x.total_cmp(&tie).is_ne()).collect()
    }

    /// Standard error of the mean, share of graphs on which the reference is not the better one, worst and best, in the unit of the mean.
    pub(super) fn note(&self) -> String {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |x| self.scale.shown(x));
        let tie = self.scale.of(1.0);
        let matched: Vec<bool> = self.values.iter().map(|x| *x >= tie).collect();
        let worst = self.values.iter().copied().reduce(f64::min);
        let best = self.values.iter().copied().reduce(f64::max);
        format!(
            "+- {}, matched or beaten on {} of graphs, worst {}, best {}",
            shown(standard_error(&self.values)),
            share(&matched).map_or("-".to_owned(), |x| format!("{x:.1} %")),
            shown(worst),
            shown(best)
        )
    }

    /// The note behind the mean, for points that show something else.
    pub(super) fn note_with_mean(&self) -> String {
        let mean = self.mean().map(|mean| self.scale.shown(mean));
        format!("mean {} {}", mean.unwrap_or("-".to_owned()), self.note())
    }
}

pub(super) fn mean(of: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64)
}

/// Of a mean of these numbers; `None` for fewer than two, which say nothing about it.
pub(super) fn standard_error(of: &[f64]) -> Option<f64> {
    let n = of.len() as f64;
    let middle = mean(of).filter(|_| of.len() > 1)?;
    let squares: f64 = of.iter().map(|x| (x - middle) * (x - middle)).sum();
    Some((squares / (n - 1.0) / n).sqrt())
}

/// How many of these hold, in %.
fn share(of: &[bool]) -> Option<f64> {
    let n_true = of.iter().filter(|is_true| **is_true).count();
    part(n_true as f64, of.len() as f64)
}

/// A part of a whole, in %; `None` of nothing.
pub(super) fn part(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| 100.0 * part / whole)
}

/// Bars of this width over the values, as their middles and heights in % of `n` things; no bar where there is nothing.
pub(super) fn bars(values: &[f64], width: f64, n: usize) -> Vec<(f64, f64)> {
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    for value in values {
        *counts.entry((value / width).floor() as i64).or_default() += 1;
    }
    let bar = |(at, count): (i64, u64)| {
        let height = part(count as f64, n as f64)?;
        Some(((at as f64 + 0.5) * width, height))
    };
    counts.into_iter().filter_map(bar).collect()
}

/// The smallest, the quartiles and the largest: of `n` sorted values those at 0, 1/4, 1/2, 3/4 and 1 of the way, to the nearest one.
pub(super) fn quartiles(mut values: Vec<f64>) -> Option<[f64; 5]> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some([0.0, 0.25, 0.5, 0.75, 1.0].map(|part| values[(part * last as f64).round() as usize]))
}

/// Of a distribution by counts, in nats.
pub(super) fn entropy(counts: &[u64]) -> f64 {
    let n: u64 = counts.iter().sum();
    let parts = counts.iter().filter(|&&count| count > 0);
    let parts = parts.map(|&count| count as f64 / n as f64);
    -parts.map(|p| p * p.ln()).sum::<f64>()
}

/// The cell of Figure 11 of an op: its device (2: neither) by the levels of the two affinities' means, and its row (0: high priority) by
/// the priority's level; without priorities the row is 1.
pub(super) fn cell(affinities: [u32; 2], priority: Option<u32>, levels: u32) -> (usize, usize) {
    let device = match affinities[0].cmp(&affinities[1]) {
        std::cmp::Ordering::Greater => 0,
        std::cmp::Ordering::Less => 1,
        std::cmp::Ordering::Equal => 2,
    };
    let is_high = priority.is_some_and(|level| 2 * level >= levels);
    (device, usize::from(!is_high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_agrees_with_numbers_worked_out_by_hand() {
        for (name, is_right) in gains_by_hand().into_iter().chain(others_by_hand()) {
            assert!(is_right, "{name}");
        }
    }

    fn is_near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-12)
    }

    /// 20, 0 and -10 %: the mean is 10/3, the deviations 50/3, -10/3 and -40/3 have squares of 4200/9 in all, over 2 and 3 700/9.
    fn gains_by_hand() -> Vec<(&'static str, bool)> {
        let ratios = [0.8, 1.0, 1.1];
        let percent = Gains::new(Scale::Percent, &ratios);
        let reward = Gains::new(Scale::Reward, &ratios);
        let (error, none) = (
            standard_error(&percent.values),
            Gains::new(Scale::Reward, &[]),
        );
        let of_percent =
            "+- 8.82 %, matched or beaten on 66.7 % of graphs, worst -10.00 %, best 20.00 %";
        let of_reward =
            "+- 0.0882, matched or beaten on 66.7 % of graphs, worst -1.1000, best -0.8000";
        vec![
            ("mean", is_near(percent.mean(), 10.0 / 3.0)),
            ("mean reward", is_near(reward.mean(), -2.9 / 3.0)),
            ("mean of nothing", none.mean().is_none()),
            ("standard error", is_near(error, (700.0_f64 / 9.0).sqrt())),
            ("that of one number", standard_error(&[1.0]).is_none()),
            ("note in %", percent.note() == of_percent),
            ("note of rewards", reward.note() == of_reward),
            (
                "mean before a note",
                percent.note_with_mean() == format!("mean 3.33 % {of_percent}"),
            ),
            (
                "ties",
                percent.untied().len() == 2 && reward.untied().len() == 2,
            ),
        ]
    }

    fn others_by_hand() -> Vec<(&'static str, bool)> {
        let some_bars = bars(&[-0.5, 0.0, 1.9, 2.0], 2.0, 8);
        let five = quartiles(vec![9.0, 1.0, 5.0, 3.0, 7.0]);
        let halves = 1.5 * std::f64::consts::LN_2;
        vec![
            (
                "bars",
                some_bars == [(-1.0, 12.5), (1.0, 25.0), (3.0, 12.5)],
            ),
            ("bars of nothing", bars(&[], 2.0, 0).is_empty()),
            ("quartiles", five == Some([1.0, 3.0, 5.0, 7.0, 9.0])),
            ("quartiles of nothing", quartiles(Vec::new()).is_none()),
            ("entropy", is_near(Some(entropy(&[2, 1, 1])), halves)),
            ("entropy of one kind", is_near(Some(entropy(&[5, 0])), 0.0)),
            ("device 1, high", cell([3, 1], Some(4), 8) == (0, 0)),
            ("device 2, low", cell([1, 3], Some(3), 8) == (1, 1)),
            ("neither, no priority", cell([2, 2], None, 8) == (2, 1)),
            ("part", is_near(part(1.0, 8.0), 12.5)),
            ("part of nothing", part(0.0, 0.0).is_none()),
        ]
    }
}
