//! The few statistics that the records hold.

/// Lowest, middle and highest of some samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The lowest.
    pub min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The highest.
    pub max: f64,
}

impl Summary {
    /// Distance of lowest and highest, over the median.
    pub fn spread(self) -> f64 {
        match self.median == 0.0 {
            true => 0.0,
            false => (self.max - self.min) / self.median.abs(),
        }
    }
}

/// Sums up samples; `None` if there are none.
pub fn summary(samples: &[f64]) -> Option<Summary> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
    Some(Summary {
        min,
        median: (low + high) / 2.0,
        max,
    })
}

/// A number as tables show it: whole numbers in full, others with four significant digits.
pub fn shown(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{:.0}", value + 0.0); // no minus before zero
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    let decimals = usize::try_from(4 - digits_before).unwrap_or(0);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(summary(&[]), None);
        assert_eq!(
            summary(&[3.0, 1.0, 2.0]),
            Some(Summary {
                min: 1.0,
                median: 2.0,
                max: 3.0
            })
        );
        assert_eq!(
            summary(&[4.0, 1.0]),
            Some(Summary {
                min: 1.0,
                median: 2.5,
                max: 4.0
            })
        );
    }

    #[test]
    fn the_spread_is_a_share_of_the_median() {
        let spread = |samples: &[f64]| summary(samples).unwrap().spread();
        assert!((spread(&[4.0, 1.0, 2.0]) - 1.5).abs() < 1e-12);
        assert!(spread(&[0.0, 0.0]).abs() < 1e-12);
    }

    #[test]
    fn four_significant_digits() {
        assert_eq!(shown(33_074_211.0), "33074211");
        assert_eq!(shown(0.003_141_59), "0.003142");
        assert_eq!(shown(16.3456), "16.35");
        assert_eq!(shown(123_456.7), "123457");
    }
}
