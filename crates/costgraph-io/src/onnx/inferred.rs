//! What inference finds out about an op: its outputs and its work.

use super::{call::Call, value::Value};

/// What an op does, as far as its cost goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reads its inputs, writes its outputs and does that many FLOPs.
    Compute(u64),
    /// Nothing: its first output is its first input in another shape.
    View,
    /// Nothing: its output is known before the model runs.
    Free,
}

impl Work {
    /// That many FLOPs; none that are counted when the number is unknown.
    pub(crate) fn flops(flops: Option<u64>) -> Work {
        Work::Compute(flops.unwrap_or(0))
    }
}

/// What inference found out.
pub(crate) struct Inferred {
    pub(crate) outputs: Vec<Value>,
    pub(crate) work: Work,
}

impl Inferred {
    pub(crate) fn one(output: Value, work: Work) -> Inferred {
        Inferred {
            outputs: vec![output],
            work,
        }
    }

    /// Outputs of which nothing is known.
    pub(crate) fn unknown(call: &Call<'_>, work: Work) -> Inferred {
        Inferred {
            outputs: vec![Value::default(); call.n_outputs()],
            work,
        }
    }

    /// As many outputs as the node has; those added are unknown.
    pub(crate) fn pad(&mut self, n_outputs: usize) {
        self.outputs.resize(n_outputs, Value::default());
    }
}
