//! `shardgraph rgcn train`: a model for each seed, and how well they do.

use std::path::{Path, PathBuf};

use clap::Args;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_job::Ranks;
use shardgraph_rgcn::import::LabelledNodes;
use shardgraph_rgcn::partition::Method;
use shardgraph_rgcn::{
    Config, EpochReport, Error, Execution, LinkOptions, Outcome, RunOptions, target_epochs,
    target_link_epochs, train_as_rank,
};

use super::PartitionArgs;
use super::accuracy::confusion;
use super::curve;
use super::data::{Data, DataArgs};
use super::links::{self, LinkArgs, LinkTraining, Task};
use super::settings::SettingsArgs;
use super::train_answer::answer;
use crate::device_choice::DeviceArgs;
use crate::exit::BadInput;
use crate::progress::Progress;
use crate::quantity;
use crate::report::ReportArgs;
use crate::text::{Layout, reading};
use crate::world::{World, WorldArgs};
use crate::{duration, output_file};

const EXAMPLE: &str = "\
Examples:
  shardgraph rgcn train aifb_stripped.nt.gz --train trainingSet.tsv --test testSet.tsv --repeats 10
  shardgraph rgcn train triples.csv --train known.csv --test asked.csv --run my-run --ranks 2
  shardgraph rgcn train triples.csv --train known.csv --run my-run --resume
  shardgraph rgcn train FB15k-237.tar.gz --task links --ranks 2 --run links
  shardgraph rgcn train ba-rel:20000:2.5:20 --preset paper --hidden 10 --mode full --epochs 5

The folder gets metrics.jsonl with one line an epoch, the same as events.out.tfevents.* for
TensorBoard, and checkpoints, for `rgcn eval`, `rgcn predict` and --resume. Ranks share the nodes
and messages; with exact sums their number changes no bit. Under mpirun, srun or torchrun each
process is a rank, and the first alone prints and writes. A --device other than host runs the epochs
of one rank, without batches, dropout, blocks and Adagrad.";

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
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    partition: PartitionArgs,
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
    #[arg(help_heading = "Output", long, requires = "run")]
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
    #[command(flatten)]
    report: ReportArgs,
}

impl TrainArgs {
    /// Seconds between two checkpoints, where epochs do not decide.
    fn checkpoint_s(&self) -> Option<f64> {
        match self.checkpoint_epochs {
            Some(_) => None,
            None => Some(self.checkpoint_interval.unwrap_or(60.0)),
        }
    }

    /// The epochs of the flags; of a run that goes on without, those that it was to have.
    fn epochs_to(
        &self,
        target: impl FnOnce() -> anyhow::Result<u64>,
    ) -> anyhow::Result<Option<u32>> {
        match self.settings.epochs {
            None if self.resume => {
                let epochs = u32::try_from(target()?).unwrap_or(u32::MAX);
                Ok(Some(epochs).filter(|&epochs| epochs > 0))
            }
            epochs => Ok(epochs),
        }
    }

    /// What `read` finds in the run's folder; 0 where there is no run, which training says.
    fn target(&self, read: fn(&Path) -> Result<Option<u32>, Error>) -> anyhow::Result<u64> {
        let folder = self.run.as_deref().filter(|folder| folder.is_dir());
        let epochs = folder.map(read).transpose()?.flatten();
        Ok(epochs.map_or(0, u64::from))
    }
}

/// Loads the data, trains and prints the answer; of several processes, which all end with the same exit code, the first alone prints.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    if args.links.task == Task::Links {
        return train_links(args);
    }
    let deadline = args.world.timeout.unwrap_or_default();
    let mut world = args.world.open(args.world.ranks, deadline)?;
    let of_run = || world.of_first(|| args.target(target_epochs));
    let epochs = args.epochs_to(of_run)?;
    let inputs = load(args, world.n_ranks, world.rank.is_some(), epochs);
    let inputs = world.settle(inputs)?;
    let comm = &mut world.comm;
    Ranks::new(comm, deadline).agree(&[("--repeats", inputs.n_seeds.into())])?;
    let report = args.report.of_rank(comm.rank());
    let timer = Timer::start(&Device::host());
    let outcomes = train_all(comm, &inputs, &report)?;
    world.on_first(|| finish(args, &inputs, &outcomes, timer.elapsed_s()))
}

/// What a run starts from; every process reads it for itself.
pub(super) struct Inputs {
    pub(super) data: Data,
    pub(super) labelled: LabelledNodes,
    config: Config,
    pub(super) options: RunOptions,
    n_seeds: u32,
    pub(super) valid_share: Option<f64>,
}

fn load(
    args: &TrainArgs,
    n_ranks: u32,
    is_process: bool,
    epochs: Option<u32>,
) -> anyhow::Result<Inputs> {
    check(args)?;
    let device = (args.world).device(args.device.kind, is_process, &args.report)?;
    let mut data = args.data.load()?;
    let has_validation = args.data.has_valid();
    let mut config = args.settings.config(&data.graph, has_validation)?;
    config.epochs = epochs.unwrap_or(config.epochs);
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
        options: RunOptions {
            device,
            ..options(args, &data, &labelled, n_ranks)
        },
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
    let layout = Layout {
        below: confusion(answer.evaluation, answer.classes) + &reading(inputs.data.report.as_ref()),
        headline: Some(format!(
            "{} accuracy {:.4}",
            answer.accuracy_of, answer.accuracy_mean
        )),
        ..Layout::default()
    };
    args.report.answer(&answer, &layout)?;
    Ok(written?)
}

/// Trains a model that predicts links.
fn train_links(args: &TrainArgs) -> anyhow::Result<()> {
    args.world.device(DeviceKind::Host, false, &args.report)?; // NCCL has no part in this
    let World { comm, n_ranks, .. } = args.world.open(args.world.ranks, Timeout::default())?;
    if comm.size() > 1 {
        let text = "--task links trains in one process: its ranks are threads (--ranks)";
        return Err(BadInput(text.to_owned()).into());
    }
    check(args)?;
    let useless = [
        ("--repeats", args.repeats > 1),
        ("--partition", args.partition.partition != Method::Source),
        ("--device", args.device.kind != DeviceKind::Host),
        ("--execution", args.execution != Execution::Grouped),
        ("--svg", args.svg.is_some()),
        ("--valid-share", args.valid_share.is_some()),
        ("--device-memory", args.device_memory.is_some()),
        ("--timeout", args.world.timeout.is_some()),
        ("--preset", args.settings.model.preset.is_some()),
    ];
    if let Some((flag, _)) = useless.iter().find(|(_, is_given)| *is_given) {
        return Err(BadInput(format!("{flag} is not for --task links")).into());
    }
    let given = LinkTraining {
        epochs: args.epochs_to(|| args.target(target_link_epochs))?,
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
    let is_host = args.device.kind == DeviceKind::Host;
    if args.device_memory.is_some() && args.data.has_features() && is_host {
        let text = "--features are not taken in tiles: leave --device-memory out";
        return Err(BadInput(text.to_owned()).into());
    }
    let of_links = args.links.given_flag();
    if let Some(flag) = of_links.filter(|_| args.links.task == Task::Classes) {
        return Err(BadInput(format!("{flag} is for --task links")).into());
    }
    if args.resume && (args.settings.is_set() || of_links.is_some()) {
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
        args.report.leave_output_to(Some(curve));
    }
    Ok(())
}

/// The best number of epochs by nodes that are held back; no folder learns of it.
fn best_epoch(
    comm: &mut Comm,
    inputs: &Inputs,
    share: f64,
    config: &Config,
    progress: &mut (dyn FnMut(&EpochReport) + Send),
) -> Result<u32, Error> {
    let labels = inputs.labelled.labels.hold_back(share, config.seed)?;
    let options = RunOptions {
        folder: None,
        ..inputs.options.clone()
    };
    let (graph, config) = (&inputs.data.graph, config.clone().with_validation());
    Ok(train_as_rank(comm, graph, &labels, &config, &options, progress)?.best_epoch)
}

/// A model for each seed.
fn train_all(
    comm: &mut Comm,
    inputs: &Inputs,
    report: &ReportArgs,
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
            config.epochs = best_epoch(comm, inputs, share, &config, &mut progress)?;
        }
        let (graph, labels) = (&inputs.data.graph, &inputs.labelled.labels);
        let outcome = train_as_rank(comm, graph, labels, &config, options, &mut progress)?;
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn options(args: &TrainArgs, data: &Data, labelled: &LabelledNodes, n_ranks: u32) -> RunOptions {
    RunOptions {
        n_ranks,
        partition: args.partition.partition,
        execution: args.execution,
        budget_per_device: args.device_memory,
        memory: args.memory_limit,
        folder: args.run.clone(),
        resume: args.resume,
        checkpoint_epochs: args.checkpoint_epochs.unwrap_or(0),
        checkpoint_s: args.checkpoint_s(),
        deadline: args.world.timeout.unwrap_or_default(),
        class_names: labelled.classes.clone(),
        relation_names: data.relation_names(),
        ..RunOptions::default()
    }
}
