//! Convolutions and pools: windows that slide over the spatial axes.

use super::{
    call::Call,
    inferred::{Inferred, Work},
    value::{Value, elem, n_elements},
};

/// `Conv`, `ConvInteger`, `QLinearConv`: `x` and `w` are the inputs with the data and the filters.
pub(crate) fn conv(call: &Call<'_>, w_idx: usize, out: i32) -> Inferred {
    let shape = conv_shape(call, w_idx);
    let flops = shape.as_ref().and_then(|shape| {
        // Each output element is a sum over the channels of its group and the window.
        let per_output = n_elements(call.shape(w_idx)?.get(1..)?)?;
        n_elements(shape)?.checked_mul(per_output)?.checked_mul(2)
    });
    Inferred::one(Value::new(out, shape), Work::flops(flops))
}

fn conv_shape(call: &Call<'_>, w_idx: usize) -> Option<Vec<u64>> {
    let x = call.shape(0)?;
    let w = call.shape(w_idx)?;
    if x.len() != w.len() || x.len() < 3 {
        return None;
    }
    let mut shape = vec![x[0], w[0]];
    shape.extend(slide(call, &x[2..], &w[2..])?);
    Some(shape)
}

/// `ConvTranspose`.
pub(crate) fn conv_transpose(call: &Call<'_>) -> Inferred {
    let shape = conv_transpose_shape(call);
    let flops = || {
        // Each input element is spread over the output channels of its group and the window.
        let per_input = n_elements(call.shape(1)?.get(1..)?)?;
        n_elements(call.shape(0)?)?
            .checked_mul(per_input)?
            .checked_mul(2)
    };
    let flops = flops();
    Inferred::one(Value::new(call.elem(0), shape), Work::flops(flops))
}

fn conv_transpose_shape(call: &Call<'_>) -> Option<Vec<u64>> {
    let x = call.shape(0)?;
    let w = call.shape(1)?;
    if x.len() != w.len() || x.len() < 3 {
        return None;
    }
    let group = u64::try_from(call.int("group", 1)).ok()?;
    let mut shape = vec![x[0], w[1].checked_mul(group)?];
    let n_axes = x.len() - 2;
    for i in 0..n_axes {
        if let Some(&dim) = call.ints("output_shape").and_then(|dims| dims.get(i)) {
            shape.push(u64::try_from(dim).ok()?);
            continue;
        }
        let at = |name: &str, i: usize, absent: i64| {
            call.ints(name)
                .and_then(|v| v.get(i).copied())
                .unwrap_or(absent)
        };
        let stride = i128::from(at("strides", i, 1));
        let input = i128::from(x[2 + i]);
        if call.text("auto_pad").starts_with(b"SAME") {
            shape.push(u64::try_from(input * stride).ok()?);
            continue;
        }
        // No sum below leaves i128: a dimension is at most 2^62, an attribute at most 2^63.
        let window = (i128::from(w[2 + i]) - 1) * i128::from(at("dilations", i, 1)) + 1;
        let pads = i128::from(at("pads", i, 0)) + i128::from(at("pads", i + n_axes, 0));
        let dim = stride * (input - 1) + i128::from(at("output_padding", i, 0)) + window - pads;
        shape.push(u64::try_from(dim).ok()?);
    }
    Some(shape)
}

/// `MaxPool`, `AveragePool`, `LpPool`.
pub(crate) fn pool(call: &Call<'_>) -> Inferred {
    let shape = || {
        let x = call.shape(0)?;
        let kernel = call.ints("kernel_shape")?;
        let kernel: Option<Vec<u64>> = kernel.iter().map(|&k| u64::try_from(k).ok()).collect();
        let mut shape = x.get(..2)?.to_vec();
        shape.extend(slide(call, x.get(2..)?, &kernel?)?);
        Some(shape)
    };
    let shape: Option<Vec<u64>> = shape();
    let flops = || {
        let window = call.ints("kernel_shape")?.iter();
        let window = window.map(|&k| u64::try_from(k).unwrap_or(0));
        let n_window = n_elements(&window.collect::<Vec<_>>())?;
        n_elements(shape.as_ref()?)?.checked_mul(n_window)
    };
    let work = Work::flops(flops());
    let mut outputs = vec![Value::new(call.elem(0), shape.clone())];
    if call.n_outputs() > 1 {
        outputs.push(Value::new(elem::INT64, shape));
    }
    Inferred { outputs, work }
}

/// `GlobalAveragePool` and its kin.
pub(crate) fn global_pool(call: &Call<'_>) -> Inferred {
    let x = call.shape(0);
    let shape = x.filter(|x| x.len() >= 2).map(|x| {
        let mut shape = vec![1; x.len()];
        shape[..2].copy_from_slice(&x[..2]);
        shape
    });
    let work = Work::flops(x.and_then(n_elements));
    Inferred::one(Value::new(call.elem(0), shape), work)
}

/// The spatial shape after windows of that size slid over `input`.
fn slide(call: &Call<'_>, input: &[u64], kernel: &[u64]) -> Option<Vec<u64>> {
    if input.len() != kernel.len() {
        return None;
    }
    let n_axes = input.len();
    let at = |name: &str, i: usize, absent: i64| {
        let value = call.ints(name).and_then(|v| v.get(i).copied());
        i128::from(value.unwrap_or(absent))
    };
    let padding = call.text("auto_pad");
    let is_ceil = call.int("ceil_mode", 0) != 0;
    let one = |i: usize| -> Option<u64> {
        let (size, stride) = (i128::from(input[i]), at("strides", i, 1));
        if stride < 1 {
            return None;
        }
        if padding.starts_with(b"SAME") {
            return u64::try_from((size + stride - 1) / stride).ok();
        }
        let is_valid = padding == b"VALID";
        let pad = |i| if is_valid { 0 } else { at("pads", i, 0) };
        let window = (i128::from(kernel[i]) - 1) * at("dilations", i, 1) + 1;
        let room = size + pad(i) + pad(i + n_axes) - window;
        if room < 0 || window < 1 {
            return None;
        }
        let mut n = room / stride + 1;
        if is_ceil && room % stride != 0 && n * stride < size + pad(i) {
            // The last, partial window counts unless it lies in the padding altogether.
            n += 1;
        }
        u64::try_from(n).ok()
    };
    (0..n_axes).map(one).collect()
}
