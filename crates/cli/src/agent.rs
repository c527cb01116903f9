//! `shardgraph agent`: reinforcement-learning agents, trained and evaluated from settings in a file or by name.

use std::fmt;
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;
use shardgraph_agents::AgentConfig;

use crate::agent_eval::{self, EvalArgs};
use crate::agent_train::{self, TrainArgs};
use crate::exit::BadInput;
use crate::report::ReportArgs;

const EXAMPLE: &str = "\
Examples:
  shardgraph agent list
  shardgraph agent train cartpole-dqn --seed 1 --run my-agent
  shardgraph agent train settings.toml --steps 20000 --format json
  shardgraph agent eval cartpole-dqn --model my-agent/weights.safetensors --episodes 100";

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
    List(ListArgs),
}

/// Print the settings that come with the program
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs one of the subcommands.
pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<()> {
    match &args.command {
        AgentCommand::Train(args) => agent_train::run(args),
        AgentCommand::Eval(args) => agent_eval::run(args),
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
