//! `shardgraph embed GRAPH`: trains and writes an embedding.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use shardgraph_collectives::Timeout;
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_line::formats::{self, FileFormat};
use shardgraph_line::{
    Config, DeviceMemory, DiskOptions, DiskRun, DiskUse, Line, Schedule, SelectConfig, Selection,
    Store, TrainOptions, WorkTime, check_work_folder, read_passes, train_on_disk, train_with,
};

use super::curve;
use super::import::{ImportFlags, KeptStore, PartsArgs, kept, opened};
use super::run_metrics::RunMetrics;
use super::selection::warn_of_baselines;
use super::settings::SettingsArgs;
use super::show::Show;
use crate::exit::BadInput;
use crate::graph_argument::GraphArgs;
use crate::peak_memory::{peak_memory, program_bytes};
use crate::report::ReportArgs;
use crate::text::{self, Layout};
use crate::{duration, interrupt, output_file};

/// Embed the nodes of a graph
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    import: ImportFlags,
    #[command(flatten)]
    settings: SettingsArgs,
    /// File to write: .npy, .npz, .safetensors, .csv, .bin, .txt or .vec choose the format
    #[arg(long, value_name = "FILE", required = true)]
    out: PathBuf,
    /// Format of the file to write: npy, npz, word2vec-text, word2vec-binary, safetensors or csv [default:
    /// by extension]
    #[arg(long, value_name = "FORM")]
    output_format: Option<FileFormat>,
    /// Start from the rows of an earlier embedding, found by label; new nodes start at random. With preset line or
    /// paper, in memory
    #[arg(long, value_name = "FILE", conflicts_with = "work")]
    init: Option<PathBuf>,
    /// Write the context table of order 2 too: vertex rows times context rows score directed edges. With preset line or
    /// paper, in memory
    #[arg(long, value_name = "FILE", conflicts_with = "work")]
    contexts: Option<PathBuf>,
    /// Draw a picture: AUC of the held-back edges of all trials, and loss and length of rows by epochs; with --work loss alone
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The run's folder: gets a line of metrics.jsonl for each trial and each epoch as it ends, the same as
    /// events.out.tfevents.* for TensorBoard, and result.json. It must have no run that ended; with --work a run that
    /// was broken off goes on there
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    #[command(flatten)]
    disk: DiskArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Tables that are larger than memory, and runs that survive.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables on disk")]
struct DiskArgs {
    /// Keep tables in this folder, at most --memory-limit of them in memory; a run that was broken off goes on there.
    /// Metrics, which stay when the tables go, lie there where no --run says otherwise
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// auto: few loads (pinned context groups for order 2, BETA for order 1); row-major for comparison
    #[arg(
        long,
        value_name = "auto|row-major",
        default_value = "auto",
        requires = "work"
    )]
    schedule: Schedule,
    /// Time between two checkpoints, at least ten times what the last one took; 0: one after every step
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::seconds, requires = "work")]
    checkpoint_interval: f64,
    /// Longest wait: for the disk [default: 600s]
    #[arg(long, value_name = "DURATION", value_parser = duration::timeout, requires = "work")]
    timeout: Option<Timeout>,
}

impl DiskArgs {
    /// The options, checked.
    fn options(&self, memory: u64, device: DeviceKind) -> anyhow::Result<DiskOptions> {
        let options = DiskOptions {
            memory,
            program_bytes: program_bytes(device),
            schedule: self.schedule,
            checkpoint_s: self.checkpoint_interval,
            deadline: self.timeout.unwrap_or_default().duration(),
        };
        options.check()?;
        Ok(options)
    }
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    graph: String,
    nodes: u32,
    edges: u64,
    directed: bool,
    weighted: bool,
    parts: u32,
    #[serde(flatten)]
    config: &'a Config,
    /// Samples that share their negatives in parts of this size, at most `shared_negatives`.
    shared_by: u32,
    first_rate: f32,
    columns: usize,
    /// What held-back edges chose; none where the settings hold as they are.
    selection: Option<Selection>,
    samples: u64,
    seconds: f64,
    training_seconds: f64,
    samples_per_s: f64,
    device: String,
    preparation_seconds: f64,
    update_seconds: f64,
    bytes_per_sample: f64,
    bytes_moved: f64,
    to_device_bytes: u64,
    exchanged_bytes: u64,
    peak_memory_bytes: Option<u64>,
    load_seconds: f64,
    disk: Option<OnDisk>,
    out: &'a Path,
}

/// What went to and from the disk.
#[derive(Serialize)]
struct OnDisk {
    #[serde(flatten)]
    used: DiskUse,
    overlap_seconds: f64,
    resumed_samples: u64,
}

/// A graph and how it is trained on.
#[derive(Clone, Copy)]
struct Training<'a> {
    store: &'a Store,
    config: &'a Config,
    device: &'a Device,
}

/// What training took, wherever the tables were.
struct Took {
    samples: u64,
    seconds: f64,
    training_s: f64,
    work: WorkTime,
    columns: usize,
    selection: Option<Selection>,
    disk: Option<OnDisk>,
}

/// Most edges of a graph whose settings are chosen: trials have them in memory, 40 bytes each.
const MAX_CHOICE_EDGES: u64 = 1 << 24;

/// Imports, trains, writes and prints the answer.
pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let device = args.settings.device()?;
    let line = args.settings.without_choice();
    let settings = match args.disk.work {
        Some(_) => &line,
        None => &args.settings,
    };
    let config = settings.config(args.graph.seed(), &device)?;
    let form = checked_form(args)?;
    check_tables(args, settings.selection(&config).is_some())?;
    let memory = args.import.memory_limit;
    let options = args.disk.options(memory, device.kind())?;
    let config = Config {
        mode: Some(config.mode_on(device.kind())),
        ..config
    };
    let resumed_at = match &args.disk.work {
        Some(work) => step_before(work, &config)?, // before hours of reading
        None => None,
    };
    let timer = Timer::start(&Device::host());
    let (store, kept) = loaded(args, &config, &device, form)?;
    let store = &store;
    let load_seconds = timer.elapsed_s();
    let mut select = settings.selection(&config);
    let mut config = config;
    if select.is_some() && store.n_edges() > MAX_CHOICE_EDGES {
        let why = "nothing is chosen for more than 16777216 edges: the settings are those of --preset line";
        args.report.note(why);
        select = None;
        config = line.config(args.graph.seed(), &device)?;
    }
    let config = config;
    let training = Training {
        store,
        config: &config,
        device: &device,
    };
    note_ranks(&args.report, training);
    let metrics = (args.run.as_deref()).map(|path| RunMetrics::new(path, resumed_at));
    let time_limit = select.as_ref().and_then(|select| select.time_limit_s);
    let mut show = Show::new(&args.report, time_limit, metrics.transpose()?);
    let took = match (&args.disk.work, &select) {
        (Some(work), _) => on_disk(
            args,
            training,
            DiskPlace {
                work,
                options: &options,
            },
            &mut show,
        )?,
        (None, Some(select)) => chosen(args, training, select, form, &mut show)?,
        (None, None) => in_memory(args, training, form, &mut show)?,
    };
    draw(args, took.selection.as_ref(), &show)?;
    args.report.note(&format!("wrote {}", args.out.display()));
    // The answer is there: a file that cannot be removed is no reason not to say so.
    if let Some(Err(error)) = kept.map(KeptStore::remove) {
        args.report.note(&format!("{error:#}"));
    }
    let answer = answer(args, training, took, load_seconds);
    show.finish(&answer)?;
    let settings = text::settings(answer.config)?;
    let layout = Layout {
        hidden: settings.iter().map(String::as_str).collect(),
        ..Layout::first("samples_per_s")
    };
    args.report.answer(&answer, &layout)
}

/// Draws the curves, where they are asked for.
fn draw(args: &TrainArgs, selection: Option<&Selection>, show: &Show) -> anyhow::Result<()> {
    let Some(picture) = &args.svg else {
        return Ok(());
    };
    let curves = match &args.disk.work {
        // Passes before the run was broken off are in its metrics alone.
        Some(work) => curve::svg(selection, &read_passes(args.run.as_ref().unwrap_or(work))?),
        None => curve::svg(selection, show.passes()),
    };
    output_file::write_all(&[(picture, curves)])?;
    Ok(())
}

/// Step of the last checkpoint in a folder, from which the same command goes on.
fn step_before(work: &Path, config: &Config) -> anyhow::Result<Option<u64>> {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| format!(" {}", word.display()));
    let command = format!("shardgraph{}", words.collect::<String>());
    interrupt::advise_to_resume(work, &command);
    Ok(check_work_folder(work, config)?)
}

/// Says how ranks exchange rows.
fn note_ranks(report: &ReportArgs, training: Training<'_>) {
    let way = match training.device.kind() {
        _ if training.device.nccl().is_some() => "through NCCL",
        DeviceKind::Cuda(_) => "from card to card",
        _ => "through host memory",
    };
    let n_ranks = training.config.ranks;
    if n_ranks > 1 {
        report.note(&format!("{n_ranks} ranks exchange the rows of parts {way}"));
    }
}

fn answer<'a>(
    args: &'a TrainArgs,
    training: Training<'a>,
    took: Took,
    load_seconds: f64,
) -> Answer<'a> {
    let Training {
        store,
        config,
        device,
    } = training;
    let sharing = config.sharing_in(store);
    let bytes_per_sample = sharing.bytes_per_sample();
    Answer {
        graph: args.graph.argument(),
        nodes: store.n_nodes(),
        edges: store.n_edges(),
        directed: store.is_directed(),
        weighted: store.is_weighted(),
        parts: store.n_parts(),
        shared_by: sharing.shared_negatives,
        first_rate: config.first_rate(),
        columns: took.columns,
        selection: took.selection,
        samples: took.samples,
        seconds: took.seconds,
        training_seconds: took.training_s,
        samples_per_s: took.samples as f64 / took.training_s.max(1e-9),
        device: device.kind().to_string(),
        preparation_seconds: took.work.preparation_s,
        update_seconds: took.work.update_s,
        bytes_per_sample,
        bytes_moved: bytes_per_sample * took.samples as f64,
        to_device_bytes: took.work.to_device_bytes,
        exchanged_bytes: took.work.exchanged_bytes,
        peak_memory_bytes: peak_memory(),
        config,
        load_seconds,
        disk: took.disk,
        out: &args.out,
    }
}

/// The graph in buckets, once it is sure that the answer can hold its labels; and what of it is to go when the run is over.
fn loaded(
    args: &TrainArgs,
    config: &Config,
    device: &Device,
    form: FileFormat,
) -> anyhow::Result<(Store, Option<KeptStore>)> {
    let parts = PartsArgs {
        parts: args.settings.parts,
        device: match args.disk.work {
            None => DeviceMemory::of(device, config)?,
            Some(_) => None, // groups of parts are as many as for the host
        },
    };
    let (graph, flags, report) = (&args.graph, &args.import, &args.report);
    let (store, of_run) = match &args.disk.work {
        None => (
            opened(graph, flags, parts, config, &args.out, report)?,
            None,
        ),
        Some(work) => {
            make(work)?;
            kept(graph, flags, parts, config, work, report)?
        }
    };
    if args.disk.work.is_none() {
        formats::check_labels(&args.out, store.labels()?, Some(form))?;
    }
    let share = config.sharing_in(&store).shared_negatives;
    if share < config.shared_negatives {
        let by = match share {
            1 => "are not shared".to_owned(),
            _ => format!(
                "are shared by {share} and not by {}",
                config.shared_negatives
            ),
        };
        args.report
            .warning(&format!("negatives {by}: parts are small"));
    }
    if store.is_directed() && config.order.is_first_too() {
        args.report
            .note("order 1 takes directed edges in both directions");
    }
    Ok((store, of_run))
}

/// Refuses files of a choice without one, and files of one training where there are several.
fn check_tables(args: &TrainArgs, is_chosen: bool) -> anyhow::Result<()> {
    let inputs = [
        args.graph.file(),
        args.settings.file(),
        args.init.as_deref(),
    ];
    let outputs = [
        Some(args.out.as_path()),
        args.contexts.as_deref(),
        args.svg.as_deref(),
    ];
    let outputs: Vec<&Path> = outputs.into_iter().flatten().collect();
    for (i, output) in outputs.iter().enumerate() {
        output_file::check_named(output, inputs.into_iter().flatten())?;
        let is_it = |other: &&Path| output_file::is_same(output, other);
        if outputs[..i].iter().any(is_it) {
            let message = format!("{}: two files cannot have one name", output.display());
            return Err(BadInput(message).into());
        }
    }
    let of_one = [
        ("init", args.init.is_some()),
        ("contexts", args.contexts.is_some()),
    ];
    let message = match of_one.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) if is_chosen => {
            format!("--{flag} is of one training: add --preset line, or paper")
        }
        _ => return Ok(()),
    };
    Err(BadInput(message).into())
}

/// The form of the answer, once all files that it takes can be written.
fn checked_form(args: &TrainArgs) -> Result<FileFormat, BadInput> {
    let inputs = [args.graph.file(), args.settings.file()];
    let inputs = || inputs.into_iter().flatten();
    output_file::check_named(&args.out, inputs())?;
    let form = match args.output_format {
        Some(form) => form,
        None => form_by_name(&args.out)?,
    };
    if args.disk.work.is_some() && form != FileFormat::Npy {
        let message = "with --work the rows go straight to the file: name a .npy file as --out";
        return Err(BadInput(message.to_owned()));
    }
    if form == FileFormat::Npy {
        output_file::check(&formats::labels_path(&args.out), inputs())?;
    }
    Ok(form)
}

/// The form that a file's name says.
fn form_by_name(out: &Path) -> Result<FileFormat, BadInput> {
    const WORD2VEC_TEXT: [&str; 6] = ["txt", "vec", "w2v", "emb", "embeddings", "word2vec"];
    let form = FileFormat::from_path(out);
    let ending = out.extension().unwrap_or_default().to_string_lossy();
    match form == FileFormat::Word2vecText
        && !ending.is_empty()
        && !WORD2VEC_TEXT.contains(&&*ending)
    {
        false => Ok(form),
        true => Err(BadInput(format!(
            "{}: `.{ending}` says no form of embeddings: expected .npy, .npz, .safetensors, .csv, .bin (word2vec binary), or .txt or .vec (word2vec text), or --output-format",
            out.display()
        ))),
    }
}

/// Makes the folder of a run.
fn make(work: &Path) -> Result<(), BadInput> {
    let wrong =
        |e: std::io::Error| BadInput(format!("{}: cannot make this folder: {e}", work.display()));
    std::fs::create_dir_all(work).map_err(wrong)
}

/// Folder of tables on disk, and how they are kept there.
#[derive(Clone, Copy)]
struct DiskPlace<'a> {
    work: &'a Path,
    options: &'a DiskOptions,
}

fn in_memory(
    args: &TrainArgs,
    training: Training<'_>,
    form: FileFormat,
    show: &mut Show,
) -> anyhow::Result<Took> {
    let Training {
        store,
        config,
        device,
    } = training;
    let init = args.init.as_deref().map(|path| formats::read(path, None));
    let init = init.transpose()?;
    let options = TrainOptions {
        init: init.as_ref(),
        contexts: args.contexts.is_some(),
        reports: wants_reports(args),
    };
    let trained = train_with(store, config, options, device, &mut |progress| {
        show.step(progress);
    })?;
    formats::write(&args.out, &trained.embedding, Some(form))?;
    if let (Some(path), Some(contexts)) = (&args.contexts, &trained.contexts) {
        formats::write(path, contexts, None)?;
    }
    Ok(Took {
        samples: trained.n_samples,
        seconds: trained.seconds,
        training_s: trained.work.training_s,
        work: trained.work,
        columns: config.columns(),
        selection: None,
        disk: None,
    })
}

/// True if a file shows the training's passes.
fn wants_reports(args: &TrainArgs) -> bool {
    args.run.is_some() || args.svg.is_some()
}

/// Chooses settings by held-back edges, then trains in memory.
fn chosen(
    args: &TrainArgs,
    training: Training<'_>,
    select: &SelectConfig,
    form: FileFormat,
    show: &mut Show,
) -> anyhow::Result<Took> {
    let Training {
        store,
        config,
        device,
    } = training;
    let line = Line::new(config.clone())
        .selecting(select.clone())
        .reporting(wants_reports(args));
    let fitted = line.fit_store(store, device, &mut |progress| show.step(progress))?;
    formats::write(&args.out, &fitted.embedding, Some(form))?;
    warn_of_baselines(&args.report, &fitted.selection);
    Ok(Took {
        samples: fitted.n_samples,
        seconds: fitted.seconds + fitted.selection.seconds,
        training_s: fitted.work.training_s,
        work: fitted.work,
        columns: fitted.embedding.dim(),
        selection: Some(fitted.selection),
        disk: None,
    })
}

fn on_disk(
    args: &TrainArgs,
    training: Training<'_>,
    place: DiskPlace<'_>,
    show: &mut Show,
) -> anyhow::Result<Took> {
    let Training {
        store,
        config,
        device,
    } = training;
    let disk = DiskRun {
        work: place.work,
        metrics: show.take_metrics(),
        npy: &args.out,
        options: place.options,
    };
    let trained = train_on_disk(store, config, device, disk, &mut |progress| {
        show.step(progress);
    })?;
    Ok(Took {
        samples: trained.n_samples,
        seconds: trained.seconds,
        training_s: trained.work.training_s,
        work: trained.work,
        columns: config.columns(),
        selection: None,
        disk: Some(OnDisk {
            used: trained.disk,
            overlap_seconds: trained.disk.overlap_s(),
            resumed_samples: trained.resumed_samples,
        }),
    })
}
