//! Marks on nodes that are all taken off at once.

/// A set of nodes: emptying it costs nothing.
pub(crate) struct Marks {
    round: u32,
    rounds: Vec<u32>,
}

impl Marks {
    pub(crate) fn new(n_nodes: usize) -> Marks {
        Marks {
            round: 0,
            rounds: vec![0; n_nodes],
        }
    }

    /// Takes all marks off.
    pub(crate) fn clear(&mut self) {
        if self.round == u32::MAX {
            self.rounds.fill(0);
            self.round = 0;
        }
        self.round += 1;
    }

    /// Marks `v`; true if it was unmarked.
    pub(crate) fn mark(&mut self, v: u32) -> bool {
        std::mem::replace(&mut self.rounds[v as usize], self.round) != self.round
    }

    pub(crate) fn has(&self, v: u32) -> bool {
        self.rounds[v as usize] == self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_end_with_their_round_even_when_the_counter_wraps() {
        let mut marks = Marks::new(2);
        for round in [0, 7, u32::MAX - 1, u32::MAX] {
            marks.round = round;
            marks.clear();
            assert!(!marks.has(0) && marks.mark(0) && !marks.mark(0) && marks.has(0));
            marks.clear();
            assert!(!marks.has(0));
        }
    }
}
