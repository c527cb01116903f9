//! A policy and its values for a fixed number of observations at a time, as a planned program.

use shardgraph_autodiff::{Ctx, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{ActorCritic, ActorCriticShape, Initialiser, LstmState, Sequences};
use shardgraph_device::{Device, DeviceKind};

use crate::config::cart_pole_spaces;
use crate::error::{Error, ErrorKind};
use crate::observations;

const LOGITS: &str = "logits";
const VALUES: &str = "values";
const HIDDEN: &str = "hidden";
const CELL: &str = "cell";

/// The network of a policy and its values for carts with poles, with first weights from `seed`.
pub(crate) fn build_policy(
    shape: &ActorCriticShape,
    seed: u64,
) -> Result<(Params, ActorCritic), Error> {
    let (observation, action) = cart_pole_spaces()?;
    let initialiser = Initialiser {
        seed,
        ..Initialiser::default()
    };
    let mut params = Params::new();
    let spaces = (&observation, &action);
    let network = ActorCritic::build(&mut params, "policy", spaces, shape, initialiser)?;
    Ok((params, network))
}

/// One time step of an [`ActorCritic`].
#[derive(Debug)]
pub(crate) struct PolicyProgram {
    program: Program,
    /// Columns of its observations.
    width: usize,
    observations: Var,
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
    /// For `n` observations.
    pub(crate) fn new(
        params: &Params,
        network: &ActorCritic,
        n: usize,
        device: &Device,
    ) -> Result<PolicyProgram, Error> {
        let mut record = Recorder::new(params, 0, 1);
        let mut zeros = |width: usize| {
            let shape = Shape::new(n, width);
            record.input(shape, &vec![0.0; shape.len()])
        };
        let observations = zeros(network.n_inputs())?;
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
        record.output(LOGITS, said.logits);
        record.output(VALUES, said.values);
        Ok(PolicyProgram {
            program: record.plan().resident().load(device)?,
            width: network.n_inputs(),
            observations,
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

    /// Puts into `said` what the network says of observations that come after `state`.
    ///
    /// # Errors
    /// When an observation or what it says is not finite, or of the program.
    pub(crate) fn run(
        &mut self,
        params: &Params,
        observations: &[f32],
        state: &MemoryState,
        said: &mut Said,
    ) -> Result<(), Error> {
        observations::check("PolicyAgent", self.width, observations)?;
        self.program.set_input(self.observations, observations)?;
        if let Some(memory) = &self.memory {
            self.program.set_input(memory.begins, &state.begins)?;
            self.program.set_input(memory.hidden, &state.hidden)?;
            self.program.set_input(memory.cell, &state.cell)?;
        }
        if self.is_stale {
            self.program.set_params(params)?;
        }
        self.is_stale = true; // a run that fails drops the weights
        self.program.run_again(&mut self.solo)?;
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
        let text = "the policy's logits or values are not finite: training has diverged; try a smaller `learning_rate`, or a `max_gradient_norm`";
        Err(ErrorKind::Diverged(text.to_owned()).into())
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
