//! Files of policies: what comes back, and what is refused by name.

use std::path::PathBuf;

use super::*;
use crate::policy::Preset;

/// A policy's file in a folder of its own, and its bytes.
fn written() -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.safetensors");
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 4).unwrap();
    policy.write(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    (folder, path, bytes)
}

/// Why a file with these bytes is refused.
fn refused(path: &Path, bytes: &[u8]) -> String {
    std::fs::write(path, bytes).unwrap();
    let error = Policy::read(path).unwrap_err();
    assert!(error.is_input(), "{error}");
    let message = error.to_string();
    assert!(message.contains("p.safetensors"), "{message}");
    message
}

#[test]
fn a_policy_comes_back() {
    let (folder, path, bytes) = written();
    let policy = Policy::untrained(PolicyConfig::preset(Preset::Synthetic), 4).unwrap();
    let read = Policy::read(&path).unwrap();
    assert_eq!(read.config(), policy.config());
    assert_eq!(read.weights_hash(), policy.weights_hash());
    read.write(&path).unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes);
    assert!(Policy::read(folder.path()).unwrap_err().is_input());
    let none = folder.path().join("none");
    assert!(Policy::read(&none).unwrap_err().is_input());
}

/// The header is JSON within JSON; what comes in has as many bytes as what goes.
#[test]
fn headers_that_do_not_fit_are_refused_by_name() {
    let (_folder, path, bytes) = written();
    for (from, to, expected) in [
        (
            r#"n_devices\":2"#,
            r#"n_devices\":3"#,
            "`policy/encoder/nodes/0/w`: expected F32 [12, 32]",
        ),
        (
            r#"scheduling_levels\":16"#,
            r#"scheduling_levels\":12"#,
            "expected F32 [32, 32] for the features, devices, levels",
        ),
        (
            r#"placement_levels\":2"#,
            r#"placement_levels\":1"#,
            "placement_levels = 1: expected 2 to 64",
        ),
        (r#"\"runtime"#, r#"\"costgrp"#, "variant `costgrp`"),
        (r#"_version\":2"#, r#"_version\":7"#, "policy version 7"),
        (
            "shardgraph.regal",
            "shardgraph.agent",
            "the header has no `shardgraph.regal`",
        ),
    ] {
        assert_eq!(from.len(), to.len());
        let mut windows = bytes.windows(from.len());
        let at = windows.position(|part| part == from.as_bytes()).unwrap();
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        let message = refused(&path, &bytes);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn damaged_files_are_refused() {
    let (_folder, path, bytes) = written();
    for cut in [0, 7, 100, bytes.len() - 1] {
        let message = refused(&path, &bytes[..cut]);
        assert!(message.contains("no safetensors file"), "{message}");
    }
    let mut wrong = bytes.clone();
    let last = wrong.len() - 4;
    wrong[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let message = refused(&path, &wrong);
    assert!(
        message.contains("expected a finite number, given NaN"),
        "{message}"
    );
    let name = b"policy/actions/1/b";
    let at = bytes.windows(name.len()).position(|part| part == name);
    let mut wrong = bytes.clone();
    wrong[at.unwrap() + name.len() - 3] = b'9';
    let message = refused(&path, &wrong);
    assert!(
        message.contains("the tensor `policy/actions/1/b` [1, 40] is missing"),
        "{message}"
    );
}

#[test]
fn a_network_that_no_file_holds_is_refused_before_it_is_trained() {
    let error = super::check_size(MAX_FILE_BYTES as usize / 4).unwrap_err();
    assert!(error.to_string().contains("make it narrower"), "{error}");
    // What is let through is what can be read, its header included.
    let most = ((MAX_FILE_BYTES - MAX_HEADER_BYTES) / 4) as usize;
    assert!(super::check_size(most).is_ok() && super::check_size(most + 1).is_err());
}
