//! The crate's tests, one file per part.

mod checkpoints;
mod event_reader;
mod events;
mod faults;
mod folders;
mod metrics;
mod runs;
mod tensors;

use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::{Checkpoint, Folder};

/// The files of the tests' checkpoints.
const FILES: &[&str] = &["state.safetensors", "run.json"];

/// A line of the tests' metrics.
#[derive(Serialize)]
struct Report {
    step: u64,
    loss: Option<f32>,
}

fn report(step: u64) -> Report {
    let loss = (step % 2 == 1).then_some(step as f32 / 4.0);
    Report { step, loss }
}

/// A checkpoint whose contents tell its step.
fn checkpoint(step: u64) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(step);
    let state = step.to_le_bytes().repeat(5);
    checkpoint.add("state.safetensors", state).unwrap();
    let run = format!("{{\"step\": {step}}}").into_bytes();
    checkpoint.add("run.json", run).unwrap();
    checkpoint
}

/// Takes the steps of a run, with a checkpoint every third, and stops as a kill does: without a word.
fn take_steps(folder: &Folder, steps: std::ops::RangeInclusive<u64>) {
    let mut metrics = folder.open_metrics(1e9).unwrap();
    for step in steps {
        let report = report(step);
        let scalars = report.loss.map(|loss| ("train/loss", loss));
        let wall_time = 1e9 + step as f64;
        metrics
            .append(wall_time, &report, scalars.as_slice())
            .unwrap();
        if step % 3 == 0 {
            folder
                .write_checkpoint(&checkpoint(step), &metrics)
                .unwrap();
        }
    }
}

/// A new run of so many steps.
fn run(path: &Path, n_steps: u64) {
    take_steps(&Folder::of_new_run(path, FILES, &[]).unwrap(), 1..=n_steps);
}

/// The step of the newest whole checkpoint.
fn newest(path: &Path) -> Option<u64> {
    let newest = Checkpoint::newest(path, FILES).unwrap()?;
    let same = checkpoint(newest.step());
    assert!(newest.files().eq(same.files()), "what was written");
    Some(newest.step())
}

/// The names in a folder, in order.
fn listing(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
