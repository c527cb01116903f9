//! A policy and its values for a fixed number of observations at a time, as a planned program.

use shardgraph_autodiff::{Ctx, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{ActorCritic, ActorCriticShape, Initialiser, LstmState, Sequences};
use shardgraph_device::{Device, DeviceKind};

use crate::error::{Call, Error, diverged};
use crate::observations::{Seen, penalties};
use crate::run_environments::Environments;

const LOGITS: &str = "logits";
const VALUES: &str = "values";
const HIDDEN: &str = "hidden";
const CELL: &str = "cell";

/// The network of a policy and its values for environments, with first weights from `seed`.
pub(crate) fn build_policy(
    environments: &Environments,
    shape: &ActorCriticShape,
    seed: u64,
) -> Result<(Params, ActorCritic), Error> {
    let initialiser = Initialiser {
        seed,
        ..Initialiser::default()
    };
    build_policy_by(environments, shape, initialiser)
}

/// The same with first weights by another rule.
pub(crate) fn build_policy_by(
    environments: &Environments,
    shape: &ActorCriticShape,
    initialiser: Initialiser,
) -> Result<(Params, ActorCritic), Error> {
    let mut params = Params::new();
    let spaces = environments.spaces().both();
    let network = ActorCritic::build(&mut params, "policy", spaces, shape, initialiser)?;
    Ok((params, network))
}

fn of_mask(is_there: bool) -> &'static str {
    match is_there {
        true => "one, as the environments have masks",
        false => "none",
    }
}

const ACT: Call = Call {
    component: "PolicyAgent",
    method: "act",
};

/// One time step of an [`ActorCritic`].
#[derive(Debug)]
pub(crate) struct PolicyProgram {
    program: Program,
    /// Columns of its observations.
    width: usize,
    /// Columns of its logits.
    n_actions: usize,
    observations: Var,
    /// What is added to the logits, where some actions may not be taken.
    mask: Option<Var>,
    penalties: Vec<f32>,
    memory: Option<MemoryInputs>,
    /// Whether its weights are older than the policy's.
    is_stale: bool,
    is_on_host: bool,
    solo: Comm,
}

/// The inputs of a network with a memory.
#[derive(Debug)]
struct MemoryInputs {
    begins: Var,
    hidden: Var,
    cell: Var,
}

/// What a network remembers of each environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MemoryState {
    /// 1 where an episode begins: what was before is forgotten.
    pub(crate) begins: Vec<f32>,
    /// `[n, n_hidden]`; empty for a network without a memory.
    pub(crate) hidden: Vec<f32>,
    /// As `hidden`.
    pub(crate) cell: Vec<f32>,
}

impl MemoryState {
    /// Before the first episodes.
    pub(crate) fn new(network: &ActorCritic, n: usize) -> MemoryState {
        let zeros = vec![0.0; n * network.n_hidden().unwrap_or(0)];
        MemoryState {
            begins: vec![1.0; n],
            hidden: zeros.clone(),
            cell: zeros,
        }
    }
}

/// What a network says of each observation; lists that are used again for the next ones.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// `[n, n_actions]`.
    pub(crate) logits: Vec<f32>,
    pub(crate) values: Vec<f32>,
    /// The state after it, but for `begins`; empty without a memory.
    pub(crate) hidden: Vec<f32>,
    pub(crate) cell: Vec<f32>,
}

impl PolicyProgram {
    /// For `n` observations, with their masks if there are any.
    pub(crate) fn new(
        params: &Params,
        network: &ActorCritic,
        n: usize,
        has_mask: bool,
        device: &Device,
    ) -> Result<PolicyProgram, Error> {
        let mut record = Recorder::new(params, 0, 1);
        let mut zeros = |width: usize| {
            let shape = Shape::new(n, width);
            record.input(shape, &vec![0.0; shape.len()])
        };
        let observations = zeros(network.n_inputs())?;
        let mask = match has_mask {
            false => None,
            true => Some(zeros(network.n_actions())?),
        };
        let memory = match network.n_hidden() {
            None => None,
            Some(n_hidden) => Some(MemoryInputs {
                begins: zeros(1)?,
                hidden: zeros(n_hidden)?,
                cell: zeros(n_hidden)?,
            }),
        };
        let said = match &memory {
            None => network.apply(&mut record, observations)?,
            Some(memory) => {
                let (hidden, cell) = (memory.hidden, memory.cell);
                let state = LstmState { hidden, cell };
                let rows = Sequences::time_major(1, n);
                let (said, state) =
                    network.unroll(&mut record, observations, memory.begins, state, rows)?;
                record.output(HIDDEN, state.hidden);
                record.output(CELL, state.cell);
                said
            }
        };
        let logits = match mask {
            None => said.logits,
            Some(mask) => record.add(said.logits, mask)?,
        };
        record.output(LOGITS, logits);
        record.output(VALUES, said.values);
        Ok(PolicyProgram {
            program: record.plan().resident().load(device)?,
            width: network.n_inputs(),
            n_actions: network.n_actions(),
            observations,
            mask,
            penalties: Vec::new(),
            memory,
            is_stale: true,
            is_on_host: device.kind() == DeviceKind::Host,
            solo: Comm::solo(),
        })
    }

    /// The next run takes the weights anew.
    pub(crate) fn weights_changed(&mut self) {
        self.is_stale = true;
    }

    /// Leaves the program as a run does that failed.
    #[cfg(test)]
    pub(crate) fn drop_weights(&mut self, device: &Device) {
        let plan = self.program.plan().clone();
        self.program = plan.load(device).expect("it was loaded before");
    }

    /// Puts into `said` what the network says of what is seen after `state`; logits are those behind
    /// the mask.
    ///
    /// # Errors
    /// When an observation or what it says is not finite, or of the program.
    pub(crate) fn run(
        &mut self,
        params: &Params,
        seen: Seen<'_>,
        state: &MemoryState,
        said: &mut Said,
    ) -> Result<(), Error> {
        seen.check(ACT, self.width, self.n_actions)?;
        self.program
            .set_input(self.observations, seen.observations)?;
        self.set_mask(seen.mask)?;
        if let Some(memory) = &self.memory {
            self.program.set_input(memory.begins, &state.begins)?;
            self.program.set_input(memory.hidden, &state.hidden)?;
            self.program.set_input(memory.cell, &state.cell)?;
        }
        if self.is_stale {
            self.program.set_params(params)?;
        }
        self.is_stale = true; // a run that fails drops the weights
        self.program.run_captured(&mut self.solo)?;
        self.is_stale = false;
        self.read(LOGITS, &mut said.logits)?;
        self.read(VALUES, &mut said.values)?;
        if self.memory.is_some() {
            self.read(HIDDEN, &mut said.hidden)?;
            self.read(CELL, &mut said.cell)?;
        }
        let numbers = said.logits.iter().chain(&said.values);
        if numbers.into_iter().all(|x| x.is_finite()) {
            return Ok(());
        }
        Err(diverged("PolicyAgent", "act", "a logit or a value"))
    }

    fn set_mask(&mut self, mask: Option<&[bool]>) -> Result<(), Error> {
        match (self.mask, mask) {
            (None, None) => Ok(()),
            (Some(input), Some(mask)) => {
                self.penalties.clear();
                self.penalties.extend(penalties(mask.iter().copied()));
                Ok(self.program.set_input(input, &self.penalties)?)
            }
            (expected, given) => {
                let (expected, given) = (of_mask(expected.is_some()), of_mask(given.is_some()));
                Err(ACT.mismatch("a mask of the actions", expected, given))
            }
        }
    }

    fn read(&self, name: &str, list: &mut Vec<f32>) -> Result<(), Error> {
        match self.is_on_host {
            true => {
                list.clear();
                list.extend_from_slice(self.program.output(name)?);
            }
            false => *list = self.program.read(name)?,
        }
        Ok(())
    }
}
