//! The search for the ranks that hold up the others, after a timeout.

use std::collections::{BTreeMap, BTreeSet};

/// Answers of the ranks of a world: the ranks that each waits for.
#[derive(Default)]
pub(super) struct WaitForGraph {
    /// The number of this rank's last question.
    question: u64,
    /// The answers to it: the ranks that each rank waits for.
    answers: BTreeMap<u32, Vec<u32>>,
    /// Ranks that have asked, with the number of their question, and have no answer yet.
    askers: Vec<(u32, u64)>,
}

impl WaitForGraph {
    /// The number of a new question.
    pub(super) fn begin(&mut self) -> u64 {
        self.question += 1;
        self.answers.clear();
        self.question
    }

    pub(super) fn note_question(&mut self, from: u32, question: u64) {
        self.askers.push((from, question));
    }

    pub(super) fn note_answer(&mut self, from: u32, question: u64, waits_for: Vec<u32>) {
        if question == self.question {
            self.answers.insert(from, waits_for);
        }
    }

    /// Ranks that have asked since the last call, with the numbers of their questions.
    pub(super) fn take_askers(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.askers)
    }

    /// The ranks where all chains of waiting end: those that do not answer. In a circle `missing`
    /// itself. Ascending but for a circle.
    pub(super) fn find_blocked(&self, own: u32, missing: Vec<u32>) -> Vec<u32> {
        let (mut seen, mut silent) = (BTreeSet::from([own]), BTreeSet::new());
        let mut open = missing.clone();
        while let Some(rank) = open.pop() {
            match self.answers.get(&rank) {
                _ if !seen.insert(rank) => {}
                Some(waits_for) => open.extend(waits_for),
                None => {
                    silent.insert(rank);
                }
            }
        }
        match silent.is_empty() {
            true => missing,
            false => silent.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_ranks_are_found_along_chains_of_waiting() {
        let find_blocked = |answers: &[(u32, &[u32])], missing: &[u32]| {
            let answers = answers.iter().map(|(rank, of)| (*rank, of.to_vec()));
            let graph = WaitForGraph {
                answers: answers.collect(),
                ..WaitForGraph::default()
            };
            graph.find_blocked(5, missing.to_vec())
        };
        assert_eq!(find_blocked(&[], &[4, 2]), [2, 4]);
        assert_eq!(find_blocked(&[(4, &[0])], &[4]), [0]);
        assert_eq!(find_blocked(&[(4, &[3]), (3, &[5, 0, 1])], &[4]), [0, 1]);
        // A circle, and ranks that have got meanwhile what they waited for.
        assert_eq!(find_blocked(&[(4, &[3]), (3, &[4, 5])], &[4]), [4]);
        assert_eq!(find_blocked(&[(4, &[]), (1, &[0])], &[4]), [4]);
    }
}
