//! Ops whose outputs have the shape of an input, or of all inputs broadcast together.

use super::{
    call::{Call, axis},
    inferred::{Inferred, Work},
    value::{MAX_RANK, Value, elem, n_elements},
};

/// FLOPs that a normalisation or softmax takes for an element: subtract, square or exponentiate, sum, divide, scale.
const NORMALISE_FLOPS: u64 = 5;

/// One input decides, one FLOP an element.
const UNARY: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitwiseNot",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumProd",
    "CumSum",
    "Elu",
    "Erf",
    "Exp",
    "FastGelu",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "QuickGelu",
    "RandomNormalLike",
    "RandomUniformLike",
    "Reciprocal",
    "Relu",
    "ReverseSequence",
    "Round",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Trilu",
];

/// One input decides, several FLOPs an element.
const NORMALISATIONS: &[&str] = &[
    "GroupNormalization",
    "InstanceNormalization",
    "LRN",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "SimplifiedLayerNormalization",
    "Softmax",
];

/// All inputs broadcast, one FLOP an element.
const BROADCAST: &[&str] = &[
    "Add",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
];

/// All inputs broadcast to truth values.
const COMPARISONS: &[&str] = &[
    "And",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Or",
    "Xor",
];

/// `None` when the op is none of these.
pub(crate) fn infer(call: &Call<'_>) -> Option<Inferred> {
    let kind = call.node.proto.op_type.as_str();
    let is_in = |kinds: &[&str]| kinds.contains(&kind);
    let like = |elem: i32| like(call, elem, 1);
    Some(match kind {
        "Cast" | "CastLike" => cast(call),
        "Not" | "IsNaN" | "IsInf" => like(elem::BOOL),
        "Bernoulli" | "EyeLike" => {
            like(i32::try_from(call.int("dtype", call.elem(0).into())).unwrap_or(0))
        }
        "QuantizeLinear" => {
            let zero_point = call.elem(2);
            like(if zero_point == 0 {
                elem::UINT8
            } else {
                zero_point
            })
        }
        "DequantizeLinear" => like(call.elem(1)),
        "DynamicQuantizeLinear" => dynamic_quantize(call),
        "LayerNormalization" => layer_normalization(call),
        "BatchNormalization" => batch_normalization(call),
        "Where" => broadcast_call(call, call.elem(1)),
        _ if is_in(UNARY) => like(call.elem(0)),
        _ if is_in(NORMALISATIONS) => self::like(call, call.elem(0), NORMALISE_FLOPS),
        _ if is_in(BROADCAST) => broadcast_call(call, call.elem(0)),
        _ if is_in(COMPARISONS) => broadcast_call(call, elem::BOOL),
        _ => return None,
    })
}

/// The shape of the first input.
fn like(call: &Call<'_>, elem: i32, flops_per_element: u64) -> Inferred {
    let shape = call.shape(0).map(<[u64]>::to_vec);
    let flops = shape.as_deref().and_then(n_elements);
    let flops = flops.and_then(|n| n.checked_mul(flops_per_element));
    let mut inferred = Inferred::one(Value::new(elem, shape), Work::flops(flops));
    inferred.pad(call.n_outputs());
    inferred
}

fn cast(call: &Call<'_>) -> Inferred {
    let to = match call.node.proto.op_type.as_str() {
        "Cast" => i32::try_from(call.int("to", 0)).unwrap_or(0),
        _ => call.elem(1),
    };
    like(call, to, 0)
}

fn dynamic_quantize(call: &Call<'_>) -> Inferred {
    let mut inferred = like(call, elem::UINT8, 2);
    for (output, elem) in inferred
        .outputs
        .iter_mut()
        .skip(1)
        .zip([elem::FLOAT, elem::UINT8])
    {
        *output = Value::new(elem, Some(Vec::new()));
    }
    inferred
}

/// Mean and inverse deviation, where they are asked for, have one number for each group of normalised elements.
fn layer_normalization(call: &Call<'_>) -> Inferred {
    let mut inferred = like(call, call.elem(0), NORMALISE_FLOPS);
    let per_group = call.shape(0).and_then(|shape| {
        let first = axis(call.int("axis", -1), shape.len())?;
        let mut shape = shape.to_vec();
        shape[first..].fill(1);
        Some(shape)
    });
    for output in inferred.outputs.iter_mut().skip(1) {
        *output = Value::new(elem::FLOAT, per_group.clone());
    }
    inferred
}

/// Scale and shift; the running statistics that training puts out have the shape of the scale.
fn batch_normalization(call: &Call<'_>) -> Inferred {
    let mut inferred = like(call, call.elem(0), 2);
    for output in inferred.outputs.iter_mut().skip(1) {
        *output = Value::new(call.elem(0), call.shape(1).map(<[u64]>::to_vec));
    }
    inferred
}

fn broadcast_call(call: &Call<'_>, elem: i32) -> Inferred {
    // Before operator set 7 the second operand was stretched to the first, at a place that an attribute says.
    let shape = if call.opset < 7 && call.inputs.len() == 2 {
        call.shape(0).map(<[u64]>::to_vec)
    } else {
        let shapes: Option<Vec<&[u64]>> = (0..call.inputs.len()).map(|i| call.shape(i)).collect();
        shapes.and_then(|shapes| broadcast(&shapes))
    };
    let flops = shape.as_deref().and_then(n_elements);
    Inferred::one(Value::new(elem, shape), Work::flops(flops))
}

/// The shape that all of them stretch to: from the last axis on, equal or 1.
pub(crate) fn broadcast(shapes: &[&[u64]]) -> Option<Vec<u64>> {
    let rank = shapes.iter().map(|shape| shape.len()).max()?;
    if rank > MAX_RANK {
        return None;
    }
    let mut result = vec![1; rank];
    for shape in shapes {
        let axes = result[rank - shape.len()..].iter_mut();
        for (into, &dim) in axes.zip(*shape) {
            match (*into, dim) {
                (1, _) => *into = dim,
                (_, 1) => {}
                (a, b) if a == b => {}
                _ => return None,
            }
        }
    }
    Some(result)
}
