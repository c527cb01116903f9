//! From an op and what is known of its inputs to what is known of its outputs, and to the work that the op does.

use super::{
    call::Call,
    elementwise, fold, matrix, rearrange,
    value::{self, Known, Value, elem},
    window,
};

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

/// `None` for a kind of op that is not known here.
pub(crate) fn infer(call: &Call<'_>) -> Option<Inferred> {
    let found = window_or_matrix(call)
        .or_else(|| elementwise::infer(call))
        .or_else(|| rearrange::infer(call));
    let mut inferred = found?;
    inferred.pad(call.n_outputs());
    if let Some(first) = inferred.outputs.first_mut() {
        if first.known.is_none() {
            fold::fold(call, first);
        }
        if first.known.is_some() {
            inferred.work = Work::Free;
        }
    }
    Some(inferred)
}

fn window_or_matrix(call: &Call<'_>) -> Option<Inferred> {
    let same = call.elem(0);
    Some(match call.node.proto.op_type.as_str() {
        "Conv" | "DeformConv" => window::conv(call, 1, same),
        "ConvInteger" => window::conv(call, 1, elem::INT32),
        "QLinearConv" => window::conv(call, 3, call.elem(7)),
        "ConvTranspose" => window::conv_transpose(call),
        "MaxPool" | "AveragePool" | "LpPool" => window::pool(call),
        "GlobalAveragePool" | "GlobalMaxPool" | "GlobalLpPool" => window::global_pool(call),
        "MatMul" => matrix::matmul(call, 1, same),
        "MatMulInteger" => matrix::matmul(call, 1, elem::INT32),
        "QLinearMatMul" => matrix::matmul(call, 3, call.elem(7)),
        "Gemm" => matrix::gemm(call),
        "Einsum" => matrix::einsum(call),
        "Attention" => matrix::attention(call),
        "LSTM" => matrix::recurrent(call, 4),
        "GRU" => matrix::recurrent(call, 3),
        "RNN" => matrix::recurrent(call, 1),
        "Constant" => constant(call),
        _ => return None,
    })
}

/// `Constant` has its value in one of several attributes.
fn constant(call: &Call<'_>) -> Inferred {
    let attribute = |name| call.node.attribute(name);
    let output = if let Some(a) = attribute("value") {
        value::from_tensor("", &a.t, 0).map_or_else(|_| Value::default(), |(_, value)| value)
    } else if let Some(a) = attribute("value_int") {
        Value::ints(elem::INT64, Vec::new(), vec![a.i])
    } else if let Some(a) = attribute("value_ints") {
        Value::ints(elem::INT64, vec![a.ints.len() as u64], a.ints.clone())
    } else if attribute("value_float").is_some() {
        Value::new(elem::FLOAT, Some(Vec::new()))
    } else if let Some(a) = attribute("value_floats") {
        Value {
            known: Some(Known::Floats(a.floats.clone())),
            ..Value::new(elem::FLOAT, Some(vec![a.floats.len() as u64]))
        }
    } else {
        Value::default()
    };
    Inferred::one(output, Work::Free)
}
