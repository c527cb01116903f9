//! The parameters of one-hot input: rows that are keyed by node, or by node and relation, so that any cut of the graph begins alike.

use shardgraph_graph::random::Stream;

use super::coefficients::{glorot, glorot_limit};
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
        let keyed = match config.bases {
            0 => Keyed::ByPair,
            _ => Keyed::ByNode,
        };
        let shape = Shape::new(config.bases.max(1), width);
        let places = layout.places(0, rank);
        let mut input = InputRows {
            keyed,
            shape,
            rows: Vec::new(),
            moments: Moments::default(),
            largest: 0.0,
        };
        let n_rows = match keyed {
            Keyed::ByNode => places.len(),
            Keyed::ByPair => plan.n_pairs(),
        };
        input.rows = vec![0.0; n_rows * input.row_len()];
        for (source, place) in places.enumerate() {
            let node = layout.sets[0].node(place);
            for row in input.rows_of(plan, source) {
                let relation = match keyed {
                    Keyed::ByNode => 0,
                    Keyed::ByPair => plan.relations[row],
                };
                let row = &mut input.rows[row * input.shape.row_len(keyed)..]
                    [..input.shape.row_len(keyed)];
                begin_row(config, layout, (node, relation), input.shape, row);
            }
        }
        input.largest = largest_magnitude(&input.rows);
        input.moments = Moments::new(config.optimiser, input.rows.len());
        input
    }

    /// Numbers in a row.
    pub(crate) fn row_len(&self) -> usize {
        self.shape.row_len(self.keyed)
    }

    /// The rows of a source.
    fn rows_of(&self, plan: &LayerPlan, source: usize) -> std::ops::Range<usize> {
        match self.keyed {
            Keyed::ByNode => source..source + 1,
            Keyed::ByPair => plan.pairs(source),
        }
    }
}

impl Shape {
    /// Numbers in a row of one-hot input.
    fn row_len(self, keyed: Keyed) -> usize {
        match keyed {
            Keyed::ByNode => self.stride,
            Keyed::ByPair => self.width,
        }
    }
}

/// The row of a node (and a relation) before the first step, as for a matrix of nodes by units.
fn begin_row(
    config: &Config,
    layout: &Layout<'_>,
    (node, relation): (u32, u32),
    shape: Shape,
    row: &mut [f32],
) {
    let sides = (layout.graph.n_nodes() as usize, shape.width);
    match config.bases {
        0 => {
            let key = u64::from(node) << 32 | u64::from(relation);
            glorot(&mut Stream::new(config.seed, "rgcn pair", key), sides, row);
        }
        _ => {
            let mut stream = Stream::new(config.seed, "rgcn basis", node.into());
            glorot(&mut stream, sides, &mut row[..shape.len()]);
        }
    }
    debug_assert!(row.iter().all(|x| x.abs() <= glorot_limit(sides)));
}

/// Sends each pair's own row: the first layer without bases.
pub(crate) fn forward_pairs(plan: &LayerPlan, width: usize, rows: &[f32], sums: &mut impl Sums) {
    for (pair, row) in rows.chunks_exact(width).enumerate() {
        for &send in plan.sends(pair) {
            sums.add(send, row);
        }
    }
}

/// Steps each pair's own row along the gradients of the rows that it went to.
pub(crate) fn backward_pairs(
    plan: &LayerPlan,
    made: &[f32],
    input: &mut InputRows,
    (rule, decay): (Rule, f32),
) {
    let width = input.shape.width;
    let mut gradient = vec![0.0; width];
    input.largest = 0.0;
    for (pair, row) in input.rows.chunks_exact_mut(width).enumerate() {
        gradient.fill(0.0);
        for send in plan.sends(pair) {
            let made = &made[send.target as usize * width..][..width];
            for (sum, value) in gradient.iter_mut().zip(made) {
                *sum += send.weight * value;
            }
        }
        let range = pair * width..(pair + 1) * width;
        rule.step(row, &gradient, decay, input.moments.of(range));
        input.largest = input.largest.max(largest_magnitude(row));
    }
}
