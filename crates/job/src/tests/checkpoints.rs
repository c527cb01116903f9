//! Checkpoints in memory: names, JSON with its version, and the way to other ranks.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::checkpoint;
use crate::{Checkpoint, Error};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counters {
    n_episodes: u64,
    epsilon: f32,
}

const COUNTERS: Counters = Counters {
    n_episodes: u64::MAX,
    epsilon: 0.1,
};

fn with_json(text: &str) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(7);
    checkpoint.add("run.json", text.into()).unwrap();
    checkpoint
}

#[test]
fn json_begins_with_its_version() {
    let mut checkpoint = Checkpoint::new(7);
    checkpoint.add_json("run.json", 3, &COUNTERS).unwrap();
    let text = std::str::from_utf8(checkpoint.file("run.json").unwrap()).unwrap();
    let want = "{\n  \"schema_version\": 3,\n  \"n_episodes\": 18446744073709551615,\n  \"epsilon\": 0.1\n}";
    assert_eq!(text, want);
    assert_eq!(
        checkpoint.json::<Counters>("run.json", 3).unwrap(),
        COUNTERS
    );
}

#[test]
fn json_that_is_not_right_is_named() {
    for (text, want) in [
        (
            "{\"schema_version\": 4, \"new\": 1}",
            "version 4 is not known here: this program reads version 3",
        ),
        ("{\"n_episodes\": 1}", "version null is not known here"),
        ("{\"schema_version\": 3", "EOF while parsing"),
        ("[3]", "expected a map"),
        (
            "{\"schema_version\": 3, \"n_episodes\": 1}",
            "missing field `epsilon`",
        ),
        (
            "{\"schema_version\": 3, \"n_episodes\": 1, \"epsilon\": 0, \"extra\": 1}",
            "unknown field `extra`",
        ),
    ] {
        let error = with_json(text).json::<Counters>("run.json", 3).unwrap_err();
        let message = error.to_string();
        let named = message.starts_with("checkpoint-0000000007/run.json: ");
        assert!(named && message.contains(want), "{message}");
    }
    let missing = with_json("{}")
        .json::<Counters>("other.json", 3)
        .unwrap_err();
    assert!(
        missing
            .to_string()
            .ends_with("the MANIFEST names no other.json")
    );
}

#[test]
fn values_without_a_json_object_are_refused() {
    let mut checkpoint = Checkpoint::new(1);
    let error = checkpoint.add_json("run.json", 1, &[1, 2]).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("`run.json` has no form"));
    assert_eq!(checkpoint.files().count(), 0);
}

#[test]
fn names_that_are_no_files_of_the_folder_are_refused() {
    let mut checkpoint = checkpoint(1);
    for name in [
        "", "MANIFEST", "..", ".hidden", "a/b", "a\\b", "/a", "a b", "ä", "run.json",
    ] {
        let error = checkpoint.add(name, Vec::new()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("the file name `{name}`")),
            "{error}"
        );
    }
}

proptest! {
    #[test]
    fn a_checkpoint_travels_whole_or_not_at_all(
        step in any::<u64>(),
        files in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..70), 0..4),
        flipped in any::<prop::sample::Index>(),
    ) {
        let mut checkpoint = Checkpoint::new(step);
        for (i, file) in files.iter().enumerate() {
            checkpoint.add(&format!("file-{i}"), file.clone()).unwrap();
        }
        let bytes = checkpoint.to_bytes();
        prop_assert_eq!(&Checkpoint::from_bytes(&bytes).unwrap(), &checkpoint);
        for n_bytes in 0..bytes.len() {
            let error = Checkpoint::from_bytes(&bytes[..n_bytes]).unwrap_err();
            prop_assert!(matches!(error, Error::Torn), "{}", n_bytes);
        }
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(Checkpoint::from_bytes(&longer).is_err());
        let mut endless = bytes.clone();
        endless[flipped.index(bytes.len())] = 0xff; // a length beyond the memory, for one
        let _ = Checkpoint::from_bytes(&endless);
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    returns: f64,
    rate: f32,
}

#[test]
fn numbers_that_json_has_no_form_for_are_refused() {
    for (returns, rate) in [(f64::NAN, 0.0), (f64::INFINITY, 0.0), (0.0, f32::NAN)] {
        let mut checkpoint = Checkpoint::new(1);
        let sum = Sum { returns, rate };
        let error = checkpoint.add_json("run.json", 1, &sum).unwrap_err();
        assert!(error.to_string().contains("finite numbers"), "{error}");
        assert_eq!(checkpoint.files().count(), 0);
    }
}

proptest! {
    #[test]
    fn json_keeps_every_bit_of_a_number(returns in 0.0..500.0, any in proptest::num::f64::ANY, rate: f32) {
        for returns in [returns, any, 211.604_585_436_356_61] {
            prop_assume!(returns.is_finite() && rate.is_finite());
            let mut checkpoint = Checkpoint::new(1);
            checkpoint.add_json("run.json", 1, &Sum { returns, rate }).unwrap();
            let back: Sum = checkpoint.json("run.json", 1).unwrap();
            prop_assert_eq!(back.returns.to_bits(), returns.to_bits());
            prop_assert_eq!(back.rate.to_bits(), rate.to_bits());
        }
    }
}
