//! The parameters of the input: rows that are keyed by node, or by node and relation, so that any
//! cut of the graph begins alike.

use shardgraph_collectives::Op;
use shardgraph_random::KeyedRng;

use super::comm::RankComm;
use super::layout::RankContext;
use crate::config::{Config, Optimiser};
use crate::layer::coefficients::glorot;
use crate::layer::gradient_rows::GradientRows;
use crate::layer::optimiser::{Moments, Rule};
use crate::layer::plan::LayerPlan;
use crate::layer::shape::TileShape;
use crate::layer::sums::Sums;
use crate::layer::values::largest_magnitude;
use crate::memory::{Array, Memory, Purpose};
use crate::{Error, Features};

/// The table that the first layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputTable {
    /// With bases: a row of the bases for each node, shared by its relations.
    ByNode,
    /// Without: a row for each pair of node and relation that occurs.
    ByPair,
    /// No one-hot input: a vector for each node, which the first layer reads as inputs.
    Embedding,
}

impl InputTable {
    fn of(config: &Config) -> InputTable {
        match (config.embedding, config.bases) {
            (0, 0) => InputTable::ByPair,
            (0, _) => InputTable::ByNode,
            _ => InputTable::Embedding,
        }
    }
}

/// The key of a row's first numbers, whatever rank has it.
#[derive(Clone, Copy)]
struct RowKey {
    node: u32,
    relation: u32,
}

/// The rows of a rank's sources.
#[derive(Clone, Debug)]
pub(crate) struct InputRows {
    pub(crate) table: InputTable,
    pub(crate) shape: TileShape,
    pub(crate) rows: Array<f32>,
    pub(crate) moments: Moments,
    /// The greatest magnitude of all rows.
    pub(crate) largest: f32,
    /// True for given features, which take no steps.
    pub(crate) is_fixed: bool,
}

impl InputRows {
    /// No rows.
    pub(crate) fn empty(config: &Config, n_classes: u32) -> InputRows {
        let table = InputTable::of(config);
        InputRows {
            table,
            shape: match table {
                InputTable::Embedding => TileShape::new(config.embedding, 1),
                InputTable::ByNode | InputTable::ByPair => {
                    TileShape::new(config.bases.max(1), config.widths(n_classes)[0])
                }
            },
            rows: Array::default(),
            moments: Moments::default(),
            largest: 0.0,
            is_fixed: config.features,
        }
    }

    /// Those of a rank before the first step, without moments; `plan` has the pairs of its sources.
    ///
    /// # Errors
    /// Where features on disk cannot be read.
    pub(crate) fn new(
        context: RankContext<'_>,
        plan: &LayerPlan,
        memory: &Memory,
    ) -> Result<InputRows, Error> {
        let RankContext {
            config,
            layout,
            rank,
            n_classes,
        } = context;
        let places = layout.places(0, rank);
        let mut input = InputRows::empty(config, n_classes);
        let (table, len) = (input.table, input.row_len());
        let n_rows = match table {
            InputTable::ByNode | InputTable::Embedding => places.len(),
            InputTable::ByPair => layout.counts()[0][rank].n_own_pairs as usize,
        };
        let mut rows = memory.zeros(Purpose::Weights, n_rows * len);
        let filled = if memory.is_dry() { 0..0 } else { places };
        for (source, place) in filled.enumerate() {
            let node = layout.sets[0].node(place);
            for row in input.rows_of(plan, source) {
                let relation = match table {
                    InputTable::ByNode | InputTable::Embedding => 0,
                    InputTable::ByPair => plan.relations[row],
                };
                let key = RowKey { node, relation };
                input.begin_row(context, key, &mut rows[row * len..][..len])?;
            }
        }
        input.rows = rows;
        input.largest = largest_magnitude(&input.rows);
        Ok(input)
    }

    /// The same with the moments of an optimiser before the first step.
    pub(crate) fn with_moments(mut self, optimiser: Optimiser, memory: &Memory) -> InputRows {
        let n_learnt = if self.is_fixed { 0 } else { self.rows.len() };
        self.moments = Moments::new(memory, Purpose::Optimiser, optimiser, n_learnt);
        self
    }

    /// The rows of some nodes, from these of all nodes, or where they are fixed from the features.
    ///
    /// # Errors
    /// Where features on disk cannot be read.
    pub(crate) fn gathered(
        &self,
        nodes: &[u32],
        features: Option<&Features>,
        memory: &Memory,
    ) -> Result<InputRows, Error> {
        let len = self.row_len();
        let part = |values: &[f32], purpose| -> Array<f32> {
            let n_rows = if values.is_empty() { 0 } else { nodes.len() };
            let mut rows = memory.zeros(purpose, n_rows * len);
            for (row, &node) in rows.chunks_exact_mut(len).zip(nodes) {
                row.copy_from_slice(&values[node as usize * len..][..len]);
            }
            rows
        };
        let rows = match features.filter(|_| self.is_fixed) {
            None => part(&self.rows, Purpose::Weights),
            Some(features) => {
                let mut rows = memory.zeros(Purpose::Weights, nodes.len() * len);
                for (&node, row) in nodes.iter().zip(rows.chunks_exact_mut(len)) {
                    features.copy_row(node, row)?;
                }
                rows
            }
        };
        Ok(InputRows {
            largest: largest_magnitude(&rows),
            rows,
            moments: Moments {
                first: part(&self.moments.first, Purpose::Optimiser),
                second: part(&self.moments.second, Purpose::Optimiser),
            },
            ..*self
        })
    }

    /// Takes the rows of some nodes back, which [`InputRows::gathered`] gave: each rank brings those
    /// of `counts[rank]` nodes, in the order of ranks.
    ///
    /// # Errors
    /// Where a rank is lost.
    pub(crate) fn scatter(
        &mut self,
        nodes: &[u32],
        counts: &[usize],
        part: &InputRows,
        ranks: &mut RankComm<'_>,
    ) -> Result<(), Error> {
        let len = self.row_len();
        let counts: Vec<usize> = counts.iter().map(|count| count * len).collect();
        let arrays = [
            (&mut self.rows, &part.rows),
            (&mut self.moments.first, &part.moments.first),
            (&mut self.moments.second, &part.moments.second),
        ];
        for (all, own) in arrays.into_iter().filter(|(all, _)| !all.is_empty()) {
            let gathered;
            let rows = match ranks.are_alone() {
                true => &own[..],
                false => {
                    let mut rows = vec![0.0; nodes.len() * len];
                    ranks.run(Op::AllGatherV {
                        send: own[..].into(),
                        recv: (&mut rows).into(),
                        counts: &counts,
                    })?;
                    gathered = rows;
                    &gathered
                }
            };
            for (&node, row) in nodes.iter().zip(rows.chunks_exact(len)) {
                all[node as usize * len..][..len].copy_from_slice(row);
            }
        }
        self.largest = self.largest.max(part.largest);
        Ok(())
    }

    /// Fills a row before the first step: of one-hot input as for a matrix of nodes by outputs, of
    /// an embedding as for a square one.
    fn begin_row(
        &self,
        context: RankContext<'_>,
        key: RowKey,
        row: &mut [f32],
    ) -> Result<(), Error> {
        let RankContext { config, layout, .. } = context;
        let RowKey { node, relation } = key;
        if let (true, Some(features)) = (config.features, layout.graph.features()) {
            return features.copy_row(node, row);
        }
        let shape = self.shape;
        let sides = match self.table {
            InputTable::Embedding => [shape.len(), shape.len()],
            _ => [layout.graph.n_nodes() as usize, shape.width],
        };
        let (purpose, key) = match self.table {
            InputTable::ByPair => ("rgcn pair", u64::from(node) << 32 | u64::from(relation)),
            InputTable::ByNode => ("rgcn basis", node.into()),
            InputTable::Embedding => ("rgcn embedding", node.into()),
        };
        let mut stream = KeyedRng::new(config.seed, purpose, key);
        glorot(&mut stream, sides, &mut row[..shape.len()]);
        Ok(())
    }

    /// Steps all rows along a gradient of their length.
    pub(crate) fn step(&mut self, gradient: &[f32], rule: Rule) {
        if self.is_fixed {
            return;
        }
        let whole = 0..self.rows.len();
        rule.step(&mut self.rows, gradient, self.moments.of(whole));
        self.largest = largest_magnitude(&self.rows);
    }

    /// Numbers in a row.
    pub(crate) fn row_len(&self) -> usize {
        match self.table {
            InputTable::ByNode | InputTable::Embedding => self.shape.stride,
            InputTable::ByPair => self.shape.width,
        }
    }

    /// The rows of a source.
    pub(crate) fn rows_of(&self, plan: &LayerPlan, source: usize) -> std::ops::Range<usize> {
        match self.table {
            InputTable::ByNode | InputTable::Embedding => source..source + 1,
            InputTable::ByPair => plan.pairs(source),
        }
    }
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
    outputs: &GradientRows<'_>,
    input: &mut InputRows,
    rule: Rule,
) {
    let width = input.shape.width;
    let mut gradient = vec![0.0; width];
    input.largest = 0.0;
    for (pair, row) in input.rows.chunks_exact_mut(width).enumerate() {
        gradient.fill(0.0);
        plan.gather_pair(pair, outputs, &mut gradient);
        let range = pair * width..(pair + 1) * width;
        rule.step(row, &gradient, input.moments.of(range));
        input.largest = input.largest.max(largest_magnitude(row));
    }
}
