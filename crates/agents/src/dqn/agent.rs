//! The agent: an online and a target network in one arena, a program that acts and a program that learns.

use std::borrow::Cow;
use std::path::Path;

use shardgraph_autodiff::Params;
use shardgraph_collectives::{Comm, Timeout};
use shardgraph_components::{Initialiser, Optimiser, QNetwork};
use shardgraph_device::Device;
use shardgraph_random::KeyedRng;
use shardgraph_replay::{ColumnLayout, Rows};

use super::config::DqnConfig;
use super::update::{Update, UpdateProgram};
use crate::act_programs::{ActPrograms, Record};
use crate::agent::Agent;
use crate::block_update::Trained;
use crate::config::{AgentConfig, Algorithm};
use crate::error::{Call, Error};
use crate::observations::{ActionBuffer, Seen};
use crate::rules::Widths;
use crate::run_environments::Spaces;
use crate::run_options::RunOptions;
use crate::weights;

/// A deep Q-learning agent, with weights that stay on its device.
///
/// # Determinism
/// Actions depend on weights, observations and the stream; an update on weights, optimiser and batch. Neither depends on the number of
/// ranks.
///
/// ```
/// use shardgraph_agents::{AgentConfig, DqnAgent, RunOptions};
/// use shardgraph_random::KeyedRng;
///
/// let config = AgentConfig::named("cartpole-dqn").unwrap();
/// let mut agent = DqnAgent::of_config(&config, &RunOptions::default())?;
/// let mut actions = Vec::new();
/// let (seen, mut stream) = ([0.5, -0.5, 0.0, 0.1, 0.2, 0.3, 0.0, -0.1], KeyedRng::new(1, "example", 0));
/// agent.act(&seen, 0.0, &mut stream, &mut actions)?;
/// assert_eq!(actions.len(), 2); // of two observations
///
/// let error = agent.act(&[0.5, f32::NAN, 0.0, 0.0], 0.0, &mut stream, &mut actions).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "DqnAgent::act: element 1 of the observation of environment 0: expected a finite number, given NaN"
/// );
/// # Ok::<(), shardgraph_agents::Error>(())
/// ```
#[derive(Debug)]
pub struct DqnAgent {
    device: Device,
    params: Params,
    online: QNetwork,
    optimiser: Optimiser,
    update: UpdateProgram,
    acting: ActPrograms,
    /// The probability of random actions at the end of a run.
    last_epsilon: f32,
    has_mask: bool,
}

impl DqnAgent {
    /// An agent for environments of these spaces, with first weights from `seed`.
    ///
    /// # Errors
    /// When the action is not discrete, or a setting cannot be right.
    pub fn new(
        config: &DqnConfig,
        spaces: &Spaces,
        seed: u64,
        device: &Device,
    ) -> Result<DqnAgent, Error> {
        config.check(1, Widths::of(spaces))?;
        let initialiser = Initialiser {
            seed,
            ..Initialiser::default()
        };
        let mut params = Params::new();
        let build = |params: &mut Params, scope| {
            QNetwork::build(params, scope, spaces.both(), &config.network, initialiser)
        };
        let online = build(&mut params, "online")?;
        params.freeze_rest();
        let target = build(&mut params, "target")?;
        params.copy_trained_to_frozen()?;
        let optimiser = Optimiser::new(config.optimiser, params.trained_len())?;
        let update = UpdateProgram::new(config, &params, &online, &target, spaces, device)?;
        Ok(DqnAgent {
            device: device.clone(),
            acting: ActPrograms::new("DqnAgent", "an action value", online.n_inputs()),
            params,
            online,
            optimiser,
            update,
            last_epsilon: config.exploration.end,
            has_mask: spaces.has_mask(),
        })
    }

    /// The agent of a run's settings before its first step; also of Ape-X, whose learner is one.
    ///
    /// # Errors
    /// As [`DqnAgent::new`], and for an algorithm without action values.
    pub fn of_config(config: &AgentConfig, options: &RunOptions) -> Result<DqnAgent, Error> {
        let environments = options.environments_of(config)?;
        config.check_on(&environments)?;
        let dqn = match &config.algorithm {
            Algorithm::Dqn(dqn) => dqn.clone(),
            Algorithm::Apex(apex) => apex.dqn(),
            other => return Err(other.is_not("dqn or apex")),
        };
        DqnAgent::new(&dqn, environments.spaces(), config.seed, &options.device)
    }

    /// An action for each observation, into `actions`: with probability `epsilon` any that may be taken, otherwise the one of the largest
    /// value (the first of several).
    ///
    /// # Shapes
    /// What is seen holds a row for each environment, flat as `Space::flatten_into` makes them.
    /// # Errors
    /// When that is no whole number of rows, there is no mask where the environments have them, an observation is not finite, `epsilon` is no probability, or the weights give values that are
    /// not finite.
    pub fn act<'a>(
        &mut self,
        seen: impl Into<Seen<'a>>,
        epsilon: f32,
        stream: &mut KeyedRng,
        actions: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let seen = seen.into();
        let n = self.check(seen)?;
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(ACT.mismatch("epsilon", "0 to 1", epsilon));
        }
        let n_actions = self.online.n_actions() as u32;
        actions.clear();
        let mut n_greedy = 0;
        for idx in 0..n {
            let is_random = stream.chance(f64::from(epsilon));
            actions.push(match (is_random, seen.mask) {
                (false, _) => GREEDY,
                (true, None) => stream.below_u32(n_actions),
                (true, Some(mask)) => any_of(row_of(mask, idx, n_actions as usize), stream),
            });
            n_greedy += usize::from(!is_random);
        }
        if n_greedy == 0 {
            return Ok(());
        }
        self.fill_in_best(seen, actions)
    }

    /// The number of rows that are seen.
    fn check(&self, seen: Seen<'_>) -> Result<usize, Error> {
        let n = seen.check(ACT, self.online.n_inputs(), self.online.n_actions())?;
        if seen.mask.is_some() == self.has_mask {
            return Ok(n);
        }
        let text = |is_there| if is_there { "one" } else { "none" };
        let (expected, given) = (text(self.has_mask), text(seen.mask.is_some()));
        Err(ACT.mismatch("a mask of the actions", expected, given))
    }

    /// The columns of the transitions that it learns from.
    pub(crate) fn layout(&self) -> &ColumnLayout {
        self.update.layout()
    }

    /// How many actions there are.
    pub(crate) fn n_actions(&self) -> usize {
        self.online.n_actions()
    }

    /// The action of the largest value in each place that waits for it.
    fn fill_in_best(&mut self, seen: Seen<'_>, actions: &mut [u32]) -> Result<(), Error> {
        let n_actions = self.online.n_actions();
        let values = self.values(seen.observations, actions.len())?;
        let rows = values.chunks_exact(n_actions);
        for (idx, (action, row)) in actions.iter_mut().zip(rows).enumerate() {
            if *action == GREEDY {
                *action = best_of(row, seen.mask.map(|mask| row_of(mask, idx, n_actions)));
            }
        }
        Ok(())
    }

    /// The values of all actions, a row for each of `n` observations.
    pub(crate) fn action_values(
        &mut self,
        observations: &[f32],
        n: usize,
    ) -> Result<Vec<f32>, Error> {
        Ok(self.values(observations, n)?.into_owned())
    }

    fn values(&mut self, observations: &[f32], n: usize) -> Result<Cow<'_, [f32]>, Error> {
        let online = &self.online;
        let record: Record<'_> = &|record, seen| online.q_values(record, seen);
        self.acting
            .rows(&self.params, &self.device, observations, n, record)
    }

    /// One step of the optimiser on a batch of transitions, whose layout is [`crate::transition_layout`]'s, with an importance weight for each
    /// where draws are prioritised. All ranks of `comm` call it with the same batch; each computes its blocks of it. No number in it can be
    /// other than finite: [`Rows`] refuses such a row, and names the column.
    ///
    /// # Errors
    /// When the batch has another size or layout, there are more ranks than blocks, training has diverged, or a rank is lost.
    pub fn update(
        &mut self,
        batch: (&Rows, Option<&[f32]>),
        comm: &mut Comm,
        deadline: Timeout,
    ) -> Result<Update, Error> {
        let trained = Trained {
            params: &mut self.params,
            optimiser: &mut self.optimiser,
        };
        let update = self.update.step(trained, batch, comm, deadline)?;
        self.weights_changed();
        Ok(update)
    }

    /// The TD errors of the last batch, prediction less target: what priorities are made of.
    pub fn td_errors(&self) -> &[f32] {
        self.update.td_errors()
    }

    /// Copies the online weights into the target network.
    ///
    /// # Errors
    /// When the device fails.
    pub fn sync_target(&mut self) -> Result<(), Error> {
        Ok(self.params.copy_trained_to_frozen()?)
    }

    pub(crate) fn restore(&mut self, all_weights: &[f32], optimiser: &[u8]) -> Result<(), Error> {
        self.optimiser.restore(optimiser)?;
        self.params.set_flat(all_weights)?;
        self.weights_changed();
        Ok(())
    }

    /// Leaves the programs that act as a run does that failed.
    #[cfg(test)]
    pub(super) fn drop_weights_of_programs(&mut self) {
        self.acting.drop_weights(&self.device);
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn optimiser(&self) -> &Optimiser {
        &self.optimiser
    }

    pub(crate) fn params(&self) -> &Params {
        &self.params
    }

    fn weights_changed(&mut self) {
        self.acting.weights_changed();
    }
}

impl Agent for DqnAgent {
    fn act_greedily(&mut self, seen: Seen<'_>, actions: &mut ActionBuffer) -> Result<(), Error> {
        let n = self.check(seen)?;
        let actions = actions.discrete();
        actions.resize(n, GREEDY);
        self.fill_in_best(seen, actions)
    }

    /// With the probability of random actions that a run ends with.
    fn act_sampled(
        &mut self,
        seen: Seen<'_>,
        stream: &mut KeyedRng,
        actions: &mut ActionBuffer,
    ) -> Result<(), Error> {
        let epsilon = self.last_epsilon;
        self.act(seen, epsilon, stream, actions.discrete())
    }

    /// Of the online network.
    fn weights(&self) -> &[f32] {
        self.params.trained()
    }

    /// The target network stays.
    fn set_weights(&mut self, weights: &[f32]) -> Result<(), Error> {
        weights::check("DqnAgent", self.params.trained_len(), weights)?;
        self.params.set_trained(weights)?;
        self.weights_changed();
        Ok(())
    }

    fn export(&self, path: &Path) -> Result<(), Error> {
        weights::write(path, &self.params)
    }

    /// Into both networks. What the optimiser has learned of the old weights stays.
    fn import(&mut self, path: &Path) -> Result<(), Error> {
        self.set_weights(&weights::read(path, &self.params)?)?;
        self.sync_target()
    }
}

/// The flags of one environment.
fn row_of(mask: &[bool], idx: usize, n_actions: usize) -> &[bool] {
    &mask[idx * n_actions..(idx + 1) * n_actions]
}

/// One of the actions that may be taken, each as likely.
fn any_of(mask: &[bool], stream: &mut KeyedRng) -> u32 {
    let n_allowed = mask.iter().filter(|&&may| may).count();
    let wanted = stream.below_u32(n_allowed as u32) as usize;
    let mut allowed = (0..).zip(mask).filter(|(_, may)| **may);
    allowed.nth(wanted).map_or(0, |(action, _)| action)
}

/// The first of the largest values, among the actions that may be taken.
fn best_of(values: &[f32], mask: Option<&[bool]>) -> u32 {
    let mut best: Option<usize> = None;
    for (action, &value) in values.iter().enumerate() {
        let may = mask.is_none_or(|mask| mask[action]);
        if may && best.is_none_or(|best| value > values[best]) {
            best = Some(action);
        }
    }
    best.unwrap_or(0) as u32
}

/// In place of an action that is still to be chosen.
const GREEDY: u32 = u32::MAX;

const ACT: Call = Call {
    component: "DqnAgent",
    method: "act",
};
