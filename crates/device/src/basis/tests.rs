//! Relational convolutions on every back end, against f64 loops that do build `W_r`.

use proptest::prelude::*;

use super::{
    BasisShape, BlockShape, CoefficientGradient, Descent, Edges, Relational, Weights,
    inverse_counts,
};
use crate::tests::devices;
use crate::{Buffer, Device};

/// A fraction in -0.5..0.5, spread by a hash.
fn fraction(i: usize) -> f32 {
    let mixed = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (mixed % 4001) as f32 / 4000.0 - 0.5
}

fn fractions(first: usize, len: usize) -> Vec<f32> {
    (first..first + len).map(fraction).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[derive(Debug, Clone)]
struct Case {
    n_sources: usize,
    n_destinations: usize,
    n_relations: usize,
    /// (source, relation, destination)
    edges: Vec<(u32, u32, u32)>,
    cuts: Vec<u32>,
}

impl Case {
    fn weights(&self) -> Vec<f32> {
        let relations: Vec<u32> = self.edges.iter().map(|e| e.1).collect();
        let destinations: Vec<u32> = self.edges.iter().map(|e| e.2).collect();
        inverse_counts(&relations, &destinations)
    }

    fn upload(&self, device: &Device, edges: &[((u32, u32, u32), f32)]) -> Relational {
        let column = |f: fn(&(u32, u32, u32)) -> u32| edges.iter().map(|e| f(&e.0)).collect();
        let (sources, relations, destinations): (Vec<u32>, Vec<u32>, Vec<u32>) =
            (column(|e| e.0), column(|e| e.1), column(|e| e.2));
        let weights: Vec<f32> = edges.iter().map(|e| e.1).collect();
        let edges = Edges {
            n_sources: self.n_sources,
            n_destinations: self.n_destinations,
            n_relations: self.n_relations,
            sources: &sources,
            relations: &relations,
            destinations: &destinations,
            weights: &weights,
        };
        Relational::upload(device, &edges, &self.cuts).unwrap()
    }

    fn weighted_edges(&self) -> Vec<((u32, u32, u32), f32)> {
        self.edges.iter().copied().zip(self.weights()).collect()
    }

    fn graph(&self, device: &Device) -> Relational {
        self.upload(device, &self.weighted_edges())
    }

    /// `out[d] = sum of weight * message(s, r)` over the edges, in f64.
    fn sum_messages(&self, width: usize, message: impl Fn(usize, usize) -> Vec<f64>) -> Vec<f64> {
        let mut out = vec![0.0; self.n_destinations * width];
        for (&(s, r, d), weight) in self.edges.iter().zip(self.weights()) {
            let message = message(s as usize, r as usize);
            let row = &mut out[d as usize * width..][..width];
            row.iter_mut()
                .zip(message)
                .for_each(|(o, m)| *o += f64::from(weight) * m);
        }
        out
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (
        1usize..8,
        1usize..8,
        1usize..5,
        prop::collection::vec((0u32..8, 0u32..5, 0u32..8), 0..40),
        0u32..8,
    )
        .prop_map(
            |(n_sources, n_destinations, n_relations, edges, cut)| Case {
                n_sources,
                n_destinations,
                n_relations,
                edges: edges
                    .into_iter()
                    .map(|(s, r, d)| {
                        (
                            s % n_sources as u32,
                            r % n_relations as u32,
                            d % n_destinations as u32,
                        )
                    })
                    .collect(),
                cuts: vec![0, cut % n_sources as u32, n_sources as u32],
            },
        )
}

/// Some 700 pairs of one relation among sources of many, so that pieces, ranges and long segments all occur.
fn hot_relation() -> Case {
    let edges = (0..1400u32).map(|i| (i / 2, if i % 2 == 0 { 0 } else { 1 + i % 7 }, i % 5));
    Case {
        n_sources: 700,
        n_destinations: 5,
        n_relations: 8,
        edges: edges.collect(),
        cuts: vec![0, 20, 700],
    }
}

fn close(got: &[f32], want: &[f64]) -> Result<(), String> {
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(1.0, |m: f64, w| m.max(w.abs()));
    for (i, (&g, w)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(g) - w).abs();
        if error.is_nan() || error > 2e-5 * scale {
            return Err(format!("element {i}: {g} instead of {w}"));
        }
    }
    Ok(())
}

/// The one-hot layer in f64: every `W_r` row is built.
fn naive_one_hot(case: &Case, shape: BasisShape, bases: &[f64], coefficients: &[f64]) -> Vec<f64> {
    let BasisShape { n_bases, width } = shape;
    case.sum_messages(width, |s, r| {
        let weight = |h| {
            (0..n_bases)
                .map(|b| coefficients[r * n_bases + b] * bases[(s * n_bases + b) * width + h])
                .sum()
        };
        (0..width).map(weight).collect()
    })
}

struct OneHot {
    out: Vec<f32>,
    grad_bases: Vec<f32>,
    by_range: Vec<f32>,
    stepped: Vec<f32>,
}

fn nan(device: &Device, len: usize) -> Buffer {
    device.upload(&vec![f32::NAN; len]).unwrap()
}

/// Sums the rows of the pairs into destinations.
fn messages(device: &Device, graph: &Relational, width: usize, pairs: &Buffer) -> Buffer {
    let mut out = nan(device, graph.incoming().n_lists() * width);
    device
        .gather_sum(graph.incoming(), width, pairs, &mut out)
        .unwrap();
    out
}

/// The adjoint of [`messages`].
fn messages_grad(device: &Device, graph: &Relational, width: usize, grad: &Buffer) -> Buffer {
    let mut out = nan(device, graph.n_pairs() * width);
    device
        .gather_sum(graph.outgoing(), width, grad, &mut out)
        .unwrap();
    out
}

const DESCENT: Descent = Descent {
    rate: 0.5,
    decay: 0.25,
};

/// Forward, backward with the given gradient of the result, and a step, on one device.
fn run_one_hot(
    device: &Device,
    graph: &Relational,
    shape: BasisShape,
    operands: [&[f32]; 3],
) -> OneHot {
    let [bases, coefficients, grad_out] = operands.map(|x| device.upload(x).unwrap());
    let mut pairs = nan(device, graph.n_pairs() * shape.width);
    graph
        .basis_pairs(shape, &bases, &coefficients, &mut pairs)
        .unwrap();
    let out = messages(device, graph, shape.width, &pairs);
    let grad = messages_grad(device, graph, shape.width, &grad_out);
    let mut scratch = graph.scratch(shape.n_bases).unwrap();
    let mut grad_bases = nan(device, bases.len());
    let mut by_range = nan(device, graph.n_ranges() * coefficients.len());
    let mut again = nan(device, by_range.len());
    let both = (&bases, &coefficients);
    let of_coefficients = CoefficientGradient {
        by_range: &mut by_range,
        scratch: &mut scratch,
    };
    graph
        .basis_pairs_grad(shape, both, &grad, &mut grad_bases, of_coefficients)
        .unwrap();
    let mut stepped = device.upload(operands[0]).unwrap();
    let step = (shape, DESCENT);
    let of_coefficients = CoefficientGradient {
        by_range: &mut again,
        scratch: &mut scratch,
    };
    graph
        .basis_pairs_step(step, &mut stepped, &coefficients, &grad, of_coefficients)
        .unwrap();
    let results = [out, grad_bases, by_range, again, stepped];
    let [out, grad_bases, by_range, again, stepped] = results.map(|b| device.download(&b).unwrap());
    assert_eq!(again, by_range, "a step and a gradient see the same bases");
    OneHot {
        out,
        grad_bases,
        by_range,
        stepped,
    }
}

/// Central differences of `sum grad_out * f`, exact but for rounding where `f` is linear in the element.
fn slopes(at: &[f64], grad_out: &[f32], f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let value = |x: &[f64]| -> f64 {
        f(x).iter()
            .zip(grad_out)
            .map(|(o, &g)| o * f64::from(g))
            .sum()
    };
    let mut x = at.to_vec();
    (0..at.len())
        .map(|i| {
            x[i] = at[i] + 1e-3;
            let above = value(&x);
            x[i] = at[i] - 1e-3;
            let below = value(&x);
            x[i] = at[i];
            (above - below) / 2e-3
        })
        .collect()
}

/// Sums over the ranges.
fn total(by_range: &[f32], len: usize) -> Vec<f32> {
    let mut sum = vec![0.0; len];
    for range in by_range.chunks_exact(len) {
        sum.iter_mut().zip(range).for_each(|(s, r)| *s += r);
    }
    sum
}

fn check_one_hot(case: &Case, shape: BasisShape) -> Result<(), String> {
    let bases = fractions(0, case.n_sources * shape.n_bases * shape.width);
    let coefficients = fractions(10_000, case.n_relations * shape.n_bases);
    let grad_out = fractions(20_000, case.n_destinations * shape.width);
    let (wide_bases, wide_coefficients) = (wide(&bases), wide(&coefficients));
    let want = naive_one_hot(case, shape, &wide_bases, &wide_coefficients);
    let of_bases = slopes(&wide_bases, &grad_out, |v| {
        naive_one_hot(case, shape, v, &wide_coefficients)
    });
    let of_coefficients = slopes(&wide_coefficients, &grad_out, |a| {
        naive_one_hot(case, shape, &wide_bases, a)
    });
    let stepped: Vec<f64> = wide_bases
        .iter()
        .zip(&of_bases)
        .map(|(v, g)| v - 0.5 * (g + 0.25 * v))
        .collect();
    for device in devices() {
        let got = run_one_hot(
            &device,
            &case.graph(&device),
            shape,
            [&bases, &coefficients, &grad_out],
        );
        let results = [
            ("out", close(&got.out, &want)),
            ("bases", close(&got.grad_bases, &of_bases)),
            (
                "coefficients",
                close(&total(&got.by_range, coefficients.len()), &of_coefficients),
            ),
            ("step", close(&got.stepped, &stepped)),
        ];
        for (name, result) in results {
            result.map_err(|why| format!("{} {name}: {why}", device.kind()))?;
        }
    }
    Ok(())
}

/// Weights in f64, as the layer's parameters; `W_r[i][o]` of a block.
fn naive_dense(
    case: &Case,
    shape: BlockShape,
    n_bases: usize,
    weights: &[f64],
    coefficients: &[f64],
    x: &[f64],
) -> Vec<f64> {
    let size = shape.rows * shape.cols;
    let weight = |r: usize, block: usize, at: usize| match n_bases {
        0 => weights[(r * shape.n_blocks + block) * size + at],
        _ => (0..n_bases)
            .map(|b| coefficients[r * n_bases + b] * weights[b * size + at])
            .sum(),
    };
    case.sum_messages(shape.out_width(), |s, r| {
        let output = |o: usize| {
            let (block, column) = (o / shape.cols, o % shape.cols);
            let term = |i: usize| {
                let input = x[s * shape.in_width() + block * shape.rows + i];
                input * weight(r, block, i * shape.cols + column)
            };
            (0..shape.rows).map(term).sum()
        };
        (0..shape.out_width()).map(output).collect()
    })
}

fn check_dense(case: &Case, shape: BlockShape, n_bases: usize) -> Result<(), String> {
    let n_weights = shape.n_weights();
    let parameters = if n_bases > 0 {
        n_bases * n_weights
    } else {
        case.n_relations * n_weights
    };
    let weights = fractions(0, parameters);
    let coefficients = fractions(10_000, case.n_relations * n_bases);
    let x = fractions(20_000, case.n_sources * shape.in_width());
    let grad_out = fractions(30_000, case.n_destinations * shape.out_width());
    let (w, a, wide_x) = (wide(&weights), wide(&coefficients), wide(&x));
    let want = naive_dense(case, shape, n_bases, &w, &a, &wide_x);
    let of_x = slopes(&wide_x, &grad_out, |x| {
        naive_dense(case, shape, n_bases, &w, &a, x)
    });
    let of_w = slopes(&w, &grad_out, |w| {
        naive_dense(case, shape, n_bases, w, &a, &wide_x)
    });
    let of_a = slopes(&a, &grad_out, |a| {
        naive_dense(case, shape, n_bases, &w, a, &wide_x)
    });
    for device in devices() {
        let graph = case.graph(&device);
        let operands = [&weights, &coefficients, &x, &grad_out].map(|v| device.upload(v).unwrap());
        let got = run_dense(&device, &graph, shape, n_bases, &operands);
        for ((name, got), want) in ["out", "x", "weights", "coefficients"]
            .iter()
            .zip(&got)
            .zip([&want, &of_x, &of_w, &of_a])
        {
            close(got, want).map_err(|why| format!("{} {name}: {why}", device.kind()))?;
        }
    }
    Ok(())
}

/// The result, and the gradients by x, weights and coefficients.
fn run_dense(
    device: &Device,
    graph: &Relational,
    shape: BlockShape,
    n_bases: usize,
    operands: &[Buffer; 4],
) -> [Vec<f32>; 4] {
    let [w, a, x, grad_out] = operands;
    let weights = match n_bases {
        0 => Weights::Blocks(w),
        _ => Weights::Bases {
            bases: w,
            coefficients: a,
        },
    };
    let mut pairs = nan(device, graph.n_pairs() * shape.out_width());
    graph.transform(shape, weights, x, &mut pairs).unwrap();
    let out = messages(device, graph, shape.out_width(), &pairs);
    let grad = messages_grad(device, graph, shape.out_width(), grad_out);
    let mut scratch = nan(device, graph.n_pairs() * shape.in_width());
    let mut grad_x = nan(device, x.len());
    graph
        .transform_grad(shape, weights, &grad, &mut scratch, &mut grad_x)
        .unwrap();
    let [grad_w, grad_a] = dense_weights_grad(device, graph, shape, operands, &grad);
    let [out, grad_x] = [out, grad_x].map(|buffer| device.download(&buffer).unwrap());
    [out, grad_x, grad_w, grad_a]
}

/// The gradients by weights and coefficients (none for block-diagonal weights).
fn dense_weights_grad(
    device: &Device,
    graph: &Relational,
    shape: BlockShape,
    [w, a, x, _]: &[Buffer; 4],
    grad: &Buffer,
) -> [Vec<f32>; 2] {
    let mut scratch = nan(device, graph.weights_scratch_len(shape));
    let per_range = graph.n_relations * shape.n_weights();
    let mut by_range = nan(device, graph.n_ranges() * per_range);
    graph
        .weights_grad(shape, (x, grad), &mut scratch, &mut by_range)
        .unwrap();
    let of_w_r = total(&device.download(&by_range).unwrap(), per_range);
    if a.is_empty() {
        return [of_w_r, Vec::new()];
    }
    let of_w_r = device.upload(&of_w_r).unwrap();
    let (mut grad_w, mut grad_a) = (nan(device, w.len()), nan(device, a.len()));
    graph
        .bases_grad(shape, (w, a), &of_w_r, &mut grad_w, &mut grad_a)
        .unwrap();
    [grad_w, grad_a].map(|buffer| device.download(&buffer).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn one_hot_layers_match_built_weights(
        case in cases(),
        (n_bases, width) in prop_oneof![
            (1usize..4, 1usize..4),
            (Just(40), Just(10)),
            (63usize..66, 1usize..3),
            (1usize..3, 31usize..34),
            (Just(65), Just(33)),
        ],
    ) {
        // Finite differences of every element: keep the larger shapes to a few sources.
        let mut case = case;
        if n_bases * width > 100 {
            case.edges.truncate(6);
            case.n_sources = 2;
            case.edges.iter_mut().for_each(|e| e.0 %= 2);
            case.cuts = vec![0, 1, 2];
        }
        let checked = check_one_hot(&case, BasisShape { n_bases, width });
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }

    #[test]
    fn dense_layers_match_built_weights(
        case in cases(),
        n_blocks in 1usize..4,
        rows in prop_oneof![1usize..4, Just(10)],
        cols in prop_oneof![1usize..4, Just(11)],
        n_bases in 0usize..4,
    ) {
        let n_blocks = if n_bases > 0 { 1 } else { n_blocks };
        let checked = check_dense(&case, BlockShape { n_blocks, rows, cols }, n_bases);
        prop_assert!(checked.is_ok(), "{:?}", checked);
    }

    /// Neither the order of the edges nor what other ranges hold changes a bit.
    #[test]
    fn bits_do_not_depend_on_edge_order_or_other_ranges(case in cases()) {
        let shape = BasisShape { n_bases: 5, width: 7 };
        let bases = fractions(0, case.n_sources * 35);
        let coefficients = fractions(10_000, case.n_relations * 5);
        let grad_out = fractions(20_000, case.n_destinations * 7);
        let operands: [&[f32]; 3] = [&bases, &coefficients, &grad_out];
        let edges = case.weighted_edges();
        let mut reversed = edges.clone();
        reversed.reverse();
        for device in devices() {
            let run = |edges: &[_]| run_one_hot(&device, &case.upload(&device, edges), shape, operands);
            let (forward, backward) = (run(&edges), run(&reversed));
            prop_assert_eq!(&forward.out, &backward.out);
            prop_assert_eq!(&forward.by_range, &backward.by_range);
            for k in 0..2 {
                let own: Vec<_> =
                    edges.iter().filter(|e| (case.cuts[k]..case.cuts[k + 1]).contains(&e.0.0)).copied().collect();
                let alone = run(&own);
                let len = coefficients.len();
                prop_assert_eq!(&alone.by_range[k * len..][..len], &forward.by_range[k * len..][..len]);
            }
        }
    }
}

#[test]
fn hot_relations_are_cut_into_pieces() {
    let case = hot_relation();
    let graph = case.graph(&Device::host());
    assert!(graph.pieces.n_pieces > 2 * 7 + 1 && graph.n_pairs() == 1400);
    let shape = BasisShape {
        n_bases: 2,
        width: 1,
    };
    let bases = fractions(0, 1400);
    let coefficients = fractions(10_000, 16);
    let want = naive_one_hot(&case, shape, &wide(&bases), &wide(&coefficients));
    let grad_out = fractions(20_000, 5);
    let of_coefficients = slopes(&wide(&coefficients), &grad_out, |a| {
        naive_one_hot(&case, shape, &wide(&bases), a)
    });
    for device in devices() {
        let got = run_one_hot(
            &device,
            &case.graph(&device),
            shape,
            [&bases, &coefficients, &grad_out],
        );
        close(&got.out, &want).unwrap();
        close(&total(&got.by_range, 16), &of_coefficients).unwrap();
    }
    check_dense(
        &Case {
            cuts: vec![0, 700],
            ..case
        },
        BlockShape {
            n_blocks: 1,
            rows: 1,
            cols: 2,
        },
        1,
    )
    .unwrap();
}

/// Blocks wider than a tile of shared memory are cut into tiles of columns.
#[test]
fn wide_weights_are_tiled() {
    let (rows, cols) = (700, 40); // 8192 floats hold 11 columns
    let case = Case {
        n_sources: 1,
        n_destinations: 1,
        n_relations: 1,
        edges: vec![(0, 0, 0)],
        cuts: vec![0, 1],
    };
    let shape = BlockShape {
        n_blocks: 1,
        rows,
        cols,
    };
    let (w, x) = (fractions(0, rows * cols), fractions(50_000, rows));
    let want = naive_dense(&case, shape, 0, &wide(&w), &[], &wide(&x));
    let grad = fractions(60_000, cols);
    for device in devices() {
        let graph = case.graph(&device);
        let operands = [&w, &vec![], &x, &grad].map(|v| device.upload(v).unwrap());
        let [out, grad_x, grad_w, _] = run_dense(&device, &graph, shape, 0, &operands);
        close(&out, &want).unwrap();
        let row = |i: usize| {
            (0..cols)
                .map(|o| f64::from(w[i * cols + o]) * f64::from(grad[o]))
                .sum()
        };
        close(&grad_x, &(0..rows).map(row).collect::<Vec<f64>>()).unwrap();
        let outer = |e: usize| f64::from(x[e / cols]) * f64::from(grad[e % cols]);
        close(&grad_w, &(0..rows * cols).map(outer).collect::<Vec<f64>>()).unwrap();
    }
}

#[test]
fn normalisers_count_edges_of_one_relation_into_one_node() {
    let inverse = inverse_counts(&[0, 0, 1, 0, 0], &[3, 3, 3, 2, 3]);
    let third = 1.0 / 3.0;
    assert_eq!(inverse, [third, third, 1.0, 1.0, third]);
}

#[test]
fn counted_bytes_follow_the_shapes() {
    let graph = hot_relation().graph(&Device::host());
    let shape = BasisShape {
        n_bases: 40,
        width: 10,
    };
    let (bases, pairs) = (700 * 400, 1400);
    assert_eq!(
        graph.forward_bytes(shape),
        4 * (bases + 10 * pairs + pairs) + 8 * 700
    );
    let backward = 4 * (2 * bases + 10 * pairs + 2 * pairs) + 8 * 700 + 8 * 40 * pairs;
    assert_eq!(graph.backward_bytes(shape), backward);
}

const TWO_EDGES: Edges<'_> = Edges {
    n_sources: 2,
    n_destinations: 2,
    n_relations: 1,
    sources: &[0, 1],
    relations: &[0, 0],
    destinations: &[1, 1],
    weights: &[1.0, 1.0],
};

#[test]
fn graphs_that_contradict_themselves_are_refused() {
    let refused = |edges: Edges<'_>, cuts: &[u32], text: &str| {
        let refusal = Relational::upload(&Device::host(), &edges, cuts);
        let message = refusal.unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    };
    let relations = &[0, 1];
    refused(
        Edges {
            relations,
            ..TWO_EDGES
        },
        &[0, 2],
        "row 1 is outside a table of 1 rows",
    );
    let weights = &[1.0];
    refused(
        Edges {
            weights,
            ..TWO_EDGES
        },
        &[0, 2],
        "`weights` has 1 elements, 2 are needed",
    );
    for cuts in [&[][..], &[0], &[0, 1], &[1, 2], &[0, 2, 1, 2]] {
        refused(TWO_EDGES, cuts, "cuts must ascend from 0 to 2 sources");
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let device = Device::host();
    let graph = Relational::upload(&device, &TWO_EDGES, &[0, 2]).unwrap();
    let (two, mut out) = (device.zeros(2).unwrap(), device.zeros(2).unwrap());
    let shape = BasisShape {
        n_bases: 1,
        width: 1,
    };
    let few = graph.basis_pairs(shape, &two, &two, &mut out);
    assert!(few.is_err(), "one coefficient is right");
    let none = BasisShape {
        n_bases: 0,
        ..shape
    };
    assert!(graph.basis_pairs(none, &two, &two, &mut out).is_err());
    let shape = BlockShape {
        n_blocks: 2,
        rows: 1,
        cols: 1,
    };
    let (bases, coefficients) = (&two, &two);
    let refusal = graph.transform(
        shape,
        Weights::Bases {
            bases,
            coefficients,
        },
        &two,
        &mut out,
    );
    let message = refusal.unwrap_err().to_string();
    assert!(message.contains("one block"), "{message}");
}
