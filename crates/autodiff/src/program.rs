//! A plan on a device: one arena, filled again by every run.

mod captured;
mod refill;

pub use captured::Recording;
pub(crate) use captured::record;

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{
    Arena, Buffer, Device, DeviceKind, Graph, Places, zeros_vec_on_huge_pages,
};
use shardgraph_ops::RowIndex;

use crate::plan::{Residency, Step};
use crate::shape_rules::check_values;
use crate::{DeviceComm, Error, Op, Operand, Output, Params, Plan, Run, Shape, Var};

/// A loaded [`Plan`]; each run writes every value of it at the same address.
///
/// An example is at [`Plan`].
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    device: Device,
    arena: Arena,
    /// The steps' slots in it, made by the first run and again after one that failed.
    slots: Option<Places>,
    /// For each node the step that makes it.
    step_of: Vec<usize>,
    deadline: Timeout,
    /// The values that are alive, by node; after a run the outputs, and in a resident program all of them.
    values: Vec<Option<Arc<Buffer>>>,
    /// The part of a resident program's values that is valid.
    state: State,
    /// The inputs that were set since the last run, by node.
    is_set: Vec<bool>,
    /// For each step the row numbers that it gathers or scatters by.
    indices: Vec<Option<RowIndex>>,
    /// On the host, memory that operations use while they run.
    scratch: Vec<f32>,
    /// The operations as one launch of a device, once [`Program::run_captured`] has recorded them.
    graph: Option<Graph>,
    /// Fills each slot with NaN before it is written, so that what a kernel leaves out shows.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) poisons: bool,
}

/// Contents of a resident program's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Nothing,
    /// Parameters.
    Params,
    /// Parameters, inputs, and the results of a run.
    Run,
}

impl Program {
    pub(crate) fn new(plan: Plan, device: &Device, arena: Arena) -> Result<Self, Error> {
        let mut step_of = vec![usize::MAX; plan.nodes.len()];
        for (i, step) in plan.steps.iter().enumerate() {
            step_of[step.node as usize] = i;
        }
        let mut program = Self {
            values: vec![None; plan.nodes.len()],
            slots: None,
            step_of,
            state: State::Nothing,
            is_set: vec![true; plan.nodes.len()],
            plan,
            device: device.clone(),
            arena,
            deadline: Timeout::default(),
            indices: Vec::new(),
            scratch: Vec::new(),
            graph: None,
            #[cfg(any(test, feature = "testing"))]
            poisons: false,
        };
        program.allocate_scratch()?;
        program.indices = program.resident_indices()?;
        Ok(program)
    }

    /// Takes the operations' scratch memory, and touches it, so that the first run does not have to.
    fn allocate_scratch(&mut self) -> Result<(), Error> {
        if self.device.kind() == DeviceKind::Host {
            let of_step = |step: &Step| {
                let operation = self.plan.nodes[step.node as usize].0.operation();
                operation.map_or(0, |operation| {
                    operation.scratch_len(&self.shapes_read(step), self.plan.world)
                })
            };
            let n_elements = self.plan.steps.iter().map(of_step).max().unwrap_or(0);
            self.scratch = zeros_vec_on_huge_pages(n_elements)?;
        }
        Ok(())
    }

    fn shapes_read(&self, step: &Step) -> Vec<Shape> {
        let shape = |&node: &u32| self.plan.nodes[node as usize].1;
        step.reads.iter().map(shape).collect()
    }

    /// The same program with another deadline on every wait for another rank.
    pub fn with_deadline(mut self, deadline: Timeout) -> Self {
        self.deadline = deadline;
        self
    }

    /// The plan, with what was set since it was loaded.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the program, as the rank of `comm` that it was recorded for, with the parameters' present values.
    ///
    /// # Errors
    /// [`Error::Usage`] for another rank or number of ranks, or parameters of other shapes; the device's and the
    /// communicator's errors. After an error the program has no outputs until it runs again.
    pub fn run(&mut self, comm: &mut Comm, params: &Params) -> Result<(), Error> {
        self.check_rank(comm)?;
        self.check_params(params)?;
        self.is_set.fill(true);
        self.run_steps(comm, Some(params))
    }

    /// Copies the parameters to the device, for [`Program::run_again`].
    ///
    /// # Errors
    /// [`Error::Usage`] for parameters of other shapes, and unless the plan is [resident](Plan::resident); the device's.
    pub fn set_params(&mut self, params: &Params) -> Result<(), Error> {
        self.check_resident("set_params")?;
        self.check_params(params)?;
        self.state = State::Nothing;
        if let Err(error) = self.write_params(params) {
            self.forget();
            return Err(error);
        }
        self.state = State::Params;
        self.is_set.fill(true);
        Ok(())
    }

    fn write_params(&mut self, params: &Params) -> Result<(), Error> {
        for i in 0..self.plan.steps.len() {
            let node = self.plan.steps[i].node as usize;
            if let Op::Param(id) = self.plan.nodes[node].0 {
                let mut out = self.slot(i)?;
                params.write(id, &self.device, unshared(&mut out))?;
                self.values[node] = Some(out);
            }
        }
        Ok(())
    }

    /// Runs a [resident](Plan::resident) program with the parameters that it has, those of [`Program::set_params`] or of
    /// the last run, and copies no inputs but those that were set since.
    ///
    /// # Errors
    /// As [`Program::run`]; [`Error::Usage`] unless the plan is resident, and before it has parameters.
    pub fn run_again(&mut self, comm: &mut Comm) -> Result<(), Error> {
        self.check_resident("run_again")?;
        self.check_rank(comm)?;
        self.check_has_params("run_again")?;
        self.run_steps(comm, None)
    }

    fn gradient_vars(&self) -> Result<&[Option<Var>], Error> {
        match &self.plan.outputs.gradient {
            Some(grads) => Ok(grads),
            None => usage(
                "program: it has no gradient: call Recorder::output_param_gradient".to_string(),
            ),
        }
    }

    fn check_has_params(&self, method: &str) -> Result<(), Error> {
        match self.state {
            State::Nothing => usage(format!(
                "program: {method} was called before it has parameters: call set_params or run"
            )),
            _ => Ok(()),
        }
    }

    fn check_resident(&self, method: &str) -> Result<(), Error> {
        match self.plan.residency {
            Residency::Leaves | Residency::All => Ok(()),
            Residency::Nothing => usage(format!(
                "program: {method} takes a program that keeps its values: load `plan.resident()`"
            )),
        }
    }

    fn run_steps(&mut self, comm: &mut Comm, params: Option<&Params>) -> Result<(), Error> {
        self.begin_run()?;
        for i in 0..self.plan.steps.len() {
            if let Err(error) = self.run_step(i, comm, params) {
                self.forget();
                return Err(error);
            }
        }
        self.state = State::Run;
        Ok(())
    }

    /// Gives back the slots of what does not stay, so that a run can begin.
    fn begin_run(&mut self) -> Result<(), Error> {
        self.state = State::Nothing;
        for node in 0..self.values.len() {
            let stays = match self.plan.residency {
                Residency::Nothing => false,
                Residency::Leaves => matches!(self.plan.nodes[node].0, Op::Input(_) | Op::Param(_)),
                Residency::All => true,
            };
            if !stays && let Err(error) = self.give_back(node) {
                self.forget();
                return Err(error);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, node: usize) -> Result<(), Error> {
        match (self.values[node].take(), &mut self.slots) {
            (Some(values), Some(slots)) => Ok(slots.give_back(self.step_of[node], values)?),
            _ => Ok(()),
        }
    }

    /// Drops all values; the next run makes the slots anew.
    fn forget(&mut self) {
        self.graph = None; // it holds the slots
        self.values.fill(None);
        self.slots = None;
        self.is_set.fill(true);
    }

    fn check_rank(&self, comm: &Comm) -> Result<(), Error> {
        let world = self.plan.world;
        if (comm.rank(), comm.size()) != (world.rank, world.size) {
            return usage(format!(
                "program: it was recorded for rank {} of {} and is run by rank {} of {}: record one for each rank",
                world.rank,
                world.size,
                comm.rank(),
                comm.size()
            ));
        }
        Ok(())
    }

    pub(crate) fn check_params(&self, params: &Params) -> Result<(), Error> {
        let shapes = params.ids().map(|id| params.shape(id));
        if !shapes.eq(self.plan.param_shapes.iter().copied()) {
            return usage(
                "program: the parameters' shapes differ from the recorded ones: the weights belong to another model"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// The slot of a step's result, whatever it holds: the one that is kept, or lent by the arena.
    fn slot(&mut self, i: usize) -> Result<Arc<Buffer>, Error> {
        let steps = &self.plan.steps;
        if let Some(kept) = self.values[steps[i].node as usize].take() {
            return Ok(kept);
        }
        let slots = match &mut self.slots {
            Some(slots) => slots,
            empty => {
                let ranges: Vec<_> = steps.iter().map(|step| step.slot.clone()).collect();
                empty.insert(self.arena.places(&ranges)?)
            }
        };
        Ok(slots.take(i)?)
    }

    /// Does a step; without parameters those on the device stay, and so do inputs that were not set.
    fn run_step(
        &mut self,
        i: usize,
        comm: &mut Comm,
        params: Option<&Params>,
    ) -> Result<(), Error> {
        let node = self.plan.steps[i].node as usize;
        let stays = match self.plan.nodes[node].0 {
            Op::Param(_) => params.is_none(),
            Op::Input(_) => !self.is_set[node],
            _ => false,
        };
        if stays {
            return Ok(());
        }
        let mut shared = self.slot(i)?;
        let out = unshared(&mut shared);
        #[cfg(any(test, feature = "testing"))]
        if self.poisons {
            self.device.write(&vec![f32::NAN; out.len()], out)?;
        }
        match (&self.plan.nodes[node], params) {
            ((Op::Input(leaf), shape), _) => {
                let values = leaf.values.as_host().unwrap_or_default();
                if values.len() != shape.len() {
                    return usage(format!(
                        "program: an input {shape} has no values: call set_input"
                    ));
                }
                self.device.write(values, out)?;
            }
            ((Op::Param(id), _), Some(params)) => params.write(*id, &self.device, out)?,
            _ => {
                let mut scratch = std::mem::take(&mut self.scratch);
                self.compute(i, comm, out, &mut scratch)?;
                self.scratch = scratch;
            }
        }
        self.is_set[node] = false;
        self.values[node] = Some(shared);
        for at in 0..self.plan.steps[i].last_reads.len() {
            let dead = self.plan.steps[i].last_reads[at] as usize;
            self.give_back(dead)?;
        }
        Ok(())
    }

    fn compute(
        &self,
        i: usize,
        comm: &mut Comm,
        values: &mut Buffer,
        scratch: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let step = &self.plan.steps[i];
        let (op, shape) = &self.plan.nodes[step.node as usize];
        let Some(operation) = op.operation() else {
            return Ok(()); // a parameter that is there
        };
        let operand = |&node: &u32| {
            let values = self.values[node as usize].as_ref();
            Operand {
                values: values.expect("a value is there until its last reader has run"),
                shape: self.plan.nodes[node as usize].1,
            }
        };
        let all: Vec<Operand<'_>>;
        // An allocation a step would take longer than small operations do.
        let operands: &[Operand<'_>] = match &step.reads[..] {
            [] => &[],
            [a] => &[operand(a)],
            [a, b] => &[operand(a), operand(b)],
            [a, b, c] => &[operand(a), operand(b), operand(c)],
            more => {
                all = more.iter().map(operand).collect();
                &all
            }
        };
        let shape = *shape;
        operation.compute(&mut Run {
            comm: DeviceComm::new(&self.device, comm, self.deadline).lent(),
            operands,
            out: Output { values, shape },
            index: self.indices[i].as_ref(),
            scratch,
        })
    }

    fn resident_indices(&self) -> Result<Vec<Option<RowIndex>>, Error> {
        let index = |step: &Step| {
            let (op, shape) = &self.plan.nodes[step.node as usize];
            let shapes = self.shapes_read(step);
            let index = op
                .operation()
                .and_then(|op| op.row_numbers(&shapes, *shape));
            let upload =
                index.map(|index| RowIndex::upload(&self.device, index.n_rows, index.numbers));
            Ok(upload.transpose()?)
        };
        self.plan.steps.iter().map(index).collect()
    }

    /// Sets the values of an input for the runs from now on; `var` is what the recorder gave for it.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is no input; [`Error::Shape`] for another number of values.
    pub fn set_input(&mut self, var: Var, values: &[f32]) -> Result<(), Error> {
        if let Some((Op::Input(_), shape)) = self.plan.nodes.get(var.index()) {
            check_values("set_input", *shape, values.len())?;
        }
        self.input_mut(var)?.copy_from_slice(values);
        Ok(())
    }

    /// The values of an input, row-major, to be written for the runs from now on; `var` is what the recorder gave for it.
    ///
    /// # Errors
    /// [`Error::Usage`] for what is no input.
    pub fn input_mut(&mut self, var: Var) -> Result<&mut [f32], Error> {
        let Some((Op::Input(leaf), shape)) = self.plan.nodes.get_mut(var.index()) else {
            return usage("program: set_input was called for a value that is no input".to_string());
        };
        let held = Arc::get_mut(&mut leaf.values).and_then(Buffer::as_host_mut);
        if held.is_none_or(|held| held.len() != shape.len()) {
            leaf.values = Arc::new(vec![0.0; shape.len()].into());
        }
        self.is_set[var.index()] = true;
        let held = Arc::get_mut(&mut leaf.values).and_then(Buffer::as_host_mut);
        Ok(held.expect("the values were made above, on the host"))
    }

    /// A copy of a named output, row-major.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that the recorder was not given, or before the first run; the device's error.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.device.download(self.buffer(self.named(name)?)?)?)
    }

    /// A named output in place, row-major, where the device is the host.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that the recorder was not given, before the first run, and on another device.
    pub fn output(&self, name: &str) -> Result<&[f32], Error> {
        match self.buffer(self.named(name)?)?.as_host() {
            Some(values) => Ok(values),
            None => usage(format!(
                "program: output `{name}` is in the memory of {}: use read",
                self.device.kind()
            )),
        }
    }

    fn named(&self, name: &str) -> Result<Var, Error> {
        let named = &self.plan.outputs.named;
        match named.iter().find(|(other, _)| other == name) {
            Some((_, var)) => Ok(*var),
            None => {
                let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
                usage(format!(
                    "program: there is no output `{name}`; it has {}",
                    names.join(", ")
                ))
            }
        }
    }

    /// The derivatives by all trained parameters as one flat run, laid out as [`Params::trained`]; zeros where the loss
    /// does not depend on one.
    ///
    /// # Errors
    /// [`Error::Usage`] if [`crate::Recorder::output_param_gradient`] was not called, or before the first run; the device's
    /// error.
    pub fn param_gradient(&self) -> Result<Vec<f32>, Error> {
        let mut flat = Vec::new();
        self.append_param_gradient(&mut flat)?;
        Ok(flat)
    }

    /// [`Program::param_gradient`] behind what `flat` has already, which is not allocated anew where it has room.
    ///
    /// # Errors
    /// As [`Program::param_gradient`]; `flat` may have got some of the derivatives then.
    pub fn append_param_gradient(&self, flat: &mut Vec<f32>) -> Result<(), Error> {
        let grads = self.gradient_vars()?;
        let shapes = &self.plan.param_shapes[..grads.len()];
        flat.reserve(shapes.iter().map(Shape::len).sum());
        for (grad, shape) in grads.iter().zip(shapes) {
            match grad {
                Some(grad) => match self.buffer(*grad)?.as_host() {
                    Some(values) => flat.extend_from_slice(values),
                    None => flat.extend(self.device.download(self.buffer(*grad)?)?),
                },
                None => flat.resize(flat.len() + shape.len(), 0.0),
            }
        }
        Ok(())
    }

    fn buffer(&self, var: Var) -> Result<&Buffer, Error> {
        match &self.values[self.plan.alias_of[var.index()] as usize] {
            Some(values) if self.state == State::Run => Ok(values),
            _ => Err(no_outputs()),
        }
    }
}

fn no_outputs() -> Error {
    Error::Usage("program: it has no outputs before it has run".to_string())
}

/// A slot for writing. Peers that read a value of a program get a copy of it, so that the slot has one owner.
fn unshared(slot: &mut Arc<Buffer>) -> &mut Buffer {
    Arc::get_mut(slot).expect("a program's slots are its own")
}

fn usage<T>(text: String) -> Result<T, Error> {
    Err(Error::Usage(text))
}
