//! Message passing on every back end, against f64 loops over the edges.

use proptest::prelude::*;

use super::{Direction, EdgeGraph, InputWidths, Message, NOBODY, Reduce, Reduced, Upstream};
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

/// A graph, which parts its messages have, and how they are reduced; `None` is the maximum.
#[derive(Debug, Clone)]
struct Case {
    n_nodes: usize,
    edges: Vec<(u32, u32)>,
    width: usize,
    present: [bool; 3],
    relu: bool,
    direction: Direction,
    reduce: Option<Reduce>,
}

impl Case {
    fn graph(&self, device: &Device) -> EdgeGraph {
        let (sources, targets): (Vec<u32>, Vec<u32>) = self.edges.iter().copied().unzip();
        EdgeGraph::upload(device, self.n_nodes, &sources, &targets).unwrap()
    }

    /// Neighbour, own and edge rows.
    fn parts(&self) -> [Vec<f32>; 3] {
        let nodes = self.n_nodes * self.width;
        [
            fractions(0, nodes),
            fractions(50_000, nodes),
            fractions(100_000, self.edges.len() * self.width),
        ]
    }

    /// (collecting node, other end) of an edge.
    fn ends(&self, edge: usize) -> (usize, usize) {
        let (source, target) = (self.edges[edge].0 as usize, self.edges[edge].1 as usize);
        match self.direction {
            Direction::Incoming => (target, source),
            Direction::Outgoing => (source, target),
        }
    }

    /// The result, in f64, and the winners of a maximum.
    fn naive(&self, parts: &[Vec<f64>; 3]) -> (Vec<f64>, Vec<u32>) {
        let width = self.width;
        let mut out = vec![0.0; self.n_nodes * width];
        let mut winners = vec![NOBODY; out.len()];
        let mut counts = vec![0.0; self.n_nodes];
        for edge in 0..self.edges.len() {
            let (centre, other) = self.ends(edge);
            counts[centre] += 1.0;
            for column in 0..width {
                let rows = [other, centre, edge];
                let z: f64 = (0..3)
                    .filter(|&k| self.present[k])
                    .map(|k| parts[k][rows[k] * width + column])
                    .sum();
                let value = if self.relu { z.max(0.0) } else { z };
                let at = centre * width + column;
                match self.reduce {
                    Some(_) => out[at] += value,
                    None if winners[at] == NOBODY || value > out[at] => {
                        (out[at], winners[at]) = (value, edge as u32)
                    }
                    None => {}
                }
            }
        }
        if self.reduce == Some(Reduce::Mean) {
            for (at, value) in out.iter_mut().enumerate() {
                *value /= f64::max(counts[at / width], 1.0);
            }
        }
        (out, winners)
    }

    /// Whether some relu or maximum is so close to its kink that differences across it mean nothing.
    fn near_a_kink(&self, parts: &[Vec<f64>; 3]) -> bool {
        let z = |edge: usize, column: usize| -> f64 {
            let (centre, other) = self.ends(edge);
            let rows = [other, centre, edge];
            (0..3)
                .filter(|&k| self.present[k])
                .map(|k| parts[k][rows[k] * self.width + column])
                .sum()
        };
        let edges = 0..self.edges.len();
        let pairs = || {
            edges
                .clone()
                .flat_map(|e| (0..self.width).map(move |c| (e, c)))
        };
        let at_zero = self.relu && pairs().any(|(e, c)| z(e, c).abs() < 1e-4);
        let tied = |(e, c): (usize, usize)| {
            let rivals = edges
                .clone()
                .filter(|&f| f != e && self.ends(f).0 == self.ends(e).0);
            rivals.into_iter().any(|f| (z(e, c) - z(f, c)).abs() < 1e-4)
        };
        at_zero || (self.reduce.is_none() && pairs().any(tied))
    }
}

fn widths() -> impl Strategy<Value = usize> {
    prop_oneof![
        1usize..6,
        31usize..34,
        63usize..66,
        Just(12),
        Just(128),
        Just(132)
    ]
}

fn cases(width: impl Strategy<Value = usize>) -> impl Strategy<Value = Case> {
    let edges = (1usize..7).prop_flat_map(|n_nodes| {
        let node = 0..n_nodes as u32;
        (
            Just(n_nodes),
            prop::collection::vec((node.clone(), node), 0..24),
        )
    });
    let incoming = any::<bool>();
    let reduce = prop_oneof![
        Just(Some(Reduce::Sum)),
        Just(Some(Reduce::Mean)),
        Just(None)
    ];
    (
        edges,
        width,
        any::<[bool; 3]>(),
        any::<bool>(),
        incoming,
        reduce,
    )
        .prop_map(
            |((n_nodes, edges), width, present, relu, incoming, reduce)| Case {
                n_nodes,
                edges,
                width,
                present,
                relu,
                direction: if incoming {
                    Direction::Incoming
                } else {
                    Direction::Outgoing
                },
                reduce,
            },
        )
}

fn worst(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let differences = got.iter().zip(want).map(|(&g, w)| (f64::from(g) - w).abs());
    differences.fold(
        0.0,
        |worst, d| if d > worst || d.is_nan() { d } else { worst },
    )
}

fn wide(parts: &[Vec<f32>; 3]) -> [Vec<f64>; 3] {
    parts
        .each_ref()
        .map(|part| part.iter().map(|&v| f64::from(v)).collect())
}

fn nan(device: &Device, len: usize) -> Buffer {
    device.upload(&vec![f32::NAN; len]).unwrap()
}

/// The result, the winners, and the gradients by neighbour, own and edge for the gradient `grad_out`.
fn run(device: &Device, case: &Case, grad_out: &[f32]) -> (Vec<f32>, Vec<u32>, [Vec<f32>; 3]) {
    let (graph, direction, width) = (case.graph(device), case.direction, case.width);
    let parts = case.parts().map(|part| device.upload(&part).unwrap());
    let part = |k: usize| case.present[k].then_some(&parts[k]);
    let (neighbour, own, edge, relu) = (part(0), part(1), part(2), case.relu);
    let message = Message {
        neighbour,
        own,
        edge,
        relu,
    };
    let len = case.n_nodes * width;
    let (mut out, mut winners) = (nan(device, len), device.zeros::<u32>(len).unwrap());
    match case.reduce {
        Some(reduce) => graph.reduce((direction, reduce), width, &message, &mut out),
        None => graph.maximum(direction, width, &message, &mut out, &mut winners),
    }
    .unwrap();
    let kind = case.reduce.map_or(Reduced::Max(&winners), Reduced::By);
    let gradient = &device.upload(grad_out).unwrap();
    let upstream = Upstream {
        direction,
        kind,
        gradient,
    };
    let gradients = gradients(device, &graph, &upstream, width, &message);
    (
        device.download(&out).unwrap(),
        device.download(&winners).unwrap(),
        gradients,
    )
}

fn gradients(
    device: &Device,
    graph: &EdgeGraph,
    upstream: &Upstream<'_>,
    width: usize,
    message: &Message<'_>,
) -> [Vec<f32>; 3] {
    let [mut neighbour, mut own] = [0; 2].map(|_| nan(device, graph.n_nodes() * width));
    let mut edge = nan(device, graph.n_edges() * width);
    graph
        .neighbour_grad(upstream, width, message, &mut neighbour)
        .unwrap();
    graph.own_grad(upstream, width, message, &mut own).unwrap();
    graph
        .edge_grad(upstream, width, message, false, &mut edge)
        .unwrap();
    let once = device.download(&edge).unwrap();
    graph
        .edge_grad(upstream, width, message, true, &mut edge)
        .unwrap();
    let twice = device.download(&edge).unwrap();
    assert!(
        once.iter()
            .zip(&twice)
            .all(|(a, b)| (2.0 * a - b).abs() < 1e-6),
        "accumulated"
    );
    let [neighbour, own] = [neighbour, own].map(|buffer| device.download(&buffer).unwrap());
    [neighbour, own, once]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn reductions_match_naive(case in cases(widths())) {
        let (want, winners) = case.naive(&wide(&case.parts()));
        let grad_out = fractions(200_000, want.len());
        for device in devices() {
            let (out, won, _) = run(&device, &case, &grad_out);
            prop_assert!(worst(&out, &want) < 1e-5, "{} {:?} {:?}", device.kind(), out, want);
            if case.reduce.is_none() && !case.near_a_kink(&wide(&case.parts())) {
                prop_assert_eq!(won, winners.clone(), "{}", device.kind());
            }
        }
    }

    /// Central differences in f64; all pieces of the function are linear.
    #[test]
    fn gradients_match_differences(case in cases(prop_oneof![1usize..3, Just(4)])) {
        let parts = wide(&case.parts());
        prop_assume!(!case.near_a_kink(&parts));
        let grad_out = fractions(200_000, case.n_nodes * case.width);
        let value = |parts: &[Vec<f64>; 3]| -> f64 {
            case.naive(parts).0.iter().zip(&grad_out).map(|(o, &g)| o * f64::from(g)).sum()
        };
        let results: Vec<_> = devices().iter().map(|device| (device.kind(), run(device, &case, &grad_out).2)).collect();
        for k in (0..3).filter(|&k| case.present[k]) {
            for i in 0..parts[k].len() {
                let mut moved = parts.clone();
                moved[k][i] = parts[k][i] + 1e-5;
                let above = value(&moved);
                moved[k][i] = parts[k][i] - 1e-5;
                let slope = (above - value(&moved)) / 2e-5;
                for (kind, gradients) in &results {
                    let got = f64::from(gradients[k][i]);
                    prop_assert!((got - slope).abs() < 1e-5, "{kind} part {k} element {i}: {got}, slope {slope}");
                }
            }
        }
    }

    #[test]
    fn edge_inputs_and_their_gradient_match_naive(case in cases(Just(1)), node in prop_oneof![1usize..4, Just(33)], edge in 0usize..5) {
        let widths = InputWidths { node, edge };
        let (nodes, edges) = (fractions(0, case.n_nodes * node), fractions(9000, case.edges.len() * edge));
        let grad = fractions(20_000, case.edges.len() * widths.row());
        let (mut rows, mut grad_edges) = (Vec::new(), Vec::new());
        let mut grad_nodes = vec![0.0f64; nodes.len()];
        for (e, &(source, target)) in case.edges.iter().enumerate() {
            let g = &grad[e * widths.row()..][..widths.row()];
            for (end, first) in [(source as usize, 0), (target as usize, node)] {
                rows.extend_from_slice(&nodes[end * node..][..node]);
                (0..node).for_each(|c| grad_nodes[end * node + c] += f64::from(g[first + c]));
            }
            rows.extend_from_slice(&edges[e * edge..][..edge]);
            grad_edges.extend_from_slice(&g[2 * node..]);
        }
        for device in devices() {
            let graph = case.graph(&device);
            let up = |values: &[f32]| device.upload(values).unwrap();
            let (mut out, mut out_nodes, mut out_edges) =
                (up(&vec![f32::NAN; rows.len()]), up(&vec![f32::NAN; nodes.len()]), up(&vec![f32::NAN; edges.len()]));
            graph.edge_inputs(widths, &up(&nodes), &up(&edges), &mut out).unwrap();
            graph.edge_inputs_grad(widths, &up(&grad), &mut out_nodes, &mut out_edges).unwrap();
            prop_assert_eq!(device.download(&out).unwrap(), rows.clone(), "{}", device.kind());
            prop_assert_eq!(device.download(&out_edges).unwrap(), grad_edges.clone(), "{}", device.kind());
            prop_assert!(worst(&device.download(&out_nodes).unwrap(), &grad_nodes) < 1e-5, "{}", device.kind());
        }
    }
}

/// A hub of 300 edges, between lists of other lengths.
#[test]
fn hubs_are_reduced_like_others() {
    for (width, reduce) in [
        (32, Some(Reduce::Sum)),
        (32, None),
        (33, Some(Reduce::Mean)),
        (1, None),
    ] {
        let edges = (0..330u32).map(|i| (i % 40, if i < 300 { 7 } else { i % 40 }));
        let (direction, present) = (Direction::Incoming, [true; 3]);
        let case = Case {
            n_nodes: 40,
            edges: edges.collect(),
            width,
            present,
            relu: true,
            direction,
            reduce,
        };
        let (want, _) = case.naive(&wide(&case.parts()));
        for device in devices() {
            let (out, _, _) = run(&device, &case, &fractions(200_000, want.len()));
            let error = worst(&out, &want);
            assert!(error < 1e-4, "{} {width} {reduce:?} {error}", device.kind());
        }
    }
}

/// The maximum of the first column and the winners, over 37 parallel edges with the given rows.
fn maximum_of_rows(device: &Device, width: usize, rows: &[f32]) -> (f32, Vec<u32>) {
    let graph = EdgeGraph::upload(device, 2, &[0; 37], &[1; 37]).unwrap();
    let edge = device.upload(rows).unwrap();
    let message = Message {
        neighbour: None,
        own: None,
        edge: Some(&edge),
        relu: false,
    };
    let mut out = device.zeros(2 * width).unwrap();
    let mut winners = device.zeros::<u32>(2 * width).unwrap();
    graph
        .maximum(Direction::Incoming, width, &message, &mut out, &mut winners)
        .unwrap();
    (
        device.download(&out).unwrap()[width],
        device.download(&winners).unwrap(),
    )
}

/// Equal values: the first edge wins, whichever lanes met it. NaN wins over numbers.
#[test]
fn the_first_of_equal_values_wins_and_nan_is_not_lost() {
    for (device, width) in devices()
        .into_iter()
        .flat_map(|d| [1, 4, 8].map(|width| (d.clone(), width)))
    {
        let mut rows = vec![1.0f32; 37 * width];
        let (best, winners) = maximum_of_rows(&device, width, &rows);
        assert_eq!(
            (best, winners[0], winners[width]),
            (1.0, NOBODY, 0),
            "{}",
            device.kind()
        );
        for (edge, value) in [(5, -3.0), (21, 2.0), (22, 2.0)] {
            rows[edge * width] = value;
        }
        assert_eq!(
            maximum_of_rows(&device, width, &rows).1[width],
            21,
            "{}",
            device.kind()
        );
        rows[30 * width] = f32::NAN;
        let (best, winners) = maximum_of_rows(&device, width, &rows);
        assert!(best.is_nan() && winners[width] == 30, "{}", device.kind());
    }
}

#[test]
fn graphs_and_operands_that_do_not_fit_are_refused() {
    let device = Device::host();
    let refused = |n, sources: &[u32], targets: &[u32], text: &str| {
        let message = EdgeGraph::upload(&device, n, sources, targets)
            .unwrap_err()
            .to_string();
        assert!(message.contains(text), "{message}");
    };
    refused(2, &[0, 1], &[1], "`targets` has 1 elements, 2 are needed");
    refused(2, &[0, 2], &[1, 1], "row 2 is outside a table of 2 rows");
    let graph = EdgeGraph::upload(&device, 2, &[0, 1], &[1, 1]).unwrap();
    let (three, mut out) = (device.zeros(3).unwrap(), device.zeros(2).unwrap());
    let message = Message {
        neighbour: Some(&three),
        own: None,
        edge: None,
        relu: false,
    };
    let how = (Direction::Incoming, Reduce::Sum);
    let error = graph
        .reduce(how, 1, &message, &mut out)
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "messages: operand `neighbour` has 3 elements, 2 are needed"
    );
    let nothing = Message {
        neighbour: None,
        ..message
    };
    graph.reduce(how, 1, &nothing, &mut out).unwrap();
    assert_eq!(device.download(&out).unwrap(), [0.0, 0.0]);
}
