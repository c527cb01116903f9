//! The parameters of the input: rows that are keyed by node, or by node and relation, so that any cut of the graph begins alike.

use shardgraph_graph::random::Stream;

use super::coefficients::glorot;
use super::incoming::Incoming;
use super::kernel::largest_magnitude;
use super::optimiser::{Moments, Rule};
use super::plan::{LayerPlan, Layout};
use super::shape::Shape;
use super::sums::Sums;
use crate::config::Config;

/// Where the rows of one-hot input come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyed {
    /// With bases: a row of the bases for each node, shared by its relations.
    ByNode,
    /// Without: a row for each pair of node and relation that occurs.
    ByPair,
    /// No one-hot input: a vector for each node, which the first layer reads as units.
    Embedding,
}

/// The rows of a rank's sources.
#[derive(Clone, Debug)]
pub(crate) struct InputRows {
    pub(crate) keyed: Keyed,
    pub(crate) shape: Shape,
    pub(crate) rows: Vec<f32>,
    pub(crate) moments: Moments,
    /// The greatest magnitude of all rows.
    pub(crate) largest: f32,
    /// Whether rows are given, so that they take no steps.
    pub(crate) is_given: bool,
}

impl InputRows {
    /// Those of a rank before the first step.
    pub(crate) fn new(
        config: &Config,
        layout: &Layout<'_>,
        rank: usize,
        plan: &LayerPlan,
        width: usize,
    ) -> InputRows {
        let keyed = match (config.embedding, config.bases) {
            (0, 0) => Keyed::ByPair,
            (0, _) => Keyed::ByNode,
            _ => Keyed::Embedding,
        };
        let shape = match keyed {
            Keyed::Embedding => Shape::new(config.embedding, 1),
            Keyed::ByNode | Keyed::ByPair => Shape::new(config.bases.max(1), width),
        };
        let places = layout.places(0, rank);
        let mut input = InputRows {
            keyed,
            shape,
            rows: Vec::new(),
            moments: Moments::default(),
            largest: 0.0,
            is_given: config.features,
        };
        let n_rows = match keyed {
            Keyed::ByNode | Keyed::Embedding => places.len(),
            Keyed::ByPair => plan.n_pairs(),
        };
        input.rows = vec![0.0; n_rows * input.row_len()];
        for (source, place) in places.enumerate() {
            let node = layout.sets[0].node(place);
            for row in input.rows_of(plan, source) {
                let relation = match keyed {
                    Keyed::ByNode | Keyed::Embedding => 0,
                    Keyed::ByPair => plan.relations[row],
                };
                let len = input.row_len();
                let row = &mut input.rows[row * len..][..len];
                begin_row(config, layout, (node, relation), (keyed, shape), row);
            }
        }
        input.largest = largest_magnitude(&input.rows);
        let n_learnt = if input.is_given { 0 } else { input.rows.len() };
        input.moments = Moments::new(config.optimiser, n_learnt);
        input
    }

    /// Steps all rows along a gradient of their length.
    pub(crate) fn step(&mut self, gradient: &[f32], (rule, decay): (Rule, f32)) {
        if self.is_given {
            return;
        }
        let whole = 0..self.rows.len();
        rule.step(&mut self.rows, gradient, decay, self.moments.of(whole));
        self.largest = largest_magnitude(&self.rows);
    }

    /// Numbers in a row.
    pub(crate) fn row_len(&self) -> usize {
        match self.keyed {
            Keyed::ByNode | Keyed::Embedding => self.shape.stride,
            Keyed::ByPair => self.shape.width,
        }
    }

    /// The rows of a source.
    pub(crate) fn rows_of(&self, plan: &LayerPlan, source: usize) -> std::ops::Range<usize> {
        match self.keyed {
            Keyed::ByNode | Keyed::Embedding => source..source + 1,
            Keyed::ByPair => plan.pairs(source),
        }
    }
}

/// The row of a node (and a relation) before the first step: of one-hot input as for a matrix of nodes by units, of an embedding as
/// for a square one.
fn begin_row(
    config: &Config,
    layout: &Layout<'_>,
    (node, relation): (u32, u32),
    (keyed, shape): (Keyed, Shape),
    row: &mut [f32],
) {
    if let (true, Some(features)) = (config.features, layout.graph.features()) {
        row.copy_from_slice(features.row(node));
        return;
    }
    let sides = match keyed {
        Keyed::Embedding => (shape.len(), shape.len()),
        _ => (layout.graph.n_nodes() as usize, shape.width),
    };
    let (purpose, key) = match keyed {
        Keyed::ByPair => ("rgcn pair", u64::from(node) << 32 | u64::from(relation)),
        Keyed::ByNode => ("rgcn basis", node.into()),
        Keyed::Embedding => ("rgcn embedding", node.into()),
    };
    let mut stream = Stream::new(config.seed, purpose, key);
    glorot(&mut stream, sides, &mut row[..shape.len()]);
}

/// Sends each pair's own row: the first layer without bases.
pub(crate) fn forward_pairs(plan: &LayerPlan, width: usize, rows: &[f32], sums: &mut impl Sums) {
    for (pair, row) in rows.chunks_exact(width).enumerate() {
        for &send in plan.sends(pair) {
            sums.add::<0>(send, row);
        }
    }
}

/// Steps each pair's own row along the gradients of the rows that it went to.
pub(crate) fn backward_pairs(
    plan: &LayerPlan,
    made: &Incoming<'_>,
    input: &mut InputRows,
    (rule, decay): (Rule, f32),
) {
    let width = input.shape.width;
    let mut gradient = vec![0.0; width];
    input.largest = 0.0;
    for (pair, row) in input.rows.chunks_exact_mut(width).enumerate() {
        gradient.fill(0.0);
        plan.gather_pair(pair, made, &mut gradient);
        let range = pair * width..(pair + 1) * width;
        rule.step(row, &gradient, decay, input.moments.of(range));
        input.largest = input.largest.max(largest_magnitude(row));
    }
}
