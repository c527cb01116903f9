//! Checkpoints of carts: they go on alike, and damaged bytes change nothing.

use super::MODES;
use crate::{Autoreset, CartPoles, Error};

/// After 30 steps to the right: some carts have begun again, some are done where that is waited
/// for.
fn carts(n: usize, autoreset: Autoreset) -> CartPoles {
    let mut carts = CartPoles::new(n, autoreset).unwrap();
    carts.reset(3);
    for step in 0..30 {
        if carts.step(&vec![u32::from(step % 7 > 0); n]).is_err() {
            break; // done, with no reset by itself
        }
    }
    carts
}

#[test]
fn carts_from_bytes_go_on_alike() {
    for autoreset in MODES {
        let mut first = carts(19, autoreset);
        let mut second = CartPoles::new(19, autoreset).unwrap();
        second.restore(&first.to_bytes()).unwrap();
        assert_eq!(second.to_bytes(), first.to_bytes());
        for step in 0..200 {
            let bits = |carts: &CartPoles| {
                carts
                    .observations()
                    .as_flattened()
                    .iter()
                    .map(|x| x.to_bits())
                    .collect::<Vec<_>>()
            };
            assert_eq!(bits(&first), bits(&second));
            let actions: Vec<_> = (0..19).map(|idx| (step * idx / 3) % 2).collect();
            let steps = [
                first.step(&actions).cloned(),
                second.step(&actions).cloned(),
            ];
            assert_eq!(steps[0], steps[1]);
            if steps[0].is_err() {
                let marks: Vec<_> = (0..19).map(|idx| idx % 2 == 0 || step > 3).collect();
                first.reset_where(&marks).unwrap();
                second.reset_where(&marks).unwrap();
            }
        }
    }
}

#[test]
fn what_the_last_step_gave_is_forgotten() {
    let mut carts = carts(9, Autoreset::SameStep);
    let bytes = carts.to_bytes();
    let has_final = |carts: &CartPoles| (0..9).any(|idx| carts.final_observation(idx).is_some());
    for _ in 0..20 {
        if !has_final(&carts) {
            carts.step(&[1; 9]).unwrap();
        }
    }
    assert!(has_final(&carts));
    carts.restore(&bytes).unwrap();
    assert!(!has_final(&carts) && !carts.last_step().terminated.contains(&true));
}

#[test]
fn every_cut_and_every_changed_byte_is_survived() {
    for autoreset in MODES {
        let sound = carts(3, autoreset).to_bytes();
        assert_eq!(sound.len(), 12 + 3 * 52);
        let mut target = CartPoles::new(3, autoreset).unwrap();
        let untouched = target.to_bytes();
        for len in (0..sound.len()).chain([sound.len() + 52]) {
            let mut bytes = sound.clone();
            bytes.resize(len, 0);
            assert!(target.restore(&bytes).is_err(), "{len} bytes");
            assert_eq!(target.to_bytes(), untouched);
        }
        for at in 0..sound.len() {
            for flip in [1, 0x40, 0x80, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] ^= flip;
                let restored = target.restore(&bytes).is_ok();
                let expected = if restored { &bytes } else { &untouched };
                assert_eq!(&target.to_bytes(), expected, "byte {at}");
                target.restore(&untouched).unwrap();
            }
        }
    }
}

#[test]
fn every_broken_rule_is_found() {
    let sound = carts(3, Autoreset::NextStep).to_bytes();
    let infinite = (f64::INFINITY.to_bits() >> 32) as u32;
    for (at, value, expected) in [
        (0, 0, "the first 8 are not this form and version"),
        (8, 1, "they were written with another autoreset mode"),
        (
            12 + 52 + 16,
            infinite,
            "a cart is nowhere, or beyond the step limit",
        ),
        (12 + 44, 501, "a cart is nowhere, or beyond the step limit"),
        (12 + 44, 500, "a cart's end is not where its motion says"),
        (
            12 + 2 * 52 + 48,
            2,
            "a cart's end is not where its motion says",
        ),
    ] {
        let mut bytes = sound.clone();
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let error = carts(3, Autoreset::NextStep).restore(&bytes).unwrap_err();
        assert_eq!(error, Error::Malformed { reason: expected }, "byte {at}");
    }
    let error = carts(4, Autoreset::NextStep).restore(&sound).unwrap_err();
    let expected = "CartPoles::restore: carts: expected 4, one for each environment, given 3";
    assert_eq!(error.to_string(), expected);
}
