//! A network's rows for the observations that an agent acts on, by planned programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use shardgraph_autodiff::{Ctx, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_device::{Device, DeviceKind};

use crate::error::{Error, diverged};

/// A network, as a function of observations.
pub(crate) type Record<'a> =
    &'a dyn Fn(&mut Recorder<'_>, Var) -> Result<Var, shardgraph_components::Error>;

/// Programs that act, by the number of observations.
#[derive(Debug)]
pub(crate) struct ActPrograms {
    /// The agent's type, and what a number of its rows is, for messages.
    agent: &'static str,
    element: &'static str,
    n_inputs: usize,
    programs: BTreeMap<usize, ActProgram>,
}

#[derive(Debug)]
struct ActProgram {
    program: Program,
    observations: Var,
    /// Whether its weights are older than the agent's.
    is_stale: bool,
    is_on_host: bool,
    solo: Comm,
}

/// Programs at a time.
const MAX_PROGRAMS: usize = 8;
const ROWS: &str = "rows";

impl ActPrograms {
    pub(crate) fn new(agent: &'static str, element: &'static str, n_inputs: usize) -> ActPrograms {
        ActPrograms {
            agent,
            element,
            n_inputs,
            programs: BTreeMap::new(),
        }
    }

    /// The network's rows for `n` observations, by the present weights.
    pub(crate) fn rows(
        &mut self,
        params: &Params,
        device: &Device,
        observations: &[f32],
        n: usize,
        record: Record<'_>,
    ) -> Result<Cow<'_, [f32]>, Error> {
        if self.programs.len() >= MAX_PROGRAMS && !self.programs.contains_key(&n) {
            self.programs.clear();
        }
        let shape = Shape::new(n, self.n_inputs);
        let acting = match self.programs.entry(n) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => place.insert(ActProgram::new(params, device, shape, record)?),
        };
        if acting.is_stale {
            acting.program.set_params(params)?;
        }
        acting
            .program
            .set_input(acting.observations, observations)?;
        acting.is_stale = true; // a run that fails drops the weights
        acting.program.run_captured(&mut acting.solo)?;
        acting.is_stale = false;
        let rows = acting.read()?;
        match rows.iter().all(|x| x.is_finite()) {
            true => Ok(rows),
            false => Err(diverged(self.agent, "act", self.element)),
        }
    }

    pub(crate) fn weights_changed(&mut self) {
        self.programs
            .values_mut()
            .for_each(|acting| acting.is_stale = true);
    }

    /// Leaves the programs as a run does that failed.
    #[cfg(test)]
    pub(crate) fn drop_weights(&mut self, device: &Device) {
        for acting in self.programs.values_mut() {
            let plan = acting.program.plan().clone();
            acting.program = plan.load(device).expect("it was loaded before");
        }
    }
}

impl ActProgram {
    fn new(
        params: &Params,
        device: &Device,
        shape: Shape,
        network: Record<'_>,
    ) -> Result<ActProgram, Error> {
        let mut record = Recorder::new(params, 0, 1);
        let observations = record.input(shape, &vec![0.0; shape.len()])?;
        let rows = network(&mut record, observations)?;
        record.output(ROWS, rows);
        Ok(ActProgram {
            program: record.plan().resident().load(device)?,
            observations,
            is_stale: true,
            is_on_host: device.kind() == DeviceKind::Host,
            solo: Comm::solo(),
        })
    }

    /// On the host without a copy.
    fn read(&self) -> Result<Cow<'_, [f32]>, Error> {
        Ok(match self.is_on_host {
            true => Cow::Borrowed(self.program.output(ROWS)?),
            false => Cow::Owned(self.program.read(ROWS)?),
        })
    }
}
