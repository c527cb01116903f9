//! `shardgraph rgcn train`: a model for each seed, and how well they do.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::{Comm, Op, Timeout};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_metrics::{mean_and_std, t_interval};
use shardgraph_rgcn::import::{ImportReport, LabelledNodes};
use shardgraph_rgcn::partition::Method;
use shardgraph_rgcn::{
    Config, DeviceMemory, EpochReport, Error, Evaluation, Execution, Labels, LinkOptions, Outcome,
    RankTime, RunOptions, train, train_as_rank,
};

use super::accuracy::{accuracy_of, shown_accuracy, write_evaluation};
use super::curve;
use super::data::{Data, DataArgs};
use super::links::{self, LinkArgs, LinkTraining, Task};
use super::settings::SettingsArgs;
use crate::exit::BadInput;
use crate::peak_memory::peak_memory;
use crate::progress::Progress;
use crate::quantity;
use crate::report::ReportArgs;
use crate::world::{World, WorldArgs, settle};
use crate::{duration, output_file};

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn train aifb_stripped.nt.gz --train trainingSet.tsv --test testSet.tsv --node-column person --class-column label_affiliation --repeats 10
  shardgraph rgcn train triples.int.csv.gz --train training.int.csv --test testing.int.csv --run my-run --ranks 2
  shardgraph rgcn train triples.int.csv.gz --train training.int.csv --test testing.int.csv --run my-run --resume --epochs 80
  shardgraph rgcn train FB15k-237.tar.gz --task links --ranks 2 --run links
  shardgraph rgcn train ba-rel:20000:2.5:20 --preset paper --hidden 10 --mode full --epochs 5

The folder gets metrics.jsonl with one line an epoch, the same as events.out.tfevents.* for TensorBoard, and checkpoints, for
`rgcn eval`, `rgcn predict` and --resume. Ranks share the nodes and messages; with exact sums their number changes no bit. Under
mpirun, srun or torchrun each process is a rank, and the first alone prints and writes.";

/// Train an R-GCN that classifies nodes, or with --task links one that predicts links
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    links: LinkArgs,
    /// Repeats: models to train, each with the next seed
    #[arg(help_heading = "Method", long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "run")]
    repeats: u32,
    /// Hold back this share of each class's training labels to find the number of epochs, then train on all of them for as many
    #[arg(help_heading = "Method", long, value_name = "SHARE", conflicts_with_all = ["valid", "patience", "resume"])]
    valid_share: Option<f64>,
    #[command(flatten)]
    world: WorldArgs,
    /// How messages are cut over ranks: source (ranges of sources), m1 (whole relations, edges balanced),
    /// m2 (whole relations, in a snake), lpt (relations by cost, large ones cut) or grid (relations by
    /// sources); with exact sums the result is the same
    #[arg(
        help_heading = "Ranks and devices",
        hide_short_help = true,
        long,
        value_name = "METHOD",
        default_value = "source"
    )]
    partition: Method,
    /// How the first layer is carried out: grouped (by source, no W_r is built) or paper (a baseline: W_r of all relations and of the nodes that
    /// --mode reads is built, and its gradient; on several ranks, by m1 or m2, each builds that of its relations from a copy of all rows); the
    /// result is the same, on several ranks to rounding
    #[arg(
        help_heading = "Method",
        hide_short_help = true,
        long,
        value_name = "HOW",
        default_value = "grouped"
    )]
    execution: Execution,
    /// Memory of each device: such as 512MiB, the graph not counted; what does not fit is computed in
    /// tiles, with the same result [default: no limit]
    #[arg(help_heading = "Ranks and devices", long, value_name = "SIZE", value_parser = quantity::bytes)]
    device_memory: Option<u64>,
    /// Memory that this process may hold: in training, the graph not counted [default: what the machine has
    /// free]
    #[arg(help_heading = "Ranks and devices", long, value_name = "SIZE", value_parser = quantity::bytes)]
    memory_limit: Option<u64>,
    /// The run's folder; without --resume it must have no run yet
    #[arg(help_heading = "Output", long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Go on from the newest checkpoint of --run, with its settings
    #[arg(help_heading = "Output", long, requires = "run", requires = "epochs")]
    resume: bool,
    /// Epochs between two checkpoints, instead of seconds; 0: only at the end
    #[arg(
        help_heading = "Output",
        long,
        value_name = "N",
        conflicts_with = "checkpoint_interval"
    )]
    checkpoint_epochs: Option<u32>,
    /// Time between two checkpoints, at least ten times what the last one took; 0: one after every step [default: 60s]
    #[arg(help_heading = "Output", long, value_name = "DURATION", value_parser = duration::seconds)]
    checkpoint_interval: Option<f64>,
    /// Draw a picture: loss and training accuracy of each epoch
    #[arg(help_heading = "Output", long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Longest wait: for another rank [default: 600s]
    #[arg(help_heading = "Ranks and devices", long, value_name = "DURATION", value_parser = duration::timeout)]
    timeout: Option<Timeout>,
    #[command(flatten)]
    report: ReportArgs,
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: &'a str,
    nodes: u32,
    edges: usize,
    relations: u32,
    mode: String,
    ranks: u32,
    partition: Method,
    execution: Execution,
    /// What W_r of all relations, the self loop among them, and all nodes takes: built with one execution (pruned, of the nodes that are read
    /// alone), never with the other. None where there is no basis.
    weight_bytes: Option<u64>,
    /// Ranks with neither a message nor a node.
    idle_ranks: usize,
    seeds: Vec<u64>,
    settings: &'a Config,
    /// Whose accuracy it is: that of the test nodes, or without any that of the training nodes.
    accuracy_of: &'static str,
    /// Of each seed.
    accuracies: Vec<f64>,
    /// Over the seeds.
    accuracy_mean: f64,
    accuracy_std: f64,
    /// Half the width of the mean's 95 % interval, by Student's t; none for one seed.
    accuracy_interval: Option<f64>,
    /// Of each seed: the epoch whose parameters the model has, by validation the best one.
    best_epochs: Vec<u32>,
    /// Share of the training labels that was held back to find that number of epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    valid_share: Option<f64>,
    /// The shortest epoch of all seeds.
    epoch_ms: Option<f64>,
    forward_ms: Option<f64>,
    backward_ms: Option<f64>,
    final_loss: Option<f64>,
    peak_mib: Option<f64>,
    /// Of the last seed.
    rank_times: &'a [RankTime],
    bytes_per_rank: Vec<u64>,
    budget_per_device: Option<u64>,
    /// Of the last seed.
    devices: &'a [DeviceMemory],
    seconds: f64,
    load_seconds: f64,
    classes: &'a [String],
    /// Of the last seed: rows are classes, columns what was predicted.
    evaluation: &'a Evaluation,
    params_hash: Vec<String>,
    import: &'a Option<ImportReport>,
    /// The picture and the run's folder, where they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    curve: Option<&'a PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
    #[serde(skip)]
    data: &'a Data,
}

impl TrainArgs {
    /// Seconds between two checkpoints, where epochs do not decide.
    fn checkpoint_s(&self) -> Option<f64> {
        match self.checkpoint_epochs {
            Some(_) => None,
            None => Some(self.checkpoint_interval.unwrap_or(60.0)),
        }
    }
}

/// Loads the data, trains and prints the answer.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    if args.links.task == Task::Links {
        return train_links(args);
    }
    let deadline = args.timeout.unwrap_or_default();
    args.world.device(DeviceKind::Host, false, &args.report)?; // NCCL has no part in this
    match args.world.open(args.world.ranks, deadline)? {
        World::Threads(n_ranks) => {
            let inputs = load(args, n_ranks)?;
            let timer = Timer::start(&Device::host());
            let graph = &inputs.data.graph;
            let outcomes = train_all(&inputs, &args.report, &mut |given, progress| {
                train(graph, given.labels, given.config, given.options, progress)
            })?;
            finish(args, &inputs, &outcomes, timer.elapsed_s())
        }
        World::Process(mut comm) => run_as_rank(args, &mut comm, deadline),
    }
}

/// As one of several processes. All end with the same exit code; the first alone prints.
fn run_as_rank(args: &TrainArgs, comm: &mut Comm, deadline: Timeout) -> anyhow::Result<()> {
    let inputs = load(args, comm.size());
    let inputs = settle(comm, inputs, deadline)?;
    check_seeds(comm, inputs.n_seeds, deadline)?;
    let report = args.report.of_rank(comm.rank());
    let timer = Timer::start(&Device::host());
    let graph = &inputs.data.graph;
    let outcomes = train_all(&inputs, &report, &mut |given, progress| {
        let Given {
            labels,
            config,
            options,
        } = given;
        train_as_rank(comm, graph, labels, config, options, progress)
    })?;
    let finished = match comm.rank() {
        0 => finish(args, &inputs, &outcomes, timer.elapsed_s()),
        _ => Ok(()),
    };
    settle(comm, finished, deadline)
}

/// Refuses, on all ranks, other numbers of models than rank 0 trains.
fn check_seeds(comm: &mut Comm, n_seeds: u32, deadline: Timeout) -> anyhow::Result<()> {
    let (own, mut all) = ([n_seeds], vec![0u32; comm.size() as usize]);
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, deadline)?;
    match all.iter().position(|&other| other != all[0]) {
        None => Ok(()),
        Some(rank) => {
            let text =
                format!("rank {rank} was given other --repeats than rank 0: expected the same");
            Err(BadInput(text).into())
        }
    }
}

/// What a run starts from; every process reads it for itself.
struct Inputs {
    data: Data,
    labelled: LabelledNodes,
    config: Config,
    options: RunOptions,
    n_seeds: u32,
    valid_share: Option<f64>,
}

fn load(args: &TrainArgs, n_ranks: u32) -> anyhow::Result<Inputs> {
    check(args)?;
    let mut data = args.data.load()?;
    let has_validation = args.data.has_valid();
    let config = args.settings.config(&data.graph, has_validation)?;
    let (seed, n_seeds) = (config.seed, args.repeats);
    if seed
        .checked_add(u64::from(n_seeds.saturating_sub(1)))
        .is_none()
    {
        let text = format!("--seed {seed}: there are no {n_seeds} seeds from there on");
        return Err(BadInput(text).into());
    }
    let Some(labelled) = data.labels.take() else {
        let text = "training needs labels: name their file with --train";
        return Err(BadInput(text.to_owned()).into());
    };
    Ok(Inputs {
        config,
        options: options(args, &data, &labelled, n_ranks),
        data,
        labelled,
        n_seeds: args.repeats,
        valid_share: args.valid_share,
    })
}

fn finish(
    args: &TrainArgs,
    inputs: &Inputs,
    outcomes: &[Outcome],
    seconds: f64,
) -> anyhow::Result<()> {
    let mut answer = answer(inputs, outcomes, seconds)?;
    let mut written = Ok(());
    if let Some(curve) = &args.svg {
        written = output_file::write_all(&[(curve, curve::svg(outcomes))]);
        answer.curve = written.is_ok().then_some(curve);
    }
    answer.out = inputs.options.folder.as_deref();
    // Training may have taken hours: the answer is printed although the curve cannot be written.
    args.report.answer(&answer)?;
    Ok(written?)
}

/// Trains a model that predicts links.
fn train_links(args: &TrainArgs) -> anyhow::Result<()> {
    args.world.device(DeviceKind::Host, false, &args.report)?; // NCCL has no part in this
    let n_ranks = match args.world.open(args.world.ranks, Timeout::default())? {
        World::Threads(n_ranks) => n_ranks,
        World::Process(comm) if comm.size() == 1 => 1,
        World::Process(_) => {
            let text = "--task links trains in one process: its ranks are threads (--ranks)";
            return Err(BadInput(text.to_owned()).into());
        }
    };
    check(args)?;
    let useless = [
        ("--repeats", args.repeats > 1),
        ("--partition", args.partition != Method::Source),
        ("--execution", args.execution != Execution::Grouped),
        ("--svg", args.svg.is_some()),
        ("--valid-share", args.valid_share.is_some()),
        ("--device-memory", args.device_memory.is_some()),
        ("--timeout", args.timeout.is_some()),
        ("--preset", args.settings.preset.is_some()),
    ];
    if let Some((flag, _)) = useless.iter().find(|(_, is_given)| *is_given) {
        return Err(BadInput(format!("{flag} is not for --task links")).into());
    }
    let given = LinkTraining {
        data: &args.data,
        settings: &args.settings,
        options: LinkOptions {
            n_ranks,
            memory: args.memory_limit,
            folder: args.run.clone(),
            resume: args.resume,
            checkpoint_epochs: args.checkpoint_epochs.unwrap_or(0),
            checkpoint_s: args.checkpoint_s(),
        },
        report: &args.report,
    };
    links::train(&args.links, &given)
}

/// Refuses what cannot be right before anything is read.
fn check(args: &TrainArgs) -> anyhow::Result<()> {
    if args.device_memory.is_some() && args.data.has_features() {
        let text = "--features are not taken in tiles: leave --device-memory out";
        return Err(BadInput(text.to_owned()).into());
    }
    if args.links.task == Task::Classes && args.links.is_set() {
        let text = "what scores and corrupts triples is for --task links";
        return Err(BadInput(text.to_owned()).into());
    }
    if args.resume && (args.settings.is_set() || args.links.is_set()) {
        let text = "--resume takes its settings from the checkpoint: of the model's flags give --epochs alone";
        return Err(BadInput(text.to_owned()).into());
    }
    let times = [
        args.checkpoint_epochs.map(f64::from),
        args.checkpoint_interval,
    ];
    if let Some(time) = times.into_iter().flatten().next() {
        if args.run.is_none() {
            let text = "checkpoints need a folder: name one with --run";
            return Err(BadInput(text.to_owned()).into());
        }
        if !(time.is_finite() && time >= 0.0) {
            let text = format!("--checkpoint-interval {time}: expected a number from 0");
            return Err(BadInput(text).into());
        }
    }
    if let Some(curve) = &args.svg {
        output_file::check(curve, args.data.inputs().chain(args.settings.file()))?;
    }
    Ok(())
}

/// What one model is trained with.
#[derive(Clone, Copy)]
struct Given<'a> {
    labels: &'a Labels,
    config: &'a Config,
    options: &'a RunOptions,
}

/// Trains one model.
type TrainOne<'a> =
    dyn FnMut(Given<'_>, &mut (dyn FnMut(&EpochReport) + Send)) -> Result<Outcome, Error> + 'a;

impl Given<'_> {
    /// The best number of epochs by nodes that are held back; no folder learns of it.
    fn best_epoch(
        &self,
        share: f64,
        train_one: &mut TrainOne<'_>,
        progress: &mut (dyn FnMut(&EpochReport) + Send),
    ) -> Result<u32, Error> {
        let labels = self.labels.hold_back(share, self.config.seed)?;
        let options = RunOptions {
            folder: None,
            ..self.options.clone()
        };
        let config = self.config.clone().with_validation();
        let held = Given {
            labels: &labels,
            config: &config,
            options: &options,
        };
        Ok(train_one(held, progress)?.best_epoch)
    }
}

impl Inputs {
    fn given<'a>(&'a self, config: &'a Config) -> Given<'a> {
        Given {
            labels: &self.labelled.labels,
            config,
            options: &self.options,
        }
    }
}

/// A model for each seed.
fn train_all(
    inputs: &Inputs,
    report: &ReportArgs,
    train_one: &mut TrainOne<'_>,
) -> anyhow::Result<Vec<Outcome>> {
    let (config, options) = (&inputs.config, &inputs.options);
    report.warn_of_damage(options.folder.as_deref(), options.resume);
    let n_epochs = u64::from(config.epochs);
    let mut show = Progress::new(report, n_epochs * u64::from(inputs.n_seeds), "epochs");
    let mut outcomes = Vec::new();
    for n in 0..u64::from(inputs.n_seeds) {
        let mut config = Config {
            seed: config.seed.wrapping_add(n),
            ..config.clone()
        };
        let mut progress = |report: &EpochReport| {
            let text = || format!("epochs, loss {:.4}", report.loss);
            show.update(n * n_epochs + report.step.min(n_epochs), text);
        };
        if let Some(share) = inputs.valid_share {
            let given = inputs.given(&config);
            config.epochs = given.best_epoch(share, train_one, &mut progress)?;
        }
        outcomes.push(train_one(inputs.given(&config), &mut progress)?);
    }
    Ok(outcomes)
}

fn options(args: &TrainArgs, data: &Data, labelled: &LabelledNodes, n_ranks: u32) -> RunOptions {
    RunOptions {
        n_ranks,
        partition: args.partition,
        execution: args.execution,
        budget_per_device: args.device_memory,
        memory: args.memory_limit,
        folder: args.run.clone(),
        resume: args.resume,
        checkpoint_epochs: args.checkpoint_epochs.unwrap_or(0),
        checkpoint_s: args.checkpoint_s(),
        deadline: args.timeout.unwrap_or_default(),
        class_names: labelled.classes.clone(),
        relation_names: data.relation_names(),
    }
}

fn answer<'a>(
    inputs: &'a Inputs,
    outcomes: &'a [Outcome],
    seconds: f64,
) -> anyhow::Result<Answer<'a>> {
    let (data, labelled) = (&inputs.data, &inputs.labelled);
    let Some(last) = outcomes.last() else {
        return Err(BadInput("seeds = 0: expected 1 or more".to_owned()).into());
    };
    let (accuracy_mean, accuracy_std, accuracy_interval) = accuracy(outcomes);
    Ok(Answer {
        graph: &data.name,
        nodes: data.graph.n_nodes(),
        edges: data.graph.n_edges(),
        relations: data.graph.n_relations(),
        mode: last.config.mode.to_string(),
        ranks: inputs.options.n_ranks,
        partition: inputs.options.partition,
        execution: inputs.options.execution,
        weight_bytes: weight_bytes(data, last),
        idle_ranks: last.n_idle_ranks,
        seeds: outcomes.iter().map(|outcome| outcome.config.seed).collect(),
        settings: &last.config,
        accuracy_of: accuracy_of(&last.evaluation),
        accuracies: outcomes
            .iter()
            .map(|outcome| shown_accuracy(&outcome.evaluation))
            .collect(),
        accuracy_mean,
        accuracy_std,
        accuracy_interval,
        best_epochs: outcomes.iter().map(|outcome| outcome.best_epoch).collect(),
        valid_share: inputs.valid_share,
        epoch_ms: least(outcomes, EpochReport::epoch_ms),
        forward_ms: least(outcomes, |report| report.forward_ms),
        backward_ms: least(outcomes, |report| report.backward_ms),
        final_loss: last.reports.last().map(|report| report.loss),
        peak_mib: peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        rank_times: &last.times,
        bytes_per_rank: last.bytes_per_rank.clone(),
        budget_per_device: inputs.options.budget_per_device,
        devices: &last.devices,
        seconds,
        load_seconds: data.load_seconds,
        classes: &labelled.classes,
        evaluation: &last.evaluation,
        params_hash: outcomes.iter().map(params_hash).collect(),
        import: &data.report,
        curve: None,
        out: None,
        data,
    })
}

/// Mean and standard deviation over the seeds, and half of the mean's 95 % interval where there are several.
fn accuracy(outcomes: &[Outcome]) -> (f64, f64, Option<f64>) {
    let shown = |outcome: &Outcome| shown_accuracy(&outcome.evaluation);
    let accuracies: Vec<f64> = outcomes.iter().map(shown).collect();
    let (mean, std) = mean_and_std(&accuracies);
    (mean, std, t_interval(&accuracies))
}

/// The least of a time over all epochs of all seeds; none where no epoch ran.
fn least(outcomes: &[Outcome], of: fn(&EpochReport) -> f64) -> Option<f64> {
    let reports = outcomes.iter().flat_map(|outcome| &outcome.reports);
    reports.map(of).reduce(f64::min)
}

/// Bytes of W_r of the first layer, for all relations and nodes.
fn weight_bytes(data: &Data, outcome: &Outcome) -> Option<u64> {
    let config = &outcome.config;
    let n_relations = u64::from(data.graph.n_relations()) + u64::from(config.self_loop);
    let width = config.hidden.first().copied();
    let width = width.unwrap_or(outcome.evaluation.confusion.len()) as u64;
    let is_one_hot = config.bases > 0 && config.embedding == 0;
    is_one_hot.then(|| 4 * n_relations * u64::from(data.graph.n_nodes()) * width)
}

fn params_hash(outcome: &Outcome) -> String {
    format!("{:016x}", outcome.params_hash)
}

impl Answer<'_> {
    fn write_times(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(epoch), Some(forward), Some(backward)) =
            (self.epoch_ms, self.forward_ms, self.backward_ms)
        {
            writeln!(
                f,
                "epoch ms {epoch:.3} (forward {forward:.3}, backward {backward:.3}), the least of all"
            )?;
        }
        if let Some(loss) = self.final_loss {
            writeln!(f, "final loss {loss:.6}")?;
        }
        if self.settings.patience > 0 || self.valid_share.is_some() {
            let epochs: Vec<String> = self.best_epochs.iter().map(u32::to_string).collect();
            writeln!(f, "best epoch by validation {}", epochs.join(", "))?;
        }
        for (rank, time) in self
            .rank_times
            .iter()
            .enumerate()
            .filter(|_| self.ranks > 1)
        {
            let RankTime {
                epochs_seconds: all,
                exchange_seconds: exchange,
            } = time;
            writeln!(
                f,
                "rank {rank} seconds {all:.3}, {exchange:.3} of them in exchanges"
            )?;
        }
        if let Some(peak) = self.peak_mib {
            writeln!(f, "peak MiB {peak:.1}")?;
        }
        Ok(())
    }

    fn write_devices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (rank, device) in self.devices.iter().enumerate() {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let (held, predicted) = (mib(device.peak_bytes), mib(device.predicted_bytes));
            write!(
                f,
                "rank {rank} held MiB {held:.1} (predicted {predicted:.1})"
            )?;
            if device.weight_bytes > 0 {
                write!(f, ", W_r MiB {:.1} of it", mib(device.weight_bytes))?;
            }
            match device.tiles {
                1 => writeln!(f)?,
                n_tiles => writeln!(
                    f,
                    " in {n_tiles} tiles; an epoch moved MiB {:.1} in ms {:.1}, {:.0} % of them hidden",
                    mib(device.moved_bytes),
                    device.copy_ms,
                    1e2 * device.hidden_share
                )?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.data)?;
        writeln!(
            f,
            "mode {}, ranks {}, seeds {}",
            self.mode,
            self.ranks,
            self.seeds.len()
        )?;
        if self.ranks > 1 {
            writeln!(f, "partition {}", self.partition)?;
        }
        if self.idle_ranks > 0 {
            let (idle, ranks) = (self.idle_ranks, self.ranks);
            writeln!(
                f,
                "{idle} of {ranks} ranks have no work: they share out blocks of nodes, which are few where the graph is small or relations have many weights"
            )?;
        }
        write!(f, "{} accuracy {:.4}", self.accuracy_of, self.accuracy_mean)?;
        match self.accuracy_interval {
            Some(half) => writeln!(
                f,
                " (std {:.4}, 95 % of the mean within {half:.4})",
                self.accuracy_std
            )?,
            None => writeln!(f)?,
        }
        if let [_, _, ..] = self.accuracies[..] {
            let of_seed = |(seed, accuracy): (&u64, &f64)| format!("{seed}: {accuracy:.4}");
            let of_seeds = self.seeds.iter().zip(&self.accuracies).map(of_seed);
            writeln!(f, "by seed {}", of_seeds.collect::<Vec<_>>().join(", "))?;
        }
        self.write_times(f)?;
        self.write_devices(f)?;
        write_evaluation(f, self.evaluation, self.classes)
    }
}
