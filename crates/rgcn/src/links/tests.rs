//! The decoder, its gradients and the ranking against their definitions.

mod all_nodes;
mod encoder;
mod training;

use proptest::prelude::*;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_metrics::RankScores;
use shardgraph_random::KeyedRng;

use super::config::{LinkConfig, LinkDecoder, LinkLoss};
use super::data::{Known, LinkData, Side};
use super::decoder::{Chunk, Decoder, DecoderGradients, LossScale, dot, row};
use super::naive::{self, Naive};
use super::ranking::{LinkScores, RankedModel};
use crate::memory::Memory;
use crate::model::comm::RankComm;
use crate::{Edge, RelationalGraph};

fn numbers(stream: &mut KeyedRng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 2.0 * stream.uniform_f32() - 1.0).collect()
}

fn edge(source: u32, relation: u32, target: u32) -> Edge {
    Edge {
        source,
        relation,
        target,
    }
}

fn decoder(stream: &mut KeyedRng, n_relations: u32, width: usize) -> Decoder {
    let config = LinkConfig {
        width,
        ..LinkConfig::paper()
    };
    let mut decoder = Decoder::new(&config, n_relations, &Memory::default());
    decoder.relations = numbers(stream, n_relations as usize * width).into();
    decoder
}

fn rank(
    decoder: &Decoder,
    units: &[f32],
    triples: &[Edge],
    known: &Known,
    comm: &mut Comm,
) -> LinkScores {
    let model = RankedModel {
        decoder,
        n_nodes: units.len() / decoder.width,
        units,
        known,
    };
    let ranks = &mut RankComm::new(comm, Timeout::default());
    model.rank(triples, ranks).unwrap()
}

/// The f64 sum of losses at units and relations in one list.
fn naive_loss(
    values: &[f64],
    n_units: usize,
    chunk: Chunk<'_>,
    loss: LinkLoss,
    width: usize,
) -> f64 {
    let (units, relations) = values.split_at(n_units);
    let naive = Naive {
        width,
        units,
        relations,
    };
    let triples = chunk.triples.iter();
    triples
        .map(|&triple| naive.loss(triple, chunk.negatives, loss))
        .sum()
}

/// Losses to 1e-5, gradients to 2e-4 of f64 central differences; nodes come twice, triples corrupt
/// to themselves, a loop is among them.
#[test]
fn losses_and_gradients_are_those_of_the_definition() {
    let triples = [edge(0, 1, 3), edge(2, 0, 2), edge(3, 1, 0), edge(0, 1, 3)];
    for width in [1, 5, 15, 16, 17, 33] {
        for (negatives, loss) in [
            (&[1, 3, 4, 4, 0][..], LinkLoss::Logistic),
            (&[2], LinkLoss::Softmax),
            (&[1, 3, 4, 4, 0, 2, 3], LinkLoss::Softmax),
            (&[5, 5], LinkLoss::Logistic),
        ] {
            let mut stream = KeyedRng::new(5, "decoder", width as u64);
            let decoder = decoder(&mut stream, 2, width);
            let units = numbers(&mut stream, 6 * width);
            let mut gradients = DecoderGradients {
                units: vec![0.0; units.len()].into(),
                relations: vec![0.0; decoder.relations.len()].into(),
            };
            let chunk = Chunk {
                triples: &triples,
                negatives,
            };
            let found = decoder.chunk(
                &units,
                chunk,
                LossScale { loss, scale: 0.5 },
                &mut gradients,
            );
            let values = units.iter().chain(&decoder.relations[..]);
            let values: Vec<f64> = values.map(|&x| f64::from(x)).collect();
            let at = |values: &[f64]| naive_loss(values, units.len(), chunk, loss, width);
            let expected = at(&values);
            assert!(
                (found - expected).abs() < 1e-5 * expected.abs(),
                "{found} {expected}"
            );
            let all = gradients.units.iter().chain(&gradients.relations[..]);
            let all: Vec<f32> = all.map(|gradient| 2.0 * gradient).collect();
            check_slopes(values, &all, at);
        }
    }
}

/// The score of a triple by its definition; rows are those of its head, relation and tail.
fn score(kind: LinkDecoder, width: usize, values: &[f64], rows: [u32; 3]) -> f64 {
    let [h, r, t] = rows.map(|row| &values[row as usize * width..][..width]);
    let half = width / 2;
    match kind {
        LinkDecoder::DistMult => (0..width).map(|k| h[k] * r[k] * t[k]).sum(),
        // Re(h r conj(t)), term by term as in the paper.
        LinkDecoder::ComplEx => (0..half)
            .map(|k| {
                let i = k + half;
                h[k] * r[k] * t[k] + h[i] * r[k] * t[i] + h[k] * r[i] * t[i] - h[i] * r[i] * t[k]
            })
            .sum(),
    }
}

/// With reciprocal relations, of both decoders: the loss is the cross entropy of the tail's score
/// by its definition, and gradients are its central differences.
#[test]
fn reciprocal_losses_are_those_of_the_definition() {
    let triples = [edge(0, 1, 3), edge(2, 0, 2), edge(3, 3, 0), edge(0, 2, 3)];
    let negatives = [1, 3, 4, 4, 0, 2, 5];
    for (kind, width) in [
        (LinkDecoder::DistMult, 5),
        (LinkDecoder::DistMult, 17),
        (LinkDecoder::ComplEx, 2),
        (LinkDecoder::ComplEx, 34),
    ] {
        let mut stream = KeyedRng::new(6, "decoder", width as u64);
        let config = LinkConfig {
            width,
            decoder: kind,
            reciprocal: true,
            ..LinkConfig::paper()
        };
        let mut decoder = Decoder::new(&config, 2, &Memory::default());
        decoder.relations = numbers(&mut stream, 4 * width).into();
        let units = numbers(&mut stream, 6 * width);
        let mut gradients = DecoderGradients {
            units: vec![0.0; units.len()].into(),
            relations: vec![0.0; decoder.relations.len()].into(),
        };
        let chunk = Chunk {
            triples: &triples,
            negatives: &negatives,
        };
        let scale = LossScale {
            loss: LinkLoss::Softmax,
            scale: 0.5,
        };
        let found = decoder.chunk(&units, chunk, scale, &mut gradients);
        let score = |values: &[f64], head, relation, tail| {
            score(kind, width, values, [head, 6 + relation, tail])
        };
        let at = |values: &[f64]| -> f64 {
            let of = |edge: &Edge| {
                let Edge {
                    source,
                    relation,
                    target,
                } = *edge;
                let truth = score(values, source, relation, target);
                let others = negatives.iter().filter(|&&node| node != target);
                let sum: f64 = others
                    .map(|&node| score(values, source, relation, node).exp())
                    .sum();
                0.5 * ((truth.exp() + sum).ln() - truth)
            };
            triples.iter().map(of).sum()
        };
        let values = units.iter().chain(&decoder.relations[..]);
        let values: Vec<f64> = values.map(|&x| f64::from(x)).collect();
        let expected = at(&values);
        assert!(
            (found - expected).abs() < 1e-5 * expected.abs(),
            "{found} {expected}"
        );
        let all = gradients.units.iter().chain(&gradients.relations[..]);
        let all: Vec<f32> = all.map(|gradient| 2.0 * gradient).collect();
        check_slopes(values, &all, at);
    }
}

/// Gradients are central differences of a loss.
fn check_slopes(mut values: Vec<f64>, gradients: &[f32], at: impl Fn(&[f64]) -> f64) {
    for (idx, &gradient) in gradients.iter().enumerate() {
        let value = values[idx];
        values[idx] = value + 1e-5;
        let more = at(&values);
        values[idx] = value - 1e-5;
        let less = at(&values);
        values[idx] = value;
        let slope = (more - less) / 2e-5;
        let error = (slope - f64::from(gradient)).abs();
        assert!(
            error < 2e-4 * (1.0 + slope.abs()),
            "{idx}: {slope} {gradient}"
        );
    }
}

/// Scores of 1000 do not overflow, and a triple without a corrupted one on a side has no loss
/// there.
#[test]
fn losses_keep_their_range() {
    for (scores, expected) in [
        ([1000.0f32, -1000.0, 0.0], 0.0f64),
        (
            [-1000.0, 1000.0, -1000.0],
            0.5 * 2000.0 + 0.5 * std::f64::consts::LN_2,
        ),
    ] {
        let mut scores = scores;
        let loss = LinkLoss::Softmax.slopes(&mut scores, 1);
        assert!((loss - expected).abs() < 1e-3, "{loss} {expected}");
        assert!(scores.iter().all(|slope| slope.is_finite()));
    }
    let mut alone = [3.0];
    assert!(LinkLoss::Softmax.slopes(&mut alone, 0).abs() < 1e-9 && alone[0].abs() < 1e-6);
    let mut scores = [1000.0, -1000.0];
    assert!(LinkLoss::Logistic.slopes(&mut scores, 1).abs() < 1e-9);
    let mut wrong = [f32::NAN, 0.0];
    assert!(LinkLoss::Logistic.slopes(&mut wrong, 1).is_nan());
    let mut wrong = [f32::NAN, 0.0];
    assert!(LinkLoss::Softmax.slopes(&mut wrong, 1).is_nan());
}

fn data(triples: &[(u32, u32, u32)], n_nodes: u32) -> LinkData {
    let column = |of: fn(&(u32, u32, u32)) -> u32| triples.iter().map(of).collect();
    let n_relations = triples.iter().map(|t| t.1).max().unwrap_or(0) + 1;
    let graph = RelationalGraph::new(
        n_nodes,
        n_relations,
        column(|t| t.0),
        column(|t| t.1),
        column(|t| t.2),
    );
    let (n, cut) = (triples.len(), triples.len().div_ceil(2));
    LinkData::new(&graph.unwrap(), 0..cut, cut..cut, cut..n).unwrap()
}

proptest! {
    /// With few different units many nodes score the same; ranks must still be those of a
    /// node-by-node count.
    #[test]
    fn ranks_are_those_of_counting(
        triples in proptest::collection::vec((0u32..9, 0u32..3, 0u32..9), 1..40),
        width in 1usize..20,
        seed in 0u64..1000,
    ) {
        let data = data(&triples, 9);
        let mut stream = KeyedRng::new(seed, "ranks", 0);
        let mut decoder = decoder(&mut stream, data.n_relations(), width);
        let mut units = numbers(&mut stream, 9 * width);
        // Whole numbers, so that sums are exact and equal scores are equal.
        let both = decoder.relations.iter_mut().chain(&mut units);
        both.for_each(|x| *x = (2.0 * *x).round());
        let known = Known::new(data.all());
        let tested: Vec<Edge> = data.all().collect();
        let found = rank(&decoder, &units, &tested, &known, &mut Comm::solo());
        let expected = naive::rank(&data, &tested, |triple, side| {
            let mut query = vec![0.0; width];
            decoder.query(&units, triple, side, &mut query);
            dot(&query, row(&units, side.of(triple), width))
        });
        let sets = |s: &LinkScores| [s.filtered, s.raw, s.filtered_heads, s.filtered_tails];
        for (found, expected) in sets(&found).into_iter().zip(sets(&expected)) {
            let values = |s: RankScores| [s.mrr, s.mean_rank, s.hits_at_1, s.hits_at_3, s.hits_at_10];
            prop_assert_eq!(found.n_ranks, expected.n_ranks);
            for (a, b) in values(found).into_iter().zip(values(expected)) {
                prop_assert!((a - b).abs() < 1e-12, "{} {}", a, b);
            }
        }
    }
}

#[test]
fn known_ends_are_those_of_the_triples() {
    let triples = [(0, 0, 1), (0, 0, 2), (0, 1, 3), (4, 0, 1), (0, 0, 1)];
    let data = data(&triples, 5);
    let known = Known::new(data.all());
    let ends = |triple, side| known.ends(triple, side).collect::<Vec<u32>>();
    assert_eq!(ends(edge(0, 0, 9), Side::Tail), [1, 2]);
    assert_eq!(ends(edge(9, 0, 1), Side::Head), [0, 4]);
    assert_eq!(ends(edge(0, 1, 9), Side::Tail), [3]);
    assert_eq!(ends(edge(1, 0, 9), Side::Tail), [0; 0]);
}

/// A model of scores that are not numbers ranks in the middle of all, as ties do, not first.
#[test]
fn no_number_is_no_good_rank() {
    let data = data(&[(0, 0, 1), (1, 0, 2)], 4);
    let decoder = decoder(&mut KeyedRng::new(1, "nan", 0), 1, 2);
    let units = vec![f32::NAN; 8];
    let tested: Vec<Edge> = data.all().collect();
    let scores = rank(
        &decoder,
        &units,
        &tested,
        &Known::new(data.all()),
        &mut Comm::solo(),
    );
    assert!(scores.raw.mean_rank >= 2.5, "{scores:?}");
}

#[test]
fn ranges_beyond_the_edges_are_refused() {
    let graph = RelationalGraph::new(2, 1, vec![0], vec![0], vec![1]).unwrap();
    let refused = |train, test| {
        LinkData::new(&graph, train, 0..0, test)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(0..1, 1..2).starts_with("edges 1..2: expected some of 1"));
    assert!(refused(0..0, 0..1).starts_with("0 triples to learn from"));
}
