//! The file of `shardgraph train --config`: the names of the flags and of the training settings, as TOML or JSON.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use shardgraph_collectives::Timeout;
use shardgraph_device::DeviceKind;
use shardgraph_solver::Communication;
use shardgraph_solver::train::{Preset, TrainConfig};

use crate::duration;
use crate::exit::BadInput;
use crate::settings_file::{self, SettingsFile};

/// The keys that are flags of the command alone.
const FLAGS: [&str; 7] = [
    "ranks",
    "batch_ranks",
    "communication",
    "run",
    "preset",
    "device",
    "timeout",
];

/// What a config file says; everything may be absent.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// As `--ranks`.
    pub(crate) ranks: Option<u32>,
    /// As `--batch-ranks`.
    pub(crate) batch_ranks: Option<u32>,
    /// As `--communication`.
    pub(crate) communication: Option<Communication>,
    /// As `--run`.
    pub(crate) run: Option<PathBuf>,
    /// As `--preset`.
    pub(crate) preset: Option<Preset>,
    /// As `--device`.
    pub(crate) device: Option<DeviceKind>,
    /// As `--timeout`.
    pub(crate) timeout: Option<Timeout>,
    /// The whole file, with the fields of [`TrainConfig`].
    settings: Option<SettingsFile>,
}

impl ConfigFile {
    /// Reads a file: JSON if it is called so, else TOML.
    pub(crate) fn read(path: &Path) -> Result<Self, BadInput> {
        let settings = SettingsFile::read(path)?;
        let mut file = Self::default();
        for (key, value) in settings.keys() {
            file.take(key, value.clone())
                .map_err(|why| settings.wrong(key, &why))?;
        }
        settings.over(&TrainConfig::default(), is_setting)?;
        file.settings = Some(settings);
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
            "run" => self.run = Some(read(value)?),
            "preset" => self.preset = Some(read(value)?),
            "device" => {
                let name: String = read(value)?;
                self.device = Some(name.parse().map_err(|e| format!("{e}"))?);
            }
            "timeout" => {
                // A number is seconds, a text has its unit.
                let text = match value {
                    Value::String(text) => text,
                    number => number.to_string(),
                };
                self.timeout = Some(duration::timeout(&text)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// `base` with the file's settings over it, and those of `flags` over these, checked.
    pub(crate) fn over(
        &self,
        base: &TrainConfig,
        flags: impl Fn(&mut TrainConfig),
    ) -> anyhow::Result<TrainConfig> {
        let make = |settings: Option<&SettingsFile>| {
            let mut config = match settings {
                Some(settings) => settings.over(base, is_setting)?,
                None => base.clone(),
            };
            flags(&mut config);
            Ok(config)
        };
        settings_file::checked(self.settings.as_ref(), make, TrainConfig::check)
    }
}

/// Whether a key is one of [`TrainConfig`]'s, or no key at all.
fn is_setting(key: &str) -> bool {
    !FLAGS.contains(&key)
}

fn read<T: for<'de> Deserialize<'de>>(value: Value) -> Result<T, String> {
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
            adjacency_scale = 'largest-degree'\ntimeout = 3\nrun = 'run'\ndevice = 'host'\n";
        let json = r#"{"steps": 7, "ranks": 2, "preset": "paper", "graphs": ["er:9:0.5"], "learning_rate": 0.1,
            "adjacency_scale": "largest-degree", "timeout": "3s", "run": "run", "device": "host"}"#;
        for (name, text) in [("c.toml", toml), ("c.json", json)] {
            let file = read_text(name, text).unwrap();
            assert_eq!((file.ranks, file.preset), (Some(2), Some(Preset::Paper)));
            assert_eq!(file.run.as_deref(), Some(Path::new("run")));
            assert_eq!(file.device, Some(DeviceKind::Host));
            assert_eq!(file.timeout, duration::timeout("3").ok());
            let paper = TrainConfig::preset(Preset::Paper);
            let expected = TrainConfig {
                steps: 7,
                graphs: vec!["er:9:0.5".into()],
                learning_rate: 0.1,
                adjacency_scale: shardgraph_solver::AdjacencyScale::LargestDegree,
                ..paper.clone()
            };
            assert_eq!(file.over(&paper, |_| {}).unwrap(), expected);
        }
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let base = TrainConfig::preset(Preset::Default);
        let file = read_text("c.toml", "").unwrap();
        assert_eq!(file.over(&base, |_| {}).unwrap(), base);
    }

    #[test]
    fn mistakes_are_named() {
        for (name, text, reasons) in [
            ("c.toml", "stepss = 1", ["`stepss`", "unknown field"]),
            (
                "c.toml",
                "\nsteps = 'many'",
                ["c.toml:2: `steps`", "invalid type"],
            ),
            ("c.toml", "steps = -1", ["`steps`", "invalid value"]),
            ("c.toml", "steps = ", ["c.toml:1:9", "value"]),
            ("c.toml", "preset = 'best'", ["`preset`", "unknown variant"]),
            ("c.toml", "timeout = 0", ["`timeout`", "above 0"]),
            ("c.toml", "device = 'tpu'", ["`device`", "expected host"]),
            ("c.json", "{\"steps\": 1", ["c.json:1:11", "EOF"]),
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
