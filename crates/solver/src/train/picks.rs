//! Nodes that a policy picks: those of the answer, or for covers those of its complement.

use serde::{Deserialize, Serialize};

use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Problem};

/// The nodes that a policy learns to pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum PickRule {
    /// For covers the nodes of an independent set, whose neighbours are the cover; else those of the answer.
    ///
    /// A node of least degree is safe to leave out of a cover, and two layers see its degree. As picks into the cover its neighbours are one
    /// layer further away. The policy is one for independent sets.
    #[default]
    Complement,
    /// The nodes of the answer, as the paper has it.
    Answer,
}

impl PickRule {
    pub(super) fn of_old_runs() -> Self {
        Self::Answer
    }

    /// The problem whose episodes the policy plays for an answer to `problem`.
    pub(super) fn played(self, problem: &Problem) -> &Problem {
        match self {
            Self::Complement if problem.name == MINIMUM_VERTEX_COVER.name => {
                &MAXIMUM_INDEPENDENT_SET
            }
            _ => problem,
        }
    }
}
