//! Encoders beside a decoder that is learnt against all nodes: gradients, the epochs before the
//! layers join, ranks and resumed runs.

use shardgraph_collectives::{Comm, Timeout};

use super::training::two_kinds;
use crate::config::Optimiser;
use crate::links::config::{LinkConfig, LinkLoss};
use crate::links::data::LinkData;
use crate::links::encoder::Messages;
use crate::links::kvsall::StepScale;
use crate::links::options::LinkOptions;
use crate::links::questions::{Asked, Questions};
use crate::links::run::*;
use crate::links::saved::SavedLinks;
use crate::links::step::QuestionStep;
use crate::links::trainer::*;
use crate::model::comm::RankComm;
use crate::model::naive::Naive;
use crate::{Config, Edge};

/// The default with an encoder, made small; the layers join after two epochs.
pub(super) fn small() -> LinkConfig {
    let standard = LinkConfig::with_encoder();
    let config = LinkConfig {
        width: 8,
        batch: 15,
        message_batch: 20,
        warm_epochs: 2,
        encoder: Config {
            epochs: 5,
            embedding: 8,
            blocks: 2,
            ..standard.encoder
        },
        edge_dropout: 0.1,
        patience: 4,
        valid_epochs: 1,
        ..standard
    };
    config.check().unwrap();
    config
}

fn run(data: &LinkData, config: &LinkConfig, options: &LinkOptions) -> LinkOutcome {
    train_links(data, config, options, &mut |_| ()).unwrap()
}

fn losses(outcome: &LinkOutcome) -> Vec<f64> {
    outcome.reports.iter().map(|report| report.loss).collect()
}

#[test]
fn until_the_layers_join_the_decoder_alone_is_learnt() {
    let data = two_kinds(24);
    let mut config = small();
    config.patience = 0;
    config.encoder.epochs = 2;
    let alone = LinkConfig {
        encode: false,
        residual: false,
        warm_epochs: 0,
        encoder: Config {
            embedding: 1,
            blocks: 1,
            ..config.encoder.clone()
        },
        ..config.clone()
    };
    let found = run(&data, &config, &LinkOptions::default());
    let expected = run(&data, &alone, &LinkOptions::default());
    assert_eq!(losses(&found), losses(&expected));
    assert_eq!((found.valid, found.test), (expected.valid, expected.test));
    // The layers of another seed would say the same: they are silent.
    config.encoder.epochs = 3;
    let joined = run(&data, &config, &LinkOptions::default());
    assert_eq!(losses(&joined)[..2], losses(&expected));
    assert_ne!(joined.test, expected.test);
}

#[test]
fn any_number_of_ranks_makes_the_same_bits() {
    let data = two_kinds(40);
    let on = |n_ranks| {
        let options = LinkOptions {
            n_ranks,
            ..LinkOptions::default()
        };
        run(&data, &small(), &options)
    };
    let one = on(1);
    assert!(one.decoder_valid.is_some());
    for n_ranks in [2, 3, 6] {
        let several = on(n_ranks);
        assert_eq!(several.params_hash, one.params_hash, "{n_ranks}");
        assert_eq!(losses(&several), losses(&one));
        assert_eq!((several.valid, several.test), (one.valid, one.test));
    }
}

/// The checkpoint lies before the layers join, and after; the numbers of ranks differ.
#[test]
fn a_resumed_run_has_the_bits_of_one_that_never_stopped() {
    let data = two_kinds(24);
    let whole = run(&data, &small(), &LinkOptions::default());
    for (n_epochs, n_ranks) in [(2, 2), (4, 3)] {
        let folder = tempfile::tempdir().unwrap();
        let options = |resume, n_ranks| LinkOptions {
            folder: Some(folder.path().into()),
            resume,
            n_ranks,
            ..LinkOptions::default()
        };
        let mut shorter = small();
        shorter.encoder.epochs = n_epochs;
        run(&data, &shorter, &options(false, 1));
        let resumed = run(&data, &small(), &options(true, n_ranks));
        assert_eq!(resumed.params_hash, whole.params_hash);
        assert_eq!(resumed.best_epoch, whole.best_epoch);
        assert_eq!(resumed.decoder_valid, whole.decoder_valid);
        let saved = SavedLinks::read(&data, folder.path()).unwrap();
        assert_eq!(saved.rank(&data).unwrap(), (whole.valid, whole.test));
    }
}

/// Validation never takes layers that make ranks worse.
#[test]
fn the_model_is_never_worse_than_the_decoder_alone() {
    let data = two_kinds(24);
    let mut config = small();
    config.layer_rate = 10.0;
    config.encoder.epochs = 4;
    let outcome = run(&data, &config, &LinkOptions::default());
    let mrr = |scores: Option<crate::LinkScores>| scores.unwrap().filtered.mrr;
    assert!(mrr(outcome.valid) >= mrr(outcome.decoder_valid));
    assert!(outcome.best_epoch <= 2, "{}", outcome.best_epoch);
}

/// The loss of some questions over all nodes, as f64 of all parameters: messages along the triples
/// that are not asked about, each node's vector added to its output.
fn naive_loss(naive: &Naive<'_>, params: &[f64], asked: &[Asked<'_>], n_relations: usize) -> f64 {
    let (n_nodes, width) = (naive.graph.n_nodes() as usize, naive.config.embedding);
    let (encoder, relations) = params.split_at(params.len() - 2 * n_relations * width);
    let mut units = naive.logits(encoder);
    for (unit, vector) in units.iter_mut().zip(encoder.chunks_exact(width)) {
        unit.iter_mut().zip(vector).for_each(|(unit, x)| *unit += x);
    }
    let score = |asked: &Asked<'_>, node: usize| -> f64 {
        let relation = &relations[asked.relation as usize * width..][..width];
        let ends = units[asked.given as usize].iter().zip(&units[node]);
        ends.zip(relation).map(|((a, b), r)| a * b * r).sum()
    };
    let of = |asked: &Asked<'_>| {
        let sum: f64 = (0..n_nodes).map(|node| score(asked, node).exp()).sum();
        let ends = asked.ends.iter();
        ends.map(|&end| sum.ln() - score(asked, end as usize))
            .sum::<f64>()
    };
    asked.iter().map(of).sum()
}

fn params(trainer: &LinkTrainer<'_>) -> Vec<f64> {
    let NodeVectors::Encoded(encoder) = &trainer.nodes else {
        panic!("no encoder");
    };
    let decoder = trainer.decoder.relations.iter().map(|&x| f64::from(x));
    let encoder = Naive::params(&encoder.network);
    encoder.into_iter().chain(decoder).collect()
}

/// One step of SGD at rate 1 moves each parameter by its f64 central difference: through decoder,
/// sum, layers and vectors, without the messages of the triples that are asked about.
#[test]
fn a_step_goes_down_the_gradient_of_its_loss() {
    let data = two_kinds(10);
    for (hidden, bases, blocks) in [(vec![], 0, 2), (vec![4], 2, 0)] {
        let mut config = small();
        config.decoder = crate::LinkDecoder::DistMult;
        (config.warm_epochs, config.n3, config.edge_dropout) = (0, 0.0, 0.0);
        (config.width, config.layer_rate) = (6, 0.0);
        config.encoder = Config {
            hidden,
            bases,
            blocks,
            embedding: 6,
            optimiser: Optimiser::Sgd,
            rate: 1.0,
            ..config.encoder
        };
        config.check().unwrap();
        let questions = Questions::of(data.train(), 2);
        let asked: Vec<Asked<'_>> = [1, 4, 9].map(|idx| questions.get(idx)).into();
        let is_asked = |idx: usize| asked.iter().any(|a| a.triples.contains(&(idx as u32)));
        let others = data.train().iter().enumerate();
        let others = others.filter(|(idx, _)| !is_asked(*idx));
        let others: Vec<Edge> = others.map(|(_, edge)| *edge).collect();

        let graph = data.messages(data.train()).unwrap();
        let layout = layout_of(&graph, &config, 1).unwrap();
        let mut comm = Comm::solo();
        let ranks = &mut RankComm::new(&mut comm, Timeout::default());
        let mut trainer = LinkTrainer::new(&data, &config, Some(&layout), ranks).unwrap();
        let fewer = data.messages(&others).unwrap();
        let fewer = layout_of(&fewer, &config, 1).unwrap();
        let reference = LinkTrainer::new(&data, &config, Some(&fewer), ranks).unwrap();
        let NodeVectors::Encoded(encoder) = &reference.nodes else {
            panic!("no encoder");
        };
        let (naive, _) = Naive::of(&encoder.network);

        let before = params(&trainer);
        let mut pass = trainer.all_nodes.take().unwrap();
        let step = QuestionStep {
            asked: &asked,
            scale: StepScale {
                scale: 1.0,
                dropout: 0.0,
                seed: 1,
                step: 0,
            },
            n_steps: 1,
            has_messages: true,
        };
        trainer.step_over_all_nodes(&mut pass, step, ranks).unwrap();
        let after = params(&trainer);
        let mut moved = before.clone();
        for idx in 0..before.len() {
            moved[idx] = before[idx] + 1e-5;
            let more = naive_loss(&naive, &moved, &asked, 2);
            moved[idx] = before[idx] - 1e-5;
            let less = naive_loss(&naive, &moved, &asked, 2);
            moved[idx] = before[idx];
            let (slope, found) = ((more - less) / 2e-5, before[idx] - after[idx]);
            assert!(
                (slope - found).abs() < 2e-4 * (1.0 + slope.abs()),
                "{bases} {blocks} {idx}: {slope} {found}"
            );
        }
        let NodeVectors::Encoded(encoder) = &mut trainer.nodes else {
            panic!("no encoder");
        };
        encoder.encode(Messages::All, None, ranks).unwrap();
    }
}

#[test]
fn settings_of_residual_encoders_are_refused_elsewhere() {
    let refused = |change: &dyn Fn(&mut LinkConfig)| {
        let mut config = small();
        change(&mut config);
        config.check().unwrap_err().to_string()
    };
    let starts = [
        (
            refused(&|c| c.encoder.embedding = 6),
            "embedding = 6: expected 8",
        ),
        (refused(&|c| c.residual = false), "warm_epochs = 2"),
        (refused(&|c| c.freeze_encoder = true), "warm_epochs = 2"),
        (refused(&|c| c.loss = LinkLoss::Softmax), "warm_epochs = 2"),
        (refused(&|c| c.layer_rate = -1.0), "layer_rate = -1"),
        (refused(&|c| c.encoder.patience = 3), "encoder.patience = 3"),
        (refused(&|c| c.encode = false), "residual = true"),
    ];
    for (found, expected) in starts {
        assert!(found.starts_with(expected), "{found} {expected}");
    }
}
