//! Ops that move, cut, join or make numbers: shapes come from attributes and from small inputs whose numbers are known.

use super::{
    call::{Call, axis},
    elementwise::broadcast,
    inferred::{Inferred, Work},
    value::{MAX_RANK, Value, elem, n_elements},
};

/// `None` when the op is none of these.
pub(crate) fn infer(call: &Call<'_>) -> Option<Inferred> {
    views(call)
        .or_else(|| moves(call))
        .or_else(|| reductions(call))
        .or_else(|| numbers(call))
}

/// Another shape on the same memory.
fn views(call: &Call<'_>) -> Option<Inferred> {
    let shape = match call.node.proto.op_type.as_str() {
        "Identity" => call.shape(0).map(<[u64]>::to_vec),
        "Reshape" => reshape(call),
        "Flatten" => flatten(call),
        "Squeeze" => squeeze(call),
        "Unsqueeze" => unsqueeze(call),
        "Dropout" => return Some(dropout(call)),
        _ => return None,
    };
    let output = Value::new(call.elem(0), shape);
    Some(Inferred::one(output, Work::View))
}

/// The same numbers elsewhere.
fn moves(call: &Call<'_>) -> Option<Inferred> {
    let shape = match call.node.proto.op_type.as_str() {
        "Transpose" => transpose(call),
        "Expand" => expand(call),
        "Tile" => tile(call),
        "Concat" => concat(call),
        "Slice" => slice(call),
        "Gather" => gather(call),
        "GatherElements" => call.shape(1).map(<[u64]>::to_vec),
        "GatherND" => gather_nd(call),
        "Pad" => pad(call),
        "DepthToSpace" => blocks(call, true),
        "SpaceToDepth" => blocks(call, false),
        "Split" => return Some(split(call)),
        "Resize" | "Upsample" => return Some(resize(call)),
        _ => return None,
    };
    let output = Value::new(call.elem(0), shape);
    Some(Inferred::one(output, Work::Compute(0)))
}

/// Fewer numbers than before.
fn reductions(call: &Call<'_>) -> Option<Inferred> {
    match call.node.proto.op_type.as_str() {
        "TopK" => Some(top_k(call)),
        "ArgMax" | "ArgMin" => Some(arg(call)),
        kind if kind.starts_with("Reduce") => Some(reduce(call)),
        _ => None,
    }
}

/// Numbers from nothing but sizes.
fn numbers(call: &Call<'_>) -> Option<Inferred> {
    let made = |elem: i32, shape: Option<Vec<u64>>| {
        Some(Inferred::one(Value::new(elem, shape), Work::Compute(0)))
    };
    match call.node.proto.op_type.as_str() {
        "Shape" => Some(shape_of(call)),
        "Size" => {
            let output = Value::new(elem::INT64, Some(Vec::new()));
            Some(Inferred::one(output, Work::Free))
        }
        "ConstantOfShape" => Some(constant_of_shape(call)),
        "Range" => made(call.elem(0), range(call)),
        "OneHot" => made(call.elem(2), one_hot(call)),
        "RandomNormal" | "RandomUniform" => {
            let elem = i32::try_from(call.int("dtype", 1)).unwrap_or(0);
            made(elem, call.ints("shape").and_then(unsigned))
        }
        _ => None,
    }
}

fn unsigned(numbers: &[i64]) -> Option<Vec<u64>> {
    numbers.iter().map(|&n| u64::try_from(n).ok()).collect()
}

fn dropout(call: &Call<'_>) -> Inferred {
    let shape = call.shape(0).map(<[u64]>::to_vec);
    let mut outputs = vec![Value::new(call.elem(0), shape.clone())];
    if call.n_outputs() > 1 {
        outputs.push(Value::new(elem::BOOL, shape));
    }
    Inferred {
        outputs,
        work: Work::View,
    }
}

/// 0 keeps the axis, -1 takes what is left.
fn reshape(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    let wanted = call.ints_of("shape", 1)?;
    let keeps_zero = call.int("allowzero", 0) != 0;
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, &dim) in wanted.iter().enumerate() {
        shape.push(match dim {
            0 if !keeps_zero => *input.get(i)?,
            -1 if open.is_none() => {
                open = Some(i);
                1
            }
            dim => u64::try_from(dim).ok()?,
        });
    }
    let n_input = n_elements(input)?;
    let n_wanted = n_elements(&shape)?;
    match open {
        Some(i) => {
            shape[i] = n_input.checked_div(n_wanted).unwrap_or(0);
            (n_wanted == 0 || n_input % n_wanted == 0).then_some(shape)
        }
        None => (n_input == n_wanted).then_some(shape),
    }
}

fn flatten(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    let cut = match call.int("axis", 1) {
        cut if cut == input.len() as i64 => input.len(),
        cut => axis(cut, input.len())?,
    };
    Some(vec![n_elements(&input[..cut])?, n_elements(&input[cut..])?])
}

fn squeeze(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    let has_axes = call.ints("axes").is_some() || call.input(1).is_some();
    let axes: Vec<usize> = if has_axes {
        let axes = call.ints_of("axes", 1)?.iter();
        axes.map(|&a| axis(a, input.len())).collect::<Option<_>>()?
    } else {
        (0..input.len()).filter(|&a| input[a] == 1).collect()
    };
    let kept = (0..input.len()).filter(|a| !axes.contains(a));
    Some(kept.map(|a| input[a]).collect())
}

fn unsqueeze(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    let axes = call.ints_of("axes", 1)?;
    let rank = input.len() + axes.len();
    if rank > MAX_RANK {
        return None;
    }
    let mut is_new = vec![false; rank];
    for &a in axes {
        is_new[axis(a, rank)?] = true;
    }
    let mut old = input.iter().copied();
    let dims = is_new
        .into_iter()
        .map(|new| if new { Some(1) } else { old.next() });
    dims.collect()
}

fn transpose(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    match call.ints("perm") {
        None => Some(input.iter().rev().copied().collect()),
        Some(order) if order.len() == input.len() => {
            let dims = order.iter().map(|&a| Some(input[axis(a, input.len())?]));
            dims.collect()
        }
        Some(_) => None,
    }
}

fn expand(call: &Call<'_>) -> Option<Vec<u64>> {
    let wanted = unsigned(call.known_ints(1)?)?;
    broadcast(&[call.shape(0)?, &wanted])
}

fn tile(call: &Call<'_>) -> Option<Vec<u64>> {
    let input = call.shape(0)?;
    let repeats = unsigned(call.known_ints(1)?)?;
    if repeats.len() != input.len() {
        return None;
    }
    let dims = input
        .iter()
        .zip(repeats)
        .map(|(&dim, n)| dim.checked_mul(n));
    dims.collect()
}

fn concat(call: &Call<'_>) -> Option<Vec<u64>> {
    let mut shape = call.shape(0)?.to_vec();
    // Operator set 1 had an absent axis mean 1.
    let at = axis(call.int("axis", 1), shape.len())?;
    for idx in 1..call.inputs.len() {
        let more = call.shape(idx)?;
        let is_alike = |i: usize| i == at || more[i] == shape[i];
        if more.len() != shape.len() || !(0..shape.len()).all(is_alike) {
            return None;
        }
        shape[at] = shape[at].checked_add(more[at])?;
    }
    Some(shape)
}

fn split(call: &Call<'_>) -> Inferred {
    let n_parts = call.n_outputs();
    let parts = || {
        let input = call.shape(0)?;
        let at = axis(call.int("axis", 0), input.len())?;
        let lengths = match call.ints_of("split", 1) {
            Some(lengths) => unsigned(lengths)?,
            // Equal parts, the last one shorter where they do not fit.
            None => {
                let part = input[at].div_ceil((n_parts as u64).max(1));
                let length = |i: u64| part.min(input[at].saturating_sub(i.saturating_mul(part)));
                (0..n_parts as u64).map(length).collect()
            }
        };
        let shapes = lengths.into_iter().map(|length| {
            let mut shape = input.to_vec();
            shape[at] = length;
            shape
        });
        Some(shapes.collect::<Vec<_>>())
    };
    let shapes: Option<Vec<Vec<u64>>> = parts();
    let mut shapes = shapes.unwrap_or_default().into_iter();
    let outputs = (0..n_parts).map(|_| Value::new(call.elem(0), shapes.next()));
    Inferred {
        outputs: outputs.collect(),
        work: Work::Compute(0),
    }
}

/// `starts`, `ends`, `axes` and `steps`, from attributes before operator set 10, from inputs since.
fn slice(call: &Call<'_>) -> Option<Vec<u64>> {
    let mut shape = call.shape(0)?.to_vec();
    let starts = call.ints_of("starts", 1)?;
    let ends = call.ints_of("ends", 2)?;
    let is_given = |name, input| call.ints(name).is_some() || call.input(input).is_some();
    let all: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = if is_given("axes", 3) {
        call.ints_of("axes", 3)?
    } else {
        &all
    };
    let ones = vec![1; starts.len()];
    let steps = if is_given("steps", 4) {
        call.ints_of("steps", 4)?
    } else {
        &ones
    };
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return None;
    }
    for i in 0..starts.len() {
        let at = axis(axes[i], shape.len())?;
        shape[at] = slice_length(shape[at], starts[i], ends[i], steps[i])?;
    }
    Some(shape)
}

/// How many elements `start..end` by `step` has on an axis of that length, as NumPy counts.
pub(crate) fn slice_length(dim: u64, start: i64, end: i64, step: i64) -> Option<u64> {
    let (first, last) = slice_bounds(dim, start, end, step)?;
    let step = i128::from(step);
    let room = if step > 0 { last - first } else { first - last };
    u64::try_from((room + step.abs() - 1).div_euclid(step.abs()).max(0)).ok()
}

/// The first index and the one to stop before, within the axis.
pub(crate) fn slice_bounds(dim: u64, start: i64, end: i64, step: i64) -> Option<(i128, i128)> {
    let dim = i128::from(dim);
    let from_front = |at: i64| {
        if at < 0 {
            i128::from(at) + dim
        } else {
            i128::from(at)
        }
    };
    match step {
        0 => None,
        1.. => Some((
            from_front(start).clamp(0, dim),
            from_front(end).clamp(0, dim),
        )),
        // Backwards, -1 stands for the place before the first element.
        _ => Some((
            from_front(start).clamp(-1, dim - 1),
            from_front(end).clamp(-1, dim - 1),
        )),
    }
}

fn gather(call: &Call<'_>) -> Option<Vec<u64>> {
    let data = call.shape(0)?;
    let indices = call.shape(1)?;
    let at = axis(call.int("axis", 0), data.len())?;
    Some([&data[..at], indices, &data[at + 1..]].concat())
}

fn gather_nd(call: &Call<'_>) -> Option<Vec<u64>> {
    let data = call.shape(0)?;
    let (&depth, outer) = call.shape(1)?.split_last()?;
    let batch = usize::try_from(call.int("batch_dims", 0)).ok()?;
    let taken = batch.checked_add(usize::try_from(depth).ok()?)?;
    Some([outer, data.get(taken..)?].concat())
}

/// `pads` (`paddings` in operator set 1) holds all begins, then all ends, perhaps for some axes only.
fn pad(call: &Call<'_>) -> Option<Vec<u64>> {
    let mut shape = call.shape(0)?.to_vec();
    let pads = call.ints("paddings").or_else(|| call.ints_of("pads", 1))?;
    let all: Vec<i64> = (0..shape.len() as i64).collect();
    let axes = if call.input(3).is_some() {
        call.known_ints(3)?
    } else {
        &all
    };
    if pads.len() != 2 * axes.len() {
        return None;
    }
    for (i, &a) in axes.iter().enumerate() {
        let at = axis(a, shape.len())?;
        let padded = i128::from(shape[at]) + i128::from(pads[i]) + i128::from(pads[i + axes.len()]);
        shape[at] = u64::try_from(padded).ok()?;
    }
    Some(shape)
}

fn blocks(call: &Call<'_>, to_space: bool) -> Option<Vec<u64>> {
    let &[n, c, h, w] = call.shape(0)? else {
        return None;
    };
    let block = u64::try_from(call.int("blocksize", 0))
        .ok()
        .filter(|&b| b > 0)?;
    let area = block.checked_mul(block)?;
    if to_space {
        Some(vec![
            n,
            c / area,
            h.checked_mul(block)?,
            w.checked_mul(block)?,
        ])
    } else {
        Some(vec![n, c.checked_mul(area)?, h / block, w / block])
    }
}

/// Sizes if they are known, else scales.
fn resize(call: &Call<'_>) -> Inferred {
    let shape = || {
        let input = call.shape(0)?;
        if let Some(sizes) = call.known_ints(3)
            && sizes.len() == input.len()
        {
            return unsigned(sizes);
        }
        let attribute = call.node.attribute("scales").map(|a| a.floats.as_slice());
        let scales_at = |idx: usize| call.input(idx).and_then(Value::known_floats);
        let has_region = call.node.proto.op_type == "Resize" && call.opset > 10;
        let input_idx = if has_region { 2 } else { 1 };
        let scales = attribute.or_else(|| scales_at(input_idx))?;
        if scales.len() != input.len() {
            return None;
        }
        let dims = input.iter().zip(scales).map(|(&dim, &scale)| {
            let scaled = (dim as f64 * f64::from(scale)).floor();
            (0.0..=shardgraph_costgraph::MAX_TOTAL as f64)
                .contains(&scaled)
                .then_some(scaled as u64)
        });
        dims.collect()
    };
    let shape: Option<Vec<u64>> = shape();
    let flops = shape.as_deref().and_then(n_elements);
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

fn shape_of(call: &Call<'_>) -> Inferred {
    let numbers = call.shape(0).and_then(|shape| {
        let rank = shape.len() as i64;
        let at = |i: i64| (if i < 0 { i.saturating_add(rank) } else { i }).clamp(0, rank) as usize;
        let (start, end) = (at(call.int("start", 0)), at(call.int("end", rank)));
        let dims = shape.get(start..end.max(start))?.iter();
        dims.map(|&d| i64::try_from(d).ok())
            .collect::<Option<Vec<_>>>()
    });
    let value = match numbers {
        Some(numbers) => Value::ints(elem::INT64, vec![numbers.len() as u64], numbers),
        None => Value::new(elem::INT64, None),
    };
    Inferred::one(value, Work::Free)
}

fn constant_of_shape(call: &Call<'_>) -> Inferred {
    let shape = call.known_ints(0).and_then(unsigned);
    let fill = call.node.attribute("value").and_then(|a| {
        let (_, value) = super::value::from_tensor("", &a.t, 0).ok()?;
        Some(value)
    });
    let elem = fill.as_ref().map_or(elem::FLOAT, |value| value.elem);
    Inferred::one(Value::new(elem, shape), Work::Compute(0))
}

fn range(call: &Call<'_>) -> Option<Vec<u64>> {
    let one = |idx| call.known_ints(idx)?.first().copied();
    let (start, limit, step) = (one(0)?, one(1)?, one(2)?);
    let room = i128::from(limit) - i128::from(start);
    let step = i128::from(step);
    let n = room.checked_div(step)? + i128::from(room % step != 0);
    // A limit on the wrong side of the start leaves nothing.
    let n = if (room > 0) == (step > 0) { n } else { 0 };
    Some(vec![u64::try_from(n).ok()?])
}

fn one_hot(call: &Call<'_>) -> Option<Vec<u64>> {
    let mut shape = call.shape(0)?.to_vec();
    let depth = u64::try_from(*call.known_ints(1)?.first()?).ok()?;
    let at = axis(call.int("axis", -1), shape.len() + 1)?;
    shape.insert(at, depth);
    Some(shape)
}

fn top_k(call: &Call<'_>) -> Inferred {
    let shape = || {
        let mut shape = call.shape(0)?.to_vec();
        let at = axis(call.int("axis", -1), shape.len())?;
        let k = match call.node.attribute("k") {
            Some(k) => k.i,
            None => *call.known_ints(1)?.first()?,
        };
        shape[at] = u64::try_from(k).ok()?;
        Some(shape)
    };
    let shape: Option<Vec<u64>> = shape();
    Inferred {
        outputs: vec![
            Value::new(call.elem(0), shape.clone()),
            Value::new(elem::INT64, shape),
        ],
        work: Work::flops(call.shape(0).and_then(n_elements)),
    }
}

fn arg(call: &Call<'_>) -> Inferred {
    let shape = call
        .shape(0)
        .and_then(|input| reduced(call, input, &[call.int("axis", 0)]));
    let flops = call.shape(0).and_then(n_elements);
    Inferred::one(Value::new(elem::INT64, shape), Work::flops(flops))
}

fn reduce(call: &Call<'_>) -> Inferred {
    let shape = || {
        let input = call.shape(0)?;
        let is_given = call.ints("axes").is_some() || call.input(1).is_some();
        let axes = if is_given {
            call.ints_of("axes", 1)?
        } else {
            &[]
        };
        if !axes.is_empty() {
            return reduced(call, input, axes);
        }
        if call.int("noop_with_empty_axes", 0) != 0 {
            return Some(input.to_vec());
        }
        let all: Vec<i64> = (0..input.len() as i64).collect();
        reduced(call, input, &all)
    };
    let shape: Option<Vec<u64>> = shape();
    let flops = call.shape(0).and_then(n_elements);
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

/// Those axes become 1, or go.
fn reduced(call: &Call<'_>, input: &[u64], axes: &[i64]) -> Option<Vec<u64>> {
    let mut shape: Vec<Option<u64>> = input.iter().copied().map(Some).collect();
    let keeps = call.int("keepdims", 1) != 0;
    for &a in axes {
        shape[axis(a, input.len())?] = keeps.then_some(1);
    }
    Some(shape.into_iter().flatten().collect())
}
