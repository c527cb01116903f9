//! From an op and what is known of its inputs to what is known of its outputs, and to the work that the op does.

use super::inferred::{Inferred, Work};
use super::{
    call::Call,
    elementwise, fold, matrix, rearrange,
    value::{self, Known, Value, elem},
    window,
};

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
