//! `cargo xtask repro`: redoes a figure, a table or a shipped file of the project.

mod cover;
mod faults;
mod kills;
mod line;
mod model;
mod mvc_quality;
mod program;
mod ranks;
mod regal;
mod rgcn;
mod rgcn_peers;
mod rlgraph;
mod run_folder;
mod solver;
mod train_default;

use std::process::ExitCode;

pub(crate) use solver::test as test_solver;

use anyhow::{Context as _, Result, bail};
use lexopt::prelude::*;

/// One thing that can be redone.
struct Repro {
    name: &'static str,
    what: &'static str,
    run: fn(&Options) -> Result<ExitCode>,
}

const REPROS: [Repro; 47] = [
    Repro {
        name: "train-default",
        what: "train the policy that is shipped and compare it byte for byte [--accept: ship what came out]",
        run: train_default::run,
    },
    Repro {
        name: "mvc-quality",
        what: "cover sizes on the 10 + 10 test graphs: paper | ours | max-degree greedy | optimum",
        run: mvc_quality::run,
    },
    Repro {
        name: "faults",
        what: "seconds until all ranks know that one was killed or stopped [--runs N: of each kind]",
        run: faults::run,
    },
    Repro {
        name: "kills",
        what: "kill a training job at random moments and resume it to the same bytes [--runs N]",
        run: kills::run,
    },
    Repro {
        name: "model",
        what: "the cost model of the collectives against SimGrid and against a network of 1 Gbit/s",
        run: model::run,
    },
    Repro {
        name: "datasets",
        what: "REGAL's figures 5 and 6 and table 2: nodes, edges, diameters, the generator and its filter",
        run: regal::datasets,
    },
    Repro {
        name: "table1",
        what: "REGAL's table 1 on our graphs [--no-learning] [--set NAME] [--objective NAME] [--graphs N] [--seconds S] [--threads N] [--quality: no time limit, no seconds]",
        run: regal::table1,
    },
    Repro {
        name: "regal-learned",
        what: "REGAL's shipped policies at few evaluations, over slow links, on other sets and over the list decoder [--set NAME]",
        run: regal::learned,
    },
    Repro {
        name: "regal-fig2",
        what: "REGAL's figure 2: graphs by what the shipped policies improve [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-fig3",
        what: "REGAL's figure 3: improvement by evaluations, 1000 to 50000 [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-fig4",
        what: "REGAL's figure 4: entropies of placement actions, and the reward by rounds of messages [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-fig8",
        what: "REGAL's figure 8: rewards while training [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-fig11",
        what: "REGAL's figure 11: which actions ops take, and the bytes of those ops [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-fig12",
        what: "REGAL's figure 12: rewards by topology, over noisy copies [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-table4",
        what: "REGAL's table 4: placement actions, scheduling actions, both [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-few",
        what: "policies without a long search behind their features, at 50 to 1000 evaluations [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-generalise",
        what: "a policy trained on synthetic and torch graphs, on TensorFlow's and MSR's [--graphs N] [--threads N]",
        run: regal::experiment,
    },
    Repro {
        name: "regal-direct",
        what: "plans predicted directly, without a genetic algorithm at the end, on small graphs",
        run: regal::experiment,
    },
    Repro {
        name: "regal-policies",
        what: "train REGAL's shipped policies and compare them byte for byte [--accept: ship what came out]",
        run: train_default::regal,
    },
    Repro {
        name: "table3",
        what: "REGAL's table 3: seconds of every method, beside the engines of PyPI",
        run: regal::table3,
    },
    Repro {
        name: "tune",
        what: "the grid search of \"Tuned BRKGA\", on graphs that no table reports [--set NAME]",
        run: regal::tune,
    },
    Repro {
        name: "cp-sat",
        what: "optima by CP-SAT against the replay and the searches [--accept: make the fixtures]",
        run: regal::cp_sat,
    },
    Repro {
        name: "fig4a",
        what: "RLgraph's figure 4a: seconds that building a component and an agent takes",
        run: rlgraph::run,
    },
    Repro {
        name: "fig4b",
        what: "RLgraph's figure 4b: acting by number of environments: planned, define-by-run, by hand",
        run: rlgraph::run,
    },
    Repro {
        name: "fig5",
        what: "RLgraph's figure 5: Ape-X by number of actors, threads and processes, and 256 on paper",
        run: rlgraph::run,
    },
    Repro {
        name: "fig6a",
        what: "RLgraph's figure 6a: a single actor by task size and number of environments",
        run: rlgraph::run,
    },
    Repro {
        name: "fig6b",
        what: "RLgraph's figure 6b: returns by step, 10 seeds",
        run: rlgraph::run,
    },
    Repro {
        name: "fig7",
        what: "RLgraph's figure 7: one against two replicas of the learner",
        run: rlgraph::run,
    },
    Repro {
        name: "fig8",
        what: "RLgraph's figure 8: IMPALA by number of actors",
        run: rlgraph::run,
    },
    Repro {
        name: "line-fig3",
        what: "the hybrid LINE's figure 3: seconds on small graphs at equal work [--peer-python PYTHON: beside PyTorch] [--peer NAME=COMMAND: beside another program]",
        run: |options| line::run("line-fig3", options),
    },
    Repro {
        name: "line-fig4",
        what: "the hybrid LINE's figure 4: seconds on a medium graph, and the bytes of 2000 epochs in 10 s [--peer NAME=COMMAND: beside another program]",
        run: |options| line::run("line-fig4", options),
    },
    Repro {
        name: "line-fig5",
        what: "the hybrid LINE's figure 5: link prediction, and the seconds until a stated AUC [--peer NAME=COMMAND: beside another program]",
        run: |options| line::run("line-fig5", options),
    },
    Repro {
        name: "line-fig6",
        what: "the hybrid LINE's figure 6: seconds by number of columns",
        run: |options| line::run("line-fig6", options),
    },
    Repro {
        name: "line-fig7",
        what: "the hybrid LINE's figure 7: seconds by number of threads",
        run: |options| line::run("line-fig7", options),
    },
    Repro {
        name: "line-in-flight",
        what: "the hybrid LINE's remark on accuracy: AUC by the number of samples that see the same rows",
        run: |options| line::run("line-in-flight", options),
    },
    Repro {
        name: "line-quality",
        what: "LINE: AUC by variant of training (parts, precision, shared negatives, modes, optimisers)",
        run: |options| line::run("line-quality", options),
    },
    Repro {
        name: "solver-fig6",
        what: "OpenGraphGym-MG's figure 6: learning curves on ER and BA graphs",
        run: solver::run,
    },
    Repro {
        name: "solver-fig7",
        what: "OpenGraphGym-MG's figure 7: one node a step against several: seconds and cover sizes [--nodes N: no larger graphs] [--peer-python PYTHON|none]",
        run: solver::run,
    },
    Repro {
        name: "solver-fig8",
        what: "OpenGraphGym-MG's figure 8: learning by gradient iterations",
        run: solver::run,
    },
    Repro {
        name: "solver-fig9",
        what: "OpenGraphGym-MG's figure 9: seconds of an inference step on random graphs by ranks, beside PyTorch",
        run: solver::run,
    },
    Repro {
        name: "solver-fig10",
        what: "OpenGraphGym-MG's figure 10: seconds of an inference step on social networks by ranks",
        run: solver::run,
    },
    Repro {
        name: "solver-fig11",
        what: "OpenGraphGym-MG's figure 11: seconds of a training step by ranks, beside PyTorch",
        run: solver::run,
    },
    Repro {
        name: "solver-efficiency",
        what: "OpenGraphGym-MG's section 5.1: parallel efficiency, formula and measured",
        run: solver::run,
    },
    Repro {
        name: "solver-memory",
        what: "OpenGraphGym-MG's section 5.2: bytes of a rank, formula and measured",
        run: solver::run,
    },
    Repro {
        name: "rgcn-tables",
        what: "relations over devices: forward and backward by setting [--data DIR: of bgs/ and am/] [--peer-python PYTHON: beside PyG and DGL]",
        run: |options| rgcn::run("rgcn-tables", options),
    },
    Repro {
        name: "rgcn-fig5",
        what: "relations over devices, figure 5: epochs by ranks and by turns on one device [--data DIR]",
        run: |options| rgcn::run("rgcn-fig5", options),
    },
    Repro {
        name: "rgcn-partition",
        what: "relations over devices: cost, bytes and copies of each method of cutting [--data DIR]",
        run: |options| rgcn::run("rgcn-partition", options),
    },
];

/// What is redone, and what the flags say.
#[derive(Default)]
struct Options {
    /// Its name in [`REPROS`].
    name: &'static str,
    /// Replace the shipped files instead of failing when they differ.
    accept: bool,
    /// The machine's name in the record.
    host: Option<String>,
    /// How often, where the definition's number is not wanted.
    runs: Option<u32>,
    /// At most this many graphs of each set.
    graphs: Option<u32>,
    /// For each set, in place of the definition's number.
    seconds: Option<f64>,
    /// Threads that search.
    threads: Option<u32>,
    /// This set only.
    set: Option<String>,
    /// This objective only.
    objective: Option<String>,
    /// Without a time limit and without seconds in the record: what is left depends on seeds and evaluations, not on the load.
    quality: bool,
    /// Without the learned policy.
    no_learning: bool,
    /// A small run that leaves no record.
    test: bool,
    /// No generated graphs of more nodes, where the definition has larger ones.
    nodes: Option<u32>,
    /// A folder of data that the project does not have.
    data: Option<String>,
    /// An interpreter with PyTorch, for a peer.
    peer_python: Option<String>,
    /// Programs that the user has, by name, each with the words of its command.
    peers: Vec<(String, String)>,
}

impl Options {
    /// The command of a record.
    fn shown(&self, name: &str) -> String {
        let mut words = vec![format!("cargo xtask repro {name}")];
        let mut flag = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{flag} {value}").trim_end().to_owned()));
        };
        let given = |is_given: bool| is_given.then(String::new);
        flag("--no-learning", given(self.no_learning));
        flag("--accept", given(self.accept));
        flag("--test", given(self.test));
        flag("--quality", given(self.quality));
        flag("--set", self.set.clone());
        flag("--objective", self.objective.clone());
        flag("--data", self.data.as_ref().map(|_| "DIR".to_owned()));
        flag(
            "--peer-python",
            self.peer_python.as_ref().map(|_| "PYTHON".to_owned()),
        );
        for (name, _) in &self.peers {
            flag("--peer", Some(format!("'{name}=COMMAND'")));
        }
        flag("--nodes", self.nodes.map(|n| n.to_string()));
        flag("--runs", self.runs.map(|n| n.to_string()));
        flag("--graphs", self.graphs.map(|n| n.to_string()));
        flag("--seconds", self.seconds.map(|n| n.to_string()));
        flag("--threads", self.threads.map(|n| n.to_string()));
        words.join(" ")
    }
}

/// The names, for the check that documents name only what exists.
pub(crate) fn names() -> Vec<&'static str> {
    REPROS.iter().map(|repro| repro.name).collect()
}

/// Runs the command.
pub(crate) fn run(mut args: lexopt::Parser) -> Result<ExitCode> {
    let (mut names, mut options) = (Vec::new(), Options::default());
    while let Some(arg) = args.next()? {
        match arg {
            Value(value) => names.push(value.string()?),
            Long("list") => return list(),
            Long("accept") => options.accept = true,
            Long("runs") => options.runs = Some(args.value()?.parse()?),
            Long("graphs") => options.graphs = Some(args.value()?.parse()?),
            Long("seconds") => options.seconds = Some(args.value()?.parse()?),
            Long("nodes") => options.nodes = Some(args.value()?.parse()?),
            Long("threads") => options.threads = Some(args.value()?.parse()?),
            Long("set") => options.set = Some(args.value()?.string()?),
            Long("objective") => options.objective = Some(args.value()?.string()?),
            Long("quality") => options.quality = true,
            Long("no-learning") => options.no_learning = true,
            Long("test") => options.test = true,
            Long("data") => options.data = Some(args.value()?.string()?),
            Long("peer-python") => options.peer_python = Some(args.value()?.string()?),
            Long("peer") => options.peers.push(peer(&args.value()?.string()?)?),
            Long("host") => options.host = Some(args.value()?.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    if names.is_empty() {
        bail!("give a name: `cargo xtask repro --list` shows them");
    }
    let repros: Vec<&Repro> = names
        .iter()
        .map(|name| named(name))
        .collect::<Result<_>>()?;
    let mut code = ExitCode::SUCCESS;
    for repro in repros {
        options.name = repro.name;
        let outcome = (repro.run)(&options)?;
        if outcome != ExitCode::SUCCESS {
            code = outcome;
        }
    }
    Ok(code)
}

/// A name and a command.
fn peer(text: &str) -> Result<(String, String)> {
    let parts = text
        .split_once('=')
        .filter(|(name, words)| !name.is_empty() && !words.trim().is_empty());
    let (name, command) =
        parts.with_context(|| format!("--peer {text:?}: expected NAME=COMMAND"))?;
    Ok((name.to_owned(), command.to_owned()))
}

fn named(name: &str) -> Result<&'static Repro> {
    let found = REPROS.iter().find(|repro| repro.name == name);
    found.with_context(|| format!("no {name:?}: `cargo xtask repro --list` shows the names"))
}

fn list() -> Result<ExitCode> {
    for repro in &REPROS {
        println!("{:<14} {}", repro.name, repro.what);
    }
    Ok(ExitCode::SUCCESS)
}
