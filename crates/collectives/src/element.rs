//! The element types: how two buffers are combined, the bytes that travel, and where a buffer of
//! each type is kept.

use crate::mpi::ffi::abi::Wire;
use crate::op::Reduction;

/// A type that buffers may hold.
pub(crate) trait Element: Wire + Send + Sync + 'static {
    /// `acc[i] = acc[i] (+) x[i]`, with the element of the lower rank on the left.
    fn reduce(reduction: Reduction, acc: &mut [Self], x: &[Self]);

    /// `both[i] = a[i] (+) b[i]`, in `a` and in `b`.
    fn reduce_both(reduction: Reduction, a: &mut [Self], b: &mut [Self]);

    /// Appends the elements to `bytes`: little-endian, whatever the machine.
    fn encode(elements: &[Self], bytes: &mut Vec<u8>);

    /// Reads as many elements as `elements` has.
    fn decode(bytes: &[u8], elements: &mut [Self]);

    /// The elements of this type in a payload.
    fn of(payload: &Payload) -> &[Self];

    /// The same, to be replaced.
    fn of_mut(payload: &mut Payload) -> &mut Vec<Self>;
}

/// One vector per element type: each keeps its capacity, so that a loop of equal operations
/// allocates once.
#[derive(Default)]
pub(crate) struct Payload {
    f32: Vec<f32>,
    u32: Vec<u32>,
    u64: Vec<u64>,
    i64: Vec<i64>,
    u8: Vec<u8>,
}

fn combine<T: Copy>(acc: &mut [T], x: &[T], both: impl Fn(T, T) -> T) {
    for (acc, &x) in acc.iter_mut().zip(x) {
        *acc = both(*acc, x);
    }
}

fn combine_both<T: Copy>(a: &mut [T], b: &mut [T], both: impl Fn(T, T) -> T) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = both(*a, *b);
        *b = *a;
    }
}

macro_rules! elements {
    ($($element:ident: $sum:expr, $max:expr, $min:expr;)*) => {$(
        impl Element for $element {
            fn reduce(reduction: Reduction, acc: &mut [$element], x: &[$element]) {
                match reduction {
                    Reduction::Sum => combine(acc, x, $sum),
                    Reduction::Max => combine(acc, x, $max),
                    Reduction::Min => combine(acc, x, $min),
                }
            }

            fn reduce_both(reduction: Reduction, a: &mut [$element], b: &mut [$element]) {
                match reduction {
                    Reduction::Sum => combine_both(a, b, $sum),
                    Reduction::Max => combine_both(a, b, $max),
                    Reduction::Min => combine_both(a, b, $min),
                }
            }

            fn encode(elements: &[$element], bytes: &mut Vec<u8>) {
                const SIZE: usize = size_of::<$element>();
                let start = bytes.len();
                bytes.resize(start + SIZE * elements.len(), 0);
                for (slot, element) in bytes[start..].chunks_exact_mut(SIZE).zip(elements) {
                    slot.copy_from_slice(&element.to_le_bytes());
                }
            }

            fn decode(bytes: &[u8], elements: &mut [$element]) {
                const SIZE: usize = size_of::<$element>();
                for (element, slot) in elements.iter_mut().zip(bytes.chunks_exact(SIZE)) {
                    let mut array = [0; SIZE];
                    array.copy_from_slice(slot);
                    *element = <$element>::from_le_bytes(array);
                }
            }

            fn of(payload: &Payload) -> &[$element] {
                &payload.$element
            }

            fn of_mut(payload: &mut Payload) -> &mut Vec<$element> {
                &mut payload.$element
            }
        }
    )*};
}
elements! {
    f32: sum_f32, max_f32, min_f32;
    u32: u32::wrapping_add, Ord::max, Ord::min;
    u64: u64::wrapping_add, Ord::max, Ord::min;
    i64: i64::wrapping_add, Ord::max, Ord::min;
    u8: u8::wrapping_add, Ord::max, Ord::min;
}

fn sum_f32(a: f32, b: f32) -> f32 {
    a + b
}

/// Integers in the order of the floats that they encode, with -0.0 below +0.0.
fn order(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    bits ^ (((bits >> 31) as u32) >> 1) as i32
}

fn max_f32(a: f32, b: f32) -> f32 {
    let larger = if order(a) >= order(b) { a } else { b };
    if a.is_nan() | b.is_nan() {
        f32::NAN
    } else {
        larger
    }
}

fn min_f32(a: f32, b: f32) -> f32 {
    let smaller = if order(a) <= order(b) { a } else { b };
    if a.is_nan() | b.is_nan() {
        f32::NAN
    } else {
        smaller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_bit_by_bit() {
        let floats = [1.5f32, -0.0, f32::NAN, f32::INFINITY];
        let (mut bytes, mut back) = (Vec::new(), [0f32; 4]);
        f32::encode(&floats, &mut bytes);
        f32::decode(&bytes, &mut back);
        assert_eq!(floats.map(f32::to_bits), back.map(f32::to_bits));
    }
}
