//! A second opinion on the folder of a training run: whether a file in it is broken.
//!
//! Shares no line with the program that writes it, so that a mistake there cannot hide itself here: tensors and checksums are read by
//! the libraries of their formats.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use safetensors::SafeTensors;
use serde_json::Value;

/// What is in a folder whose files are all whole.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// Checkpoints with a MANIFEST.
    pub(super) n_checkpoints: usize,
    /// Checkpoints without one, which a kill has left.
    pub(super) n_incomplete: usize,
    /// Temporary files, which a kill has left.
    pub(super) n_temporary: usize,
    pub(super) has_policy: bool,
}

/// Reads every file of the folder. A torn last line of the metrics is no broken file: it is cut off when the run goes on.
pub(super) fn check(folder: &Path) -> Result<Found> {
    let mut found = Found::default();
    if !folder.exists() {
        return Ok(found);
    }
    for path in entries(folder)? {
        let name = name(&path);
        if path.is_dir() {
            ensure!(name.starts_with("checkpoint-"), "{name}: whose is it?");
            match path.join("MANIFEST").exists() {
                true => found.n_checkpoints += 1,
                false => found.n_incomplete += 1,
            }
            check_checkpoint(&path, &mut found.n_temporary).with_context(|| name)?;
        } else if name.starts_with('.') {
            found.n_temporary += 1;
        } else {
            found.has_policy |= name == "policy.safetensors";
            check_file(&path).with_context(|| name)?;
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    Ok(paths)
}

fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Files of a checkpoint, in the order of its MANIFEST: of R-GCN that predicts links, and of all others.
const CHECKPOINTS: &[&[&str]] = &[
    &["state.safetensors", "decoder.safetensors", "links.json"],
    &["state.safetensors", "run.json"],
];

/// A file under its own name is whole, with a MANIFEST or without; with one, the files that it names are there.
fn check_checkpoint(folder: &Path, n_temporary: &mut usize) -> Result<()> {
    for path in entries(folder)? {
        match name(&path).starts_with('.') {
            true => *n_temporary += 1,
            false => check_file(&path).with_context(|| name(&path))?,
        }
    }
    let Ok(manifest) = fs::read_to_string(folder.join("MANIFEST")) else {
        return Ok(());
    };
    let mut names = Vec::new();
    for line in manifest.lines() {
        let entry = serde_json::from_str::<Value>(line)?;
        if entry.get("manifest_xxh3").is_some() {
            continue; // the hash of the lines before
        }
        let text = |key| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let bytes = fs::read(folder.join(text("file"))).with_context(|| text("file").to_owned())?;
        let n_bytes = entry.get("bytes").and_then(Value::as_f64);
        ensure!(n_bytes == Some(bytes.len() as f64), "{line}: other length");
        ensure!(text("xxh3") == xxh3(&bytes), "{line}: other hash");
        names.push(text("file").to_owned());
    }
    ensure!(
        CHECKPOINTS.iter().any(|files| names == **files),
        "the MANIFEST names {names:?}"
    );
    Ok(())
}

fn check_file(path: &Path) -> Result<()> {
    let bytes = fs::read(path)?;
    let name = name(path);
    if name.starts_with("events.out.tfevents.") {
        return check_events(&bytes);
    }
    match name.rsplit_once('.').map_or(name.as_str(), |(_, end)| end) {
        "safetensors" => Ok(SafeTensors::deserialize(&bytes).map(drop)?),
        "json" => Ok(serde_json::from_slice::<Value>(&bytes).map(drop)?),
        "jsonl" => check_lines(&bytes),
        "MANIFEST" => Ok(()),
        _ => bail!("whose is it?"),
    }
}

/// Every finished line is JSON with a step, and no step is before the one of the line above.
fn check_lines(bytes: &[u8]) -> Result<()> {
    let mut last = 0.0;
    let lines = bytes.split_inclusive(|&byte| byte == b'\n');
    for (line_idx, line) in lines.filter(|line| line.ends_with(b"\n")).enumerate() {
        let report = serde_json::from_slice::<Value>(line)?;
        let step = report.get("step").and_then(Value::as_f64);
        let step = step.with_context(|| format!("line {} has no step", line_idx + 1))?;
        ensure!(
            step >= last,
            "line {} is of step {step}, after {last}",
            line_idx + 1
        );
        last = step;
    }
    Ok(())
}

/// Every finished record stands between its length and a checksum that fits.
fn check_events(bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    while let Some((frame, data)) = rest.split_first_chunk::<12>() {
        let (length, checksum) = frame.split_at(8);
        ensure!(checksum == masked_crc32c(length), "a damaged length");
        let n_bytes = length.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
        let Some((data, checksum)) = data.split_at_checked(n_bytes) else {
            break; // torn
        };
        let Some((checksum, after)) = checksum.split_at_checked(4) else {
            break;
        };
        ensure!(checksum == masked_crc32c(data), "a damaged record");
        rest = after;
    }
    Ok(())
}

/// The checksum of TensorFlow's records.
fn masked_crc32c(bytes: &[u8]) -> [u8; 4] {
    let masked = crc32c::crc32c(bytes).rotate_right(15);
    masked.wrapping_add(0xa282_ead8).to_le_bytes()
}

/// XXH3 hash of a file, as the MANIFEST spells it.
fn xxh3(bytes: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths;

    fn safetensors(header: &str, n_bytes: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + n_bytes, 0);
        bytes
    }

    const TWO: &str = r#"{"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"__metadata__":{"x":"y"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;

    #[test]
    fn metrics_may_end_in_the_middle_of_a_line_only() {
        assert!(check_lines(b"{\"step\":1}\n{\"step\":2}\n{\"st").is_ok());
        assert!(check_lines(b"{\"step\":1}\n{\"st\n").is_err());
        assert!(check_lines(b"{\"step\":3}\n{\"step\":1}\n").is_err());
        assert!(check_lines(b"{\"step\":1}\n{\"loss\":1}\n").is_err());
    }

    #[test]
    fn events_may_end_in_the_middle_of_a_record_only() {
        let mut bytes = Vec::new();
        for data in [&b"123456789"[..], b""] {
            let length = (data.len() as u64).to_le_bytes();
            bytes.extend(length);
            bytes.extend(masked_crc32c(&length));
            bytes.extend_from_slice(data);
            bytes.extend(masked_crc32c(data));
        }
        let crc: u32 = 0xe306_9283; // of "123456789"
        let masked = crc.rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(bytes[21..25], masked.to_le_bytes());
        for n_bytes in 0..=bytes.len() {
            assert!(check_events(&bytes[..n_bytes]).is_ok(), "{n_bytes}");
        }
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 4;
            assert!(check_events(&damaged).is_err(), "byte {i}");
        }
    }

    #[test]
    fn a_checkpoint_is_what_its_manifest_says() {
        let name = format!("xtask-run-folder-test-{}", std::process::id());
        let folder = paths::target().join(name);
        let checkpoint = folder.join("checkpoint-0000000020");
        fs::create_dir_all(&checkpoint).unwrap();
        assert_eq!(check(&folder).unwrap().n_incomplete, 1);
        let state = safetensors(TWO, 12);
        fs::write(checkpoint.join("state.safetensors"), &state).unwrap();
        fs::write(checkpoint.join("run.json"), "{}").unwrap();
        let line = |file: &str, bytes: &[u8]| {
            let hash = xxh3(bytes);
            let n_bytes = bytes.len();
            format!("{{\"file\":\"{file}\",\"bytes\":{n_bytes},\"xxh3\":\"{hash}\"}}\n")
        };
        let manifest = line("state.safetensors", &state) + &line("run.json", b"{}");
        fs::write(checkpoint.join("MANIFEST"), &manifest).unwrap();
        fs::write(checkpoint.join(".run.json.1-0.tmp"), "{").unwrap();
        let found = check(&folder).unwrap();
        assert_eq!((found.n_checkpoints, found.n_temporary), (1, 1));
        fs::write(
            checkpoint.join("state.safetensors"),
            &state[..state.len() - 1],
        )
        .unwrap();
        assert!(check(&folder).is_err(), "torn tensors");
        fs::write(checkpoint.join("state.safetensors"), &state).unwrap();
        fs::write(checkpoint.join("run.json"), "[]").unwrap();
        assert!(check(&folder).is_err(), "another content");
        fs::write(checkpoint.join("run.json"), "{}").unwrap();
        fs::write(checkpoint.join("MANIFEST"), line("run.json", b"{}")).unwrap();
        assert!(check(&folder).is_err(), "a file that is not named");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn known_hashes() {
        assert_eq!(xxh3(b""), "2d06800538d394c2");
    }
}
