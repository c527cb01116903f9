//! The settings that an argument names: a file, a name, or the folder of a run.

use std::path::Path;

use shardgraph_agents::{AgentConfig, Start};

use crate::exit::BadInput;

/// The settings of a file, or of a name where there is no such file.
pub(crate) fn settings(file_or_name: &Path) -> anyhow::Result<AgentConfig> {
    let named = file_or_name.to_str().and_then(AgentConfig::named);
    match named {
        // A folder of this name, such as one that `--run` made, is no file of settings.
        Some(config) if !file_or_name.exists() || file_or_name.is_dir() => Ok(config),
        _ if file_or_name.exists() => Ok(AgentConfig::read(file_or_name)?),
        _ => {
            let names: Vec<&str> = AgentConfig::names().map(|(name, _)| name).collect();
            Err(BadInput(format!(
                "{}: there is no such file, and no settings of this name: expected a .toml or .json file or one of {}",
                file_or_name.display(),
                names.join(", ")
            ))
            .into())
        }
    }
}

/// The settings of a run that ended, by its folder; `None` for anything else.
pub(crate) fn run_config(folder: &Path) -> anyhow::Result<Option<AgentConfig>> {
    if !folder.join("weights.safetensors").is_file() {
        return Ok(None);
    }
    let start = Start::Resumed {
        folder: folder.to_owned(),
    };
    Ok(Some(start.config()?))
}
