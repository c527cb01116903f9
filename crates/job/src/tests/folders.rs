//! Who may take a folder, and what it keeps.

use std::fs;

use super::{FILES, checkpoint, listing, newest, run, take_steps};
use crate::{Checkpoint, Error, Folder, N_KEPT, RunRecorder, World};

#[test]
fn a_folder_is_of_one_run_and_one_process() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("a/b");
    let why = |error: crate::Error| {
        let message = error.to_string();
        assert!(
            message.starts_with(&path.display().to_string()),
            "{message}"
        );
        assert!(matches!(error, Error::Folder { .. }));
        message
    };
    let nothing = why(Folder::of_old_run(&path, FILES).unwrap_err());
    assert!(nothing.contains("no complete checkpoint to resume from"));
    assert!(!path.exists(), "only a new run makes a folder");
    run(&path, 2);
    let no_checkpoint = why(Folder::of_old_run(&path, FILES).unwrap_err());
    assert!(no_checkpoint.contains("start a new run"), "{no_checkpoint}");
    run(&path, 3);
    let old = why(Folder::of_new_run(&path, FILES, &[]).unwrap_err());
    assert!(old.contains("has a run already: resume it"), "{old}");

    let (held, found) = Folder::of_old_run(&path, FILES).unwrap();
    assert_eq!((held.path(), found.step()), (&*path, 3));
    if cfg!(unix) {
        for taken in [
            Folder::of_old_run(&path, FILES).map(|(folder, _)| folder),
            Folder::of_new_run(&path, FILES, &[]),
        ] {
            let message = why(taken.unwrap_err());
            let want = "another process trains in this folder: wait for it";
            assert!(message.contains(want), "{message}");
        }
    }
    drop(held);
    Folder::of_old_run(&path, FILES).unwrap();
}

/// What a finished run leaves stays, also when its checkpoints are gone; metrics alone are of a run that was killed early.
#[test]
fn a_new_run_overwrites_no_result() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path();
    let results = &["policy.safetensors", "policy.json"];
    run(path, 2);
    Folder::of_new_run(path, FILES, results).unwrap();
    for name in results {
        fs::write(path.join(name), "learned").unwrap();
        let message = Folder::of_new_run(path, FILES, results).unwrap_err();
        let want = format!("has a {name}, which a new run would overwrite");
        assert!(message.to_string().contains(&want), "{message}");
        assert_eq!(fs::read(path.join(name)).unwrap(), b"learned");
        fs::remove_file(path.join(name)).unwrap();
    }
    let lines = path.join("metrics.jsonl");
    for (text, is_ours) in [
        ("", true),
        ("{\"step\": 1}\n{\"st", true),
        ("{\"st", true),
        ("hi\n", false),
        ("{\"loss\": 1}\n", false),
    ] {
        fs::write(&lines, text).unwrap();
        let taken = Folder::of_new_run(path, FILES, results);
        assert_eq!(taken.is_ok(), is_ours, "{text}");
        assert_eq!(fs::read_to_string(&lines).unwrap(), text);
    }
}

#[test]
fn a_file_is_no_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "mine").unwrap();
    let message = Folder::of_new_run(&file, FILES, &[]).unwrap_err();
    assert!(message.to_string().contains("this is a file"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn the_newest_checkpoints_stay_and_what_is_not_ours() {
    let scratch = tempfile::tempdir().unwrap();
    for name in [
        "checkpoint-best",
        "checkpoint-12",
        "checkpoint-+000000012",
        "checkpoint-0000009999", // without a MANIFEST, as a kill leaves it
    ] {
        fs::create_dir(scratch.path().join(name)).unwrap();
    }
    fs::write(scratch.path().join("checkpoint-notes"), "mine").unwrap();
    run(scratch.path(), 10);
    let names = listing(scratch.path());
    let ours: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| name.starts_with("checkpoint-"))
        .collect();
    let want = [
        "checkpoint-+000000012",
        "checkpoint-0000000006",
        "checkpoint-0000000009",
        "checkpoint-12",
        "checkpoint-best",
        "checkpoint-notes",
    ];
    assert_eq!(ours, want);
    assert_eq!(N_KEPT, 2);
}

/// What is not asked for is neither read nor checked.
#[test]
fn a_file_of_the_newest_checkpoint_is_read_alone() {
    let scratch = tempfile::tempdir().unwrap();
    assert!(
        Checkpoint::newest_files(scratch.path(), &["run.json"])
            .unwrap()
            .is_none()
    );
    run(scratch.path(), 7);
    let state = scratch
        .path()
        .join("checkpoint-0000000006/state.safetensors");
    fs::remove_file(state).unwrap();
    let found = Checkpoint::newest_files(scratch.path(), &["run.json"])
        .unwrap()
        .unwrap();
    let names: Vec<&str> = found.files().map(|(name, _)| name).collect();
    assert_eq!((found.step(), names), (6, vec!["run.json"]));
    assert_eq!(
        found.file("run.json").unwrap(),
        checkpoint(6).file("run.json").unwrap()
    );
    // One that is damaged is passed over as for a whole checkpoint.
    fs::write(scratch.path().join("checkpoint-0000000006/run.json"), "{}").unwrap();
    let older = Checkpoint::newest_files(scratch.path(), &["run.json"])
        .unwrap()
        .unwrap();
    assert_eq!(older.step(), 3);
    assert!(Checkpoint::newest_files(scratch.path(), &["other"]).is_err());
}

#[test]
fn steps_of_more_than_ten_digits_are_found_in_order() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::of_new_run(scratch.path(), FILES, &[]).unwrap();
    let metrics = folder.open_metrics(0.0).unwrap();
    for step in [0, 9_999_999_999, 10_000_000_000, u64::MAX] {
        folder
            .write_checkpoint(&checkpoint(step), &metrics)
            .unwrap();
        assert_eq!(newest(scratch.path()), Some(step));
    }
}

#[test]
fn a_checkpoint_without_one_of_the_files_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::of_new_run(scratch.path(), FILES, &[]).unwrap();
    let metrics = folder.open_metrics(0.0).unwrap();
    let mut half = Checkpoint::new(1);
    half.add("run.json", Vec::new()).unwrap();
    let error = folder.write_checkpoint(&half, &metrics).unwrap_err();
    assert!(
        error.to_string().contains("`state.safetensors` is missing"),
        "{error}"
    );
    assert_eq!(Checkpoint::newest(scratch.path(), FILES).unwrap(), None);
}

/// A later checkpoint can only be damaged; it must not push the one to fall back to out of the folder.
#[test]
fn a_damaged_later_checkpoint_costs_no_good_one() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 9);
    let late = scratch.path().join("checkpoint-0000000012");
    fs::rename(scratch.path().join("checkpoint-0000000009"), &late).unwrap();
    fs::write(late.join("run.json"), "").unwrap();
    let (folder, old) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    assert_eq!(old.step(), 6);
    take_steps(&folder, 7..=9);
    let kept: Vec<String> = listing(scratch.path())
        .into_iter()
        .filter(|name| name.starts_with("checkpoint-"))
        .collect();
    assert_eq!(
        kept,
        [6, 9, 12].map(|step| format!("checkpoint-{step:010}"))
    );
    drop(folder);
    let (folder, _) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    take_steps(&folder, 10..=12);
    assert_eq!(newest(scratch.path()), Some(12));
}

/// A damaged checkpoint before the one that is written must not count as the one to fall back to.
#[test]
fn a_damaged_checkpoint_in_between_costs_no_good_one() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 6);
    fs::write(scratch.path().join("checkpoint-0000000006/run.json"), "").unwrap();
    let (folder, old) = Folder::of_old_run(scratch.path(), FILES).unwrap();
    assert_eq!(old.step(), 3);
    let metrics = folder.open_metrics(0.0).unwrap();
    folder.write_checkpoint(&checkpoint(9), &metrics).unwrap();
    fs::write(scratch.path().join("checkpoint-0000000009/run.json"), "").unwrap();
    assert_eq!(newest(scratch.path()), Some(3));
}

#[test]
fn steps_go_up_and_metrics_open_once() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = Folder::of_new_run(scratch.path(), FILES, &[]).unwrap();
    let metrics = folder.open_metrics(0.0).unwrap();
    let error = folder.open_metrics(0.0).unwrap_err().to_string();
    assert!(error.contains("open already"), "{error}");
    for step in [3, 6, 6] {
        let written = folder.write_checkpoint(&checkpoint(step), &metrics);
        written.unwrap();
    }
    let lower = folder.write_checkpoint(&checkpoint(5), &metrics);
    let error = lower.unwrap_err().to_string();
    assert!(error.contains("given 5"), "{error}");
    fs::write(scratch.path().join("checkpoint-0000000006/run.json"), "").unwrap();
    assert_eq!(
        newest(scratch.path()),
        Some(3),
        "kept beside the 6 that came twice"
    );
}

/// What the system could not read just now may be whole: no older state takes its place.
#[cfg(unix)]
#[test]
fn a_file_that_cannot_be_read_is_no_damage() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 6);
    let file = scratch.path().join("checkpoint-0000000006/run.json");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&file, &file).unwrap(); // reading it fails, also for root
    let error = Checkpoint::newest(scratch.path(), FILES).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

/// A run whose folder is moved, removed or replaced writes no checkpoint anywhere, and says so.
#[cfg(unix)]
#[test]
fn a_folder_that_is_no_longer_in_its_place_ends_the_run() {
    let scratch = tempfile::tempdir().unwrap();
    for replaced in [false, true] {
        let path = scratch.path().join(format!("run-{replaced}"));
        let away = scratch.path().join(format!("away-{replaced}"));
        let folder = Folder::of_new_run(&path, FILES, &[]).unwrap();
        let metrics = folder.open_metrics(1e9).unwrap();
        folder.write_checkpoint(&checkpoint(3), &metrics).unwrap();
        fs::rename(&path, &away).unwrap();
        if replaced {
            fs::create_dir(&path).unwrap();
        }
        let error = folder
            .write_checkpoint(&checkpoint(6), &metrics)
            .unwrap_err();
        assert!(matches!(error, Error::Folder { .. }), "{error}");
        assert!(error.to_string().contains("moved or removed"), "{error}");
        assert_eq!(newest(&away), Some(3));
        assert_eq!(path.exists(), replaced);
        assert!(!replaced || listing(&path).is_empty());
        let _ = fs::remove_dir_all(&path); // where there is one
        fs::rename(&away, &path).unwrap();
        folder.write_checkpoint(&checkpoint(6), &metrics).unwrap();
    }
}

/// What a kill has left half written goes when the folder is taken again.
#[cfg(target_os = "linux")]
#[test]
fn taking_a_folder_removes_the_temporary_files_of_dead_processes() {
    let scratch = tempfile::tempdir().unwrap();
    run(scratch.path(), 3);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let left = scratch.path().join(format!(".metrics.jsonl.{dead}-0.tmp"));
    fs::write(&left, "{").unwrap();
    let name = format!(".MANIFEST.{dead}-0.tmp");
    let checkpoint = scratch.path().join("checkpoint-0000000003");
    let inside = checkpoint.join(name);
    assert!(checkpoint.is_dir());
    fs::write(&inside, "{").unwrap();
    Folder::of_old_run(scratch.path(), FILES).unwrap();
    assert!(!left.exists() && !inside.exists());
}

/// A checkpoint with a file beside it is the only one, and is no checkpoint without that file, or with another length of it.
#[test]
fn files_beside_a_checkpoint_belong_to_it() {
    let scratch = tempfile::tempdir().unwrap();
    let rows = scratch.path().join("00000007.rows");
    let folder = Folder::of_new_run(scratch.path(), FILES, &[]).unwrap();
    let recorder = RunRecorder::open(folder).unwrap();
    let with_rows = |step| {
        let mut checkpoint = checkpoint(step);
        checkpoint.add_beside("00000007.rows", 5).unwrap();
        let twice = checkpoint.add("00000007.rows", Vec::new()).unwrap_err();
        assert!(twice.to_string().contains("has such a file already"));
        checkpoint
    };
    fs::write(&rows, "12345").unwrap();
    for step in [1, 2] {
        recorder.write_checkpoint(&with_rows(step)).unwrap();
    }
    let found = || Checkpoint::newest(scratch.path(), FILES);
    let newest = found().unwrap().unwrap();
    assert_eq!(newest.step(), 2);
    assert_eq!(newest.files_beside(), with_rows(2).files_beside());
    assert!(rows.exists() && scratch.path().join("checkpoint-0000000002").exists());
    assert!(!scratch.path().join("checkpoint-0000000001").exists());
    fs::write(&rows, "1234").unwrap();
    let error = found().unwrap_err().to_string();
    let want = "MANIFEST says 5 bytes, and there are 4 bytes;";
    assert!(
        error.starts_with(&rows.display().to_string()) && error.contains(want),
        "{error}"
    );
    fs::remove_file(&rows).unwrap();
    let error = found().unwrap_err().to_string();
    assert!(error.contains("names this file, which is gone"), "{error}");
    // Of no interest to who wants the settings alone.
    let files = Checkpoint::newest_files(scratch.path(), &["run.json"]);
    assert_eq!(files.unwrap().unwrap().step(), 2);
    recorder.remove_checkpoints().unwrap();
    assert!(found().unwrap().is_none());
}

/// Metrics lie in one folder and checkpoints in another: the run goes on from the checkpoint, in both.
#[test]
fn metrics_may_lie_in_another_folder_than_checkpoints() {
    let scratch = tempfile::tempdir().unwrap();
    let [shown, work] = ["shown", "work"].map(|name| scratch.path().join(name));
    let lines = || fs::read_to_string(shown.join("metrics.jsonl")).unwrap();
    {
        let folder = Folder::of_new_run(&shown, &[], &[]).unwrap();
        let mut of_metrics = RunRecorder::open(folder).unwrap();
        let metrics = of_metrics.take_metrics().unwrap();
        assert!(of_metrics.take_metrics().is_none());
        let held = Folder::of_new_run(&work, FILES, &[]).unwrap();
        let mut recorder = RunRecorder::with_metrics(held, metrics);
        for step in 1..=3 {
            recorder.append(&Report { step }, &[]).unwrap();
            of_metrics.append(&Report { step: 7 }, &[]).unwrap();
            if step == 2 {
                recorder.write_checkpoint(&checkpoint(step)).unwrap();
            }
        }
    }
    assert_eq!(lines().lines().count(), 3);
    let (held, newest) = Folder::of_old_run(&work, FILES).unwrap();
    let folder = Folder::of_run_resumed_elsewhere(&shown, newest.step(), &[]).unwrap();
    let metrics = folder.open_metrics(2e9).unwrap();
    drop(RunRecorder::with_metrics(held, metrics));
    assert_eq!(lines().lines().count(), 2);
    assert!(!work.join("metrics.jsonl").exists());
    // A run that begins again has none of the lines that are there.
    let (held, _) = Folder::of_old_run(&work, FILES).unwrap();
    fs::copy(shown.join("metrics.jsonl"), work.join("metrics.jsonl")).unwrap();
    drop(RunRecorder::open(held.without_metrics()).unwrap());
    assert_eq!(fs::read(work.join("metrics.jsonl")).unwrap(), b"");
}

#[derive(serde::Serialize)]
struct Report {
    step: u64,
}

/// No rank of another folder could go on from a part of a checkpoint.
#[test]
fn a_checkpoint_with_files_beside_it_is_not_sent() {
    let sent = World::Threads(2).run(Default::default(), |ranks| {
        let mut own = checkpoint(3);
        own.add_beside("rows", 5)?;
        let own = ranks.is_first().then_some(own);
        ranks.broadcast_checkpoint(own).map(drop)
    });
    let error: Error = sent.unwrap_err();
    assert!(
        error.to_string().contains("too large to be sent"),
        "{error}"
    );
}
