//! The flags of `shardgraph place` that say how a plan is made.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use shardgraph_costgraph::{DecoderKind, ModelOptions, Objective};
use shardgraph_device::DeviceKind;
use shardgraph_regal::{GeneticOptions, Method, PlaceOptions, Policy};

use crate::device_choice::open_device;
use crate::duration;
use crate::exit::BadInput;
use crate::report::ReportArgs;

/// What to minimise, as a flag.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ObjectiveChoice {
    Runtime,
    Memory,
    Throughput,
}

/// How a plan is made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchArgs {
    /// What to make small: the time from start to end, the largest memory in use on any device, or for throughput the time between
    /// micro-batches that follow one another through the devices
    #[arg(long, value_enum, value_name = "WHAT", default_value = "runtime")]
    objective: ObjectiveChoice,
    /// Method of the search: portfolio, brkga, tuned-brkga, seeded-brkga, rank-brkga, random, local-search, one-device, heft, list, multilevel, partition-dfs,
    /// xla-list, xla-post-order, greedy-memory or noisy-greedy-memory; tuned-brkga has the numbers that were best for the runtime of
    /// synthetic graphs, for --objective memory too [default: portfolio]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// A trained model: a policy or run folder of `place train`, or a shipped name: `runtime`, `low-budget`
    /// (for few evaluations, with --method regal) or `memory`. It proposes distributions to the genetic
    /// algorithm, for as many devices and the same objective as it was trained for. Its features take 400
    /// evaluations, those of `low-budget` one. --method is then portfolio (the default; a search with the
    /// proposals beside its others), seeded-regal, regal (the paper's) or idrs (no crossover)
    #[arg(long, value_name = "FILE|NAME")]
    model: Option<PathBuf>,
    /// Where to compute: the network of --model on host, emulated, cuda, cuda:N or auto (the first GPU if there is one), searches on
    /// the host [default: host]
    #[arg(
        help_heading = "Ranks and devices",
        long,
        value_name = "DEVICE",
        requires = "model"
    )]
    device: Option<DeviceKind>,
    /// How chromosomes become schedules: paper, flush, time-aware, time-aware-flush or list [default: list for the runtime, paper
    /// for memory; of portfolio several; of seeded-regal, regal and idrs what the
    /// model was trained with]
    #[arg(long, value_name = "DECODER", value_parser = decoder)]
    decoder: Option<DecoderKind>,
    /// Schedules that a search evaluates; the portfolio and pipelines search on two devices first, then on three, and so on, with 2 / k
    /// of them on k [default: 5000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    evaluations: Option<u64>,
    /// Seed of all that is random: of a generated graph too
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads: the plan does not depend on them [default: 1]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Longest time of a search; the plan is then the best so far, and no longer the same on every machine. The greedy methods stop
    /// to choose and take ops as they come
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    pub(crate) time_limit: Option<f64>,
    /// Join ops that lose nothing by running right after another before the search, and part them again afterwards, as the method
    /// portfolio always does
    #[arg(long)]
    contract: bool,
    /// Runs of noisy-greedy-memory [default: 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    greedy_runs: Option<u64>,
    #[command(flatten)]
    genetic: GeneticArgs,
}

/// The genetic algorithm's numbers.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Genetic algorithm (portfolio, brkga, seeded-brkga, rank-brkga, --model)"
)]
struct GeneticArgs {
    /// Chromosomes in a population [default: 50]
    #[arg(long, value_name = "N")]
    population: Option<u32>,
    /// The best of them, which live on [default: 10]
    #[arg(long, value_name = "N")]
    elites: Option<u32>,
    /// New random ones in each generation [default: 10]
    #[arg(long, value_name = "N")]
    mutants: Option<u32>,
    /// The probability that a child takes a key from its elite parent [default: 0.7]
    #[arg(long, value_name = "P")]
    rho: Option<f64>,
    /// Populations side by side, which share the evaluations [default: 1]
    #[arg(long, value_name = "N")]
    populations: Option<u32>,
    /// Generations after which the best of each population move to the others; 0 for never [default: 0]
    #[arg(long, value_name = "N")]
    migration_generations: Option<u32>,
    /// How many of each move [default: 2]
    #[arg(long, value_name = "N")]
    migrants: Option<u32>,
}

impl SearchArgs {
    /// Refuses flags that say nothing about the method that they stand beside, and numbers that the genetic algorithm refuses.
    pub(crate) fn check(&self, is_comparison: bool) -> Result<(), BadInput> {
        if self.is_throughput() {
            return self.check_throughput(is_comparison);
        }
        let method = self.method();
        let is_learned = Method::LEARNED.contains(&method);
        if is_comparison {
            self.check_comparison()?;
        } else if is_learned != self.model.is_some() && method != Method::Portfolio {
            let learned = Method::LEARNED.map(Method::name).join(", ");
            return Err(BadInput(match is_learned {
                true => format!("--method {method} needs --model"),
                false => format!(
                    "--model has the methods portfolio, {learned}, and --method {method} was asked for"
                ),
            }));
        } else {
            self.check_method(method)?;
        }
        self.genetic.check()
    }

    /// Whether micro-batches are to follow one another.
    pub(crate) fn is_throughput(&self) -> bool {
        matches!(self.objective, ObjectiveChoice::Throughput)
    }

    /// Pipelines have one method.
    fn check_throughput(&self, is_comparison: bool) -> Result<(), BadInput> {
        let given = [
            ("--compare", is_comparison),
            ("--method", self.method.is_some()),
            ("--model", self.model.is_some()),
            ("--decoder", self.decoder.is_some()),
            ("--threads", self.threads.is_some()),
            ("--contract", self.contract),
            ("--greedy-runs", self.greedy_runs.is_some()),
        ];
        let mut flags = given.into_iter().chain(self.genetic.given());
        match flags.find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((flag, _)) => Err(BadInput(format!(
                "{flag} says nothing about --objective throughput: leave it out"
            ))),
        }
    }

    /// The method asked for, or what is usual.
    fn method(&self) -> Method {
        self.method.unwrap_or_default()
    }

    /// What `--model` names: a file, or a policy that comes with the program.
    pub(crate) fn policy_file(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// The policy on its device, by the name of one that comes with the program, or from its file.
    pub(crate) fn policy(&self, report: &ReportArgs) -> anyhow::Result<Option<Policy>> {
        let Some(model) = &self.model else {
            return Ok(None);
        };
        let path = crate::output_file::model_file(model, "policy.safetensors");
        let policy = Policy::named(&path)?;
        let device = open_device(self.device.unwrap_or(DeviceKind::Host), report)?;
        Ok(Some(policy.on_device(&device)))
    }

    fn check_method(&self, method: Method) -> Result<(), BadInput> {
        let is_noisy = method == Method::NoisyGreedyMemory;
        let is_genetic = matches!(
            method,
            Method::Portfolio | Method::Brkga | Method::SeededBrkga | Method::RankBrkga
        ) || Method::LEARNED.contains(&method);
        let has_threads = is_genetic || method == Method::TunedBrkga;
        let given = [
            ("--decoder", self.decoder.is_some(), method.decodes()),
            (
                "--evaluations",
                self.evaluations.is_some(),
                method.searches(),
            ),
            (
                "--time-limit",
                self.time_limit.is_some(),
                method.heeds_deadline(),
            ),
            ("--threads", self.threads.is_some(), has_threads),
            ("--greedy-runs", self.greedy_runs.is_some(), is_noisy),
        ];
        let genetic = self.genetic.given();
        let genetic = genetic.map(|(flag, is_given)| (flag, is_given, is_genetic));
        let mut flags = given.into_iter().chain(genetic);
        match flags.find(|(_, is_given, applies)| *is_given && !applies) {
            None => Ok(()),
            Some((flag, ..)) if Method::LEARNED.contains(&method) => Err(BadInput(format!(
                "{flag} says nothing about --model: leave it out"
            ))),
            Some((flag, ..)) => Err(BadInput(format!(
                "{flag} says nothing about --method {method}: leave it out, or choose another method"
            ))),
        }
    }

    fn check_comparison(&self) -> Result<(), BadInput> {
        let flag = match (self.method, self.decoder) {
            (Some(_), _) => "--method",
            (None, Some(_)) => "--decoder",
            (None, None) => return Ok(()),
        };
        Err(BadInput(format!(
            "--compare goes through all methods and decoders: leave out {flag}"
        )))
    }

    /// The options of the library.
    pub(crate) fn options(&self, model: ModelOptions) -> PlaceOptions {
        let usual = PlaceOptions::default();
        PlaceOptions {
            objective: match self.objective {
                ObjectiveChoice::Runtime => Objective::Runtime,
                ObjectiveChoice::Memory => Objective::Memory,
                // Pipelines read no objective.
                ObjectiveChoice::Throughput => Objective::Runtime,
            },
            method: self.method(),
            decoder: self.decoder,
            evaluations: self.evaluations.unwrap_or(usual.evaluations),
            seed: self.seed,
            threads: self.threads.map_or(usual.threads, usize::from),
            contract: self.contract,
            greedy_runs: self.greedy_runs.unwrap_or(usual.greedy_runs),
            genetic: self.genetic.over(usual.genetic),
            model,
            ..usual
        }
    }
}

impl GeneticArgs {
    /// Refuses what the engine would refuse, before a graph is read, by the names of the flags.
    fn check(&self) -> Result<(), BadInput> {
        let genetic = self.over(GeneticOptions::default());
        if genetic.populations == 1 && (self.migration_generations, self.migrants) != (None, None) {
            let message = "--migration-generations and --migrants are about several populations: add --populations, or leave them out";
            return Err(BadInput(message.into()));
        }
        if genetic.migration_generations == 0 && self.migrants.is_some() {
            let message = "--migrants: no chromosome moves without --migration-generations: add it";
            return Err(BadInput(message.into()));
        }
        let usual = PlaceOptions::default();
        let config = genetic.config(usual.evaluations, usual.seed);
        config.check().map_err(|error| {
            // The engine's messages begin with the name of the field, which is the flag's.
            let message = error.to_string();
            let (field, rest) = message.split_once(' ').unwrap_or((&message, ""));
            BadInput(format!("--{} {rest}", field.replace('_', "-")))
        })
    }

    fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("--population", self.population.is_some()),
            ("--elites", self.elites.is_some()),
            ("--mutants", self.mutants.is_some()),
            ("--rho", self.rho.is_some()),
            ("--populations", self.populations.is_some()),
            (
                "--migration-generations",
                self.migration_generations.is_some(),
            ),
            ("--migrants", self.migrants.is_some()),
        ]
    }

    fn over(&self, usual: GeneticOptions) -> GeneticOptions {
        GeneticOptions {
            population: self.population.unwrap_or(usual.population),
            elites: self.elites.unwrap_or(usual.elites),
            mutants: self.mutants.unwrap_or(usual.mutants),
            rho: self.rho.unwrap_or(usual.rho),
            populations: self.populations.unwrap_or(usual.populations),
            migration_generations: self
                .migration_generations
                .unwrap_or(usual.migration_generations),
            migrants: self.migrants.unwrap_or(usual.migrants),
            ..usual
        }
    }
}

pub(crate) fn decoder(text: &str) -> Result<DecoderKind, String> {
    let found = DecoderKind::ALL
        .into_iter()
        .find(|kind| kind.name() == text);
    found.ok_or_else(|| {
        let names = DecoderKind::ALL.map(DecoderKind::name).join(", ");
        format!("expected one of {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_in_the_help_are_the_librarys() {
        let usual = PlaceOptions::default();
        assert_eq!((usual.evaluations, usual.greedy_runs), (5000, 20));
        assert_eq!(usual.threads, 1);
        assert_eq!(usual.method.name(), "portfolio");
        let genetic = GeneticOptions::default();
        let numbers = (genetic.population, genetic.elites, genetic.mutants);
        assert_eq!((numbers, genetic.populations), ((50, 10, 10), 1));
        assert_eq!((genetic.migration_generations, genetic.migrants), (0, 2));
        assert_eq!(genetic.rho.to_bits(), 0.7f64.to_bits());
    }

    #[test]
    fn every_decoder_has_its_name() {
        for kind in DecoderKind::ALL {
            assert_eq!(decoder(kind.name()), Ok(kind));
        }
        assert!(decoder("greedy").unwrap_err().contains("paper, flush"));
    }
}
