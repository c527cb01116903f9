//! Products of matrices and what is made of them: `MatMul`, `Gemm`, `Einsum`, attention, recurrent layers.

use super::{
    call::Call,
    elementwise::broadcast,
    inferred::{Inferred, Work},
    value::{Value, n_elements},
};
use std::collections::BTreeMap;

/// `MatMul` and its integer kin, with NumPy's rules; `b_idx` is the input with the right matrix.
pub(crate) fn matmul(call: &Call<'_>, b_idx: usize, out: i32) -> Inferred {
    let found = call
        .shape(0)
        .zip(call.shape(b_idx))
        .and_then(|(a, b)| matmul_shape(a, b));
    let flops = found
        .as_ref()
        .and_then(|(shape, depth)| n_elements(shape)?.checked_mul(*depth)?.checked_mul(2));
    let shape = found.map(|(shape, _)| shape);
    Inferred::one(Value::new(out, shape), Work::flops(flops))
}

/// The shape of the product and the length of its sums.
fn matmul_shape(a: &[u64], b: &[u64]) -> Option<(Vec<u64>, u64)> {
    let depth = *a.last()?;
    let (a_rows, a_batch) = match a {
        [_] => (None, &[][..]),
        [batch @ .., rows, _] => (Some(*rows), batch),
        [] => return None,
    };
    let (b_depth, b_columns, b_batch) = match b {
        [depth] => (*depth, None, &[][..]),
        [batch @ .., depth, columns] => (*depth, Some(*columns), batch),
        [] => return None,
    };
    if depth != b_depth {
        return None;
    }
    let mut shape = broadcast(&[a_batch, b_batch])?;
    shape.extend(a_rows);
    shape.extend(b_columns);
    Some((shape, depth))
}

/// `Gemm`.
pub(crate) fn gemm(call: &Call<'_>) -> Inferred {
    let found = || {
        let &[a0, a1] = call.shape(0)? else {
            return None;
        };
        let &[b0, b1] = call.shape(1)? else {
            return None;
        };
        let is_set = |name| call.int(name, 0) != 0;
        let (rows, depth) = if is_set("transA") { (a1, a0) } else { (a0, a1) };
        let (b_depth, columns) = if is_set("transB") { (b1, b0) } else { (b0, b1) };
        (depth == b_depth).then_some((vec![rows, columns], depth))
    };
    let found: Option<(Vec<u64>, u64)> = found();
    let flops = found
        .as_ref()
        .and_then(|(shape, depth)| n_elements(shape)?.checked_mul(*depth)?.checked_mul(2));
    let shape = found.map(|(shape, _)| shape);
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

/// `Einsum` without ellipses: two FLOPs for each point of the space that all letters span.
pub(crate) fn einsum(call: &Call<'_>) -> Inferred {
    let found = einsum_shape(call);
    let flops = found.as_ref().and_then(|(_, points)| points.checked_mul(2));
    let shape = found.map(|(shape, _)| shape);
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

fn einsum_shape(call: &Call<'_>) -> Option<(Vec<u64>, u64)> {
    let equation: Vec<u8> = call.text("equation").to_vec();
    let equation: Vec<u8> = equation.into_iter().filter(|b| *b != b' ').collect();
    let equation = std::str::from_utf8(&equation).ok()?;
    let (left, right) = equation.split_once("->")?;
    let mut size = BTreeMap::new();
    let terms: Vec<&str> = left.split(',').collect();
    if terms.len() != call.inputs.len() || equation.contains('.') {
        return None;
    }
    for (idx, term) in terms.into_iter().enumerate() {
        let shape = call.shape(idx)?;
        if term.len() != shape.len() {
            return None;
        }
        for (letter, &dim) in term.bytes().zip(shape) {
            let before = size.insert(letter, dim);
            if before.is_some_and(|before| before != dim) {
                return None;
            }
        }
    }
    let points = n_elements(&size.values().copied().collect::<Vec<_>>())?;
    let shape: Option<Vec<u64>> = right.bytes().map(|b| size.get(&b).copied()).collect();
    Some((shape?, points))
}

/// `Attention` of operator set 23: scores and weighted sums are counted, masks and softmax are not.
pub(crate) fn attention(call: &Call<'_>) -> Inferred {
    let found = attention_shape(call);
    let flops = found.as_ref().and_then(|(_, flops)| *flops);
    let shape = found.map(|(shape, _)| shape);
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

/// Queries, keys and values as [batch, heads, steps, width], or [batch, steps, heads * width] with the heads in an attribute.
fn attention_shape(call: &Call<'_>) -> Option<(Vec<u64>, Option<u64>)> {
    let heads = |name: &str| u64::try_from(call.int(name, 0)).ok().filter(|&n| n > 0);
    let split = |idx: usize, name: &str| match *call.shape(idx)? {
        [batch, n_heads, steps, width] => Some([batch, n_heads, steps, width]),
        [batch, steps, all] => Some([batch, heads(name)?, steps, all / heads(name)?]),
        _ => None,
    };
    let [batch, n_heads, steps, width] = split(0, "q_num_heads")?;
    let [_, _, new_keys, _] = split(1, "kv_num_heads")?;
    let [_, _, _, value_width] = split(2, "kv_num_heads")?;
    // Keys of earlier calls come first.
    let past_keys = call.shape(4).and_then(|past| past.get(2).copied());
    let n_keys = new_keys.checked_add(past_keys.unwrap_or(0))?;
    let widths = width.checked_add(value_width)?;
    let flops = n_elements(&[2, batch, n_heads, steps, n_keys, widths]);
    let shape = match call.shape(0)?.len() {
        4 => vec![batch, n_heads, steps, value_width],
        _ => vec![batch, steps, n_heads.checked_mul(value_width)?],
    };
    Some((shape, flops))
}

/// `LSTM`, `GRU`, `RNN`, with that many gates.
pub(crate) fn recurrent(call: &Call<'_>, n_gates: u64) -> Inferred {
    let Some(sizes) = RecurrentSizes::of(call) else {
        return Inferred::unknown(call, Work::flops(None));
    };
    let RecurrentSizes {
        steps,
        batch,
        features,
        hidden,
        n_directions,
    } = sizes;
    let is_batch_first = call.int("layout", 0) != 0;
    let (all, last) = if is_batch_first {
        (
            vec![batch, steps, n_directions, hidden],
            vec![batch, n_directions, hidden],
        )
    } else {
        (
            vec![steps, n_directions, batch, hidden],
            vec![n_directions, batch, hidden],
        )
    };
    let per_step = features
        .checked_add(hidden)
        .and_then(|width| n_elements(&[2, n_gates, hidden, width]));
    let flops = per_step.and_then(|f| n_elements(&[steps, batch, n_directions, f]));
    let elem = call.elem(0);
    let outputs = [all, last.clone(), last]
        .into_iter()
        .take(call.n_outputs())
        .map(|shape| Value::new(elem, Some(shape)))
        .collect();
    Inferred {
        outputs,
        work: Work::flops(flops),
    }
}

struct RecurrentSizes {
    steps: u64,
    batch: u64,
    features: u64,
    hidden: u64,
    n_directions: u64,
}

impl RecurrentSizes {
    fn of(call: &Call<'_>) -> Option<RecurrentSizes> {
        let &[first, second, features] = call.shape(0)? else {
            return None;
        };
        let is_batch_first = call.int("layout", 0) != 0;
        let (steps, batch) = if is_batch_first {
            (second, first)
        } else {
            (first, second)
        };
        // Every recurrence matrix is [directions, gates * hidden, hidden].
        let &[n_directions, _, hidden] = call.shape(2)? else {
            return None;
        };
        Some(RecurrentSizes {
            steps,
            batch,
            features,
            hidden,
            n_directions,
        })
    }
}
