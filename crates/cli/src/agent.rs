//! `shardgraph agent`: reinforcement-learning agents, trained and evaluated from settings in a file or by name.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use shardgraph_agents::AgentConfig;
use shardgraph_environments::{ENVIRONMENTS, NamedEnvironment};

use crate::agent_eval::{self, EvalArgs};
use crate::agent_settings::{run_config, settings};
use crate::agent_sweep::{self, SweepArgs};
use crate::agent_train::{self, TrainArgs};
use crate::report::{ReportArgs, print};
use crate::text::Layout;

const EXAMPLE: &str = "\
Examples:
  shardgraph agent list
  shardgraph agent show cartpole-ppo > my.toml
  shardgraph agent show dqn --environment clique > my.toml
  shardgraph agent train cartpole-dqn --seed 1 --run my-agent
  shardgraph agent train ppo --environment vertex-cover
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
    /// The environment of an algorithm's settings, where CONFIG is its name
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let of_run = match args.environment {
        None => run_config(&args.config)?,
        Some(_) => None,
    };
    let config = match of_run {
        Some(config) => config,
        None => settings(&args.config, args.environment.as_deref())?,
    };
    print(&config.to_documented_toml()?)?;
    Ok(())
}

/// Runs one of the subcommands.
pub(crate) fn run(args: &AgentArgs) -> anyhow::Result<()> {
    match &args.command {
        AgentCommand::Train(args) => agent_train::run(args),
        AgentCommand::Eval(args) => agent_eval::run(args),
        AgentCommand::Sweep(args) => agent_sweep::run(args),
        AgentCommand::Show(args) => show(args),
        AgentCommand::List(args) => args.report.answer(&list(), &Layout::default()),
    }
}

/// What `list` prints.
#[derive(Serialize)]
struct Listing {
    agents: Vec<Listed>,
    environments: Vec<ListedEnvironment>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    settings: AgentConfig,
}

#[derive(Serialize)]
struct ListedEnvironment {
    name: &'static str,
    about: &'static str,
    /// As TOML, with their defaults.
    options: &'static str,
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
    let known = |known: &NamedEnvironment| ListedEnvironment {
        name: known.name,
        about: known.about,
        options: known.options,
    };
    Listing {
        agents: AgentConfig::names().filter_map(listed).collect(),
        environments: ENVIRONMENTS.iter().map(known).collect(),
    }
}
