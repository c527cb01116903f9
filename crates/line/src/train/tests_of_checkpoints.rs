//! Checkpoints of tables: versions, damages, and files that a resumed run needs.

use std::fs;
use std::path::Path;

use super::checkpoint::Position;
use super::row_files::{RowsFile, TableKey};
use super::tests::{context, small, two_communities};
use super::tests_on_disk::{Folder, broken_off};
use super::*;
use crate::Order;
use shardgraph_job::{Checkpoint, RunRecorder};

/// Another version of the program trains other bits, so it does not go on with a run.
#[test]
fn a_run_of_another_version_is_refused() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let (place, disk) = (Folder::new(), DiskOptions::default());
    let device = Device::host();
    drop(TableCheckpoint::open(&place.work(), None, &context(&store, &config, &device)).unwrap());
    let newest = Checkpoint::newest(&place.work(), &[]).unwrap().unwrap();
    let text = String::from_utf8(newest.file("run.json").unwrap().to_vec()).unwrap();
    let mut older = Checkpoint::new(1);
    let version = "\"schema_version\": 11";
    assert!(text.contains(version));
    let text = text.replace(version, "\"schema_version\": 10");
    older.add("run.json", text.into_bytes()).unwrap();
    let (held, _) = shardgraph_job::Folder::of_old_run(&place.work(), &[]).unwrap();
    let recorder = RunRecorder::open(held).unwrap();
    recorder.write_checkpoint(&older).unwrap();
    drop(recorder);
    let error = place.train(&store, &config, &disk, &mut |_| {});
    let error = error.unwrap_err();
    let wanted = "version 10 is not known here: this program reads version 11";
    assert!(error.to_string().contains(wanted), "{error}");
    assert!(!place.folder.path().join("e.npy").exists());
}

/// A state whose hash is right, and to which no run comes.
#[test]
fn a_position_that_no_run_has_is_refused() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let (place, device) = (Folder::new(), Device::host());
    let run = context(&store, &config, &device);
    drop(TableCheckpoint::open(&place.work(), None, &run).unwrap());
    let newest = Checkpoint::newest(&place.work(), &[]).unwrap().unwrap();
    let text = String::from_utf8(newest.file("run.json").unwrap().to_vec()).unwrap();
    for (found, other, reason) in [
        ("\"orders\": 0", "\"orders\": 2", "no run comes"),
        ("\"pass\": 0", "\"pass\": 999999", "no run comes"),
        ("\"n_steps\": 0", "\"n_steps\": 7", "no run comes"),
        ("\"step\": 0", "\"step\": 999999", "has no step 999999"),
    ] {
        assert!(text.contains(found), "{text}");
        let mut doctored = Checkpoint::new(0);
        let bytes = text.replacen(found, other, 1).into_bytes();
        doctored.add("run.json", bytes).unwrap();
        fs::remove_dir_all(place.work()).unwrap();
        let held = shardgraph_job::Folder::of_new_run(&place.work(), &["run.json"], &[]).unwrap();
        let recorder = RunRecorder::open(held).unwrap();
        recorder.write_checkpoint(&doctored).unwrap();
        drop(recorder);
        let disk = DiskOptions::default();
        let error = place
            .train(&store, &config, &disk, &mut |_| {})
            .unwrap_err();
        assert!(error.to_string().contains(reason), "{other}: {error}");
    }
}

#[test]
fn damaged_files_of_a_run_are_found() {
    let store = two_communities(64, 4);
    let config = small(Order::Second);
    let place = broken_off(&store, &config);
    let refused = || {
        let disk = DiskOptions {
            checkpoint_s: 0.0,
            ..DiskOptions::default()
        };
        place
            .train(&store, &config, &disk, &mut |_| {})
            .unwrap_err()
    };
    // A damaged file of rows is found when it is read.
    let rows = fs::read_dir(place.work())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    for path in rows.filter(|path| path.extension().is_some_and(|e| e == "rows")) {
        let mut bytes = fs::read(&path).unwrap();
        bytes[7] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    let error = refused();
    assert!(matches!(error, Error::File(_)), "{error}");
    assert!(error.to_string().contains(".rows: damaged"), "{error}");
    let newest = Checkpoint::newest(&place.work(), &[]).unwrap().unwrap();
    let state = Path::new(newest.origin()).join("run.json");
    let text = fs::read_to_string(&state).unwrap();
    let other = text.replace("\"step\": 0", "\"step\": 3");
    assert_ne!(text, other);
    fs::write(&state, other).unwrap();
    assert!(
        refused()
            .to_string()
            .contains("run.json: the file is damaged")
    );
    fs::write(&state, text).unwrap();
    let rows = fs::read_dir(place.work()).unwrap();
    let mut rows = rows.map(|entry| entry.unwrap().path());
    let rows = rows.find(|path| path.extension().is_some_and(|e| e == "rows"));
    let rows = rows.unwrap();
    let bytes = fs::read(&rows).unwrap();
    fs::write(&rows, &bytes[1..]).unwrap();
    assert!(refused().to_string().contains(".rows: the file is damaged"));
    fs::remove_file(rows).unwrap();
    assert!(
        refused()
            .to_string()
            .contains("names this file, which is gone")
    );
}

/// A kill after the answer is written, and before the last checkpoint goes: the next run begins, with metrics of its own.
#[test]
fn a_run_that_begins_behind_one_that_ended_has_its_own_metrics() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let (place, device) = (Folder::new(), Device::host());
    let disk = DiskOptions::default();
    place.train(&store, &config, &disk, &mut |_| {}).unwrap();
    let (whole, metrics) = (place.answer(), place.metrics());
    let n_lines = metrics.lines().count();
    assert_eq!(n_lines, config.epochs as usize);
    let opened = TableCheckpoint::open(&place.work(), None, &context(&store, &config, &device));
    let (mut checkpoint, recorder) = opened.unwrap();
    let anew = Position {
        n_steps: 1 << 20,
        ..Position::default()
    };
    recorder
        .write_checkpoint(&checkpoint.at(anew).unwrap())
        .unwrap();
    fs::write(place.work().join("metrics.jsonl"), metrics).unwrap();
    drop((checkpoint, recorder));
    assert_eq!(check_work_folder(&place.work(), &config).unwrap(), None);
    place.train(&store, &config, &disk, &mut |_| {}).unwrap();
    assert!(place.answer() == whole);
    assert_eq!(place.metrics().lines().count(), n_lines);
    assert!(place.has_metrics_alone());
}

#[test]
fn a_file_that_a_resumed_run_would_need_stays() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let (place, device) = (Folder::new(), Device::host());
    let (run, work) = (context(&store, &config, &device), place.work());
    let key = TableKey {
        order: 2,
        table: 0,
        group: 0,
    };
    let write = |file: &RowsFile| fs::write(&file.path, "rows").unwrap();
    let (mut checkpoint, recorder) = TableCheckpoint::open(&work, None, &run).unwrap();
    let (first, replaced) = checkpoint.new_file(key);
    assert_eq!(replaced, None);
    write(&first);
    let later = Position {
        n_steps: 1,
        ..Position::default()
    };
    let written = recorder.write_checkpoint(&checkpoint.at(later).unwrap());
    written.unwrap();
    let (second, replaced) = checkpoint.new_file(key);
    assert_eq!(replaced, None, "the checkpoint names it");
    write(&second);
    let (third, replaced) = checkpoint.new_file(key);
    assert_eq!(replaced.as_ref(), Some(&second.path), "nothing names it");
    write(&third);
    // Broken off here, the next run finds the first file and throws the others away.
    drop((checkpoint, recorder));
    let (resumed, _recorder) = TableCheckpoint::open(&work, None, &run).unwrap();
    assert_eq!(resumed.file(key).as_ref(), Some(&first));
    assert!(first.path.exists() && !second.path.exists() && !third.path.exists());
}
