//! The one decision about a whole graph: how likely a child takes a key from its elite parent.

use shardgraph_components::autodiff::{Ctx, Params, Shape, Var};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{Error as NetworkError, Initialiser, Mlp, SoftmaxPolicy};
use shardgraph_random::KeyedRng;

use super::config::PolicyConfig;
use crate::error::Error;

/// The scope of its layers, and that of the last of them.
const SCOPE: &str = "policy/crossover";
pub(super) const LAST_LAYER: &str = "policy/crossover/1/";

/// Reads the mean of the ops' representations.
#[derive(Clone, Debug)]
pub(crate) struct Crossover {
    mlp: Mlp,
    head: SoftmaxPolicy,
}

impl Crossover {
    /// Adds its parameters under `policy/crossover`, where the config has levels for it.
    pub(super) fn build(
        params: &mut Params,
        config: &PolicyConfig,
        initialiser: Initialiser,
    ) -> Result<Option<Crossover>, Error> {
        let Some(k) = config.crossover_levels else {
            return Ok(None);
        };
        let space = Space::discrete(k).map_err(shardgraph_components::Error::from)?;
        let widths = [config.head_width, k as usize];
        let n_inputs = config.encoder_width();
        Ok(Some(Crossover {
            mlp: Mlp::build(params, SCOPE, n_inputs, &widths, initialiser)?,
            head: SoftmaxPolicy::build(SCOPE, &space)?,
        }))
    }

    /// `[n_graphs, k]` from the means over graphs.
    pub(super) fn logits(&self, ctx: &mut dyn Ctx, means: Var) -> Result<Var, NetworkError> {
        self.mlp.apply(ctx, means)
    }

    /// A level for each graph.
    pub(crate) fn sample(&self, logits: &[f32], stream: &mut KeyedRng) -> Result<Vec<u32>, Error> {
        let mut taken = Vec::new();
        self.head.sample_into(logits, stream, &mut taken)?;
        Ok(taken)
    }

    /// The probability that a level stands for.
    ///
    /// # Source
    /// A.6, which has `0.5 (1 + (c + 1) / k)`: for the last level that is 1, a child without a second parent. With k + 1 all levels are
    /// within [0.5, 1).
    pub(crate) fn rho(&self, level: u32) -> f64 {
        let k = self.head.n_actions() as f64;
        0.5 * (1.0 + f64::from(level + 1) / (k + 1.0))
    }

    /// The logarithms of the probabilities of these levels, each times a weight: `[n_graphs, 1]`.
    pub(crate) fn weighted(
        &self,
        ctx: &mut dyn Ctx,
        logits: Var,
        levels: &[u32],
        weights: &[f32],
    ) -> Result<Var, NetworkError> {
        let k = self.head.n_actions();
        let mut matrix = vec![0.0; levels.len() * k];
        for ((row, &level), &weight) in matrix.chunks_exact_mut(k).zip(levels).zip(weights) {
            row[level as usize] = weight;
        }
        let log_probabilities = self.head.log_probabilities(ctx, logits)?;
        let matrix = ctx.input(Shape::new(levels.len(), k), &matrix)?;
        self.head.of_actions(ctx, log_probabilities, matrix)
    }
}
