//! The ranks of a topology as processes of this program on one machine. This process is the learner.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};
use shardgraph_agents::{
    AgentConfig, Algorithm, RunOptions, Start, TrainOutcome, train_by_messages,
};
use shardgraph_collectives::Timeout;
use shardgraph_collectives::messages::{Limits, Mailbox};
use shardgraph_collectives::tcp::TcpConfig;
use shardgraph_device::Timer;

use crate::report::Failure;

/// What a process is told.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rank {
    config: AgentConfig,
    rank: u32,
    size: u32,
    /// Where the learner listens.
    port: u16,
}

/// Processes that end with this value.
struct Others(Vec<Child>);

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill(); // fails where it has ended, as it should have
            let _ = child.wait();
        }
    }
}

/// A run and its seconds, from the start of the first process to the end of the last.
pub(super) fn train(config: AgentConfig) -> Result<(TrainOutcome, f64), Failure> {
    let size = match &config.algorithm {
        Algorithm::Apex(apex) => apex.n_ranks(),
        Algorithm::Impala(impala) => impala.n_ranks(),
        other => return Err(format!("{} has no ranks", other.name()).into()),
    };
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let mut learner = Rank {
        config,
        rank: 0,
        size,
        port,
    };
    let mailbox = learner.join()?;
    let timer = Timer::wall();
    let mut others = Others(Vec::new());
    for rank in 1..size {
        learner.rank = rank;
        others.0.push(learner.start()?);
    }
    let start = learner.run_start();
    let outcome = train_by_messages(mailbox, &start, &RunOptions::default(), &mut |_| ())?;
    for (rank, child) in (1..).zip(&mut others.0) {
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("the process of rank {rank} ended with {status}").into());
        }
    }
    Ok((
        outcome.ok_or("the learner has no outcome")?,
        timer.elapsed_s(),
    ))
}

/// Runs as one of the others.
pub(super) fn run_rank(rank: &Rank) -> Result<(), Failure> {
    let (mailbox, start) = (rank.join()?, rank.run_start());
    train_by_messages(mailbox, &start, &RunOptions::default(), &mut |_| ())?;
    Ok(())
}

impl Rank {
    fn join(&self) -> Result<Mailbox, Failure> {
        let config = TcpConfig {
            rank: self.rank,
            size: self.size,
            master_addr: "127.0.0.1".to_owned(),
            master_port: self.port,
            job: "paper".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            timeout: Timeout::default(),
            secret: None,
        };
        Ok(Mailbox::join(&config, Limits::default())?)
    }

    /// Starts a process that is this rank. What it prints on standard output is no row of a table.
    fn start(&self) -> Result<Child, Failure> {
        let request = serde_json::to_string(self)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["rank", &request]).stdout(Stdio::null());
        Ok(command.spawn()?)
    }

    fn run_start(&self) -> Start {
        Start::New {
            config: self.config.clone(),
            folder: None,
        }
    }
}
