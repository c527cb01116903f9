//! The ways to carry out the first layer.

use serde::{Deserialize, Serialize};
use shardgraph_error::words;

use super::options::RunOptions;
use crate::partition::Method;
use crate::{Config, Error};

#[cfg(doc)]
use crate::Mode;

/// The execution of the first layer; on one rank all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Execution {
    /// Source by source: no W_r is built, and what has no gradient is passed over.
    #[default]
    Grouped,
    /// W_r of all relations and of all nodes that the mode reads is built, and its gradient: the
    /// baseline of the paper on relations over devices. The paper prunes nothing: it is
    /// [`Mode::Full`] that reads every node. On several ranks, with [`Method::M1`] or
    /// [`Method::M2`], each builds W_r of its relations from a copy of all rows, and gradients of
    /// rows are added over the ranks in their order, as floats: losses are then those of one rank
    /// to rounding and no longer bit for bit.
    Paper,
}

impl Execution {
    /// Refuses what has no W_r to build, and what the baseline does not do.
    pub(super) fn check(self, config: &Config, options: &RunOptions) -> Result<(), Error> {
        let RunOptions {
            n_ranks,
            partition: method,
            ..
        } = *options;
        let has_budget = options.budget_per_device.is_some();
        let is_one_hot = config.bases > 0 && config.embedding == 0;
        let is_dealt = n_ranks == 1 || matches!(method, Method::M1 | Method::M2);
        if self == Execution::Grouped || (is_one_hot && is_dealt && !has_budget) {
            return Ok(());
        }
        let expected = "one-hot input with --bases, no budget, and on several ranks --partition m1 or m2, for which the baseline is there";
        Err(Error::config("execution", self, expected))
    }
}
words!(Execution, Error, Error::config, "execution"; "grouped" => Grouped, "paper" => Paper);
