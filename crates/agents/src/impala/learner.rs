//! The learner: a network, its optimiser, and one program for a batch of trajectories.

use shardgraph_autodiff::{Axis, Ctx, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{
    ActorCritic, ImpalaBatch, LstmState, Optimiser, PolicyAndValue, Sequences, SoftmaxPolicy,
};
use shardgraph_device::Device;
use shardgraph_job::tags;

use super::config::ImpalaConfig;
use super::trajectory::{Unroll, side_by_side};
use crate::error::{Error, ErrorKind};
use crate::policy_program::build_policy;
use crate::run_environments::Environments;

const LOSS: &str = "loss";
const POLICY: &str = "policy";
const BASELINE: &str = "baseline";
const ENTROPY: &str = "entropy";

/// What learns.
#[derive(Debug)]
pub(super) struct Learner {
    pub(super) params: Params,
    pub(super) optimiser: Optimiser,
    pub(super) device: Device,
    pub(super) n_updates: u64,
    network: ActorCritic,
    policy: SoftmaxPolicy,
    program: Program,
    inputs: Inputs,
    n_steps: usize,
    n_trajectories: usize,
    solo: Comm,
    /// What an input is made of.
    values: Vec<f32>,
    /// The actions of a batch.
    actions: Vec<u32>,
    gradient: Vec<f32>,
}

/// The inputs of the program.
#[derive(Debug)]
struct Inputs {
    observations: Var,
    /// What masks add to the logits.
    masks: Option<Var>,
    batch: ImpalaBatch,
    memory: Option<[Var; 3]>,
}

/// An update's losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Losses {
    pub(super) policy: f32,
    pub(super) baseline: f32,
    pub(super) entropy: f32,
}

impl Losses {
    /// A line of them.
    pub(super) fn scalars(self) -> Vec<(&'static str, f32)> {
        vec![
            (tags::POLICY_LOSS, self.policy),
            (tags::VALUE_LOSS, self.baseline),
            (tags::ENTROPY, self.entropy),
        ]
    }
}

impl Learner {
    pub(super) fn new(
        impala: &ImpalaConfig,
        environments: &Environments,
        seed: u64,
        device: &Device,
    ) -> Result<Learner, Error> {
        let (params, network) = build_policy(environments, &impala.network, seed)?;
        let policy = SoftmaxPolicy::build("policy", environments.spaces().action())?;
        let has_mask = environments.spaces().has_mask();
        let (program, inputs) = record(impala, &params, &network, &policy, has_mask, device)?;
        Ok(Learner {
            optimiser: Optimiser::new(impala.optimiser, params.trained_len())?,
            device: device.clone(),
            n_updates: 0,
            program,
            inputs,
            n_steps: impala.unroll_steps,
            n_trajectories: impala.batch_trajectories,
            solo: Comm::solo(),
            values: Vec::new(),
            actions: Vec::new(),
            gradient: Vec::new(),
            params,
            network,
            policy,
        })
    }

    /// One update on unrolls that make up a batch.
    pub(super) fn update(&mut self, unrolls: &[Unroll]) -> Result<Losses, Error> {
        self.check(unrolls)?;
        self.set(
            self.inputs.observations,
            unrolls,
            self.n_steps + 1,
            |unroll| &unroll.observations,
        )?;
        let (batch, n_steps) = (self.inputs.batch, self.n_steps);
        self.set(batch.behaviour, unrolls, n_steps, |of| &of.behaviour)?;
        self.set(batch.rewards, unrolls, n_steps, |of| &of.rewards)?;
        self.set(batch.discounts, unrolls, n_steps, |of| &of.discounts)?;
        self.set_actions(batch.actions, unrolls)?;
        if let Some(masks) = self.inputs.masks {
            self.set(masks, unrolls, n_steps, |of| &of.masks)?;
        }
        if let Some([begins, hidden, cell]) = self.inputs.memory {
            self.set(begins, unrolls, self.n_steps + 1, |unroll| &unroll.begins)?;
            self.set(hidden, unrolls, 1, |unroll| &unroll.hidden)?;
            self.set(cell, unrolls, 1, |unroll| &unroll.cell)?;
        }
        self.program.run(&mut self.solo, &self.params)?;
        let losses = self.losses()?;
        self.gradient.clear();
        self.program.append_param_gradient(&mut self.gradient)?;
        self.optimiser
            .step(&self.device, &mut self.params, &mut self.gradient)?;
        self.n_updates += 1;
        Ok(losses)
    }

    fn losses(&self) -> Result<Losses, Error> {
        let read = |name: &str| Ok::<f32, Error>(self.program.read(name)?[0]);
        if !read(LOSS)?.is_finite() {
            let text = "IMPALA: the loss is not finite: training has diverged; try a smaller `learning_rate`, or a `max_gradient_norm`";
            return Err(ErrorKind::Diverged(text.to_owned()).into());
        }
        Ok(Losses {
            policy: read(POLICY)?,
            baseline: read(BASELINE)?,
            entropy: read(ENTROPY)?,
        })
    }

    fn set<'a>(
        &mut self,
        input: Var,
        unrolls: &'a [Unroll],
        n_times: usize,
        list: impl Fn(&'a Unroll) -> &'a [f32],
    ) -> Result<(), Error> {
        self.values.clear();
        self.values.extend(side_by_side(unrolls, list, n_times));
        Ok(self.program.set_input(input, &self.values)?)
    }

    fn set_actions(&mut self, input: Var, unrolls: &[Unroll]) -> Result<(), Error> {
        let actions = side_by_side(unrolls, |unroll| &unroll.actions, self.n_steps);
        self.actions.clear();
        // A number beyond 32 bits is none of the policy's either.
        let narrow = |&action: &u64| u32::try_from(action).unwrap_or(u32::MAX);
        self.actions.extend(actions.map(narrow));
        self.values.clear();
        self.policy.one_hot_into(&self.actions, &mut self.values)?;
        Ok(self.program.set_input(input, &self.values)?)
    }

    /// Whether the unrolls are those of this network and batch.
    fn check(&self, unrolls: &[Unroll]) -> Result<(), Error> {
        let mut n_trajectories = 0;
        for unroll in unrolls {
            let n = unroll.rewards.len() / self.n_steps;
            let (expected, given) = (self.lengths(n), unroll.lengths());
            if given != expected {
                let expected = format!("lists of {expected:?} numbers");
                return Err(mismatch(expected, format!("{given:?}")));
            }
            n_trajectories += n;
        }
        match n_trajectories == self.n_trajectories {
            true => Ok(()),
            false => Err(mismatch(
                format!("{} trajectories", self.n_trajectories),
                n_trajectories.to_string(),
            )),
        }
    }

    /// What [`Unroll::lengths`] of `n` trajectories is.
    fn lengths(&self, n: usize) -> [usize; 9] {
        let (now, with_next) = (n * self.n_steps, n * (self.n_steps + 1));
        let of_memory = n * self.network.n_hidden().unwrap_or(0);
        let observations = with_next * self.network.n_inputs();
        let n_actions = self.network.n_actions();
        [
            now * self.policy.n_choices().len(),
            now,
            now,
            now,
            with_next,
            observations,
            of_memory,
            of_memory,
            self.inputs.masks.map_or(0, |_| now * n_actions),
        ]
    }
}

fn mismatch(expected: String, given: String) -> Error {
    ErrorKind::Mismatch {
        component: "Impala",
        method: "update",
        what: "the unrolls".to_owned(),
        expected,
        given,
    }
    .into()
}

/// The program of an update, and where its batch goes.
fn record(
    impala: &ImpalaConfig,
    params: &Params,
    network: &ActorCritic,
    policy: &SoftmaxPolicy,
    has_mask: bool,
    device: &Device,
) -> Result<(Program, Inputs), Error> {
    let n = impala.batch_trajectories;
    let rows = impala.unroll_steps * n;
    let mut record = Recorder::new(params, 0, 1);
    let (observations, memory) = seen(&mut record, network, (impala.unroll_steps + 1, n))?;
    let said = match memory {
        None => network.apply(&mut record, observations)?,
        Some([begins, hidden, cell]) => {
            let state = LstmState { hidden, cell };
            let with_next = Sequences::time_major(impala.unroll_steps + 1, n);
            let (said, _) = network.unroll(&mut record, observations, begins, state, with_next)?;
            said
        }
    };
    let mut logits = record.slice(said.logits, Axis::Rows, 0, rows)?;
    let mut masks = None;
    if has_mask {
        let shape = record.shape(logits);
        let added = record.input(shape, &vec![0.0; shape.len()])?;
        logits = record.add(logits, added)?;
        masks = Some(added);
    }
    let outputs = PolicyAndValue {
        logits,
        values: record.slice(said.values, Axis::Rows, 0, rows)?,
    };
    let bootstrap = record.slice(said.values, Axis::Rows, rows, n)?;
    let sequences = Sequences::time_major(impala.unroll_steps, n);
    let batch = ImpalaBatch::inputs(&mut record, sequences, network.n_actions(), bootstrap)?;
    let inputs = Inputs {
        observations,
        masks,
        batch,
        memory,
    };
    let loss = impala.loss.apply(&mut record, policy, outputs, &batch)?;
    record.output(LOSS, loss.loss);
    record.output(POLICY, loss.policy);
    let baseline = loss.baseline;
    let baseline = baseline.ok_or_else(|| Error::internal("IMPALA's loss without values"))?;
    record.output(BASELINE, baseline);
    record.output(ENTROPY, loss.entropy);
    record.output_param_gradient(loss.loss)?;
    Ok((record.plan().load(device)?, inputs))
}

/// Inputs for what was seen at so many time steps of `n` trajectories, and for the memory of a network that has one.
fn seen(
    record: &mut Recorder<'_>,
    network: &ActorCritic,
    (n_steps, n): (usize, usize),
) -> Result<(Var, Option<[Var; 3]>), Error> {
    let mut zeros = |n_rows: usize, width: usize| {
        let shape = Shape::new(n_rows, width);
        record.input(shape, &vec![0.0; shape.len()])
    };
    let observations = zeros(n_steps * n, network.n_inputs())?;
    let Some(n_hidden) = network.n_hidden() else {
        return Ok((observations, None));
    };
    let begins = zeros(n_steps * n, 1)?;
    let memory = [begins, zeros(n, n_hidden)?, zeros(n, n_hidden)?];
    Ok((observations, Some(memory)))
}
