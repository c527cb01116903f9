//! A plan on a device: one arena, filled again by every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::{
    Arena, Buffer, Device, DeviceKind, Places, ResidentIndex, zeros_vec_on_huge_pages,
};

use crate::kernel::{Operand, exchange_into, is_exchange, local, n_gathered, resident_index};
use crate::ranks::Ranks;
use crate::shape_rules::check_values;
use crate::signature::{Payload, form, payload, set_payload};
use crate::{Error, ErrorKind, Op, Params, Plan, Recorder, Var};

/// A loaded [`Plan`]; each run writes every value of it at the same address.
///
/// An example is at [`Plan`].
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    device: Device,
    arena: Arena,
    /// The steps' places in it, made by the first run and again after one that failed.
    places: Option<Places>,
    /// For each node the step that makes it.
    step_of: Vec<usize>,
    deadline: Deadline,
    /// The values that are alive, by node; after a run the outputs, and in a resident program all of them.
    values: Vec<Option<Arc<Buffer>>>,
    /// How much of what a resident program has on the device is what it should be.
    state: State,
    /// The inputs that were set since the last run, by node.
    is_set: Vec<bool>,
    /// For each step the row numbers that it gathers or scatters by.
    indices: Vec<Option<ResidentIndex>>,
    /// On the host, the rows of all ranks for neighbour sums.
    gathered: Vec<f32>,
    /// Fills each place with NaN before it is written, so that what a kernel leaves out shows.
    #[cfg(test)]
    pub(crate) poisons: bool,
}

/// What a resident program's places hold.
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
            places: None,
            step_of,
            state: State::Nothing,
            is_set: vec![true; plan.nodes.len()],
            plan,
            device: device.clone(),
            arena,
            deadline: Deadline::default(),
            indices: Vec::new(),
            gathered: Vec::new(),
            #[cfg(test)]
            poisons: false,
        };
        program.make_room()?;
        program.indices = program.resident_indices()?;
        Ok(program)
    }

    /// Takes the memory of what ranks gather, and touches it, so that the first run does not have to.
    fn make_room(&mut self) -> Result<(), Error> {
        if self.device.kind() == DeviceKind::Host {
            let size = self.plan.world.size;
            let shape = |step: &crate::plan::Step| self.plan.nodes[step.reads[0] as usize].1;
            let of_step = |step: &crate::plan::Step| match &self.plan.nodes[step.node as usize].0 {
                op @ Op::Propagate { .. } => n_gathered(op, shape(step), size),
                _ => 0,
            };
            let n_elements = self.plan.steps.iter().map(of_step).max().unwrap_or(0);
            self.gathered = zeros_vec_on_huge_pages(n_elements)?;
        }
        Ok(())
    }

    /// The same program with another deadline on every wait for another rank.
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
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
    /// [`ErrorKind::Usage`] for another rank or number of ranks, or parameters of other shapes; the device's and the
    /// communicator's errors. After an error the program has no outputs until it runs again.
    pub fn run(&mut self, comm: &mut Comm, params: &Params) -> Result<(), Error> {
        self.check_rank(comm)?;
        self.check_params(params)?;
        if !self.plan.is_resident {
            self.give_back_all()?;
        }
        self.is_set.fill(true);
        self.run_steps(comm, Some(params))
    }

    /// Copies the parameters to the device, for [`Program::run_again`].
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for parameters of other shapes, and unless the plan is [resident](Plan::resident); the device's.
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
                let mut out = self.place(i)?;
                self.device
                    .write(params.values_of(id), unshared(&mut out))?;
                self.values[node] = Some(out);
            }
        }
        Ok(())
    }

    /// Runs a [resident](Plan::resident) program with the parameters that it has, those of [`Program::set_params`] or of
    /// the last run, and copies no inputs but those that were set since.
    ///
    /// # Errors
    /// As [`Program::run`]; [`ErrorKind::Usage`] unless the plan is resident, and before it has parameters.
    pub fn run_again(&mut self, comm: &mut Comm) -> Result<(), Error> {
        self.check_resident("run_again")?;
        self.check_rank(comm)?;
        if self.state == State::Nothing {
            return usage(
                "program: run_again was called before it has parameters: call set_params or run"
                    .to_string(),
            );
        }
        self.run_steps(comm, None)
    }

    fn check_resident(&self, method: &str) -> Result<(), Error> {
        match self.plan.is_resident {
            true => Ok(()),
            false => usage(format!(
                "program: {method} takes a program that keeps its values: load `plan.resident()`"
            )),
        }
    }

    fn run_steps(&mut self, comm: &mut Comm, params: Option<&Params>) -> Result<(), Error> {
        self.state = State::Nothing;
        for i in 0..self.plan.steps.len() {
            if let Err(error) = self.run_step(i, comm, params) {
                self.forget();
                return Err(error);
            }
        }
        self.state = State::Run;
        Ok(())
    }

    /// Gives all places back, so that a run can begin.
    fn give_back_all(&mut self) -> Result<(), Error> {
        self.state = State::Nothing;
        for node in 0..self.values.len() {
            if let Err(error) = self.give_back(node) {
                self.forget();
                return Err(error);
            }
        }
        Ok(())
    }

    fn give_back(&mut self, node: usize) -> Result<(), Error> {
        match (self.values[node].take(), &mut self.places) {
            (Some(values), Some(places)) => Ok(places.give_back(self.step_of[node], values)?),
            _ => Ok(()),
        }
    }

    /// Drops all values; the next run makes the places anew.
    fn forget(&mut self) {
        self.values.fill(None);
        self.places = None;
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

    fn check_params(&self, params: &Params) -> Result<(), Error> {
        let shapes = params.ids().map(|id| params.shape(id));
        if !shapes.eq(self.plan.param_shapes.iter().copied()) {
            return usage(
                "program: the parameters' shapes differ from the recorded ones: the weights belong to another model"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// The place of a step's result, whatever it holds: the one that is kept, or lent by the arena.
    fn place(&mut self, i: usize) -> Result<Arc<Buffer>, Error> {
        let steps = &self.plan.steps;
        if let Some(kept) = self.values[steps[i].node as usize].take() {
            return Ok(kept);
        }
        let places = match &mut self.places {
            Some(places) => places,
            empty => {
                let ranges: Vec<_> = steps.iter().map(|step| step.place.clone()).collect();
                empty.insert(self.arena.places(&ranges)?)
            }
        };
        Ok(places.take(i)?)
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
        let mut shared = self.place(i)?;
        let out = unshared(&mut shared);
        #[cfg(test)]
        if self.poisons {
            self.device.write(&vec![f32::NAN; out.len()], out)?;
        }
        match (&self.plan.nodes[node].0, params) {
            (Op::Input(leaf), _) => {
                let values = leaf.values.as_host().unwrap_or_default();
                self.device.write(values, out)?;
            }
            (Op::Param(id), Some(params)) => self.device.write(params.values_of(*id), out)?,
            _ => {
                let mut gathered = std::mem::take(&mut self.gathered);
                self.compute(i, comm, out, &mut gathered)?;
                self.gathered = gathered;
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
        out: &mut Buffer,
        gathered: &mut Vec<f32>,
    ) -> Result<(), Error> {
        let step = &self.plan.steps[i];
        let (op, shape) = &self.plan.nodes[step.node as usize];
        let operand = |&node: &u32| {
            let values = self.values[node as usize].as_ref();
            Operand {
                values: values.expect("a value is there until its last reader has run"),
                shape: self.plan.nodes[node as usize].1,
            }
        };
        // No operation has more; an allocation a step would take longer than small operations do.
        let operands: &[Operand<'_>] = match &step.reads[..] {
            [] => &[],
            [a] => &[operand(a)],
            [a, b] => &[operand(a), operand(b)],
            [a, b, c] => &[operand(a), operand(b), operand(c)],
            more => unreachable!("an operation of {} operands", more.len()),
        };
        if !is_exchange(op) {
            let index = self.indices[i].as_ref();
            return local(&self.device, op, operands, index, (out, *shape));
        }
        let mut ranks = Ranks {
            device: &self.device,
            comm,
            deadline: self.deadline,
            is_lent: true,
        };
        exchange_into(&mut ranks, op, operands, (out, *shape), gathered)
    }

    fn resident_indices(&self) -> Result<Vec<Option<ResidentIndex>>, Error> {
        let index = |step: &crate::plan::Step| {
            let (op, shape) = &self.plan.nodes[step.node as usize];
            let Some(&x) = step.reads.first() else {
                return Ok(None);
            };
            resident_index(&self.device, op, (self.plan.nodes[x as usize].1, *shape))
        };
        self.plan.steps.iter().map(index).collect()
    }

    /// Sets the values of an input for the runs from now on; `var` is what the recorder gave for it.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for what is no input; [`ErrorKind::Shape`] for another number of values.
    pub fn set_input(&mut self, var: Var, values: &[f32]) -> Result<(), Error> {
        let Some((Op::Input(leaf), shape)) = self.plan.nodes.get_mut(var.index()) else {
            return usage("program: set_input was called for a value that is no input".to_string());
        };
        check_values("set_input", *shape, values.len())?;
        match Arc::get_mut(&mut leaf.values).and_then(Buffer::as_host_mut) {
            Some(held) => held.copy_from_slice(values),
            None => leaf.values = Arc::new(values.to_vec().into()),
        }
        self.is_set[var.index()] = true;
        Ok(())
    }

    /// Takes over everything that another recording of the same program hands over with its operations: values of
    /// inputs, row numbers, layouts, masks, scales, shards.
    ///
    /// The recording may end where the forward part does: the gradient refers to the same things.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] where an operation, operand, number or shape differs from the first recording, or where two
    /// operations that shared one thing no longer do; the program stays as it was. The device's error, after which it has
    /// to be refilled before it runs.
    pub fn refill(&mut self, recorder: &Recorder<'_>) -> Result<(), Error> {
        let new = recorder.nodes();
        if let Some(at) = self.first_difference(new) {
            let name = |nodes: &[(Op, crate::Shape)]| {
                nodes.get(at).map_or("nothing".to_string(), |(op, shape)| {
                    format!("{} {shape}", op.name())
                })
            };
            return usage(format!(
                "program: refill found {} as operation {at}, where the plan has {}: record a plan for each shape of batch",
                name(new),
                name(&self.plan.nodes)
            ));
        }
        let mut changed = BTreeMap::new();
        for (i, (op, _)) in new.iter().enumerate() {
            let old = payload(&self.plan.nodes[i].0);
            let (Some(old), Some(payload)) = (old, payload(op)) else {
                continue;
            };
            let address = payload.address();
            let known = changed.entry(old.address()).or_insert(payload);
            if known.address() != address {
                return usage(format!(
                    "program: refill found another index, layout or propagation at operation {i} ({}) than at an earlier one that shared it",
                    op.name()
                ));
            }
        }
        for (i, (op, _)) in new.iter().enumerate() {
            if let (Op::Input(held), Op::Input(given)) = (&mut self.plan.nodes[i].0, op) {
                held.values = Arc::clone(&given.values);
            }
        }
        self.is_set.fill(true);
        self.set_payloads(&changed);
        self.indices = self.resident_indices()?;
        Ok(())
    }

    /// Puts what has changed, by the address of what was there, into all operations.
    fn set_payloads(&mut self, changed: &BTreeMap<usize, Payload>) {
        for (op, _) in &mut self.plan.nodes {
            if let Some(new) = payload(op).and_then(|old| changed.get(&old.address())) {
                let fits = set_payload(op, new);
                assert!(fits, "an address belongs to one kind of payload");
            }
        }
    }

    /// The first operation of another recording that is not the plan's.
    fn first_difference(&self, new: &[(Op, crate::Shape)]) -> Option<usize> {
        let same = |(a, b): (&(Op, crate::Shape), &(Op, crate::Shape))| {
            a.1 == b.1 && form(&a.0, |var| var.0) == form(&b.0, |var| var.0)
        };
        let n_same = self
            .plan
            .nodes
            .iter()
            .zip(new)
            .take_while(|pair| same(*pair))
            .count();
        (n_same < new.len()).then_some(n_same)
    }

    /// A copy of a named output, row-major.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a name that the recorder was not given, or before the first run; the device's error.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, Error> {
        Ok(self.device.download(self.buffer(self.named(name)?)?)?)
    }

    /// A named output in place, row-major, where the device is the host.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`] for a name that the recorder was not given, before the first run, and on another device.
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
    /// [`ErrorKind::Usage`] if [`Recorder::output_param_gradient`] was not called, or before the first run; the device's
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
        let Some(grads) = &self.plan.outputs.gradient else {
            return usage(
                "program: it has no gradient: call Recorder::output_param_gradient".to_string(),
            );
        };
        let shapes = &self.plan.param_shapes[..grads.len()];
        flat.reserve(shapes.iter().map(crate::Shape::len).sum());
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
        match &self.values[self.plan.stands_for[var.index()] as usize] {
            Some(values) if self.state == State::Run => Ok(values),
            _ => usage("program: it has no outputs before it has run".to_string()),
        }
    }
}

/// A place for writing. Peers that read a value of a program get a copy of it, so that nobody else holds the place.
fn unshared(place: &mut Arc<Buffer>) -> &mut Buffer {
    Arc::get_mut(place).expect("a program's places are its own")
}

fn usage<T>(text: String) -> Result<T, Error> {
    Err(ErrorKind::Usage(text).into())
}
