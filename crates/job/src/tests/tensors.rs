//! Named vectors through a safetensors file.

use proptest::prelude::*;

use crate::{Checkpoint, Tensors};

proptest! {
    #[test]
    fn every_bit_comes_back(
        f32s in proptest::collection::vec(any::<u32>().prop_map(f32::from_bits), 0..66),
        u8s in proptest::collection::vec(any::<u8>(), 0..66),
        u32s in proptest::collection::vec(any::<u32>(), 0..66),
    ) {
        let mut tensors = Tensors::new();
        tensors.add_f32("a", &f32s).unwrap();
        tensors.add_u8("b", &u8s).unwrap();
        tensors.add_u32("c", &u32s).unwrap();
        let bytes = tensors.to_bytes().unwrap();
        let read = Tensors::from_bytes(&bytes).unwrap();
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        prop_assert_eq!(bits(&read.f32s("a").unwrap()), bits(&f32s));
        prop_assert_eq!(read.u8s("b").unwrap(), &u8s[..]);
        prop_assert_eq!(read.u32s("c").unwrap(), u32s);
        for n_bytes in 0..bytes.len() {
            prop_assert!(Tensors::from_bytes(&bytes[..n_bytes]).is_err(), "{}", n_bytes);
        }
    }
}

#[test]
fn the_order_of_adding_does_not_matter() {
    let (mut ab, mut ba) = (Tensors::new(), Tensors::new());
    ab.add_f32("a", &[1.0]).unwrap();
    ab.add_f32("b", &[2.0]).unwrap();
    ba.add_f32("b", &[2.0]).unwrap();
    ba.add_f32("a", &[1.0]).unwrap();
    assert_eq!(ab.to_bytes().unwrap(), ba.to_bytes().unwrap());
}

#[test]
fn what_is_not_there_or_something_else_is_named_with_its_file() {
    let mut tensors = Tensors::new();
    tensors.add_u32("slots", &[1]).unwrap();
    let twice = tensors.add_u8("slots", &[]).unwrap_err().to_string();
    assert!(twice.contains("a tensor `slots` already"), "{twice}");

    let mut tensors = Tensors::new();
    tensors.add_u32("slots", &[1]).unwrap();
    let mut checkpoint = Checkpoint::new(3);
    let bytes = tensors.to_bytes().unwrap();
    checkpoint.add("state.safetensors", bytes).unwrap();
    checkpoint.add("torn.safetensors", vec![1; 9]).unwrap();
    let tensors = checkpoint.tensors("state.safetensors").unwrap();
    for (error, want) in [
        (
            tensors.f32s("slots").unwrap_err(),
            "`slots` holds U32, expected F32",
        ),
        (tensors.u32s("steps").unwrap_err(), "no tensor `steps`"),
    ] {
        let message = error.to_string();
        let named = message.starts_with("checkpoint-0000000003/state.safetensors: ");
        assert!(named && message.contains(want), "{message}");
    }
    let torn = checkpoint.tensors("torn.safetensors").unwrap_err();
    assert!(torn.to_string().contains("no safetensors file"), "{torn}");
}
