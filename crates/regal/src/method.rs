//! The ways to make a plan, by name.

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use crate::error::Error;

/// A way to make a plan.
///
/// ```
/// use shardgraph_regal::Method;
/// assert_eq!("xla-list".parse::<Method>()?, Method::XlaList);
/// assert_eq!(Method::SeededBrkga.to_string(), "seeded-brkga");
/// # Ok::<(), shardgraph_regal::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// Several searches that share the evaluations: genetic ones over several decoders and a local search that moves clusters between
    /// devices, on the contracted graph. Its starts are [`Method::BASELINES`]; never worse than those for which `evaluations`
    /// suffices, nor, without a deadline, than the plan for the first of the devices.
    #[default]
    Portfolio,
    /// The genetic algorithm from random chromosomes, as the paper's "BRKGA 5K".
    Brkga,
    /// The same with numbers that a grid search found best on other graphs, as the paper's "Tuned BRKGA".
    TunedBrkga,
    /// The genetic algorithm with the cheap schedules below as warm starts: upward rank, and where memory matters the partitioned and
    /// the greedy ones. Never worse than those for which `evaluations` suffices, which is all where it is at least 5.
    SeededBrkga,
    /// The genetic algorithm with proposals made by hand ([`crate::rank_proposals`]): what learned ones have to beat.
    RankBrkga,
    /// The genetic algorithm with the proposals of a policy, as the paper's "REGAL"; [`crate::place_with_policy`] alone makes such plans.
    Regal,
    /// The same with the cheap schedules of [`Method::SeededBrkga`] as warm starts of the search that has proposals.
    SeededRegal,
    /// The best of random chromosomes with the proposals of a policy, as the paper's "instance-dependent random search".
    Idrs,
    /// The best of random chromosomes.
    Random,
    /// Local search over devices and positions.
    LocalSearch,
    /// Every op on the one device that is best for that.
    OneDevice,
    /// HEFT: list scheduling by upward rank, with weights and constants beside the ops that read them.
    Heft,
    /// List scheduling by upward rank, weights and constants like any other op.
    List,
    /// A multilevel partition that minimises communication, then list scheduling over it.
    Multilevel,
    /// Graph partitioning, then depth-first order: the paper's "GP + DFS".
    PartitionDfs,
    /// Graph partitioning, then XLA's list order, which frees most bytes first.
    XlaList,
    /// Graph partitioning, then XLA's post-order.
    XlaPostOrder,
    /// Again and again the op and device that raise the peak least.
    GreedyMemory,
    /// The best of `greedy_runs` such runs with noise.
    NoisyGreedyMemory,
}

impl Method {
    /// All methods that need nothing but options, the genetic ones first.
    pub const ALL: [Method; 16] = [
        Method::Portfolio,
        Method::Brkga,
        Method::TunedBrkga,
        Method::SeededBrkga,
        Method::RankBrkga,
        Method::Random,
        Method::LocalSearch,
        Method::OneDevice,
        Method::Heft,
        Method::List,
        Method::Multilevel,
        Method::PartitionDfs,
        Method::XlaList,
        Method::XlaPostOrder,
        Method::GreedyMemory,
        Method::NoisyGreedyMemory,
    ];

    /// What [`Method::Portfolio`] starts from and reports beside its plan.
    pub const BASELINES: [Method; 4] = [
        Method::OneDevice,
        Method::Heft,
        Method::List,
        Method::Multilevel,
    ];

    /// The methods that need a policy.
    pub const LEARNED: [Method; 3] = [Method::SeededRegal, Method::Regal, Method::Idrs];

    /// True for methods that go on for as many evaluations as they are given.
    #[must_use]
    pub fn searches(self) -> bool {
        self.decodes() || self == Method::LocalSearch
    }

    /// True for methods that a deadline ends or, the greedy ones, hurries.
    #[must_use]
    pub fn heeds_deadline(self) -> bool {
        self.searches() || matches!(self, Method::GreedyMemory | Method::NoisyGreedyMemory)
    }

    /// True for methods that decode chromosomes, so that `decoder` matters.
    #[must_use]
    pub fn decodes(self) -> bool {
        matches!(
            self,
            Method::Portfolio
                | Method::Brkga
                | Method::TunedBrkga
                | Method::SeededBrkga
                | Method::RankBrkga
                | Method::Regal
                | Method::SeededRegal
                | Method::Idrs
                | Method::Random
        )
    }
}

words!(
    Method, Error, Error::word, "method";
    "portfolio" => Portfolio,
    "brkga" => Brkga,
    "tuned-brkga" => TunedBrkga,
    "seeded-brkga" => SeededBrkga,
    "rank-brkga" => RankBrkga,
    "regal" => Regal,
    "seeded-regal" => SeededRegal,
    "idrs" => Idrs,
    "random" => Random,
    "local-search" => LocalSearch,
    "one-device" => OneDevice,
    "heft" => Heft,
    "list" => List,
    "multilevel" => Multilevel,
    "partition-dfs" => PartitionDfs,
    "xla-list" => XlaList,
    "xla-post-order" => XlaPostOrder,
    "greedy-memory" => GreedyMemory,
    "noisy-greedy-memory" => NoisyGreedyMemory,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_the_one_of_its_json() {
        for method in Method::ALL.into_iter().chain(Method::LEARNED) {
            let json = serde_json::to_string(&method).unwrap();
            assert_eq!(json, format!("\"{method}\""));
            assert_eq!(method.name().parse::<Method>().unwrap(), method);
        }
        let text = "genetic".parse::<Method>().unwrap_err().to_string();
        assert!(text.starts_with(
            "`genetic` is no method: expected portfolio, brkga, tuned-brkga, seeded-brkga, "
        ));
    }
}
