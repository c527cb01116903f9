//! What is known of a value before the model runs: element type, shape, and the numbers themselves when they are few.

use super::proto::{TensorData, TensorHead};
use prost::bytes::Bytes;
use shardgraph_costgraph::Error;

/// Element types by their numbers in `TensorProto.DataType`.
pub(crate) mod elem {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const UINT8: i32 = 2;
    pub(crate) const INT32: i32 = 6;
    pub(crate) const INT64: i32 = 7;
    pub(crate) const BOOL: i32 = 9;
}

/// Numbers of values that are followed: enough for shapes, axes, repeats and scales.
pub(crate) const MAX_KNOWN: u64 = 1024;
/// No published model has more than a handful of axes; more are taken as unknown.
pub(crate) const MAX_RANK: usize = 64;

/// A value, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Value {
    /// 0 when unknown.
    pub(crate) elem: i32,
    pub(crate) shape: Option<Vec<u64>>,
    pub(crate) known: Option<Known>,
}

/// The numbers of a small value, in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Known {
    Ints(Vec<i64>),
    Floats(Vec<f32>),
}

impl Value {
    /// A shape of more than [`MAX_RANK`] axes, or with one longer than 2^62, is taken as unknown.
    pub(crate) fn new(elem: i32, shape: Option<Vec<u64>>) -> Value {
        let is_usable = |shape: &Vec<u64>| {
            shape.len() <= MAX_RANK
                && shape
                    .iter()
                    .all(|&dim| dim <= shardgraph_costgraph::MAX_TOTAL)
        };
        Value {
            elem,
            shape: shape.filter(is_usable),
            known: None,
        }
    }

    /// Integers that are known, with their shape.
    pub(crate) fn ints(elem: i32, shape: Vec<u64>, numbers: Vec<i64>) -> Value {
        let fits = numbers.len() as u64 <= MAX_KNOWN;
        Value {
            known: fits.then_some(Known::Ints(numbers)),
            ..Value::new(elem, Some(shape))
        }
    }

    /// True for what training could change, by its type and rank: neither shapes and indices nor scalars.
    pub(crate) fn is_parameter(&self) -> bool {
        let has_axes = self.shape.as_ref().is_none_or(|shape| !shape.is_empty());
        has_axes && !matches!(self.elem, elem::INT64 | elem::INT32 | elem::BOOL)
    }

    /// How many elements there are; `None` when the shape is unknown or there are more than 2^62.
    pub(crate) fn n_elements(&self) -> Option<u64> {
        n_elements(self.shape.as_deref()?)
    }

    /// The size; `None` when it is unknown or beyond 2^62.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let bits = u128::from(self.n_elements()?) * u128::from(bits(self.elem)?);
        let bytes = u64::try_from(bits.div_ceil(8)).ok()?;
        (bytes <= shardgraph_costgraph::MAX_TOTAL).then_some(bytes)
    }

    pub(crate) fn known_ints(&self) -> Option<&[i64]> {
        match &self.known {
            Some(Known::Ints(numbers)) => Some(numbers),
            _ => None,
        }
    }

    pub(crate) fn known_floats(&self) -> Option<&[f32]> {
        match &self.known {
            Some(Known::Floats(numbers)) => Some(numbers),
            _ => None,
        }
    }
}

/// The product of a shape; `None` beyond 2^62. A dimension of 0 makes it 0 whatever the others.
pub(crate) fn n_elements(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let product = shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim))?;
    (product <= shardgraph_costgraph::MAX_TOTAL).then_some(product)
}

/// Bits of an element; `None` for strings and unknown types.
pub(crate) fn bits(elem: i32) -> Option<u32> {
    match elem {
        15 => Some(128),
        7 | 11 | 13 | 14 => Some(64),
        1 | 6 | 12 => Some(32),
        4 | 5 | 10 | 16 => Some(16),
        2 | 3 | 9 | 17..=20 | 24 => Some(8),
        21..=23 => Some(4),
        25 | 26 => Some(2),
        _ => None,
    }
}

/// A `TensorProto` as a value: always its type, its numbers when they are few and in the file.
pub(crate) fn from_tensor(
    file: &str,
    bytes: &Bytes,
    at: usize,
) -> Result<(TensorHead, Value), Error> {
    let head: TensorHead = super::super::wire::decode(file, "tensor", bytes.clone(), at)?;
    // A negative dimension is no shape.
    let dims: Option<Vec<u64>> = head.dims.iter().map(|&d| u64::try_from(d).ok()).collect();
    let mut value = Value::new(head.data_type, dims);
    let n = value.n_elements();
    if n.is_some_and(|n| n <= MAX_KNOWN) && head.data_location == 0 && bytes.len() <= 1 << 16 {
        let data: TensorData = super::super::wire::decode(file, "tensor", bytes.clone(), at)?;
        value.known = known(head.data_type, n.unwrap_or(0) as usize, data);
    }
    Ok((head, value))
}

/// The numbers, if there are as many as the shape asks for: weight-stripped models have fewer.
fn known(elem_type: i32, n: usize, data: TensorData) -> Option<Known> {
    let raw = &data.raw_data;
    let known = match elem_type {
        elem::INT64 if raw.is_empty() => Known::Ints(data.int64_data),
        elem::INT64 => Known::Ints(words(raw, |word| Some(i64::from_le_bytes(word)))),
        elem::INT32 | elem::BOOL if raw.is_empty() => {
            Known::Ints(data.int32_data.into_iter().map(i64::from).collect())
        }
        elem::INT32 => Known::Ints(words(raw, |word| Some(i32::from_le_bytes(word).into()))),
        elem::BOOL => Known::Ints(raw.iter().map(|&b| i64::from(b)).collect()),
        elem::FLOAT if raw.is_empty() => Known::Floats(data.float_data),
        elem::FLOAT => Known::Floats(words(raw, |word| Some(f32::from_le_bytes(word)))),
        _ => return None,
    };
    let found = match &known {
        Known::Ints(numbers) => numbers.len(),
        Known::Floats(numbers) => numbers.len(),
    };
    (found == n).then_some(known)
}

fn words<const N: usize, T>(raw: &[u8], number: fn([u8; N]) -> Option<T>) -> Vec<T> {
    let words = raw.chunks_exact(N);
    words
        .filter_map(|word| number(word.try_into().ok()?))
        .collect()
}
