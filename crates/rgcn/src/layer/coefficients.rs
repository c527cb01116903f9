//! The parameters that a layer's relations have, and the table of rows that its passes read.

use std::borrow::Cow;

use shardgraph_random::KeyedRng;

use super::optimiser::{Moments, Rule};
use super::shape::TileShape;
use super::values::is_live;
use crate::config::Config;
use crate::memory::{Array, Memory, Purpose};

/// The parameters behind a relation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WeightScheme {
    /// One-hot input with bases: a coefficient for each basis, the same for all units of a message.
    Coefficients,
    /// Weights of the relation's own, whole or block-diagonal by the shape.
    Whole,
    /// The sum of shared bases, times the relation's coefficients.
    Shared {
        /// Their number.
        n_bases: usize,
    },
}

/// The weights of a layer's relations: how they are parameterised, and the tiles of a relation's
/// row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelationShape {
    pub(crate) scheme: WeightScheme,
    pub(crate) shape: TileShape,
}

impl RelationShape {
    /// Those of each layer of a model. One-hot input without bases has no weights of relations: its
    /// shape has no terms.
    pub(crate) fn of_layers(config: &Config, n_classes: u32) -> Vec<RelationShape> {
        let widths = config.widths(n_classes);
        let between = |n_inputs, width| RelationShape {
            scheme: match config.bases {
                0 => WeightScheme::Whole,
                n_bases => WeightScheme::Shared { n_bases },
            },
            shape: TileShape::of_weights(config, n_inputs, width),
        };
        let first = match config.embedding {
            0 => RelationShape {
                scheme: WeightScheme::Coefficients,
                shape: TileShape::new(config.bases, widths[0]),
            },
            width => between(width, widths[0]),
        };
        let others = widths.windows(2).map(|pair| between(pair[0], pair[1]));
        [first].into_iter().chain(others).collect()
    }

    /// Numbers of a relation in a reduced gradient.
    pub(crate) fn reduced_row(self) -> usize {
        match self.scheme {
            WeightScheme::Coefficients => self.shape.n_terms,
            WeightScheme::Whole | WeightScheme::Shared { .. } => self.shape.len(),
        }
    }

    /// Numbers of the parameters of all relations.
    pub(crate) fn n_params(self, n_relations: usize) -> usize {
        match self.scheme {
            WeightScheme::Coefficients | WeightScheme::Whole => n_relations * self.reduced_row(),
            WeightScheme::Shared { n_bases } => n_bases * (n_relations + self.shape.len()),
        }
    }
}

/// The parameters of a layer's relations.
#[derive(Clone, Debug)]
pub(crate) struct Coefficients {
    pub(crate) scheme: WeightScheme,
    pub(crate) shape: TileShape,
    pub(crate) n_relations: usize,
    /// Coefficients first, relation by relation, then bases or weights in the shape's order without
    /// padding.
    pub(crate) params: Array<f32>,
    pub(crate) moments: Moments,
}

/// The gradients of parameters that all nodes share, of the fixed blocks of a rank's nodes.
#[derive(Debug, Default)]
pub(crate) struct Partials {
    /// Reduced gradients of relations, a row for each block in which the relation has one.
    pub(crate) rows: Array<f32>,
    /// Their relations.
    pub(crate) relations: Vec<u32>,
    /// Of the bias, block by block.
    pub(crate) bias: Array<f32>,
}

impl Partials {
    /// A row of zeros more.
    fn row(&mut self, relation: u32, len: usize) -> &mut [f32] {
        let start = self.rows.len();
        self.relations.push(relation);
        self.rows.resize(start + len);
        &mut self.rows[start..]
    }
}

/// Uniform numbers in Glorot and Bengio's range for a matrix of these sides.
pub(crate) fn glorot(stream: &mut KeyedRng, sides: [usize; 2], out: &mut [f32]) {
    let limit = (6.0 / (sides[0] + sides[1]) as f32).sqrt();
    for value in out {
        *value = (2.0 * stream.uniform_f32() - 1.0) * limit;
    }
}

impl Coefficients {
    /// Those of layer `layer` before the first step.
    pub(crate) fn new(
        memory: &Memory,
        config: &Config,
        layer: u64,
        relations: RelationShape,
        n_relations: usize,
    ) -> Coefficients {
        let RelationShape { scheme, shape } = relations;
        let n_params = relations.n_params(n_relations);
        let mut params = memory.zeros(Purpose::Parameters, n_params);
        let mut stream = KeyedRng::new(config.seed, "rgcn relations", layer);
        let sides = [shape.n_terms, shape.width.div_ceil(shape.n_blocks)];
        match scheme {
            _ if memory.is_dry() => {}
            WeightScheme::Coefficients => {
                glorot(&mut stream, [n_relations, shape.n_terms], &mut params);
            }
            WeightScheme::Whole => {
                glorot(&mut stream, sides, &mut params);
                let rows = params.chunks_exact_mut(shape.len().max(1));
                rows.for_each(|row| shape.clear_unused(row));
            }
            WeightScheme::Shared { n_bases } => {
                let (coefficients, bases) = params.split_at_mut(n_relations * n_bases);
                glorot(&mut stream, [n_relations, n_bases], coefficients);
                glorot(&mut stream, sides, bases);
            }
        }
        Coefficients {
            scheme,
            shape,
            n_relations,
            moments: Moments::new(memory, Purpose::Parameters, config.optimiser, n_params),
            params,
        }
    }

    /// Makes `table` a row of the shape for each relation.
    pub(crate) fn fill(&self, table: &mut Array<f32>) {
        let TileShape {
            n_terms, stride, ..
        } = self.shape;
        let len = self.shape.len();
        table.clear_to(self.n_relations * stride);
        for (relation, row) in table.chunks_exact_mut(stride).enumerate() {
            match self.scheme {
                WeightScheme::Coefficients => self
                    .shape
                    .spread(&self.params[relation * n_terms..][..n_terms], row),
                WeightScheme::Whole => {
                    row[..len].copy_from_slice(&self.params[relation * len..][..len])
                }
                WeightScheme::Shared { n_bases } => {
                    let (coefficients, bases) = self.params.split_at(self.n_relations * n_bases);
                    let coefficients = &coefficients[relation * n_bases..][..n_bases];
                    for (a, basis) in coefficients.iter().zip(bases.chunks_exact(len)) {
                        for (weight, v) in row.iter_mut().zip(basis) {
                            *weight += a * v;
                        }
                    }
                }
            }
        }
    }

    /// Numbers of a relation in a reduced gradient.
    pub(crate) fn reduced_row(&self) -> usize {
        let Coefficients { scheme, shape, .. } = *self;
        RelationShape { scheme, shape }.reduced_row()
    }

    /// Numbers in a reduced gradient.
    pub(crate) fn reduced_len(&self) -> usize {
        self.n_relations * self.reduced_row()
    }

    /// Adds to `partials` a block's gradient of a table's rows of some relations without what is
    /// the same for all: padding, and the units that share a coefficient. The rows are zero
    /// afterwards; those that are it before are passed over.
    pub(crate) fn reduce(&self, table: &mut [f32], relations: &[u32], partials: &mut Partials) {
        let stride = self.shape.stride;
        for &relation in relations {
            let row = &mut table[relation as usize * stride..][..stride];
            if !is_live(row) {
                continue;
            }
            let reduced = partials.row(relation, self.reduced_row());
            match self.scheme {
                WeightScheme::Coefficients => self.shape.gather(row, reduced),
                WeightScheme::Whole | WeightScheme::Shared { .. } => {
                    reduced.copy_from_slice(&row[..self.shape.len()]);
                }
            }
            row.fill(0.0);
        }
    }

    /// Takes a step along the sum of all reduced gradients.
    pub(crate) fn step(&mut self, rule: Rule, reduced: &[f32]) {
        let whole = 0..self.params.len();
        let gradient = self.gradient(reduced);
        rule.step(&mut self.params, &gradient, self.moments.of(whole));
    }

    /// The gradient of the parameters from the reduced one.
    pub(crate) fn gradient<'r>(&self, reduced: &'r [f32]) -> Cow<'r, [f32]> {
        match self.scheme {
            WeightScheme::Shared { n_bases } => Cow::Owned(self.shared_gradient(n_bases, reduced)),
            WeightScheme::Coefficients | WeightScheme::Whole => Cow::Borrowed(reduced),
        }
    }

    /// The gradients of coefficients and bases from those of the weights W_r = sum over b of a_rb
    /// V_b.
    fn shared_gradient(&self, n_bases: usize, weights: &[f32]) -> Vec<f32> {
        let len = self.shape.len();
        let n_coefficients = self.n_relations * n_bases;
        let mut gradient = vec![0.0; self.params.len()];
        let (of_coefficients, of_bases) = gradient.split_at_mut(n_coefficients);
        let (coefficients, bases) = self.params.split_at(n_coefficients);
        for (relation, weights) in weights.chunks_exact(len).enumerate() {
            for basis in 0..n_bases {
                let at = relation * n_bases + basis;
                let values = &bases[basis * len..][..len];
                of_coefficients[at] = weights.iter().zip(values).map(|(w, v)| w * v).sum();
                for (sum, w) in of_bases[basis * len..][..len].iter_mut().zip(weights) {
                    *sum += coefficients[at] * w;
                }
            }
        }
        gradient
    }
}
