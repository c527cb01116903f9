//! What a step descends: the rewards of sampled decisions, held against what was to be expected.

use shardgraph_components::autodiff::{Ctx, Shape, Var};
use shardgraph_components::{Error as NetworkError, PolicyLoss};

use super::TrainConfig;
use crate::policy::{Actions, BaselineNetwork, Contexts, Logits, PolicyNetwork};

/// What a step learns from.
pub(super) struct Batch {
    pub(super) contexts: Contexts,
    /// Decisions about all graphs, once or several times.
    pub(super) samples: Vec<Actions>,
    /// Of each sample the level of crossover for each graph; nothing where that is not decided, or is not imitated.
    pub(super) crossovers: Vec<Vec<u32>>,
    /// Sample by sample, in each graph by graph; none where the sample is to be imitated.
    pub(super) rewards: Vec<f32>,
    /// Of the decisions about an op, in nats.
    pub(super) entropy: f32,
}

/// The networks, and how they learn.
pub(super) struct Learner<'a> {
    pub(super) network: &'a PolicyNetwork,
    pub(super) baseline: &'a BaselineNetwork,
    pub(super) config: &'a TrainConfig,
}

impl Learner<'_> {
    /// The loss of a batch whose logits are these.
    pub(super) fn loss(
        &self,
        ctx: &mut dyn Ctx,
        logits: Logits,
        batch: &Batch,
    ) -> Result<PolicyLoss, NetworkError> {
        let ops = logits.ops;
        let (policy, squares) = match batch.samples.as_slice() {
            [actions] if batch.rewards.is_empty() => {
                (self.imitation(ctx, ops, batch, actions)?, None)
            }
            [actions] => {
                let (policy, squares) = self.against_baseline(ctx, logits, batch, actions)?;
                (policy, Some(squares))
            }
            _ => (self.against_each_other(ctx, logits, batch)?, None),
        };
        let mut loss = policy;
        if let Some(squares) = squares {
            let counted = ctx.scale(squares, self.config.baseline_coefficient)?;
            loss = ctx.add(loss, counted)?;
        }
        if self.config.entropy_coefficient > 0.0 {
            let entropies = self.network.entropies(ctx, ops)?;
            let entropy = mean(ctx, entropies)?;
            let counted = ctx.scale(entropy, -self.config.entropy_coefficient)?;
            loss = ctx.add(loss, counted)?;
        }
        Ok(PolicyLoss {
            loss,
            policy,
            baseline: squares,
            entropy: ctx.input(Shape::new(1, 1), &[batch.entropy])?,
        })
    }

    /// Minus the mean over ops of the logarithm of the probability of these decisions.
    fn imitation(
        &self,
        ctx: &mut dyn Ctx,
        logits: Var,
        batch: &Batch,
        actions: &Actions,
    ) -> Result<Var, NetworkError> {
        let contexts = &batch.contexts;
        let sums = self
            .network
            .log_probabilities(ctx, logits, contexts, actions)?;
        let sum = ctx.sum_rows(sums)?;
        Ok(ctx.scale(sum, -1.0 / contexts.n_nodes().max(1) as f32)?)
    }

    /// `-mean(log p (r - b))` without a gradient through the advantage, and `mean((r - b)^2)`.
    ///
    /// # Source
    /// Section 4.1 and A.14.
    fn against_baseline(
        &self,
        ctx: &mut dyn Ctx,
        logits: Logits,
        batch: &Batch,
        actions: &Actions,
    ) -> Result<(Var, Var), NetworkError> {
        let contexts = &batch.contexts;
        let mut log_probabilities = self
            .network
            .log_probabilities(ctx, logits.ops, contexts, actions)?;
        let ones = vec![1.0; contexts.n_graphs()];
        if let Some(of_graphs) = self.of_crossovers(ctx, logits, batch, &ones)? {
            log_probabilities = ctx.add(log_probabilities, of_graphs)?;
        }
        let rewards = ctx.input(Shape::new(batch.rewards.len(), 1), &batch.rewards)?;
        let values = self.baseline.values(ctx, contexts)?;
        let errors = ctx.sub(rewards, values)?;
        let advantages = ctx.detach(errors)?;
        let weighted = ctx.mul(log_probabilities, advantages)?;
        let policy = mean(ctx, weighted)?;
        let squares = ctx.mul(errors, errors)?;
        Ok((ctx.scale(policy, -1.0)?, mean(ctx, squares)?))
    }

    /// `-mean(log p a)` over graphs and samples, with [`advantages`].
    ///
    /// All samples have the same logits, so that the sum over samples is one over levels, weighted by the advantages of those samples
    /// that took them.
    fn against_each_other(
        &self,
        ctx: &mut dyn Ctx,
        logits: Logits,
        batch: &Batch,
    ) -> Result<Var, NetworkError> {
        let contexts = &batch.contexts;
        let (n_graphs, n_nodes) = (contexts.n_graphs(), contexts.n_nodes());
        let advantages = advantages(&batch.rewards, n_graphs, self.config.normalise_advantages);
        let graph_of = contexts.graph_of_nodes();
        let heads = self.network.actions().heads().iter().enumerate();
        let weights = heads.map(|(at, head)| {
            let k = head.n_actions();
            let mut weights = vec![0.0; n_nodes * k];
            for (actions, advantages) in batch.samples.iter().zip(advantages.chunks(n_graphs)) {
                let rows = weights.chunks_exact_mut(k);
                for ((row, &action), &graph) in rows.zip(&actions[at]).zip(&graph_of) {
                    row[action as usize] += advantages[graph];
                }
            }
            weights
        });
        let weights: Vec<Vec<f32>> = weights.collect();
        let of_nodes = self.network.weighted(ctx, logits.ops, &weights)?;
        let mut sum = ctx.sum_rows(of_nodes)?;
        if let Some(of_graphs) = self.of_crossovers(ctx, logits, batch, &advantages)? {
            let of_graphs = ctx.sum_rows(of_graphs)?;
            sum = ctx.add(sum, of_graphs)?;
        }
        Ok(ctx.scale(sum, -1.0 / batch.rewards.len() as f32)?)
    }

    /// The logarithms of the probabilities of the levels of crossover that were taken, times these weights, sample by sample and summed over
    /// samples: `[n_graphs, 1]`. None where there is no such decision.
    fn of_crossovers(
        &self,
        ctx: &mut dyn Ctx,
        logits: Logits,
        batch: &Batch,
        weights: &[f32],
    ) -> Result<Option<Var>, NetworkError> {
        let (Some(crossover), Some(graphs)) = (self.network.crossover(), logits.graphs) else {
            return Ok(None);
        };
        let mut sum: Option<Var> = None;
        let weights = weights.chunks(batch.contexts.n_graphs());
        for (levels, weights) in batch.crossovers.iter().zip(weights) {
            let own = crossover.weighted(ctx, graphs, levels, weights)?;
            sum = Some(match sum {
                None => own,
                Some(sum) => ctx.add(sum, own)?,
            });
        }
        Ok(sum)
    }
}

/// Each reward less the mean of the other samples' of its graph: no bias, and nothing of what makes one graph easier than another.
///
/// # Source
/// Kool, van Hoof and Welling, "Buy 4 REINFORCE samples, get a baseline for free!" (2019).
fn advantages(rewards: &[f32], n_graphs: usize, is_normalised: bool) -> Vec<f32> {
    let n_samples = rewards.len() / n_graphs.max(1);
    let mut advantages = vec![0.0; rewards.len()];
    for graph in 0..n_graphs {
        let own = || (0..n_samples).map(|sample| sample * n_graphs + graph);
        let sum: f64 = own().map(|at| f64::from(rewards[at])).sum();
        for at in own() {
            let reward = f64::from(rewards[at]);
            let others = (sum - reward) / (n_samples - 1).max(1) as f64;
            advantages[at] = (reward - others) as f32;
        }
    }
    let squares = advantages.iter().map(|&a| f64::from(a) * f64::from(a));
    let size = (squares.sum::<f64>() / rewards.len().max(1) as f64).sqrt();
    if is_normalised && size > 0.0 {
        for advantage in &mut advantages {
            *advantage = (f64::from(*advantage) / size) as f32;
        }
    }
    advantages
}

fn mean(ctx: &mut dyn Ctx, x: Var) -> Result<Var, NetworkError> {
    let n = ctx.shape(x).rows;
    let sum = ctx.sum_rows(x)?;
    Ok(ctx.scale(sum, 1.0 / n.max(1) as f32)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "exact in binary")]
    fn advantages_are_those_worked_out_by_hand() {
        // Two graphs, three samples of each.
        let rewards = [-1.0, -0.5, -0.5, -0.5, -1.5, -0.5];
        let expected = [0.0, 0.0, 0.75, 0.0, -0.75, 0.0];
        assert_eq!(advantages(&rewards, 2, false), expected);
        let normalised = advantages(&rewards, 2, true);
        let squares: f32 = normalised.iter().map(|a| a * a).sum();
        assert!((squares / 6.0 - 1.0).abs() < 1e-6);
        assert_eq!(normalised[2], -normalised[4]);
        assert_eq!(advantages(&[-1.0; 4], 2, true), [0.0; 4]);
    }
}
