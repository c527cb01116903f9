//! [`Solution`]: an answer with the bound and the stages that led to it.

/// How an answer is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The one seed.
    pub seed: u64,
    /// Independent searches at the same time; the answer is the best of them, the first of equal ones.
    pub threads: u32,
    /// Steps of local search, in place of the time limit: the answer is then the same on every machine.
    pub steps: Option<u64>,
    /// Answers to start from, each a list of nodes; none may be wrong.
    pub starts: &'a [&'a [u32]],
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            seed: 1,
            threads: 1,
            steps: None,
            starts: &[],
        }
    }
}

/// A checked answer to one problem on one graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The nodes of the answer, ascending: a cover, an independent set, a clique, one side of a cut, a dominating set.
    pub nodes: Vec<u32>,
    /// The number of these nodes or the sum of their weights; for a cut the weight of its edges.
    pub objective: f64,
    /// No answer is better than this: a lower bound of what is minimised, an upper bound of what is maximised.
    pub bound: Option<f64>,
    /// Whether the answer is proved to be an optimum.
    pub is_optimal: bool,
    /// The stages that ran, in their order.
    pub stages: Vec<Stage>,
}

/// One part of a search, with the best answer at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// For example `reductions`, `local search` or `branch and bound`.
    pub name: &'static str,
    /// Objective of the best answer when the stage ended.
    pub objective: f64,
    /// Seconds of this stage, by the budget's clock.
    pub seconds: f64,
}
