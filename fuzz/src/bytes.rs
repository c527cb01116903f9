//! What this project writes for itself: whatever is accepted says the same bytes again.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use shardgraph_environments::space::Space;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{ColumnLayout, EpisodeMemory, Rows};
use shardgraph_solver::TrainedPolicy;
use tempfile::TempDir;

/// # Panics
/// When a rule is broken.
pub fn episode_memory(data: &[u8]) {
    let Ok(memory) = EpisodeMemory::from_bytes(data) else {
        return;
    };
    assert!(memory.to_bytes() == data, "the same bytes");
    assert_eq!(memory.iter().count(), memory.len());
    let sample = memory.sample(8, &mut |n| n - 1);
    assert_eq!(sample.len(), if memory.is_empty() { 0 } else { 8 });
}

/// Blocks of rows in the layout of a discrete action and an observation of two floats.
///
/// # Panics
/// When a rule is broken.
pub fn rows(data: &[u8]) {
    let mut rows = empty_rows();
    match rows.restore(data) {
        Ok(()) => assert!(rows.to_bytes() == data, "the same bytes"),
        Err(_) => assert_eq!(rows, empty_rows()),
    }
}

/// What [`rows`] reads blocks into.
///
/// # Panics
/// Never: these spaces exist.
pub fn empty_rows() -> Rows {
    let observation = Space::boxed(&[2], -1.0, 1.0).expect("a box");
    let action = Space::discrete(2).expect("two actions");
    let spaces = [("observation", &observation), ("action", &action)];
    Rows::new(ColumnLayout::of_spaces(&spaces).expect("fixed widths"))
}

/// Spaces as JSON: what was read is written and read again equal, and contains what it samples.
///
/// # Panics
/// When a rule is broken.
pub fn space(data: &[u8]) {
    let Ok(space) = serde_json::from_slice::<Space>(data) else {
        return;
    };
    let json = serde_json::to_string(&space).expect("every space can be written");
    let again: Space = serde_json::from_str(&json).expect("what was written can be read");
    assert_eq!(again, space);
    let leaves = space.leaves();
    let width: usize = leaves.iter().filter_map(|leaf| leaf.width).sum();
    let varies = leaves.iter().any(|leaf| leaf.width.is_none());
    if varies || width > 1 << 16 {
        return; // a sample may be as large as the memory
    }
    let value = space.sample(&mut KeyedRng::new(1, "fuzz", 0));
    space.contains(&value).expect("a sample is contained");
    let cells = space.split(&value).expect("what is contained can be split");
    assert_eq!(space.merge(&cells).expect("leaves of a value"), value);
}

/// A policy is read from a file; what was read is written, and read again with the same weights.
///
/// # Panics
/// When a rule is broken.
pub fn policy(data: &[u8]) {
    let path = scratch("policy");
    fs::write(&path, data).expect("room for a file");
    let policy = match TrainedPolicy::read(&path) {
        Ok(policy) => policy,
        Err(error) => {
            let named = error.to_string().contains(&path.display().to_string());
            return assert!(named, "{error}");
        }
    };
    assert!(policy.params.flat().iter().all(|weight| weight.is_finite()));
    policy.write(&path).expect("room for a file");
    let again = TrainedPolicy::read(&path).expect("what was written can be read");
    assert_eq!(again.params_hash(), policy.params_hash());
    assert_eq!(
        format!("{:?}", again.config),
        format!("{:?}", policy.config)
    );
}

/// A file in a folder that goes with the process.
pub(crate) fn scratch(name: &str) -> PathBuf {
    thread_local! {
        static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
    }
    FOLDER.with(|folder| {
        let made = || tempfile::tempdir().expect("a temporary folder");
        folder.get_or_init(made).path().join(name)
    })
}
