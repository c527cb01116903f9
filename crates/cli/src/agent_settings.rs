//! The settings that an argument names: a file, a name, or the folder of a run.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use shardgraph_agents::{AgentConfig, Start};
use shardgraph_environments::ENVIRONMENTS;

use crate::exit::BadInput;
use crate::input_file::nearest;

/// The settings that a command starts from.
#[derive(Debug, Args)]
pub(crate) struct SettingsArgs {
    /// The settings: a file, or a name
    #[arg(
        help_heading = "Input",
        value_name = "CONFIG",
        required_unless_present = "resume"
    )]
    pub(crate) config: Option<PathBuf>,
    /// The environment of an algorithm's settings, where CONFIG is its name
    #[arg(help_heading = "Input", long, value_name = "NAME", requires = "config")]
    pub(crate) environment: Option<String>,
    /// A setting and its value, as TOML writes it; `agent sweep` compares several, with commas between; may be given again
    #[arg(
        help_heading = "Method",
        long = "set",
        value_name = "SETTING=VALUE",
        requires = "config"
    )]
    pub(crate) sets: Vec<String>,
}

/// The settings of a file, or of a name where there is no such file: that of settings, of an
/// environment, or of an algorithm, for which `environment` is the environment.
pub(crate) fn settings(
    file_or_name: &Path,
    environment: Option<&str>,
) -> anyhow::Result<AgentConfig> {
    // A folder of this name, such as one that `--run` made, is no file of settings.
    let is_file = file_or_name.exists() && !file_or_name.is_dir();
    let name = file_or_name.to_str().filter(|_| !is_file);
    match (name, environment) {
        (Some(name), Some(environment)) => of_algorithm(name, environment),
        (None, Some(_)) => {
            let text = "a file of settings names its environment: leave out --environment";
            Err(BadInput(text.to_owned()).into())
        }
        (None, None) => Ok(AgentConfig::read(file_or_name)?),
        (Some(name), None) => of_name(name, file_or_name),
    }
}

fn of_name(name: &str, path: &Path) -> anyhow::Result<AgentConfig> {
    if let Some(config) = AgentConfig::named(name) {
        return Ok(config);
    }
    if ENVIRONMENTS.iter().any(|known| known.name == name) {
        return Ok(AgentConfig::of_environment(name));
    }
    if AgentConfig::algorithms().any(|known| known == name) {
        let names = ENVIRONMENTS.map(|known| known.name).join(", ");
        let text = format!("{name}: expected an environment beside it: --environment with {names}");
        return Err(BadInput(text).into());
    }
    if path.is_dir() {
        return Ok(AgentConfig::read(path)?);
    }
    let names: Vec<&str> = AgentConfig::names().map(|(name, _)| name).collect();
    let near = nearest(name, names.iter().map(|&known| known.to_owned()));
    let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    Err(BadInput(format!(
        "{name}: there is no such file, and no settings of this name{hint} (expected a .toml or .json file or one of {})",
        names.join(", ")
    ))
    .into())
}

fn of_algorithm(name: &str, environment: &str) -> anyhow::Result<AgentConfig> {
    AgentConfig::for_environment(name, environment).ok_or_else(|| {
        let names: Vec<&str> = AgentConfig::algorithms().collect();
        let names = names.join(", ");
        BadInput(format!(
            "{name} with --environment: expected an algorithm, one of {names}"
        ))
        .into()
    })
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

/// A setting's name and one of its values.
pub(crate) type Chosen = (String, Value);

/// Every choice of one value of each setting; one empty choice where there are none.
pub(crate) fn combinations(sets: &[String]) -> anyhow::Result<Vec<Vec<Chosen>>> {
    let mut all = vec![Vec::new()];
    for set in sets {
        let wrong = || {
            BadInput(format!(
                "--set {set}: expected SETTING=V1,V2,... with values as TOML writes them (text in quotes)"
            ))
        };
        let (name, values) = set.split_once('=').ok_or_else(wrong)?;
        let text = format!("values = [{values}]");
        let mut table: serde_json::Map<String, Value> =
            toml::from_str(&text).map_err(|_| wrong())?;
        let Some(Value::Array(values)) = table.remove("values").filter(|_| !name.is_empty()) else {
            return Err(wrong().into());
        };
        if values.is_empty() {
            return Err(wrong().into());
        }
        let extended = all.iter().flat_map(|before: &Vec<Chosen>| {
            values.iter().map(move |value| {
                let mut chosen = before.clone();
                chosen.push((name.to_owned(), value.clone()));
                chosen
            })
        });
        all = extended.collect();
    }
    Ok(all)
}

/// The settings with some of them changed.
pub(crate) fn with_settings(base: &AgentConfig, chosen: &[Chosen]) -> anyhow::Result<AgentConfig> {
    let mut value: Value = serde_json::from_str(&serde_json::to_string(base)?)?;
    for (name, to) in chosen {
        let mut place = &mut value;
        for part in name.split('.') {
            if place.is_null() {
                *place = Value::Object(serde_json::Map::new());
            }
            let Value::Object(table) = place else {
                return Err(BadInput(format!("--set {name}: there is no such setting")).into());
            };
            place = table.entry(part).or_insert(Value::Null);
        }
        *place = to.clone();
    }
    let config = AgentConfig::from_json(&value.to_string())
        .map_err(|error| BadInput(format!("--set {}: {error}", name_of(chosen))))?;
    config.check()?;
    Ok(config)
}

/// The settings with some of them changed, each to the one value that it is given.
pub(crate) fn with_one_of_each(base: &AgentConfig, sets: &[String]) -> anyhow::Result<AgentConfig> {
    match combinations(sets)?.as_slice() {
        [chosen] if chosen.is_empty() => Ok(base.clone()),
        [chosen] => with_settings(base, chosen),
        _ => {
            let text = "--set: expected one value; `agent sweep` trains with several";
            Err(BadInput(text.to_owned()).into())
        }
    }
}

pub(crate) fn name_of(chosen: &[Chosen]) -> String {
    let parts: Vec<String> = chosen
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(sets: &[&str]) -> Vec<String> {
        sets.iter().map(|&set| set.to_owned()).collect()
    }

    #[test]
    fn every_combination_is_made() {
        let all = combinations(&sets(&["a.b=1,2", "c=[1, 2],[3]", "d=\"x\""])).unwrap();
        let names: Vec<String> = all.iter().map(|chosen| name_of(chosen)).collect();
        let expected = [
            "a.b=1 c=[1,2] d=\"x\"",
            "a.b=1 c=[3] d=\"x\"",
            "a.b=2 c=[1,2] d=\"x\"",
            "a.b=2 c=[3] d=\"x\"",
        ];
        assert_eq!(names, expected);
        assert_eq!(combinations(&[]).unwrap(), [vec![]]);
        for wrong in ["a", "=1", "a=", "a=ppo", "a=[1"] {
            assert!(combinations(&sets(&[wrong])).is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_are_changed_or_refused() {
        let base = AgentConfig::named("cartpole-dqn").unwrap();
        let with = |set: &str| with_settings(&base, &combinations(&sets(&[set])).unwrap()[0]);
        let changed = with("algorithm.exploration.end=0.125").unwrap();
        assert_ne!(changed, base);
        assert!(
            changed
                .to_documented_toml()
                .unwrap()
                .contains("end = 0.125")
        );
        for (wrong, what) in [
            ("algorithm.gama=0.5", "unknown field `gama`"),
            ("algorithm.gamma=2", "`algorithm.gamma`: expected 0 to 1"),
            ("steps.many=2", "no such setting"),
        ] {
            let message = with(wrong).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
        }
    }

    #[test]
    fn a_name_means_settings_an_environment_or_an_algorithm() {
        let of = |name: &str, environment: Option<&str>| settings(Path::new(name), environment);
        let acrobot = of("acrobot", None).unwrap();
        assert_eq!(acrobot, of("acrobot-ppo", None).unwrap());
        assert_eq!(acrobot, of("ppo", Some("acrobot")).unwrap());
        for known in ENVIRONMENTS {
            assert_eq!(of(known.name, None).unwrap().environment.name, known.name);
        }
        for (name, environment, part) in [
            ("ppo", None, "--environment with acrobot, "),
            ("no-such", None, "one of acrobot-ppo, "),
            (
                "acrobot-ppo",
                Some("taxi"),
                "apex, dqn, impala, ppo, reinforce, sac",
            ),
            ("Cargo.toml", Some("taxi"), "leave out --environment"),
        ] {
            let message = of(name, environment).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn options_of_an_environment_can_be_set() {
        let base = AgentConfig::named("vertex-cover-ppo").unwrap();
        let sets = sets(&["environment.options.graphs=\"er:10:0.3\""]);
        let config = with_settings(&base, &combinations(&sets).unwrap()[0]).unwrap();
        assert_eq!(config.environment.options["graphs"], "er:10:0.3");
    }
}
