//! `shardgraph agent`: reinforcement-learning agents, trained and evaluated from settings in a file or by name.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use shardgraph_agents::{AgentConfig, Start};

use crate::agent_eval::{self, EvalArgs};
use crate::agent_sweep::{self, SweepArgs};
use crate::agent_train::{self, TrainArgs};
use crate::exit::BadInput;
use crate::report::{ReportArgs, print};

const EXAMPLE: &str = "\
Examples:
  shardgraph agent list
  shardgraph agent show cartpole-ppo > my.toml
  shardgraph agent train cartpole-dqn --seed 1 --run my-agent
  shardgraph agent train settings.toml --steps 20000 --format json
  shardgraph agent eval my-agent --episodes 100
  shardgraph agent sweep cartpole-ppo --repeats 10 --svg curves.svg";

/// Train and evaluate reinforcement-learning agents
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Train(Box<TrainArgs>),
    Eval(EvalArgs),
    Sweep(Box<SweepArgs>),
    Show(ShowArgs),
    List(ListArgs),
}

/// Print the settings that come with the program
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    report: ReportArgs,
}

/// Print settings as a TOML file in which every one is explained
#[derive(Debug, Args)]
struct ShowArgs {
    /// The settings: a file, a name, or the folder of a run
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let config = match run_config(&args.config)? {
        Some(config) => config,
        None => settings(&args.config)?,
    };
    print(&config.to_documented_toml()?)?;
    Ok(())
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

/// Runs one of the subcommands.
pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<()> {
    match &args.command {
        AgentCommand::Train(args) => agent_train::run(args),
        AgentCommand::Eval(args) => agent_eval::run(args),
        AgentCommand::Sweep(args) => agent_sweep::run(args),
        AgentCommand::Show(args) => show(args),
        AgentCommand::List(args) => args.report.answer(&list()),
    }
}

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

/// What `list` prints.
#[derive(Serialize)]
struct Listing {
    agents: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    settings: AgentConfig,
}

fn list() -> Listing {
    let listed = |(name, about)| {
        let settings = AgentConfig::named(name)?;
        Some(Listed {
            name,
            about,
            settings,
        })
    };
    Listing {
        agents: AgentConfig::names().filter_map(listed).collect(),
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for agent in &self.agents {
            let settings = serde_json::to_string(&agent.settings).map_err(|_| fmt::Error)?;
            writeln!(f, "{}: {}\n  {settings}", agent.name, agent.about)?;
        }
        Ok(())
    }
}
