//! The two files of a run's metrics, over kills.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{FILES, listing, report, run, take_steps};
use crate::{Error, Folder, tags};

fn lines(folder: &Path) -> PathBuf {
    folder.join("metrics.jsonl")
}

fn events(folder: &Path) -> PathBuf {
    let names = listing(folder).into_iter();
    let mut found = names.filter(|name| name.starts_with("events.out.tfevents."));
    let name = found.next().expect("an event file");
    assert_eq!(found.next(), None);
    folder.join(name)
}

fn contents(folder: &Path) -> [Vec<u8>; 2] {
    [lines(folder), events(folder)].map(|path| fs::read(path).unwrap())
}

/// Killed after every step.
#[test]
fn a_resumed_run_has_the_files_of_the_uninterrupted_one() {
    let whole = tempfile::tempdir().unwrap();
    run(whole.path(), 9);
    let want = contents(whole.path());
    let name = events(whole.path());
    let name = name.file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("events.out.tfevents.1000000000."),
        "{name}"
    );
    for n_steps in 3..=8 {
        let parts = tempfile::tempdir().unwrap();
        run(parts.path(), n_steps);
        let (folder, checkpoint) = Folder::of_old_run(parts.path(), FILES).unwrap();
        take_steps(&folder, checkpoint.step() + 1..=9);
        assert!(contents(parts.path()) == want);
    }
}

/// Killed at every byte of what was written since the checkpoint.
#[test]
fn a_torn_end_is_cut_off() {
    let (promised, written) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run(promised.path(), 3);
    run(written.path(), 5);
    let want = contents(promised.path());
    let whole = contents(written.path());
    let paths = [lines(written.path()), events(written.path())];
    for i in 0..2 {
        for n_bytes in want[i].len()..=whole[i].len() {
            fs::write(&paths[0], &whole[0]).unwrap();
            fs::write(&paths[1], &whole[1]).unwrap();
            fs::write(&paths[i], &whole[i][..n_bytes]).unwrap();
            let (folder, _) = Folder::of_old_run(written.path(), FILES).unwrap();
            folder.open_metrics(2e9).unwrap();
            assert!(contents(written.path()) == want, "{n_bytes}");
        }
    }
}

/// A run that was killed before its first checkpoint begins again, also with the steps that it had written.
#[test]
fn a_new_run_begins_with_nothing() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let begin = |path: &Path, n_steps: u64| {
        let folder = Folder::of_new_run(path, FILES, &[]).unwrap();
        take_steps(&folder, 0..=n_steps); // of 0 too
    };
    let folder = Folder::of_new_run(parts.path(), FILES, &[]).unwrap();
    let mut metrics = folder.open_metrics(1e9).unwrap();
    metrics.append(1e9, &report(0), &[("x", 0.0)]).unwrap();
    metrics.append(1e9, &report(1), &[("x", 0.0)]).unwrap();
    drop((folder, metrics));
    begin(parts.path(), 2);
    begin(whole.path(), 2);
    assert!(contents(parts.path()) == contents(whole.path()));
}

#[test]
fn damaged_lines_and_records_cost_no_others() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 9);
    let [mut text, mut bytes] = contents(scratch.path());
    let second_line = text.iter().position(|&byte| byte == b'\n').unwrap() + 3;
    text[second_line] = 0xff;
    let header = crate::events::header(1e9).len();
    let damaged = bytes.len() - 1; // the checksum of the last record
    bytes[damaged] ^= 1;
    fs::write(lines(scratch.path()), &text).unwrap();
    fs::write(events(scratch.path()), &bytes).unwrap();
    let (folder, _) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    let metrics = folder.open_metrics(2e9).unwrap();
    let kept = fs::read_to_string(lines(scratch.path())).unwrap();
    assert_eq!(kept.lines().count(), 8);
    let n_scalars = crate::read_scalars(metrics.events_path()).unwrap().len();
    assert_eq!(n_scalars, 4, "of the five odd steps");
    assert!(contents(scratch.path())[1].len() > header);
}

#[test]
fn event_files_of_other_programs_are_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let foreign = [
        ("events.out.tfevents.2000000000.other", b"theirs".to_vec()),
        (
            "events.out.tfevents.3000000000.other",
            crate::tfrecord::framed(b"\x1a\x0dbrain.Event:2"),
        ),
    ];
    for (name, bytes) in &foreign {
        fs::write(scratch.path().join(name), bytes).unwrap();
    }
    run(scratch.path(), 4);
    let (folder, _) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    let metrics = folder.open_metrics(4e9).unwrap();
    let name = metrics.events_path().file_name().unwrap().to_str().unwrap();
    assert!(
        name.starts_with("events.out.tfevents.1000000000."),
        "{name}"
    );
    for (name, bytes) in foreign {
        assert_eq!(fs::read(scratch.path().join(name)).unwrap(), bytes);
    }
}

#[test]
fn a_record_needs_a_step() {
    #[derive(Serialize)]
    struct Negative {
        step: i32,
    }
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::of_new_run(scratch.path(), FILES, &[]).unwrap();
    let mut metrics = folder.open_metrics(0.0).unwrap();
    for error in [
        metrics.append(0.0, &Negative { step: -1 }, &[]),
        metrics.append(0.0, &[1, 2], &[]),
        metrics.append(0.0, &"step", &[]),
    ] {
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }));
        assert!(error.to_string().contains("a field `step`"), "{error}");
    }
    assert!(fs::read(lines(scratch.path())).unwrap().is_empty());
}

#[test]
fn the_usual_tags_are_those_of_cleanrl() {
    let want = [
        "train/episodic_return",
        "train/episodic_length",
        "time/steps_per_second",
        "train/td_loss",
        "train/q_values",
    ];
    let found = [
        tags::EPISODIC_RETURN,
        tags::EPISODIC_LENGTH,
        tags::STEPS_PER_SECOND,
        tags::TD_LOSS,
        tags::Q_VALUES,
    ];
    assert_eq!(found, want);
}
