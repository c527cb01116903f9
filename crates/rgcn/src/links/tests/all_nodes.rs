//! The loss over all nodes against its definition, on one rank and on several.

use proptest::prelude::*;
use shardgraph_collectives::{Timeout, threads};
use shardgraph_random::KeyedRng;

use super::training::two_kinds;
use super::{edge, numbers, rank, score};
use crate::links::config::{LinkConfig, LinkDecoder, LinkLoss};
use crate::links::data::{Known, LinkData};
use crate::links::decoder::Decoder;
use crate::links::kvsall::{KvsAll, Model, NodeBlocks, StepScale};
use crate::links::options::LinkOptions;
use crate::links::questions::{Asked, Questions};
use crate::links::run::{LinkOutcome, train_links};
use crate::links::saved::SavedLinks;
use crate::memory::Memory;
use crate::model::comm::RankComm;
use crate::{Config, Edge};

/// A model, its questions, and the weight of N3.
struct Case {
    decoder: Decoder,
    units: Vec<f32>,
    n_nodes: u32,
    questions: Questions,
    n3: f32,
    step: StepScale,
}

impl Case {
    fn new(kind: LinkDecoder, width: usize, n_nodes: u32) -> Case {
        let config = LinkConfig {
            width,
            decoder: kind,
            reciprocal: true,
            ..LinkConfig::paper()
        };
        let mut stream = KeyedRng::new(3, "k-vs-all", u64::from(n_nodes));
        let mut decoder = Decoder::new(&config, 2, &Memory::default());
        decoder.relations = numbers(&mut stream, 4 * width).into();
        let mut node = || stream.below_u32(n_nodes);
        let triples: Vec<Edge> = (0..12).map(|n| edge(node(), n % 2, node())).collect();
        Case {
            decoder,
            units: numbers(&mut stream, n_nodes as usize * width),
            n_nodes,
            questions: Questions::of(&triples, 2),
            n3: 0.3,
            step: StepScale {
                scale: 0.5,
                dropout: 0.0,
                seed: 7,
                step: 2,
            },
        }
    }

    fn asked(&self) -> Vec<Asked<'_>> {
        let questions = 0..self.questions.len() as u32;
        questions.map(|idx| self.questions.get(idx)).collect()
    }

    /// Loss and gradients, of nodes then of relations, as `n_ranks` make them.
    fn found(&self, n_ranks: u32) -> (f64, Vec<f32>) {
        let results = threads::run(n_ranks, |mut comm| {
            let blocks = NodeBlocks::new(self.n_nodes, comm.rank(), comm.size());
            let ranks = &mut RankComm::new(&mut comm, Timeout::default());
            let model = Model {
                decoder: &self.decoder,
                units: &self.units,
            };
            let memory = Memory::default();
            let mut pass = KvsAll::new(blocks, &memory);
            let asked = self.asked();
            let (loss, mut gradients) = pass.gradients(model, &asked, self.step, ranks).unwrap();
            pass.add_n3(self.step.scale * self.n3, model, &asked, &mut gradients);
            let width = self.decoder.width;
            let units = blocks.gather_rows(&gradients.units, width, ranks, &memory);
            (loss, [&units.unwrap()[..], &gradients.relations].concat())
        });
        let mut results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        assert!(results.iter().all(|result| *result == results[0]));
        results.swap_remove(0)
    }

    /// The loss by its definition: of each true end the cross entropy among all nodes, and `n3`
    /// times the cubes of its triple's vectors.
    fn loss(&self, values: &[f64], n3: f64) -> f64 {
        let Decoder { kind, width, .. } = self.decoder;
        let cubes = |row: u32| -> f64 {
            let row = &values[row as usize * width..][..width];
            row.iter().map(|x| x.abs().powi(3)).sum()
        };
        let mut loss = 0.0;
        for asked in self.asked() {
            let relation = self.n_nodes + asked.relation;
            let of = |end| score(kind, width, values, [asked.given, relation, end]);
            let sum: f64 = (0..self.n_nodes).map(|node| of(node).exp()).sum();
            for &end in asked.ends {
                loss += sum.ln() - of(end);
                loss += n3 * (cubes(asked.given) + cubes(relation) + cubes(end));
            }
        }
        loss
    }
}

#[test]
fn losses_and_gradients_are_those_of_the_definition() {
    for (kind, width, n_nodes) in [
        (LinkDecoder::DistMult, 1, 2),
        (LinkDecoder::DistMult, 5, 17),
        (LinkDecoder::ComplEx, 6, 9),
        (LinkDecoder::ComplEx, 34, 40),
    ] {
        let case = Case::new(kind, width, n_nodes);
        let (found, gradients) = case.found(1);
        let values = case.units.iter().chain(&case.decoder.relations[..]);
        let values: Vec<f64> = values.map(|&x| f64::from(x)).collect();
        let expected = case.loss(&values, 0.0);
        let error = (found - expected).abs();
        assert!(error < 1e-5 * expected.abs(), "{found} {expected}");
        let gradients: Vec<f32> = gradients.iter().map(|gradient| 2.0 * gradient).collect();
        super::check_slopes(values, &gradients, |values| {
            case.loss(values, f64::from(case.n3))
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_number_of_ranks_makes_the_same_bits(
        width in 1usize..40,
        n_nodes in 1u32..80,
        n_ranks in 2u32..=16,
    ) {
        let case = Case::new(LinkDecoder::DistMult, width, n_nodes);
        prop_assert_eq!(case.found(1), case.found(n_ranks));
    }
}

/// Scores far beyond the range of exponentials: no sum overflows, and the loss is the distance.
#[test]
fn losses_keep_their_range() {
    let mut case = Case::new(LinkDecoder::DistMult, 1, 3);
    let triples = [edge(0, 0, 1)];
    case.questions = Questions::of(&triples, 2);
    case.n3 = 0.0;
    case.units = vec![1.0, -2000.0, 3000.0];
    case.decoder.relations = vec![1.0, 0.0, 0.0, 0.0].into();
    let (loss, gradients) = case.found(1);
    // Of the tail 3000 - -2000; of the head ln 3.
    let expected = 5000.0 + 3f64.ln();
    assert!((loss - expected).abs() < 1e-3, "{loss}");
    assert!(gradients.iter().all(|gradient| gradient.is_finite()));
}

fn small() -> LinkConfig {
    let standard = LinkConfig::default();
    LinkConfig {
        width: 8,
        batch: 15,
        encoder: Config {
            epochs: 6,
            ..standard.encoder
        },
        n3: 0.01,
        patience: 4,
        valid_epochs: 2,
        ..standard
    }
}

fn run(data: &LinkData, config: &LinkConfig, options: &LinkOptions) -> LinkOutcome {
    train_links(data, config, options, &mut |_| ()).unwrap()
}

#[test]
fn a_model_learns_alike_on_any_number_of_ranks() {
    let data = two_kinds(24);
    let mut config = small();
    config.encoder.epochs = 30;
    let on = |n_ranks| {
        let options = LinkOptions {
            n_ranks,
            ..LinkOptions::default()
        };
        run(&data, &config, &options)
    };
    let one = on(1);
    let (first, last) = (one.reports[0].loss, one.reports.last().unwrap().loss);
    assert!(last < 0.9 * first, "{first} {last}");
    // At random a rank is 12.5 of 24; a perfect model's about 6 of 12.
    assert!(one.test.unwrap().raw.mean_rank < 8.5, "{:?}", one.test);
    for n_ranks in [2, 3, 16] {
        let several = on(n_ranks);
        assert_eq!(several.params_hash, one.params_hash, "{n_ranks}");
        let losses = |outcome: &LinkOutcome| -> Vec<f64> {
            outcome.reports.iter().map(|report| report.loss).collect()
        };
        assert_eq!(losses(&several), losses(&one));
        assert_eq!((several.valid, several.test), (one.valid, one.test));
    }
}

/// Also where the best epoch is before the checkpoint, and where training has stopped for want of
/// a better one.
#[test]
fn a_run_goes_on_with_other_ranks_and_equal_bits() {
    let data = two_kinds(20);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let options = |folder: usize, n_ranks, resume| LinkOptions {
        n_ranks,
        folder: Some(folders[folder].path().into()),
        resume,
        checkpoint_epochs: 1,
        ..LinkOptions::default()
    };
    let mut config = LinkConfig {
        patience: 3,
        valid_epochs: 1,
        n3: 0.0,
        ..small()
    };
    config.encoder.rate = 0.5;
    config.encoder.epochs = 40;
    let whole = run(&data, &config, &options(0, 1, false));
    let (best, n_epochs) = (whole.best_epoch, whole.reports.len() as u32);
    assert!(n_epochs == best + 3 && n_epochs < 40, "{best} {n_epochs}");
    let mut shorter = config.clone();
    shorter.encoder.epochs = best + 1;
    run(&data, &shorter, &options(1, 3, false));
    for n_ranks in [2, 1] {
        // The second time nothing is left to do.
        let resumed = run(&data, &config, &options(1, n_ranks, true));
        assert_eq!(resumed.reports.len(), if n_ranks == 2 { 2 } else { 0 });
        assert_eq!(resumed.best_epoch, best);
        assert_eq!(resumed.params_hash, whole.params_hash);
        assert_eq!((resumed.valid, resumed.test), (whole.valid, whole.test));
    }
    let saved = SavedLinks::read(&data, folders[1].path()).unwrap();
    assert_eq!(saved.rank(&data).unwrap(), (whole.valid, whole.test));
}

#[test]
fn sampled_losses_train_on_one_rank() {
    let options = LinkOptions {
        n_ranks: 2,
        ..LinkOptions::default()
    };
    let refused = |config: &LinkConfig, n_ranks| {
        let options = LinkOptions {
            n_ranks,
            ..options.clone()
        };
        let error = train_links(&two_kinds(20), config, &options, &mut |_| ()).unwrap_err();
        error.to_string()
    };
    let sampled = LinkConfig {
        loss: LinkLoss::Softmax,
        ..small()
    };
    assert!(refused(&sampled, 2).starts_with("ranks = 2: expected 1 with a loss of sampled"));
    assert!(refused(&small(), 17).starts_with("ranks = 17: expected 1 to 16"));
    assert!(refused(&small(), 0).starts_with("ranks = 0"));
}

#[test]
fn a_run_that_does_not_fit_is_refused_and_leaves_no_folder() {
    let (data, scratch) = (two_kinds(24), tempfile::tempdir().unwrap());
    let folder = scratch.path().join("run");
    let options = |memory| LinkOptions {
        memory: Some(memory),
        folder: Some(folder.clone()),
        ..LinkOptions::default()
    };
    let enough = 1 << 24;
    let outcome = run(&data, &small(), &LinkOptions::default());
    assert!(outcome.n_bytes < outcome.peak_bytes && outcome.predicted_bytes < enough);
    let refused = train_links(&data, &small(), &options(10_000), &mut |_| ()).unwrap_err();
    assert!(matches!(refused, crate::Error::Memory(_)));
    assert!(
        refused
            .to_string()
            .contains("--memory-limit allows 9.77 KiB"),
        "{refused}"
    );
    assert!(!folder.exists());
    run(&data, &small(), &options(enough));
}

/// To the byte where no edge is dropped at random and none is asked about; an encoder's steps have fewer edges than
/// predicted.
#[test]
fn predicted_bytes_are_those_that_arrays_take() {
    let data = two_kinds(40);
    let scratch = tempfile::tempdir().unwrap();
    let sampled = LinkConfig {
        loss: LinkLoss::Softmax,
        ..small()
    };
    let dropped = LinkConfig {
        patience: 0,
        encoder: Config {
            dropout: 0.2,
            ..small().encoder
        },
        ..small()
    };
    let without_best = LinkConfig {
        patience: 0,
        ..sampled.clone()
    };
    let cases = [small(), dropped, sampled, without_best];
    for (idx, config) in cases.iter().enumerate() {
        for (n_ranks, has_folder) in [(1, false), (1, true), (3, true)] {
            if n_ranks > 1 && config.loss != LinkLoss::KvsAll {
                continue;
            }
            let folder = scratch.path().join(format!("{idx}-{n_ranks}"));
            let options = LinkOptions {
                n_ranks,
                folder: has_folder.then_some(folder),
                ..LinkOptions::default()
            };
            let outcome = run(&data, config, &options);
            let case = format!("case {idx}, {n_ranks} ranks, folder: {has_folder}");
            assert_eq!(outcome.predicted_bytes, outcome.peak_bytes, "{case}");
        }
    }
    let encoded = [1, 2].map(|n_ranks| {
        let options = LinkOptions {
            n_ranks,
            ..LinkOptions::default()
        };
        run(&data, &super::encoder::small(), &options)
    });
    for outcome in encoded {
        let share = outcome.peak_bytes as f64 / outcome.predicted_bytes as f64;
        assert!((0.8..=1.0).contains(&share), "{share}");
    }
}

/// Ranks take parts of the triples; the scores are those of one.
#[test]
fn ranks_share_the_ranking() {
    let data = two_kinds(30);
    let case = Case::new(LinkDecoder::DistMult, 7, 30);
    let known = Known::new(data.all());
    let on = |n_ranks| {
        let results = threads::run(n_ranks, |mut comm| {
            rank(&case.decoder, &case.units, data.train(), &known, &mut comm)
        });
        let results: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        assert!(results.iter().all(|result| *result == results[0]));
        results[0]
    };
    assert_eq!(on(1), on(5));
}
