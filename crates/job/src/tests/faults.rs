//! Kills between any two writes, writes that fail, and damaged bytes: the checkpoint before stays usable, and what is damaged
//! is named.

use std::fs;
use std::path::Path;

use super::{FILES, checkpoint, newest, run};
use crate::manifest::sealed;
use crate::{Checkpoint, Error, Folder};

/// The files of a checkpoint in the order in which they are written.
const WRITTEN: [&str; 3] = ["state.safetensors", "run.json", "MANIFEST"];

/// A folder with the checkpoints of steps 3 and 6.
fn two_checkpoints() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 7);
    assert_eq!(newest(scratch.path()), Some(6));
    scratch
}

/// What may become of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Whole,
    Gone,
    Cut(usize),
}

fn meet(path: &Path, fate: Fate) {
    match fate {
        Fate::Whole => {}
        Fate::Gone => fs::remove_file(path).unwrap(),
        Fate::Cut(n_bytes) => {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..n_bytes]).unwrap();
        }
    }
}

/// More than any order of writing can leave: each file on its own whole, gone, empty, or short of its last byte.
#[test]
fn whatever_is_left_of_the_newest_the_one_before_is_found() {
    let scratch = two_checkpoints();
    let paths = WRITTEN.map(|name| scratch.path().join("checkpoint-0000000006").join(name));
    let fates = paths.each_ref().map(|path| {
        let last = fs::metadata(path).unwrap().len() as usize - 1;
        [Fate::Whole, Fate::Gone, Fate::Cut(0), Fate::Cut(last)]
    });
    for state in fates[0] {
        for run in fates[1] {
            for manifest in fates[2] {
                let all = [state, run, manifest];
                for (path, fate) in paths.iter().zip(all) {
                    meet(path, fate);
                }
                let is_whole = all == [Fate::Whole; 3];
                let want = if is_whole { 6 } else { 3 };
                assert_eq!(newest(scratch.path()), Some(want), "{all:?}");
                let (folder, found) = Folder::of_old_run(scratch.path(), FILES).unwrap();
                assert_eq!(found.step(), want);
                let metrics = folder.open_metrics(0.0).unwrap();
                folder.write_checkpoint(&checkpoint(6), &metrics).unwrap();
                assert_eq!(newest(scratch.path()), Some(6), "{all:?}, written again");
            }
        }
    }
}

/// A MANIFEST that is cut anywhere, also between two lines, promises nothing.
#[test]
fn a_cut_manifest_is_no_checkpoint() {
    let scratch = two_checkpoints();
    let path = scratch.path().join("checkpoint-0000000006/MANIFEST");
    let bytes = fs::read(&path).unwrap();
    for n_bytes in 0..bytes.len() - 1 {
        fs::write(&path, &bytes[..n_bytes]).unwrap();
        assert_eq!(newest(scratch.path()), Some(3), "{n_bytes}");
    }
}

/// While an old checkpoint is removed, its MANIFEST goes first: no order of the rest can make it look whole.
#[test]
fn a_half_removed_checkpoint_is_none() {
    for gone in [&WRITTEN[2..], &WRITTEN[1..], &["MANIFEST", WRITTEN[0]]] {
        let scratch = two_checkpoints();
        for name in gone {
            fs::remove_file(scratch.path().join("checkpoint-0000000003").join(name)).unwrap();
        }
        assert_eq!(newest(scratch.path()), Some(6));
        fs::remove_dir_all(scratch.path().join("checkpoint-0000000006")).unwrap();
        assert_eq!(newest(scratch.path()), None);
    }
}

/// The k-th write of a checkpoint fails, for every k: a folder of that name is in the way.
#[test]
fn a_write_that_fails_costs_nothing() {
    let scratch = two_checkpoints();
    let (folder, _) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    let metrics = folder.open_metrics(0.0).unwrap();
    let target = scratch.path().join("checkpoint-0000000009");
    for name in WRITTEN {
        let in_the_way = target.join(name);
        fs::create_dir_all(&in_the_way).unwrap();
        let error = folder
            .write_checkpoint(&checkpoint(9), &metrics)
            .unwrap_err();
        assert!(matches!(&error, Error::Io { path, .. } if *path == in_the_way));
        assert_eq!(newest(scratch.path()), Some(6), "{name}");
        fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(newest(scratch.path()), Some(6), "{name}");
    }
    folder.write_checkpoint(&checkpoint(9), &metrics).unwrap();
    assert_eq!(newest(scratch.path()), Some(9));
}

#[test]
fn a_file_in_the_way_of_a_checkpoint_is_named() {
    let scratch = two_checkpoints();
    let in_the_way = scratch.path().join("checkpoint-0000000009");
    fs::write(&in_the_way, "").unwrap();
    let (folder, _) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    let metrics = folder.open_metrics(0.0).unwrap();
    let error = folder
        .write_checkpoint(&checkpoint(9), &metrics)
        .unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if *path == in_the_way));
}

/// Going on from the checkpoint before a damaged one is told.
#[test]
fn a_damaged_checkpoint_that_is_passed_over_is_named() {
    let scratch = two_checkpoints();
    let passed_over = || Checkpoint::passed_over(scratch.path()).unwrap();
    assert!(passed_over().is_empty());
    fs::write(scratch.path().join("checkpoint-0000000006/run.json"), "{}").unwrap();
    let damages = passed_over();
    assert_eq!(damages.len(), 1);
    let message = damages[0].to_string();
    assert!(
        message.contains("checkpoint-0000000006/run.json: the file is damaged"),
        "{message}"
    );
    assert_eq!(newest(scratch.path()), Some(3));
    fs::remove_file(scratch.path().join("checkpoint-0000000003/run.json")).unwrap();
    assert!(passed_over().is_empty(), "there is none to go on from");
}

/// Any changed byte of any file, where there is no other checkpoint to fall back to.
#[test]
fn a_damaged_byte_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 4);
    let target = scratch.path().join("checkpoint-0000000003");
    for name in WRITTEN {
        let path = target.join(name);
        let bytes = fs::read(&path).unwrap();
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x80;
            fs::write(&path, &damaged).unwrap();
            let error = Folder::of_old_run(scratch.path(), FILES).unwrap_err();
            let message = error.to_string();
            assert!(
                message.starts_with(&path.display().to_string()),
                "{message}"
            );
            assert!(matches!(error, Error::Damaged { .. }));
            assert!(Folder::of_new_run(scratch.path(), FILES, &[]).is_err());
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert_eq!(newest(scratch.path()), Some(3));
}

#[test]
fn manifests_that_say_something_else_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 3);
    let path = scratch.path().join("checkpoint-0000000003/MANIFEST");
    let text = fs::read_to_string(&path).unwrap();
    let (good, seal) = text.split_at(text.rfind("{\"manifest").unwrap());
    let outside = r#"{"file":"../metrics.jsonl","bytes":1,"xxh3":"0"}"#;
    let longer = good.replacen("\"bytes\":40", "\"bytes\":41", 1);
    let other_hash = good.replacen("\"xxh3\":\"", "\"xxh3\":\"0", 1);
    for (text, want) in [
        (
            format!("{good}{outside}\n"),
            "`../metrics.jsonl` is no file of a checkpoint",
        ),
        (format!("{good}{good}"), "has such a file already"),
        (format!("{good}\n"), "a damaged line"),
        (
            good.replace("\"bytes\"", "\"size\""),
            "unknown field `size`",
        ),
        (good.replace("xxh3", "fnv1a64"), "an earlier version"),
        (longer, "its MANIFEST says 41 bytes"),
        (other_hash, "the file is damaged"),
        (
            good.replace("run.json", "gone.json"),
            "gone.json: the checkpoint is damaged",
        ),
    ] {
        fs::write(&path, sealed(3, &text)).unwrap();
        let error = Checkpoint::newest(scratch.path(), FILES).unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
    let spaced = good.replacen("\":", "\": ", 1);
    for (text, want) in [
        (good.to_owned(), "an earlier version"),
        (format!("{spaced}{seal}"), "the file is damaged"),
        (sealed(4, good), "or its folder was renamed"),
        (format!("{good}{seal}\n"), "the file is damaged"),
    ] {
        fs::write(&path, text).unwrap();
        let error = Checkpoint::newest(scratch.path(), FILES).unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }
    fs::write(&path, text).unwrap();
    assert_eq!(newest(scratch.path()), Some(3));
}
