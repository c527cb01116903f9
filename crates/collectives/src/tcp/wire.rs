//! Elements as bytes: little-endian, whatever the machine.

use crate::element::Element;

/// An element type that travels as bytes.
pub(super) trait Wire: Element {
    /// Appends the elements to `bytes`.
    fn encode(elements: &[Self], bytes: &mut Vec<u8>);

    /// Reads as many elements as `elements` has.
    fn decode(bytes: &[u8], elements: &mut [Self]);
}

macro_rules! wire {
    ($($element:ty),*) => {$(
        impl Wire for $element {
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
        }
    )*};
}
wire!(f32, u32, u64, i64, u8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_back_bit_by_bit() {
        let floats = [1.5f32, -0.0, f32::NAN, f32::INFINITY];
        let (mut bytes, mut back) = (Vec::new(), [0f32; 4]);
        Wire::encode(&floats, &mut bytes);
        f32::decode(&bytes, &mut back);
        assert_eq!(floats.map(f32::to_bits), back.map(f32::to_bits));
    }
}
