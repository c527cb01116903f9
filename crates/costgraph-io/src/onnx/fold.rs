//! The arithmetic of shapes: small integer values that exporters compute in the model, followed as numbers.

use super::{
    call::{Call, axis},
    rearrange::slice_bounds,
    value::{Known, MAX_KNOWN, Value, elem, from_tensor, n_elements},
};

/// Fills in the numbers of `output` when they follow from known inputs.
pub(crate) fn fold(call: &Call<'_>, output: &mut Value) {
    if !matches!(output.elem, elem::INT32 | elem::INT64 | elem::BOOL) {
        return;
    }
    let Some(shape) = output.shape.as_deref() else {
        return;
    };
    let Some(n) = n_elements(shape).filter(|&n| n <= MAX_KNOWN) else {
        return;
    };
    // A wrong number of numbers would be a rule that does not fit the shape's; unknown is always right.
    output.known = numbers(call, n as usize)
        .filter(|numbers| numbers.len() as u64 == n)
        .map(Known::Ints);
}

fn numbers(call: &Call<'_>, n: usize) -> Option<Vec<i64>> {
    let first = || call.known_ints(0).map(<[i64]>::to_vec);
    match call.node.proto.op_type.as_str() {
        "Identity" | "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Cast" => first(),
        "Size" => Some(vec![i64::try_from(call.input(0)?.n_elements()?).ok()?]),
        "Concat" => concat(call),
        "Gather" => gather(call),
        "Slice" => slice(call),
        "Add" => pairwise(call, n, i64::checked_add),
        "Sub" => pairwise(call, n, i64::checked_sub),
        "Mul" => pairwise(call, n, i64::checked_mul),
        // ONNX divides integers towards zero.
        "Div" => pairwise(call, n, i64::checked_div),
        "Mod" => pairwise(call, n, i64::checked_rem_euclid),
        "Max" => pairwise(call, n, |a, b| Some(a.max(b))),
        "Min" => pairwise(call, n, |a, b| Some(a.min(b))),
        "Equal" => pairwise(call, n, |a, b| Some(i64::from(a == b))),
        "Neg" => first()?.into_iter().map(i64::checked_neg).collect(),
        "Where" => choose(call, n),
        "Expand" => stretch(call.known_ints(0)?, n).map(Iterator::collect),
        "Range" => range(call, n),
        "ConstantOfShape" => fill(call, n),
        "ReduceProd" => whole_reduction(call, i64::checked_mul),
        "ReduceSum" => whole_reduction(call, i64::checked_add),
        _ => None,
    }
}

/// Vectors only, so that the order of numbers is that of the inputs.
fn concat(call: &Call<'_>) -> Option<Vec<i64>> {
    let mut all = Vec::new();
    for idx in 0..call.inputs.len() {
        if call.shape(idx)?.len() != 1 {
            return None;
        }
        all.extend(call.known_ints(idx)?);
    }
    Some(all)
}

fn gather(call: &Call<'_>) -> Option<Vec<i64>> {
    let data = call.known_ints(0)?;
    if call.shape(0)?.len() != 1 {
        return None;
    }
    let indices = call.known_ints(1)?.iter();
    indices.map(|&i| Some(data[axis(i, data.len())?])).collect()
}

/// A vector's slice; `starts` and the rest are attributes before operator set 10, inputs since.
fn slice(call: &Call<'_>) -> Option<Vec<i64>> {
    let data = call.known_ints(0)?;
    let one = |name, input| call.ints_of(name, input)?.first().copied();
    let (start, end) = (one("starts", 1)?, one("ends", 2)?);
    let step = if call.input(4).is_some() {
        one("steps", 4)?
    } else {
        1
    };
    if call.shape(0)?.len() != 1 {
        return None;
    }
    let (first, last) = slice_bounds(data.len() as u64, start, end, step)?;
    let mut at = first;
    let mut taken = Vec::new();
    while (step > 0 && at < last) || (step < 0 && at > last) {
        taken.push(*data.get(usize::try_from(at).ok()?)?);
        at += i128::from(step);
    }
    Some(taken)
}

/// One number for all, or as many as there are.
fn stretch(numbers: &[i64], n: usize) -> Option<impl Iterator<Item = i64>> {
    let is_single = numbers.len() == 1;
    (is_single || numbers.len() == n).then(|| {
        let at = move |i: usize| numbers[if is_single { 0 } else { i }];
        (0..n).map(at)
    })
}

fn pairwise(call: &Call<'_>, n: usize, combine: fn(i64, i64) -> Option<i64>) -> Option<Vec<i64>> {
    let [a, b] = [call.known_ints(0)?, call.known_ints(1)?];
    if call.inputs.len() != 2 {
        return None;
    }
    let pairs = stretch(a, n)?.zip(stretch(b, n)?);
    pairs.map(|(a, b)| combine(a, b)).collect()
}

fn choose(call: &Call<'_>, n: usize) -> Option<Vec<i64>> {
    let condition = stretch(call.known_ints(0)?, n)?;
    let pairs = stretch(call.known_ints(1)?, n)?.zip(stretch(call.known_ints(2)?, n)?);
    let chosen = condition.zip(pairs);
    Some(
        chosen
            .map(|(c, (yes, no))| if c != 0 { yes } else { no })
            .collect(),
    )
}

fn range(call: &Call<'_>, n: usize) -> Option<Vec<i64>> {
    let one = |idx| call.known_ints(idx)?.first().copied();
    let (start, step) = (one(0)?, one(2)?);
    let number = |i: usize| start.checked_add(step.checked_mul(i64::try_from(i).ok()?)?);
    (0..n).map(number).collect()
}

fn fill(call: &Call<'_>, n: usize) -> Option<Vec<i64>> {
    let (_, value) = from_tensor("", &call.node.attribute("value")?.t, 0).ok()?;
    Some(vec![*value.known_ints()?.first()?; n])
}

/// All numbers together; a reduction of some axes only has another number of results and is dropped.
fn whole_reduction(call: &Call<'_>, combine: fn(i64, i64) -> Option<i64>) -> Option<Vec<i64>> {
    let numbers = call.known_ints(0)?.iter();
    let mut numbers = numbers.copied();
    let first = numbers.next()?;
    Some(vec![numbers.try_fold(first, combine)?])
}
