//! The command line, and the backends that figures by ranks can be measured with.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::python::NONE;

/// The program; `cargo xtask bench` and `cargo xtask repro` hand their words to it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Measures what benches/ defines")]
pub(crate) struct Program {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What is asked for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Redo figures of a paper and replace their records
    Repro {
        /// Paper: a folder of benches/, such as opengraphgym-mg
        paper: String,
        /// Figures: names of its definitions [default: all]
        figures: Vec<String>,
        #[command(flatten)]
        options: Options,
    },
    /// Measure suites and replace their records
    Bench {
        /// Suites: folders of benches/, or one figure as SUITE/FIGURE
        suites: Vec<String>,
        /// Show the figures in place of measuring
        #[arg(long)]
        list: bool,
        /// Make bench-results/README.md again from the records
        #[arg(long)]
        index: bool,
        #[command(flatten)]
        options: Options,
    },
    /// One process of a topology; started by the program itself
    #[command(hide = true)]
    Rank {
        /// Its settings as JSON
        request: String,
    },
}

/// Flags of a measurement. A figure that has no use for one leaves it aside.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// Small inputs and no record: the test of a definition
    #[arg(long)]
    pub(crate) test: bool,
    /// Name of the machine in the record [default: its host name]
    #[arg(long, value_name = "LABEL")]
    pub(crate) host: Option<String>,
    /// Runs of each point [default: the definition's]
    #[arg(long, value_name = "N")]
    pub(crate) runs: Option<u32>,
    /// Ranks of figures by ranks, as 1..6 or 1,2,4 [default: the definition's]
    #[arg(long, value_name = "LIST", value_parser = parse_ranks)]
    pub(crate) ranks: Option<Ranks>,
    /// How the ranks of a figure by ranks reach each other
    #[arg(long, value_enum, default_value_t)]
    pub(crate) backend: Backend,
    /// Most graphs of each set
    #[arg(long, value_name = "N")]
    pub(crate) graphs: Option<u32>,
    /// Time limit of each set, or of each problem
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Threads that search
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<u32>,
    /// Most nodes of a generated graph
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// This set of graphs alone
    #[arg(long, value_name = "NAME")]
    pub(crate) set: Option<String>,
    /// This objective alone
    #[arg(long, value_name = "NAME")]
    pub(crate) objective: Option<String>,
    /// No time limit and no seconds in the record: numbers that no load of the machine changes
    #[arg(long)]
    pub(crate) quality: bool,
    /// Without the learned policies
    #[arg(long)]
    pub(crate) no_learning: bool,
    /// Replace shipped files and fixtures by what came out
    #[arg(long)]
    pub(crate) accept: bool,
    /// Folder of bgs/ and am/, which the data folder lacks
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Python that has the packages of the peers, or none [default: an environment under target/]
    #[arg(long, value_name = "PYTHON")]
    pub(crate) peer_python: Option<String>,
    /// A program of yours as a peer: NAME=COMMAND with {edges} {out} {dim} {threads} {epochs}
    #[arg(long = "peer", value_name = "NAME=COMMAND", value_parser = parse_peer)]
    pub(crate) peers: Vec<(String, String)>,
    /// Folder that a bundle's run.sh has written on a machine with a GPU
    #[arg(long, value_name = "FOLDER")]
    pub(crate) results: Option<PathBuf>,
}

/// Numbers of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(pub(crate) Vec<u32>);

/// How ranks reach each other, in the words of `--backend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Threads of one process on the host
    #[default]
    Threads,
    /// Threads that share one GPU
    Local,
    /// Threads with a GPU each, over NCCL
    Nccl,
    /// Processes over TCP on this machine
    Tcp,
    /// Processes under mpiexec
    Mpi,
}

impl Backend {
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// Flags that a command takes for it beside `--ranks`.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Backend::Threads => &[],
            Backend::Local => &["--device", "cuda"],
            Backend::Nccl => &["--device", "cuda", "--comm", "nccl"],
            Backend::Tcp => &["--comm", "tcp"],
            Backend::Mpi => &["--comm", "mpi"],
        }
    }

    /// Whether each rank is a process, which a launcher starts.
    pub(crate) fn is_processes(self) -> bool {
        matches!(self, Backend::Tcp | Backend::Mpi)
    }

    /// Whether the ranks compute on a GPU.
    pub(crate) fn is_on_gpu(self) -> bool {
        matches!(self, Backend::Local | Backend::Nccl)
    }
}

impl Options {
    /// The flags as one types them, for the command of a record; folders are named by their role.
    pub(crate) fn shown(&self) -> String {
        let mut words = String::new();
        let mut flag = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.push_str(format!(" --{name} {value}").trim_end());
            }
        };
        let given = |is_given: bool| is_given.then(String::new);
        let ranks = |Ranks(all): &Ranks| {
            let all: Vec<String> = all.iter().map(u32::to_string).collect();
            all.join(",")
        };
        flag("ranks", self.ranks.as_ref().map(ranks));
        let is_other = self.backend != Backend::Threads;
        flag("backend", is_other.then(|| self.backend.name()));
        flag("runs", self.runs.map(|n| n.to_string()));
        flag("graphs", self.graphs.map(|n| n.to_string()));
        flag("seconds", self.seconds.map(|n| n.to_string()));
        flag("threads", self.threads.map(|n| n.to_string()));
        flag("nodes", self.nodes.map(|n| n.to_string()));
        flag("set", self.set.clone());
        flag("objective", self.objective.clone());
        flag("quality", given(self.quality));
        flag("no-learning", given(self.no_learning));
        flag("accept", given(self.accept));
        flag("data", self.data.as_ref().map(|_| "DIR".to_owned()));
        let python = self.peer_python.as_ref();
        flag("peer-python", python.map(|_| "PYTHON".to_owned()));
        for (name, _) in &self.peers {
            flag("peer", Some(format!("'{name}=COMMAND'")));
        }
        flag(
            "results",
            self.results.as_ref().map(|_| "FOLDER".to_owned()),
        );
        words
    }

    /// The interpreter of the flags, if they name one.
    pub(crate) fn interpreter(&self) -> Option<&str> {
        self.peer_python.as_deref().filter(|python| *python != NONE)
    }

    /// `small` in a test, else `usual`.
    pub(crate) fn sized<T>(&self, usual: T, small: T) -> T {
        if self.test { small } else { usual }
    }
}

fn parse_ranks(text: &str) -> Result<Ranks> {
    let one = |word: &str| -> Result<u32> {
        let number = word.trim().parse().ok().filter(|n| (1..=1024).contains(n));
        number.with_context(|| format!("expected 1..6 or 1,2,4, found {text:?}"))
    };
    let all: Vec<u32> = match text.split_once("..") {
        Some((first, last)) => (one(first)?..=one(last.trim_start_matches('='))?).collect(),
        None => text.split(',').map(one).collect::<Result<_>>()?,
    };
    ensure!(!all.is_empty(), "no number in {text:?}");
    Ok(Ranks(all))
}

fn parse_peer(text: &str) -> Result<(String, String)> {
    let parts = text
        .split_once('=')
        .filter(|(name, words)| !name.is_empty() && !words.trim().is_empty());
    let (name, command) = parts.with_context(|| format!("{text:?}: expected NAME=COMMAND"))?;
    Ok((name.to_owned(), command.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_ranges_or_lists() {
        assert_eq!(parse_ranks("1..3").unwrap().0, [1, 2, 3]);
        assert_eq!(parse_ranks("1..=2").unwrap().0, [1, 2]);
        assert_eq!(parse_ranks("1,4").unwrap().0, [1, 4]);
        for wrong in ["", "0", "3..1", "two", "1,"] {
            assert!(parse_ranks(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_records_command_names_no_folder() {
        let options = Options {
            runs: Some(3),
            data: Some(PathBuf::from("/somewhere")),
            backend: Backend::Tcp,
            ..Options::default()
        };
        assert_eq!(options.shown(), " --backend tcp --runs 3 --data DIR");
        assert_eq!(parse_peer("a=b {out}").unwrap().1, "b {out}");
        assert!(parse_peer("a=").is_err());
    }
}
