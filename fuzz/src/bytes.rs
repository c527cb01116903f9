//! What this project writes for itself: whatever is accepted says the same bytes again.

use std::cell::OnceCell;
use std::fs;
use std::path::PathBuf;

use shardgraph_replay::EpisodeMemory;
use shardgraph_shard::{BitShard, CsrShard};
use shardgraph_solver::TrainedPolicy;
use tempfile::TempDir;

/// # Panics
/// When a rule is broken.
pub fn csr_shard(data: &[u8]) {
    if let Ok(shard) = CsrShard::from_bytes(data) {
        assert!(shard.to_bytes() == data, "the same bytes");
        assert!(shard.bytes() <= data.len() as u64);
        assert_eq!(shard.coo().count() as u64, shard.n_entries());
    }
}

/// # Panics
/// When a rule is broken.
pub fn bit_shard(data: &[u8]) {
    if let Ok(shard) = BitShard::from_bytes(data) {
        assert!(shard.to_bytes() == data, "the same bytes");
        assert!(shard.bytes() <= data.len() as u64);
    }
}

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
