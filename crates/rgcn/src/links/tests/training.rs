//! Whole runs: that they learn, resume with equal bits, refuse what is not theirs, and take the
//! gradients of their loss.

use shardgraph_random::KeyedRng;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_job::{CheckpointSchedule, LoopOptions, RunRecorder};

use super::super::config::LinkConfig;
use super::super::data::LinkData;
use super::super::options::LinkOptions;
use super::super::run::*;
use super::super::saved::SavedLinks;
use super::super::trainer::*;
use super::super::{sampling, state};
use crate::config::{Optimiser, Sums};
use crate::links::config::LinkLoss;
use crate::links::naive::Naive as NaiveDecoder;
use crate::model::comm::RankComm;
use crate::model::layout::Layout;
use crate::model::naive::Naive;
use crate::model::network::Network;
use crate::train::run::{self, EpochTrainer};

use crate::{Config, Edge, Question, RelationalGraph};

/// Nodes of two kinds; relation 0 goes within a kind, relation 1 across: learnable, with a test
/// set.
pub(super) fn two_kinds(n_nodes: u32) -> LinkData {
    let mut stream = KeyedRng::new(1, "two kinds", 0);
    let (mut from, mut along, mut to) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..12 * n_nodes {
        let (a, b) = (stream.below_u32(n_nodes), stream.below_u32(n_nodes));
        from.push(a);
        to.push(b);
        along.push((a ^ b) & 1);
    }
    let n = from.len();
    let graph = RelationalGraph::new(n_nodes, 2, from, along, to).unwrap();
    LinkData::new(&graph, 0..n - 60, n - 60..n - 30, n - 30..n).unwrap()
}

fn small() -> LinkConfig {
    let standard = LinkConfig::paper();
    LinkConfig {
        encoder: Config {
            hidden: vec![8],
            embedding: 8,
            blocks: 2,
            epochs: 6,
            ..standard.encoder
        },
        width: 8,
        batch: 100,
        negatives: 6,
        share: 5,
        valid_epochs: 2,
        ..standard
    }
}

fn run(data: &LinkData, config: &LinkConfig, options: &LinkOptions) -> LinkOutcome {
    train_links(data, config, options, &mut |_| ()).unwrap()
}

#[test]
fn a_model_learns_what_is_there_to_learn() {
    let data = two_kinds(24);
    for loss in [LinkLoss::Logistic, LinkLoss::Softmax] {
        let mut config = LinkConfig {
            loss,
            clip: 0.0,
            ..small()
        };
        config.encoder.epochs = 60;
        config.encoder.rate = 0.03;
        config.encoder.dropout = 0.0;
        let outcome = run(&data, &config, &LinkOptions::default());
        let (first, last) = (outcome.reports[0].loss, outcome.reports[59].loss);
        assert!(last < 0.8 * first, "{loss}: {first} {last}");
        // Half of the nodes are ruled out by their kind: at random a rank is 12.5 of 24, and a
        // perfect model's about 6 of 12.
        let rank = outcome.test.unwrap().raw.mean_rank;
        assert!(rank < 8.5, "{loss}: {rank}");
        assert!(outcome.reports[1].valid.is_some() && outcome.reports[2].valid.is_none());
    }
}

/// The hash of all parameters after a run, and the encoder's tensors.
fn parameters(config: &LinkConfig) -> (u64, Vec<(String, Vec<f32>)>) {
    let data = two_kinds(20);
    let folder = tempfile::tempdir().unwrap();
    let options = LinkOptions {
        folder: Some(folder.path().into()),
        ..LinkOptions::default()
    };
    let outcome = run(&data, config, &options);
    let state = SavedLinks::read(&data, folder.path()).unwrap().state;
    let tensors = state.encoder.tensors();
    let tensors = tensors.map(|(name, values)| (name.to_owned(), values.to_vec()));
    (outcome.params_hash, tensors.collect())
}

#[test]
fn a_frozen_encoder_keeps_its_parameters_and_relations_learn() {
    let mut config = LinkConfig {
        freeze_encoder: true,
        ..small()
    };
    let (hash, frozen) = parameters(&config);
    config.encoder.epochs = 1;
    let (earlier_hash, earlier) = parameters(&config);
    assert!(frozen == earlier);
    assert_ne!(hash, earlier_hash);
    let (_, trained) = parameters(&small());
    assert!(frozen != trained);
}

#[test]
fn a_frozen_encoder_needs_an_encoder() {
    let config = LinkConfig {
        freeze_encoder: true,
        ..LinkConfig::sampled()
    };
    let message = config.check().unwrap_err().to_string();
    assert!(message.starts_with("freeze_encoder = true"), "{message}");
}

#[test]
fn a_resumed_run_has_the_bits_of_one_that_never_stopped() {
    let data = two_kinds(20);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options = |folder: &tempfile::TempDir, resume| LinkOptions {
        folder: Some(folder.path().into()),
        resume,
        checkpoint_epochs: 2,
        ..LinkOptions::default()
    };
    let whole = run(&data, &small(), &options(&folders[0], false));
    let mut shorter = small();
    shorter.encoder.epochs = 4;
    // Not the same as the first four of six: the last one ranks.
    run(&data, &shorter, &options(&folders[1], false));
    let resumed = run(&data, &small(), &options(&folders[1], true));
    assert_eq!(resumed.params_hash, whole.params_hash);
    assert_eq!(resumed.reports.len(), 2);
    assert_eq!((resumed.valid, resumed.test), (whole.valid, whole.test));
    let metrics =
        |folder: &tempfile::TempDir| std::fs::read(folder.path().join("metrics.jsonl")).unwrap();
    assert_eq!(metrics(&folders[0]), metrics(&folders[1]));
    let saved = SavedLinks::read(&data, folders[1].path()).unwrap();
    assert_eq!(saved.epochs_done(), 6);
    assert_eq!(saved.rank(&data).unwrap(), (whole.valid, whole.test));
    assert!(SavedLinks::is_in(folders[1].path()).unwrap());
    let query = data.train()[0];
    for (given, end, is_head) in [
        (query.source, query.target, false),
        (query.target, query.source, true),
    ] {
        let asked = question(given, query.relation, is_head);
        let all = saved.complete(&data, asked, 20).unwrap();
        assert!(all.len() == 20 && all.is_sorted_by(|a, b| a.score >= b.score));
        assert!(all.iter().any(|found| found.node == end && found.is_known));
        assert!(all.iter().any(|found| !found.is_known));
        assert_eq!(saved.complete(&data, asked, 3).unwrap(), all[..3]);
    }
    let vectors = saved.vectors(&data).unwrap();
    let row =
        |values: &[f32], at: u32| values[at as usize * vectors.width..][..vectors.width].to_vec();
    let asked = question(query.source, query.relation, false);
    for found in saved.complete(&data, asked, 20).unwrap() {
        let relation = row(&vectors.relations, query.relation);
        let ends = [query.source, found.node].map(|node| row(&vectors.nodes, node));
        let terms = relation.iter().zip(&ends[0]).zip(&ends[1]);
        let score: f32 = terms.map(|((r, x), y)| r * x * y).sum();
        assert!(
            (score - found.score).abs() < 1e-5,
            "{score} {}",
            found.score
        );
    }
    assert!(saved.complete(&data, question(20, 0, true), 3).is_err());
    assert!(saved.complete(&data, question(0, 2, true), 3).is_err());
}

fn question(given: u32, relation: u32, is_head: bool) -> Question {
    Question {
        given,
        relation,
        is_head,
    }
}

/// The folder has the last two; of a kind, and damaged, it is still of that kind.
#[test]
fn checkpoints_come_by_time_and_say_their_kind() {
    let data = two_kinds(20);
    let folder = tempfile::tempdir().unwrap();
    let options = LinkOptions {
        folder: Some(folder.path().into()),
        checkpoint_s: Some(0.0),
        ..LinkOptions::default()
    };
    run(&data, &small(), &options);
    let checkpoint = |epoch: u32| folder.path().join(format!("checkpoint-{epoch:010}"));
    // The last, and the one before, which comes when writing is at most a tenth of the time.
    let kept: Vec<u32> = (1..=6)
        .filter(|&epoch| checkpoint(epoch).is_dir())
        .collect();
    assert!(kept.len() == 2 && kept[1] == 6, "{kept:?}");
    assert!(SavedLinks::is_in(folder.path()).unwrap());
    for epoch in kept {
        std::fs::write(checkpoint(epoch).join("state.safetensors"), "cut").unwrap();
    }
    assert!(SavedLinks::is_in(folder.path()).unwrap());
}

#[test]
fn other_triples_and_fewer_epochs_are_refused() {
    let (data, other) = (two_kinds(20), two_kinds(21));
    let folder = tempfile::tempdir().unwrap();
    let options = |resume| LinkOptions {
        folder: Some(folder.path().into()),
        resume,
        ..LinkOptions::default()
    };
    run(&data, &small(), &options(false));
    let refused = |data: &LinkData, config: &LinkConfig, resume| {
        let error = train_links(data, config, &options(resume), &mut |_| ()).unwrap_err();
        error.to_string()
    };
    assert!(refused(&other, &small(), true).contains("a run on other triples"));
    assert!(refused(&data, &small(), false).contains("has a run already"));
    let mut fewer = small();
    fewer.encoder.epochs = 5;
    assert!(refused(&data, &fewer, true).contains("6 epochs are done"));
    let read = SavedLinks::read(&other, folder.path()).unwrap_err();
    assert!(read.to_string().contains("a run on other triples"));
}

#[test]
fn a_rate_beyond_reason_is_said_to_diverge() {
    let mut config = small();
    config.encoder.rate = 1e30;
    let error = train_links(
        &two_kinds(20),
        &config,
        &LinkOptions::default(),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(matches!(error, crate::Error::Diverged(_)));
}

/// A parameter of the decoder that is no number: no line of metrics, no checkpoint.
#[test]
fn a_decoder_that_is_no_number_is_not_kept() {
    let data = two_kinds(20);
    let mut config = small();
    config.encoder.epochs = 1;
    for (value, is_kept) in [(0.5, true), (f32::NAN, false), (f32::NEG_INFINITY, false)] {
        let scratch = tempfile::tempdir().unwrap();
        let options = LinkOptions {
            folder: Some(scratch.path().into()),
            ..LinkOptions::default()
        };
        let place = state::place(&options);
        let files = place.files;
        let folder = shardgraph_job::Folder::of_new_run(scratch.path(), files, &[]).unwrap();
        let recorder = RunRecorder::open(folder).unwrap();
        let graph = data.messages(data.train()).unwrap();
        let layout = layout_of(&graph, &config, 1).unwrap();
        let mut comm = Comm::solo();
        let ranks = &mut RankComm::new(&mut comm, Timeout::default());
        let mut trainer = LinkTrainer::new(&data, &config, Some(&layout), ranks).unwrap();
        trainer.decoder.relations[3] = value;
        assert_eq!(trainer.check_finite(ranks).is_ok(), is_kept, "{value}");
        let steps = LoopOptions {
            until: 1,
            schedule: Some(CheckpointSchedule::every_steps(1)),
        };
        let kept = run::run(&mut trainer, 0, steps, Some(recorder), ranks, &mut |_| ());
        let metrics = std::fs::read(scratch.path().join("metrics.jsonl")).unwrap_or_default();
        assert_eq!(!metrics.is_empty(), is_kept, "{value}");
        let checkpoint = scratch.path().join("checkpoint-0000000001");
        assert_eq!(checkpoint.is_dir(), is_kept, "{value}");
        match kept {
            Ok(_) => assert!(is_kept, "{value}"),
            Err(error) => assert!(!is_kept && matches!(error, crate::Error::Diverged(_))),
        }
    }
}

/// The loss of a step as f64 of all parameters: encoder of the equations, decoder of the
/// definitions, L2.
fn naive_loss(naive: &Naive<'_>, params: &[f64], step: (&LinkConfig, &[Edge], u32)) -> f64 {
    let (config, triples, n_nodes) = step;
    let n_encoder = params.len() - 2 * config.width;
    let units: Vec<f64> = naive
        .logits(&params[..n_encoder])
        .into_iter()
        .flatten()
        .collect();
    let decoder = NaiveDecoder {
        width: config.width,
        units: &units,
        relations: &params[n_encoder..],
    };
    let mut sum = 0.0;
    for (idx, chunk) in triples.chunks(config.share as usize).enumerate() {
        let drawn = sampling::negatives(config.encoder.seed, 0, idx, config.negatives, n_nodes);
        sum += chunk
            .iter()
            .map(|&t| decoder.loss(t, &drawn, config.loss))
            .sum::<f64>();
    }
    let mean_square =
        |values: &[f64]| values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
    let decay = mean_square(&units) + mean_square(&params[n_encoder..]);
    sum / triples.len() as f64 + f64::from(config.decoder_l2) * decay
}

/// Small settings whose one step of SGD at rate 1 is the gradient.
fn plain(bases: usize, blocks: usize, loss: LinkLoss) -> LinkConfig {
    let mut config = small();
    config.encoder = Config {
        bases,
        blocks,
        dropout: 0.0,
        bias: true,
        optimiser: Optimiser::Sgd,
        rate: 1.0,
        sums: Sums::Exact,
        hidden: vec![4],
        embedding: 5,
        ..config.encoder
    };
    let config = LinkConfig {
        loss,
        clip: 0.0,
        decoder_l2: 0.5,
        edge_dropout: 0.0,
        batch: 0,
        width: 3,
        ..config
    };
    config.check().unwrap();
    config
}

fn trainer_of<'a>(
    data: &'a LinkData,
    config: &'a LinkConfig,
    layout: &'a Layout<'a>,
) -> LinkTrainer<'a> {
    let mut comm = Comm::solo();
    let ranks = &RankComm::new(&mut comm, Timeout::default());
    LinkTrainer::new(data, config, Some(layout), ranks).unwrap()
}

fn network<'t, 'a>(trainer: &'t LinkTrainer<'a>) -> &'t Network<'a> {
    match &trainer.nodes {
        NodeVectors::Encoded(encoder) => &encoder.network,
        NodeVectors::Embedded(_) => panic!("no encoder"),
    }
}

/// All parameters of a trainer in f64.
fn params(trainer: &LinkTrainer<'_>) -> Vec<f64> {
    let decoder = trainer.decoder.relations.iter().map(|&x| f64::from(x));
    let encoder = Naive::params(network(trainer));
    encoder.into_iter().chain(decoder).collect()
}

/// The parameters before and after the first step on all triples.
fn one_step(trainer: &mut LinkTrainer<'_>) -> (Vec<f64>, Vec<f64>) {
    let before = params(trainer);
    let mut comm = Comm::solo();
    let mut ranks = RankComm::new(&mut comm, Timeout::default());
    trainer.step(0, trainer.data.train(), &mut ranks).unwrap();
    (before, params(trainer))
}

/// One step of SGD at rate 1 without dropout moves each parameter by its f64 central difference:
/// through decoder, layers and embedding.
#[test]
fn a_step_goes_down_the_gradient_of_its_loss() {
    let data = two_kinds(10);
    for (bases, blocks, loss) in [
        (0, 0, LinkLoss::Softmax),
        (0, 2, LinkLoss::Logistic),
        (3, 0, LinkLoss::Softmax),
    ] {
        let config = plain(bases, blocks, loss);
        let graph = data.messages(data.train()).unwrap();
        let layout = layout_of(&graph, &config, 1).unwrap();
        let mut trainer = trainer_of(&data, &config, &layout);
        let (naive, _) = Naive::of(network(&trainer));
        let (before, after) = one_step(&mut trainer);
        let step = (&config, data.train(), data.n_nodes());
        let mut moved = before.clone();
        for idx in 0..before.len() {
            moved[idx] = before[idx] + 1e-5;
            let more = naive_loss(&naive, &moved, step);
            moved[idx] = before[idx] - 1e-5;
            let less = naive_loss(&naive, &moved, step);
            moved[idx] = before[idx];
            let (slope, found) = ((more - less) / 2e-5, before[idx] - after[idx]);
            let error = (slope - found).abs();
            assert!(
                error < 1e-4 * (1.0 + slope.abs()),
                "{bases} {blocks} {idx}: {slope} {found}"
            );
        }
    }
}

/// The same step with and without a bound: the direction stays, the length is the bound's.
#[test]
fn long_gradients_are_cut_to_the_bound() {
    let data = two_kinds(12);
    for bases in [0, 2] {
        let step = |clip: f32| -> Vec<f64> {
            let mut config = small();
            config.clip = clip;
            config.encoder.bases = bases;
            config.encoder.blocks = if bases > 0 { 0 } else { 2 };
            config.encoder.optimiser = Optimiser::Sgd;
            config.encoder.rate = 1.0;
            let graph = data.messages(data.train()).unwrap();
            let layout = layout_of(&graph, &config, 1).unwrap();
            let mut trainer = trainer_of(&data, &config, &layout);
            let (before, after) = one_step(&mut trainer);
            before.iter().zip(after).map(|(b, a)| b - a).collect()
        };
        let length = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (free, cut) = (step(0.0), step(1e-3));
        assert!(length(&free) > 2e-3, "{}", length(&free));
        assert!((length(&cut) - 1e-3).abs() < 1e-5, "{}", length(&cut));
        let product: f64 = free.iter().zip(&cut).map(|(a, b)| a * b).sum();
        assert!(product > 0.99 * length(&free) * length(&cut));
    }
}
