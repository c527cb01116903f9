//! Counts of compared derivatives for each parameter and input.

use std::collections::BTreeMap;

/// The part of all derivatives that may be unclear is one in this number.
const UNCLEAR_IN: usize = 4;

/// Derivatives that differences agreed with, and those about which they said too little, for each
/// parameter and input.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    by_tensor: BTreeMap<String, [usize; 2]>,
}

impl Tally {
    pub(crate) fn right(&mut self, tensor: &str) {
        self.count(tensor)[0] += 1;
    }

    pub(crate) fn unclear(&mut self, tensor: &str) {
        self.count(tensor)[1] += 1;
    }

    fn count(&mut self, tensor: &str) -> &mut [usize; 2] {
        self.by_tensor.entry(tensor.to_string()).or_default()
    }

    pub(crate) fn n_right(&self) -> usize {
        self.by_tensor.values().map(|[right, _]| right).sum()
    }

    pub(crate) fn n_unclear(&self) -> usize {
        self.by_tensor.values().map(|[_, unclear]| unclear).sum()
    }

    /// The reason why so few comparisons show nothing, if they are too few.
    pub(crate) fn complaint(&self) -> Option<String> {
        let mut tensors = self.by_tensor.iter();
        if let Some((name, [_, unclear])) = tensors.find(|(_, [right, _])| *right == 0) {
            return Some(format!(
                "not one of {unclear} derivatives by {name} could be compared: kinks and jumps are everywhere, or rounding hides \
                 them; try another seed, or let the method give less beside what depends on it"
            ));
        }
        let (right, unclear) = (self.n_right(), self.n_unclear());
        (UNCLEAR_IN * unclear > right + unclear).then(|| {
            format!(
                "{unclear} of {} derivatives could not be compared, more than 1 in {UNCLEAR_IN}: kinks and jumps are everywhere, \
                 or rounding hides them; try another seed, or smaller widths",
                right + unclear
            )
        })
    }
}
