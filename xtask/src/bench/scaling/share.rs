//! How a step of one rank is divided: the part that every rank does whole, the part that is cut, and how many pieces that can be cut into.
//!
//! t(P) = t(1) * (serial + (1 - serial) * cut(P)) + what the ranks exchange. The serial share is fitted to the measured steps. Every rank does the
//! serial part itself, so ranks that share a processor do it one after the other.

/// What a rank works on is handed out in whole pieces, to ranks of which so many compute at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) n_pieces: u32,
    pub(super) n_at_once: u32,
}

impl Cut {
    /// The share of the divided work that `n_ranks` wait for: that of the rank with the most pieces, and no less than the processors take.
    pub(super) fn share(self, n_ranks: u32) -> f64 {
        let n_pieces = self.n_pieces.max(1);
        let most = f64::from(n_pieces.div_ceil(n_ranks.max(1))) / f64::from(n_pieces);
        most.max(1.0 / f64::from(self.n_at_once.max(1)))
    }

    /// How often a processor does what every rank does.
    fn turns(self, n_ranks: u32) -> f64 {
        (f64::from(n_ranks) / f64::from(self.n_at_once.max(1))).max(1.0)
    }
}

/// A measured step, and the model's seconds of it between ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) n_ranks: u32,
    pub(super) seconds: f64,
    pub(super) exchanged: f64,
}

/// The share of a step of one rank that more ranks do not shorten.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Serial {
    pub(super) share: f64,
    /// The least-squares fit, which noise can put below 0 or above 1.
    fitted: f64,
    /// The ranks of the rows that it was fitted to; empty where no row could tell.
    ranks: Vec<u32>,
}

impl Serial {
    /// Fits the share to the steps of several ranks. In rows of more ranks than processors the ranks also wait for their turns, which says nothing
    /// of the program: they are left out.
    pub(super) fn fit(alone: f64, steps: &[Step], cut: Cut) -> Serial {
        let (mut above, mut below, mut ranks) = (0.0, 0.0, Vec::new());
        for step in steps {
            let x = cut.share(step.n_ranks);
            if step.n_ranks > cut.n_at_once || x >= 1.0 {
                continue;
            }
            let y = (step.seconds - step.exchanged) / alone;
            above += (1.0 - x) * (y - x);
            below += (1.0 - x) * (1.0 - x);
            ranks.push(step.n_ranks);
        }
        let fitted = if ranks.is_empty() { 0.0 } else { above / below };
        Serial {
            share: fitted.clamp(0.0, 1.0),
            fitted,
            ranks,
        }
    }

    /// Seconds of a step of `n_ranks`, without what they exchange.
    pub(super) fn seconds(&self, alone: f64, cut: Cut, n_ranks: u32) -> f64 {
        alone * (self.share * cut.turns(n_ranks) + (1.0 - self.share) * cut.share(n_ranks))
    }

    /// Sentences for the report.
    pub(super) fn sentences(&self, cut: Cut) -> String {
        let Cut {
            n_pieces,
            n_at_once,
        } = cut;
        let pieces = format!(
            "The other part is cut into {n_pieces} pieces at most. Ranks that share a processor do the part that is not divided one after the other."
        );
        if self.ranks.is_empty() {
            return format!(
                "The share of a step that is not divided could not be measured here (no row with several ranks, a processor each) and is \
                 taken as 0: the predictions are too short by it. {pieces}"
            );
        }
        let clamped = if (self.fitted - self.share).abs() > 0.0 {
            format!(" (the fit itself gives {:.1} %)", self.fitted * 100.0)
        } else {
            String::new()
        };
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        format!(
            "Not divided: {:.1} % of a step of one rank{clamped}, fitted as t(P) = t(1) * (serial + (1 - serial) * cut(P)) + exchanged, \
             cut(P) = max(ceil({n_pieces} / P) / {n_pieces}, 1 / {n_at_once}) on the {n_at_once} processors here, to the measured rows of P = 1 and {}. {pieces}",
            self.share * 100.0,
            ranks.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE: f64 = 0.5;

    /// Steps as the model has them, with a planted serial share.
    fn planted(serial: f64, cut: Cut, ranks: &[u32]) -> Vec<Step> {
        let step = |&n_ranks: &u32| {
            let exchanged = 1e-3 * f64::from(n_ranks);
            let work = ALONE * (serial + (1.0 - serial) * cut.share(n_ranks));
            Step {
                n_ranks,
                seconds: work + exchanged,
                exchanged,
            }
        };
        ranks.iter().map(step).collect()
    }

    #[test]
    fn what_cannot_be_cut_further_is_not() {
        let cut = Cut {
            n_pieces: 20,
            n_at_once: u32::MAX,
        };
        for (n_ranks, wanted) in [
            (1, 1.0),
            (2, 0.5),
            (3, 7.0 / 20.0),
            (16, 2.0 / 20.0),
            (19, 2.0 / 20.0),
            (20, 1.0 / 20.0),
            (21, 1.0 / 20.0),
            (1024, 1.0 / 20.0),
        ] {
            assert!((cut.share(n_ranks) - wanted).abs() < 1e-12, "{n_ranks}");
        }
        let two = Cut {
            n_at_once: 2,
            ..cut
        };
        assert!((two.share(6) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_planted_serial_share_comes_back() {
        let cut = Cut {
            n_pieces: 47,
            n_at_once: 8,
        };
        for serial in [0.0, 0.1, 0.37, 1.0] {
            let fit = Serial::fit(ALONE, &planted(serial, cut, &[2, 4, 6]), cut);
            assert!((fit.share - serial).abs() < 1e-12, "{fit:?}");
            assert_eq!(fit.ranks, [2, 4, 6]);
            // A thousand ranks wait for the serial part and one piece.
            let far = fit.seconds(
                ALONE,
                Cut {
                    n_at_once: u32::MAX,
                    ..cut
                },
                1024,
            );
            let wanted = ALONE * (serial + (1.0 - serial) / 47.0);
            assert!((far - wanted).abs() < 1e-12, "{far}");
            // Sixteen ranks on eight processors do the serial part twice, one after the other.
            let crowded = fit.seconds(ALONE, cut, 16);
            let wanted = ALONE * (2.0 * serial + (1.0 - serial) * 0.125);
            assert!((crowded - wanted).abs() < 1e-12, "{crowded}");
        }
    }

    /// On two processors six ranks take turns: their row says nothing of the program, however slow it is.
    #[test]
    fn rows_with_more_ranks_than_processors_do_not_count() {
        let cut = Cut {
            n_pieces: 47,
            n_at_once: 2,
        };
        let mut steps = planted(0.25, cut, &[2, 4, 6]);
        steps[1].seconds *= 3.0;
        steps[2].seconds *= 5.0;
        let fit = Serial::fit(ALONE, &steps, cut);
        assert!((fit.share - 0.25).abs() < 1e-12, "{fit:?}");
        let sentences = fit.sentences(cut);
        for words in [
            "25.0 %",
            "P = 1 and 2.",
            // As `Cut::share` computes it.
            "cut(P) = max(ceil(47 / P) / 47, 1 / 2)",
            "t(1) * (serial + (1 - serial) * cut(P)) + exchanged",
        ] {
            assert!(sentences.contains(words), "{sentences}");
        }
    }

    #[test]
    fn a_fit_outside_of_its_range_is_shown_and_not_used() {
        let cut = Cut {
            n_pieces: 46,
            n_at_once: 2,
        };
        let mut steps = planted(0.0, cut, &[2]);
        steps[0].seconds -= 0.05 * ALONE;
        let fit = Serial::fit(ALONE, &steps, cut);
        assert!(fit.share.abs() < 1e-12, "{fit:?}");
        assert!(
            fit.sentences(cut).contains("gives -10.0 %"),
            "{}",
            fit.sentences(cut)
        );
        let one = Cut {
            n_at_once: 1,
            ..cut
        };
        let none = Serial::fit(ALONE, &planted(0.5, one, &[2, 4]), one);
        assert!(none.ranks.is_empty() && none.share.abs() < 1e-12);
        assert!(none.sentences(one).contains("could not be measured"));
    }
}
