//! Event files against the second reader: frames, checksums, fields and values.

use std::fs;

use proptest::prelude::*;

use super::event_reader::{Event, read};
use super::report;
use crate::{Error, Folder, Scalar, read_scalars};

/// A record as other writers make them: an image `h` beside a scalar `x`, then an unknown field of every wire type.
const FOREIGN: &[u8] = b"\x09\0\0\0\0\0\0\x04\x40\x10\x05\x2a\x11\x0a\x05\x0a\x01h\x22\0\
    \x0a\x08\x0a\x01x\x15\0\0\x80\x3f\x58\x96\x01\x61\0\0\0\0\0\0\0\0\x6d\0\0\0\0\x72\x01z";

proptest! {
    #[test]
    fn what_is_written_is_read_by_both_readers(
        steps in proptest::collection::vec((any::<u64>(), -1e12..1e12f64), 0..5),
        tags in proptest::collection::vec("[a-zäß/_]{0,140}", 0..4),
        bits in any::<u32>(),
    ) {
        let value = f32::from_bits(bits);
        let scalars: Vec<(&str, f32)> = tags.iter().map(|tag| (tag.as_str(), value)).collect();
        let mut bytes = crate::events::header(12.5);
        for (step, wall_time) in &steps {
            bytes.extend(crate::events::record(*wall_time, *step, &scalars));
        }
        let events = read(&bytes);
        let first = Event {
            wall_time: 12.5,
            version: "brain.Event:2".into(),
            writer: "shardgraph".into(),
            ..Event::default()
        };
        prop_assert_eq!(&events[0], &first);
        prop_assert_eq!(events.len(), 1 + steps.len());
        let mut want = Vec::new();
        for (event, (step, wall_time)) in events[1..].iter().zip(&steps) {
            prop_assert_eq!((event.step, event.wall_time), (*step, *wall_time));
            prop_assert_eq!(event.values.len(), tags.len());
            for ((tag, read), wanted) in event.values.iter().zip(&tags) {
                prop_assert_eq!((tag, read.to_bits()), (wanted, bits));
                want.push((*step, *wall_time, tag.clone(), bits));
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("events");
        fs::write(&path, &bytes).unwrap();
        let of_scalar = |s: Scalar| (s.step, s.wall_time, s.tag, s.value.to_bits());
        let found: Vec<_> = read_scalars(&path).unwrap().into_iter().map(of_scalar).collect();
        prop_assert_eq!(found, want);
    }

    /// No bytes make the reader panic.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let framed = crate::tfrecord::framed(&bytes);
        let file = [crate::events::header(0.0), framed].concat();
        for bytes in [&bytes, &file] {
            let kept = crate::events::up_to(bytes, Some(u64::MAX));
            prop_assert!(kept.is_none_or(|kept| kept.len() <= bytes.len()));
        }
    }
}

#[test]
fn fields_that_are_not_known_are_passed_over() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("events");
    fs::write(&path, crate::tfrecord::framed(FOREIGN)).unwrap();
    let want = Scalar {
        step: 5,
        wall_time: 2.5,
        tag: "x".into(),
        value: 1.0,
    };
    assert_eq!(read_scalars(&path).unwrap(), [want]);
}

#[test]
fn damage_is_named_with_its_place() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::of_new_run(scratch.path(), &[], &[]).unwrap();
    let mut metrics = folder.open_metrics(0.0).unwrap();
    metrics.append(0.0, &report(1), &[("a", 1.0)]).unwrap();
    let path = metrics.events_path();
    let bytes = fs::read(path).unwrap();
    let second = crate::events::header(0.0).len();
    for i in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[i] ^= 0x10;
        fs::write(path, &damaged).unwrap();
        let error = read_scalars(path).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }));
        let at = if i < second { 0 } else { second };
        let want = format!("the record at byte {at} of {}", bytes.len());
        assert!(error.to_string().contains(&want), "{i}: {error}");
    }
    for n_bytes in second + 1..bytes.len() {
        fs::write(path, &bytes[..n_bytes]).unwrap();
        assert!(read_scalars(path).is_err(), "{n_bytes}");
    }
}
