//! The file of `shardgraph train --config`: the names of the flags and of the training settings, as TOML or JSON.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use shardgraph_collectives::Deadline;
use shardgraph_device::DeviceKind;
use shardgraph_solver::Communication;
use shardgraph_solver::train::{Preset, TrainConfig};

use crate::deadline;
use crate::exit::BadInput;

/// What a config file says; everything may be absent.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// As `--ranks`.
    pub(crate) ranks: Option<u32>,
    /// As `--batch-ranks`.
    pub(crate) batch_ranks: Option<u32>,
    /// As `--communication`.
    pub(crate) communication: Option<Communication>,
    /// As `--out`.
    pub(crate) out: Option<PathBuf>,
    /// As `--preset`.
    pub(crate) preset: Option<Preset>,
    /// As `--device`.
    pub(crate) device: Option<DeviceKind>,
    /// As `--deadline`.
    pub(crate) deadline: Option<Deadline>,
    /// Fields of [`TrainConfig`], each of them valid.
    settings: Map<String, Value>,
}

impl ConfigFile {
    /// Reads a file: JSON if it is called so, else TOML.
    pub(crate) fn read(path: &Path) -> Result<Self, BadInput> {
        let mut file = Self::default();
        for (key, value) in keys(path)? {
            file.take(&key, value)
                .map_err(|why| BadInput(format!("{}: `{key}`: {why}", path.display())))?;
        }
        Ok(file)
    }

    fn take(&mut self, key: &str, value: Value) -> Result<(), String> {
        match key {
            "ranks" => self.ranks = Some(read(value)?),
            "batch_ranks" => self.batch_ranks = Some(read(value)?),
            "communication" => {
                let name: String = read(value)?;
                self.communication = Some(name.parse().map_err(|e| format!("{e}"))?);
            }
            "out" => self.out = Some(read(value)?),
            "preset" => self.preset = Some(read(value)?),
            "device" => {
                let name: String = read(value)?;
                self.device = Some(name.parse().map_err(|e| format!("{e}"))?);
            }
            "deadline" => {
                let deadline = deadline::of_seconds(read(value)?);
                let wrong = || "expected seconds, a number above 0".to_owned();
                self.deadline = Some(deadline.ok_or_else(wrong)?);
            }
            _ => {
                // Alone, so that the message is about this key.
                let alone = Map::from_iter([(key.to_owned(), value.clone())]);
                read::<TrainConfig>(Value::Object(alone))?;
                self.settings.insert(key.to_owned(), value);
            }
        }
        Ok(())
    }

    /// `base` with the file's settings over it.
    pub(crate) fn over(&self, base: TrainConfig) -> Result<TrainConfig, BadInput> {
        let wrong = |e: serde_json::Error| BadInput(format!("training settings: {e}"));
        let mut merged = serde_json::to_value(base).map_err(wrong)?;
        for (key, value) in &self.settings {
            merged[key] = value.clone();
        }
        serde_json::from_value(merged).map_err(wrong)
    }
}

/// The keys of a file and their values: JSON if it is called so, else TOML.
pub(crate) fn keys(path: &Path) -> Result<Map<String, Value>, BadInput> {
    let wrong = |what: &str| BadInput(format!("{}: {}", path.display(), what.trim_end()));
    if path.is_dir() {
        return Err(wrong("this is a folder: expected a file of settings"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => wrong("there is no such file"),
        _ => wrong(&e.to_string()),
    })?;
    let is_json = path
        .extension()
        .is_some_and(|extension| extension == "json");
    let keys: Map<String, Value> = match is_json {
        true => serde_json::from_str(&text).map_err(|e| wrong(&e.to_string()))?,
        false => toml::from_str(&text).map_err(|e| wrong(&e.to_string()))?,
    };
    // TOML has no null; nan and inf have no other place in JSON, where null would mean an absent setting.
    let infinite = if is_json { None } else { null_in(&keys) };
    match infinite {
        Some(key) => Err(wrong(&format!("`{key}`: expected a finite number"))),
        None => Ok(keys),
    }
}

/// The first key without a value, behind those of the tables that it is in.
fn null_in(keys: &Map<String, Value>) -> Option<String> {
    keys.iter().find_map(|(key, value)| match value {
        Value::Null => Some(key.clone()),
        Value::Object(inner) => Some(format!("{key}.{}", null_in(inner)?)),
        _ => None,
    })
}

pub(crate) fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> Result<ConfigFile, BadInput> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        ConfigFile::read(&path)
    }

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = "steps = 7\nranks = 2\npreset = 'paper'\ngraphs = ['er:9:0.5']\nlearning_rate = 0.1\n\
            adjacency_scale = 'largest-degree'\ndeadline = 3\nout = 'run'\ndevice = 'host'\n";
        let json = r#"{"steps": 7, "ranks": 2, "preset": "paper", "graphs": ["er:9:0.5"], "learning_rate": 0.1,
            "adjacency_scale": "largest-degree", "deadline": 3.0, "out": "run", "device": "host"}"#;
        for (name, text) in [("c.toml", toml), ("c.json", json)] {
            let file = read_text(name, text).unwrap();
            assert_eq!((file.ranks, file.preset), (Some(2), Some(Preset::Paper)));
            assert_eq!(file.out.as_deref(), Some(Path::new("run")));
            assert_eq!(file.device, Some(DeviceKind::Host));
            assert_eq!(file.deadline, deadline::of_seconds(3.0));
            let paper = TrainConfig::preset(Preset::Paper);
            let expected = TrainConfig {
                steps: 7,
                graphs: vec!["er:9:0.5".into()],
                learning_rate: 0.1,
                adjacency_scale: shardgraph_solver::AdjacencyScale::LargestDegree,
                ..paper.clone()
            };
            assert_eq!(file.over(paper).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let base = TrainConfig::preset(Preset::Default);
        let file = read_text("c.toml", "").unwrap();
        assert_eq!(file.over(base.clone()).unwrap(), base);
    }

    #[test]
    fn mistakes_are_named() {
        for (name, text, reasons) in [
            ("c.toml", "stepss = 1", ["`stepss`", "unknown field"]),
            ("c.toml", "steps = 'many'", ["`steps`", "invalid type"]),
            ("c.toml", "steps = -1", ["`steps`", "invalid value"]),
            ("c.toml", "steps = ", ["line 1", "c.toml"]),
            ("c.toml", "preset = 'best'", ["`preset`", "unknown variant"]),
            ("c.toml", "deadline = 0", ["`deadline`", "above 0"]),
            ("c.toml", "device = 'tpu'", ["`device`", "expected host"]),
            ("c.json", "{\"steps\": 1", ["line 1", "c.json"]),
            ("c.json", "[]", ["invalid type", "c.json"]),
        ] {
            let message = read_text(name, text).unwrap_err().to_string();
            for reason in reasons {
                assert!(message.contains(reason), "{text}: {message}");
            }
        }
        let missing = ConfigFile::read(Path::new("missing.toml")).unwrap_err();
        assert!(missing.to_string().starts_with("missing.toml: "));
    }
}
