//! `shardgraph rgcn train --task links`: a model that predicts links, and how well true links rank.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use shardgraph_graph::Labels as Names;
use shardgraph_rgcn::import::ImportReport;
use shardgraph_rgcn::{
    Config, LinkConfig, LinkDecoder, LinkLoss, LinkOptions, LinkOutcome, LinkReport, LinkScores,
    Question, SavedLinks, train_links,
};

use super::data::{DataArgs, LinkFiles};
use super::queries;
use super::settings::SettingsArgs;
use crate::exit::BadInput;
use crate::peak_memory::peak_memory;
use crate::progress::Progress;
use crate::report::ReportArgs;
use crate::text::{Layout, reading};

/// What a model is trained for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Classes of nodes.
    Classes,
    /// Links between nodes.
    Links,
}

/// The model below the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EncoderKind {
    /// None: nodes' vectors are parameters.
    None,
    /// An R-GCN, as in the paper.
    Rgcn,
}

/// The flags of `--task links`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Links")]
pub(crate) struct LinkArgs {
    /// What to learn: the classes of nodes, or links: FILE has triples to learn from, --valid and --test have others
    #[arg(long, value_name = "classes|links", default_value = "classes")]
    pub(crate) task: Task,
    /// Model below the decoder: none (vectors of nodes and relations alone), or rgcn (its layers add to the vectors; with a sampled loss the
    /// paper's model, which ranks worse) [default: none]
    #[arg(long, value_name = "none|rgcn", hide_possible_values = true)]
    encoder: Option<EncoderKind>,
    /// Epochs of the decoder alone, before the encoder's layers join; with k-vs-all [default: 14, at most half of the epochs]
    #[arg(long, value_name = "N")]
    warm_epochs: Option<u32>,
    /// Questions of a step with the encoder's messages; 0: all; with k-vs-all [default: 4096]
    #[arg(long, value_name = "N")]
    message_batch: Option<u32>,
    /// Learning rate of the encoder's layers, where it is not that of the vectors; with k-vs-all [default: 0.003]
    #[arg(long, value_name = "RATE")]
    layer_rate: Option<f32>,
    /// Leave the encoder at its random start and learn the relations' vectors alone: a baseline
    #[arg(long)]
    freeze_encoder: bool,
    /// Dimensions of an embedding: of a node, as the decoder reads it [default: 400; 200 with sampled losses]
    #[arg(long, value_name = "N")]
    dim: Option<usize>,
    /// Share of a step's triples along which no message goes [default: 0.3]
    #[arg(long, value_name = "SHARE")]
    edge_dropout: Option<f32>,
    /// Negative samples for each positive one: half corrupt the object, half the subject; they imply a sampled loss [default: 256]
    #[arg(long, value_name = "N")]
    negatives: Option<u32>,
    /// Consecutive samples that share their negatives: triples [default: 32]
    #[arg(long, value_name = "N")]
    shared_negatives: Option<u32>,
    /// Loss of a sample: k-vs-all (cross entropy over all nodes), softmax over sampled ones, or logistic as R-GCN's authors have it
    /// [default: k-vs-all up to 100000 nodes, else softmax]
    #[arg(long, value_name = "LOSS")]
    loss: Option<LinkLoss>,
    /// Times the mean squares of nodes' units and relations' vectors, added to the loss; with sampled losses [default: 0; 0.01 with an encoder]
    #[arg(long, value_name = "X")]
    decoder_l2: Option<f32>,
    /// Cut longer gradients to this length; 0: none; with sampled losses [default: 0; 1 with an encoder]
    #[arg(long, value_name = "LENGTH")]
    clip: Option<f32>,
    /// Epochs between two rankings of the triples of --valid; 0: only at the end [default: 1; 3 with sampled losses, 0 with an encoder]
    #[arg(long, value_name = "N")]
    valid_epochs: Option<u32>,
    /// Score of a triple: complex (with reciprocal relations) or distmult [default: complex; distmult with sampled losses]
    #[arg(long = "score-function", value_name = "distmult|complex")]
    decoder: Option<LinkDecoder>,
    /// Ask for heads by vectors of inverse relations, with an encoder too
    #[arg(long)]
    reciprocal: bool,
    /// Times the mean sums of cubes of triples' vectors, added to the loss (N3) [default: 0.05; 0.02 with sampled losses, 0 with an encoder]
    #[arg(long, value_name = "X")]
    n3: Option<f32>,
}

impl LinkArgs {
    /// A flag that is given and that only links have.
    pub(crate) fn given_flag(&self) -> Option<&'static str> {
        let flags = [
            ("--dim", self.dim.is_some()),
            ("--edge-dropout", self.edge_dropout.is_some()),
            ("--negatives", self.negatives.is_some()),
            ("--shared-negatives", self.shared_negatives.is_some()),
            ("--loss", self.loss.is_some()),
            ("--decoder-l2", self.decoder_l2.is_some()),
            ("--clip", self.clip.is_some()),
            ("--valid-epochs", self.valid_epochs.is_some()),
            ("--score-function", self.decoder.is_some()),
            ("--encoder", self.encoder.is_some()),
            ("--freeze-encoder", self.freeze_encoder),
            ("--warm-epochs", self.warm_epochs.is_some()),
            ("--message-batch", self.message_batch.is_some()),
            ("--layer-rate", self.layer_rate.is_some()),
            ("--reciprocal", self.reciprocal),
            ("--n3", self.n3.is_some()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }

    /// The settings that hold where no flag says otherwise.
    fn base(&self, n_nodes: u32) -> LinkConfig {
        let is_sampled = match self.loss {
            Some(loss) => loss != LinkLoss::KvsAll,
            None => self.negatives.is_some() || self.shared_negatives.is_some(),
        };
        match self.encoder {
            Some(EncoderKind::Rgcn) if is_sampled || self.freeze_encoder => LinkConfig::paper(),
            Some(EncoderKind::Rgcn) if self.loss.is_some() => LinkConfig::with_encoder(),
            Some(EncoderKind::Rgcn) => LinkConfig::encoder_for_nodes(n_nodes),
            _ if is_sampled => LinkConfig::sampled(),
            _ if self.loss.is_some() => LinkConfig::default(),
            _ => LinkConfig::for_nodes(n_nodes),
        }
    }

    /// The settings under the flags', checked.
    fn config(&self, settings: &SettingsArgs, n_nodes: u32) -> anyhow::Result<LinkConfig> {
        let base = self.base(n_nodes);
        if let Some(flag) = settings.encoder_flag().filter(|_| !base.encode) {
            let text = format!("{flag} is of the encoder: add --encoder rgcn");
            return Err(BadInput(text).into());
        }
        let width = self.dim.unwrap_or(base.width);
        let encoder = match base.residual {
            false => Config {
                blocks: base.encoder.blocks.min(width),
                ..base.encoder
            },
            true => Config {
                embedding: width,
                blocks: (width / LinkConfig::BLOCK).max(1),
                ..base.encoder
            },
        };
        let encoder = settings.without_preset(encoder)?;
        // A file of settings may have them too.
        let of_file = |value: u32| Some(value).filter(|&value| value > 0);
        let (patience, batch) = (of_file(encoder.patience), of_file(encoder.batch));
        let config = LinkConfig {
            encode: base.encode,
            residual: base.residual,
            warm_epochs: self.warm_epochs.unwrap_or(base.warm_epochs),
            message_batch: self.message_batch.unwrap_or(base.message_batch),
            layer_rate: self.layer_rate.unwrap_or(base.layer_rate),
            freeze_encoder: self.freeze_encoder,
            decoder: self.decoder.unwrap_or(base.decoder),
            reciprocal: self.reciprocal || base.reciprocal,
            n3: self.n3.unwrap_or(base.n3),
            patience: settings.patience.or(patience).unwrap_or(base.patience),
            encoder: Config {
                patience: 0,
                batch: 0,
                ..encoder
            },
            width,
            batch: settings.batch.or(batch).unwrap_or(base.batch),
            edge_dropout: self.edge_dropout.unwrap_or(base.edge_dropout),
            negatives: self.negatives.unwrap_or(base.negatives),
            share: self.shared_negatives.unwrap_or(base.share),
            loss: self.loss.unwrap_or(base.loss),
            decoder_l2: self.decoder_l2.unwrap_or(base.decoder_l2),
            clip: self.clip.unwrap_or(base.clip),
            valid_epochs: self.valid_epochs.unwrap_or(base.valid_epochs),
        };
        let config = self.with_warm_up(config)?;
        config.check()?;
        Ok(config)
    }

    /// Settings whose encoder's layers join before the last epoch.
    fn with_warm_up(&self, config: LinkConfig) -> Result<LinkConfig, BadInput> {
        let n_epochs = config.encoder.epochs;
        match self.warm_epochs {
            None => Ok(config.with_short_warm_up()),
            Some(warm_epochs) if warm_epochs > 0 && warm_epochs >= n_epochs => {
                Err(BadInput(format!(
                    "--warm-epochs {warm_epochs}: expected fewer than the {n_epochs} epochs, or no layer joins"
                )))
            }
            Some(_) => Ok(config),
        }
    }
}

/// What is printed. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Answer<'a> {
    task: &'static str,
    graph: &'a str,
    nodes: u32,
    relations: u32,
    train_triples: usize,
    valid_triples: usize,
    test_triples: usize,
    /// Of those the ones to learn from too, and those with a node or a relation that none to learn from has.
    valid_learnt: usize,
    test_learnt: usize,
    valid_unseen: usize,
    test_unseen: usize,
    /// Distinct triples that filtered ranks leave out; whether they are those that the run knew, where that is known.
    filter_triples: usize,
    filter_is_of_run: Option<bool>,
    mode: String,
    settings: &'a LinkConfig,
    /// Epochs that were done in all.
    epochs: u32,
    /// Filtered, of the test triples; without any, of the validation triples.
    mrr: Option<f64>,
    hits_at_10: Option<f64>,
    valid: Option<LinkScores>,
    test: Option<LinkScores>,
    #[serde(flatten)]
    training: Option<Training>,
    peak_mib: Option<f64>,
    load_seconds: f64,
    import: &'a ImportReport,
}

/// What only training knows.
#[derive(Serialize)]
struct Training {
    /// Whose parameters the model has: the last one's, or with patience those of the best ranks.
    best_epoch: u32,
    /// Filtered, of the validation triples, before an encoder's layers joined: by the decoder alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    decoder_valid_mrr: Option<f64>,
    /// The shortest epoch.
    epoch_ms: Option<f64>,
    final_loss: Option<f64>,
    bytes: u64,
    /// Bytes that all ranks were predicted to hold at the fullest moment.
    predicted_bytes: u64,
    /// Those that they held.
    peak_bytes: u64,
    params_hash: String,
}

/// What `rgcn train` gives to links besides the flags of their own.
pub(crate) struct LinkTraining<'a> {
    /// Those of the flags, or of the run that goes on.
    pub(crate) epochs: Option<u32>,
    pub(crate) data: &'a DataArgs,
    pub(crate) settings: &'a SettingsArgs,
    pub(crate) options: LinkOptions,
    pub(crate) report: &'a ReportArgs,
}

/// Loads the triples, trains, ranks and prints the answer.
pub(crate) fn train(args: &LinkArgs, given: &LinkTraining<'_>) -> anyhow::Result<()> {
    // Flags that cannot be right are refused before anything is read.
    args.config(given.settings, 0)?;
    let files = given.data.load_links()?;
    let mut config = args.config(given.settings, files.links.n_nodes())?;
    config.encoder.epochs = given.epochs.unwrap_or(config.encoder.epochs);
    let mut show = Progress::new(given.report, config.encoder.epochs.into(), "epochs");
    let mut progress = |report: &LinkReport| {
        let mrr = report
            .valid
            .map(|valid| format!(", MRR {:.4}", valid.filtered.mrr));
        let mrr = mrr.unwrap_or_default();
        show.update(report.step, || {
            format!("epochs, loss {:.4}{mrr}", report.loss)
        });
    };
    let outcome = train_links(&files.links, &config, &given.options, &mut progress)?;
    let training = training(&outcome);
    let last = outcome.reports.last().map(|report| report.step as u32);
    let epochs = last.unwrap_or(outcome.config.encoder.epochs);
    let (valid, test) = (outcome.valid, outcome.test);
    let answer = answer(&files, &outcome.config, epochs, valid, test, Ok(training));
    print(&answer, given.report)
}

/// Loads triples and model, ranks and prints the answer.
pub(crate) fn eval(data: &DataArgs, saved: &Path, report: &ReportArgs) -> anyhow::Result<()> {
    let files = data.load_links()?;
    let saved = SavedLinks::read(&files.links, saved)?;
    let (valid, test) = saved.rank(&files.links)?;
    if valid.is_none() && test.is_none() {
        let text = "there is nothing to rank: name triples with --test or --valid";
        return Err(BadInput(text.to_owned()).into());
    }
    let filter = saved.has_filter_of_run(&files.links);
    let (settings, epochs) = (saved.config(), saved.epochs_done());
    print(
        &answer(&files, settings, epochs, valid, test, Err(filter)),
        report,
    )
}

/// Prints the answer; where ranks are filtered by other triples than the run's, a warning tells.
fn print(answer: &Answer<'_>, report: &ReportArgs) -> anyhow::Result<()> {
    if answer.filter_is_of_run == Some(false) {
        report.warning(
            "the files have other known triples than those of the run, so filtered ranks are not comparable to the run's own",
        );
    }
    let layout = Layout {
        below: reading(Some(answer.import)),
        ..Layout::first("mrr")
    };
    report.answer(answer, &layout)
}

/// What a model that predicts links is asked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Links")]
pub(crate) struct QuestionArgs {
    /// Name of the links' subject (head), whose likeliest objects are wanted
    #[arg(
        long,
        value_name = "NAME",
        requires = "relation",
        conflicts_with = "object"
    )]
    subject: Option<String>,
    /// Name of the links' object (tail), whose likeliest subjects are wanted
    #[arg(long, value_name = "NAME", requires = "relation")]
    object: Option<String>,
    /// The relation of the links, by its name
    #[arg(long, value_name = "NAME")]
    relation: Option<String>,
    /// A file of questions: subject, relation and object of each, separated by tabs, a `?` for the end that is asked for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["subject", "object", "relation"])]
    queries: Option<PathBuf>,
    /// How many to list: ends of links, the likeliest first [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
}

impl QuestionArgs {
    /// The number of ends to list.
    fn n_best(&self) -> usize {
        self.top.unwrap_or(10) as usize
    }

    pub(crate) fn is_set(&self) -> bool {
        self.subject.is_some()
            || self.object.is_some()
            || self.relation.is_some()
            || self.queries.is_some()
            || self.top.is_some()
    }
}

/// What is printed of the ends of links. The fields are the keys of the JSON object, in its order.
#[derive(Serialize)]
struct Ends<'a> {
    graph: &'a str,
    mode: String,
    ends: Vec<End>,
    import: &'a ImportReport,
}

/// A node that may be at the end of a link.
#[derive(Serialize)]
pub(super) struct End {
    pub(super) node: String,
    pub(super) score: f32,
    /// Whether the link is in one of the files.
    pub(super) known: bool,
}

/// Loads triples and model and prints the likeliest ends.
pub(crate) fn complete(
    question: &QuestionArgs,
    data: &DataArgs,
    run: &Path,
    out: Option<&Path>,
    report: &ReportArgs,
) -> anyhow::Result<()> {
    if let Some(queries) = &question.queries {
        let n_best = question.n_best();
        return queries::run(queries, n_best, data, run, out, report);
    }
    if out.is_some() {
        let text = "--out takes the answers of --queries: name a file of questions";
        return Err(BadInput(text.to_owned()).into());
    }
    let (given, is_head) = match (&question.subject, &question.object) {
        (Some(head), _) => (head, false),
        (None, Some(tail)) => (tail, true),
        (None, None) => {
            let text = "say which end is given: --subject or --object, with --relation";
            return Err(BadInput(text.to_owned()).into());
        }
    };
    let relation = question.relation.as_deref().unwrap_or_default();
    let files = data.load_links()?;
    let found = |names: &Names, name: &str, what: &str| {
        let unknown = || BadInput(format!("{name}: the triples have no such {what}"));
        names.find(name).ok_or_else(unknown)
    };
    let node = found(&files.nodes, given, "node")?;
    let relation = found(&files.relations, relation, "relation")?;
    let saved = SavedLinks::read(&files.links, run)?;
    let asked = Question {
        given: node,
        relation,
        is_head,
    };
    let best = saved.complete(&files.links, asked, question.n_best())?;
    let ends = best.iter().map(|end| End {
        node: files.nodes.get(end.node),
        score: end.score,
        known: end.is_known,
    });
    let answer = Ends {
        graph: &files.name,
        mode: saved.config().encoder.mode.to_string(),
        ends: ends.collect(),
        import: &files.report,
    };
    // A column a program reads: ends alone, with tabs between.
    let line = |End { node, score, known }: &End| {
        let known = if *known { "\tknown" } else { "" };
        format!("{node}\t{score:.4}{known}\n")
    };
    report.answer_as(&answer, || Ok(answer.ends.iter().map(line).collect()))
}

fn training(outcome: &LinkOutcome) -> Training {
    let epochs = outcome.reports.iter().map(|report| report.epoch_ms);
    Training {
        best_epoch: outcome.best_epoch,
        decoder_valid_mrr: outcome.decoder_valid.map(|valid| valid.filtered.mrr),
        epoch_ms: epochs.reduce(f64::min),
        final_loss: outcome.reports.last().map(|report| report.loss),
        bytes: outcome.n_bytes,
        predicted_bytes: outcome.predicted_bytes,
        peak_bytes: outcome.peak_bytes,
        params_hash: format!("{:016x}", outcome.params_hash),
    }
}

/// `training`, or of an evaluation whether it filters as the run did.
fn answer<'a>(
    files: &'a LinkFiles,
    settings: &'a LinkConfig,
    epochs: u32,
    valid: Option<LinkScores>,
    test: Option<LinkScores>,
    training: Result<Training, Option<bool>>,
) -> Answer<'a> {
    let shown = test.or(valid).map(|scores| scores.filtered);
    let Config { mode, .. } = &settings.encoder;
    let overlap = |triples| files.links.overlap(triples);
    let (of_valid, of_test) = (overlap(files.links.valid()), overlap(files.links.test()));
    let (training, filter_is_of_run) = match training {
        Ok(training) => (Some(training), Some(true)),
        Err(filter) => (None, filter),
    };
    Answer {
        task: "links",
        graph: &files.name,
        nodes: files.links.n_nodes(),
        relations: files.links.n_relations(),
        train_triples: files.links.train().len(),
        valid_triples: files.links.valid().len(),
        test_triples: files.links.test().len(),
        valid_learnt: of_valid.n_learnt,
        test_learnt: of_test.n_learnt,
        valid_unseen: of_valid.n_unseen,
        test_unseen: of_test.n_unseen,
        filter_triples: files.links.n_known(),
        filter_is_of_run,
        mode: mode.to_string(),
        settings,
        epochs,
        mrr: shown.map(|scores| scores.mrr),
        hits_at_10: shown.map(|scores| scores.hits_at_10),
        valid,
        test,
        training,
        peak_mib: peak_memory().map(|bytes| bytes as f64 / f64::from(1 << 20)),
        load_seconds: files.load_seconds,
        import: &files.report,
    }
}
