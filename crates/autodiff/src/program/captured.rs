//! A program's operations as one launch of a device.

use shardgraph_collectives::Comm;
use shardgraph_device::{Buffer, Device, Graph};

use super::{Program, State, no_outputs, unshared, usage};
use crate::{DeviceComm, DeviceGradient, Error, Op, Params, Shape, Var};

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

/// A program whose launches are recorded; see [`Program::capture`].
#[derive(Debug)]
pub struct Recording<'a> {
    program: &'a mut Program,
    comm: &'a mut Comm,
}

impl Recording<'_> {
    /// The memory of inputs, each given once, for kernels that write them; absent for one that no operation reads.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is no input, and for one that is given twice.
    pub fn inputs<const N: usize>(
        &mut self,
        inputs: [Var; N],
    ) -> Result<[Option<&mut Buffer>; N], Error> {
        let nodes = inputs.map(Var::index);
        let all = &self.program.plan.nodes;
        if let Some(node) = nodes.iter().find(|&&node| !is_input(all.get(node))) {
            return usage(format!("program: value {node} of a recording is no input"));
        }
        match self.program.values.get_disjoint_mut(nodes) {
            Ok(values) => Ok(values.map(|value| value.as_mut().map(unshared))),
            Err(_) => usage("program: an input of a recording was given twice".to_string()),
        }
    }

    /// Launches the program's operations.
    ///
    /// # Errors
    /// The device's.
    pub fn launch(&mut self) -> Result<(), Error> {
        self.program.launch_steps(self.comm, None)
    }

    /// The memory of an output, after [`Recording::launch`], and the ranks that share the program.
    ///
    /// # Errors
    /// As [`Program::read`].
    pub fn output_on_ranks(&mut self, name: &str) -> Result<(&Buffer, DeviceComm<'_>), Error> {
        let program = &*self.program;
        let comm = DeviceComm::new(&program.device, self.comm, program.deadline);
        Ok((program.buffer(program.named(name)?)?, comm))
    }

    /// The memory of an output, after [`Recording::launch`].
    ///
    /// # Errors
    /// As [`Program::read`].
    pub fn output(&self, name: &str) -> Result<&Buffer, Error> {
        self.program.buffer(self.program.named(name)?)
    }
}

fn is_input(node: Option<&(Op, Shape)>) -> bool {
    matches!(node, Some((Op::Input(_), _)))
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

    /// Records what `f` launches as one graph, the program's operations ([`Recording::launch`]) among it.
    ///
    /// The graph's launches use the parameters and inputs that the program has then, but for what `f` launches on their
    /// memory. [`Program::read`] is of the graph's last launch.
    ///
    /// # Errors
    /// As [`Program::run_captured`], and [`Error::Usage`] on the host; that of `f`.
    pub fn capture(
        &mut self,
        comm: &mut Comm,
        f: impl FnOnce(&mut Recording<'_>) -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        self.check_resident("capture")?;
        self.check_rank(comm)?;
        if self.device.is_host() || self.plan.world.size > 1 {
            let text =
                "program: capture takes a plan of one rank on a device that launches kernels";
            return usage(text.to_string());
        }
        self.check_has_params("capture")?;
        self.write_inputs(comm)?;
        let device = self.device.clone();
        let mut recording = Recording {
            program: self,
            comm,
        };
        let graph = record(&device, || f(&mut recording));
        if graph.is_err() {
            self.forget_all();
        }
        graph
    }

    /// Runs what `f` launches, the program's operations ([`Recording::launch`]) among it, on any number of ranks and without a
    /// recording: as [`Program::capture`], but now.
    ///
    /// # Errors
    /// As [`Program::run_again`]; that of `f`.
    pub fn run_with(
        &mut self,
        comm: &mut Comm,
        f: impl FnOnce(&mut Recording<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_resident("run_with")?;
        self.check_rank(comm)?;
        self.check_has_params("run_with")?;
        self.write_inputs(comm)?;
        let done = f(&mut Recording {
            program: self,
            comm,
        });
        if done.is_err() {
            self.forget_all();
        }
        done
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
        self.begin_run()?;
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
