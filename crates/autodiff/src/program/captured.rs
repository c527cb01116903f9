//! A program's operations as one launch of a device.

use shardgraph_collectives::Comm;
use shardgraph_device::{Device, Graph};

use super::{Program, State, no_outputs, usage};
use crate::{DeviceGradient, Error, Op, Params, Var};

/// Records the launches that `f` makes.
pub(crate) fn record(
    device: &Device,
    f: impl FnOnce() -> Result<(), Error>,
) -> Result<Graph, Error> {
    // The device knows its own errors alone: this crate's comes out beside them.
    let mut done = Ok(());
    let graph = device.capture(&[], || {
        done = f();
        Ok(())
    });
    done.and(graph.map_err(Error::from))
}

impl Program {
    /// As [`Program::run_again`], but on a device that is no host by one launch for all operations, which the first call records. The
    /// host runs them one by one.
    ///
    /// # Errors
    /// As [`Program::run_again`]; [`Error::Usage`] for a plan of several ranks.
    pub fn run_captured(&mut self, comm: &mut Comm) -> Result<(), Error> {
        if self.device.is_host() {
            return self.run_again(comm);
        }
        self.check_resident("run_captured")?;
        self.check_rank(comm)?;
        if self.plan.world.size > 1 {
            return usage(
                "program: run_captured takes a plan of one rank: call run_again".to_string(),
            );
        }
        self.check_has_params("run_captured")?;
        let launched = self.launch_captured(comm);
        match launched {
            Ok(()) => self.state = State::Run,
            Err(_) => self.forget_all(),
        }
        launched
    }

    fn launch_captured(&mut self, comm: &mut Comm) -> Result<(), Error> {
        self.write_inputs(comm)?;
        if self.graph.is_none() {
            let device = self.device.clone();
            self.graph = Some(record(&device, || self.launch_steps(comm, None))?);
        }
        match &self.graph {
            Some(graph) => Ok(graph.launch()?),
            None => Ok(()),
        }
    }

    /// After an error: the next run begins with parameters.
    fn forget_all(&mut self) {
        self.state = State::Nothing;
        self.forget();
    }

    /// Copies the inputs that were set since the last run; for a resident program whose operations were captured.
    pub(crate) fn write_inputs(&mut self, comm: &mut Comm) -> Result<(), Error> {
        for i in 0..self.plan.steps.len() {
            let node = self.plan.steps[i].node as usize;
            if matches!(self.plan.nodes[node].0, Op::Input(_))
                && let Err(error) = self.run_step(i, comm, None)
            {
                self.forget();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Launches all operations of a resident program: for a capture. They read the given parameters in place, or those that
    /// the program has.
    pub(crate) fn launch_steps(
        &mut self,
        comm: &mut Comm,
        params: Option<&Params>,
    ) -> Result<(), Error> {
        self.state = State::Nothing;
        for i in 0..self.plan.steps.len() {
            let node = self.plan.steps[i].node as usize;
            let done = match self.plan.nodes[node].0 {
                Op::Input(_) => Ok(()),
                Op::Param(id) => match params {
                    None => Ok(()),
                    Some(params) => params.buffer(id, &self.device).map(|values| {
                        self.values[node] = Some(values);
                    }),
                },
                Op::Apply { .. } => self.run_step(i, comm, None),
            };
            if let Err(error) = done {
                self.forget();
                return Err(error);
            }
        }
        self.state = State::Run;
        Ok(())
    }

    /// Lets go of parameters that were read in place: an optimiser's step is about to write them.
    pub(crate) fn release_params(&mut self) {
        for (value, (op, _)) in self.values.iter_mut().zip(&self.plan.nodes) {
            if let Op::Param(_) = op {
                *value = None;
            }
        }
    }

    /// The derivatives by the trained parameters, in the slots in which every run leaves them.
    pub(crate) fn device_gradient(&self) -> Result<DeviceGradient, Error> {
        let part = |var: Var| {
            let values = &self.values[self.plan.alias_of[var.index()] as usize];
            values.clone().ok_or_else(no_outputs)
        };
        let grads = self.gradient_vars()?.iter();
        let parts: Result<Vec<_>, Error> = grads.map(|grad| grad.map(part).transpose()).collect();
        Ok(DeviceGradient::new(parts?))
    }
}
