//! From logits to proposals: which categorical decisions an op has, how they are drawn, and which Beta distributions they stand for.

use shardgraph_brkga::{Beta, BetaCache, BetaTables};
use shardgraph_components::SoftmaxPolicy;
use shardgraph_components::environments::space::Space;
use shardgraph_costgraph::Problem;
use shardgraph_random::KeyedRng;

use super::config::PolicyConfig;
use crate::error::{Error, ErrorKind};
use crate::proposals::CheapSchedule;
use crate::search::Proposals;

/// The decisions about one op: for each of its keys that a policy proposes a distribution for (its affinity to each device, then its
/// priority), one for the level of the mean and one for the level of the variance.
///
/// # Source
/// A.6, with `2 (d + 1)` decisions an op, for which `MLP_a` has `2 (d k_placement + k_scheduling)` logits.
#[derive(Clone, Debug)]
pub(crate) struct ActionSpace {
    n_devices: usize,
    /// Levels of the keys that are proposed.
    placement: Option<u32>,
    scheduling: Option<u32>,
    heads: Vec<SoftmaxPolicy>,
    /// Tables of all shapes, shared by clones.
    cache: BetaCache,
}

/// Decisions about all ops of some graphs: for each head one a node.
pub(crate) type Actions = Vec<Vec<u32>>;

impl ActionSpace {
    pub(crate) fn new(config: &PolicyConfig) -> Result<ActionSpace, Error> {
        let (has_placement, has_scheduling) = (
            config.actions.has_placement(),
            config.actions.has_scheduling(),
        );
        let placement = has_placement.then_some(config.placement_levels);
        let scheduling = has_scheduling.then_some(config.scheduling_levels);
        let affinities = placement.into_iter().cycle().take(match placement {
            Some(_) => config.n_devices,
            None => 0,
        });
        let mut heads = Vec::new();
        for k in affinities.chain(scheduling) {
            let space = Space::discrete(k).map_err(shardgraph_components::Error::from)?;
            let head = SoftmaxPolicy::build("policy/actions", &space)?;
            heads.extend([head.clone(), head]);
        }
        Ok(ActionSpace {
            n_devices: config.n_devices,
            placement,
            scheduling,
            heads,
            cache: BetaCache::new(shapes(placement, scheduling)?),
        })
    }

    /// The decisions about an op, with as many logits one behind the other as they have actions.
    pub(crate) fn heads(&self) -> &[SoftmaxPolicy] {
        &self.heads
    }

    pub(crate) fn n_logits(&self) -> usize {
        self.heads.iter().map(SoftmaxPolicy::n_actions).sum()
    }

    /// The decisions that are closest to a schedule.
    pub(crate) fn by_hand(&self, schedule: &CheapSchedule) -> Actions {
        let levels = schedule.levels(self.n_devices, self.placement, self.scheduling);
        levels.into_iter().flatten().collect()
    }

    /// A table for each shape, for many searches.
    pub(crate) fn tables(&self) -> Result<BetaTables, Error> {
        Ok(BetaTables::new(&shapes(self.placement, self.scheduling)?)?)
    }

    /// Draws decisions about nodes whose logits are these rows, head by head from one stream.
    pub(crate) fn sample(&self, logits: &[f32], stream: &mut KeyedRng) -> Result<Actions, Error> {
        let n_logits = self.n_logits();
        if logits.iter().any(|logit| !logit.is_finite()) {
            let message = "the policy's logits are not finite: training has diverged; try a smaller learning rate";
            return Err(ErrorKind::Diverged(message.to_owned()).into());
        }
        let (mut start, mut actions) = (0, Vec::with_capacity(self.heads.len()));
        for head in &self.heads {
            let end = start + head.n_actions();
            let rows = logits.chunks_exact(n_logits);
            let own: Vec<f32> = rows.flat_map(|row| &row[start..end]).copied().collect();
            let mut taken = Vec::with_capacity(own.len() / head.n_actions());
            head.sample_into(&own, stream, &mut taken)?;
            actions.push(taken);
            start = end;
        }
        Ok(actions)
    }

    /// The entropy of the decisions about an op, in nats: their sum, averaged over the rows.
    pub(crate) fn entropy(&self, logits: &[f32]) -> f64 {
        let n_logits = self.n_logits();
        let n_rows = logits.len() / n_logits.max(1);
        let mut sum = 0.0;
        for row in logits.chunks_exact(n_logits) {
            let mut start = 0;
            for head in &self.heads {
                sum += entropy_of(&row[start..start + head.n_actions()]);
                start += head.n_actions();
            }
        }
        sum / n_rows.max(1) as f64
    }

    /// A choice of [`ActionSpace::tables`] for each key of a problem, by decisions about its ops.
    ///
    /// `actions` may have more nodes: the problem's begin at `first`.
    pub(crate) fn choices(
        &self,
        problem: &Problem<'_>,
        actions: &Actions,
        first: usize,
    ) -> Vec<u16> {
        let (n_ops, d) = (problem.graph().n_ops(), self.n_devices);
        let mut choices = vec![BetaTables::UNIFORM; problem.n_keys()];
        let mut heads = actions.chunks_exact(2);
        // The shapes of affinities come first, behind the uniform one.
        let mut set = |heads: &[Vec<u32>], (base, k): (u32, u32), at: &dyn Fn(usize) -> usize| {
            let [means, variances] = heads else { return };
            let own = means[first..first + n_ops].iter().zip(&variances[first..]);
            for (op, (m, v)) in own.enumerate() {
                choices[at(op)] = (base + m * k + v) as u16;
            }
        };
        if let Some(k) = self.placement {
            for device in 0..d {
                set(heads.next().unwrap_or(&[]), (1, k), &|op| op * d + device);
            }
        }
        if let Some(k) = self.scheduling {
            let base = match self.placement {
                // Equal levels have equal shapes.
                Some(of_placement) if of_placement != k => 1 + of_placement * of_placement,
                _ => 1,
            };
            set(heads.next().unwrap_or(&[]), (base, k), &|op| n_ops * d + op);
        }
        choices
    }

    /// The proposals of these choices, with tables of the shapes that occur alone: for one search, where hundreds of tables would take
    /// as long as the search.
    pub(crate) fn proposals(&self, choices: &[u16]) -> Result<Proposals, Error> {
        let mut used = choices.to_vec();
        used.sort_unstable();
        used.dedup();
        used.retain(|&choice| choice != BetaTables::UNIFORM);
        let indices: Vec<usize> = used.iter().map(|&i| usize::from(i) - 1).collect();
        let place = |choice: &u16| match used.binary_search(choice) {
            Ok(at) => at as u16 + 1,
            Err(_) => BetaTables::UNIFORM,
        };
        Ok(Proposals {
            tables: self.cache.tables(&indices)?,
            choices: choices.iter().map(place).collect(),
            rho: None,
        })
    }
}

/// The shapes of all distributions: those of affinities, then those of priorities if they have other levels, each by level of the mean,
/// then of the variance.
fn shapes(placement: Option<u32>, scheduling: Option<u32>) -> Result<Vec<Beta>, Error> {
    let mut levels: Vec<u32> = placement.into_iter().chain(scheduling).collect();
    levels.dedup();
    let mut shapes = Vec::new();
    for k in levels {
        for pair in 0..k * k {
            shapes.push(Beta::quantised(pair / k, pair % k, k)?);
        }
    }
    Ok(shapes)
}

/// `-sum p log p` of a softmax, computed in software: the same bits on every machine.
fn entropy_of(logits: &[f32]) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights = logits
        .iter()
        .map(|&logit| libm::exp(f64::from(logit) - f64::from(largest)));
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    let terms = weights.iter().filter(|weight| **weight > 0.0);
    -terms
        .map(|weight| weight / sum * libm::log(weight / sum))
        .sum::<f64>()
}
