//! A plan on a device: one arena, filled again by every run.

use std::collections::BTreeMap;
use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline};
use shardgraph_device::{Arena, Buffer, Device, ResidentIndex};

use crate::kernel::{Operand, exchange, is_exchange, local, resident_index};
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
    deadline: Deadline,
    /// The values that are alive, by node; after a run the outputs.
    values: Vec<Option<Arc<Buffer>>>,
    /// For each step the row numbers that it gathers or scatters by.
    indices: Vec<Option<ResidentIndex>>,
    /// Fills each place with NaN before it is written, so that what a kernel leaves out shows.
    #[cfg(test)]
    pub(crate) poisons: bool,
}

impl Program {
    pub(crate) fn new(plan: Plan, device: &Device, arena: Arena) -> Result<Self, Error> {
        let mut program = Self {
            values: vec![None; plan.nodes.len()],
            plan,
            device: device.clone(),
            arena,
            deadline: Deadline::default(),
            indices: Vec::new(),
            #[cfg(test)]
            poisons: false,
        };
        program.indices = program.resident_indices()?;
        Ok(program)
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
        self.check(comm, params)?;
        self.values.fill(None);
        let done = (0..self.plan.steps.len()).try_for_each(|i| self.run_step(i, comm, params));
        if done.is_err() {
            self.values.fill(None);
        }
        done
    }

    fn check(&self, comm: &Comm, params: &Params) -> Result<(), Error> {
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
        let shapes = params.ids().map(|id| params.shape(id));
        if !shapes.eq(self.plan.param_shapes.iter().copied()) {
            return usage(
                "program: the parameters' shapes differ from the recorded ones: the weights belong to another model"
                    .to_string(),
            );
        }
        Ok(())
    }

    fn run_step(&mut self, i: usize, comm: &mut Comm, params: &Params) -> Result<(), Error> {
        let step = &self.plan.steps[i];
        let node = step.node as usize;
        let mut out = self.arena.take(step.place.start, step.place.len())?;
        #[cfg(test)]
        if self.poisons {
            self.device.write(&vec![f32::NAN; out.len()], &mut out)?;
        }
        match &self.plan.nodes[node].0 {
            Op::Input(leaf) => {
                let values = leaf.values.as_host().unwrap_or_default();
                self.device.write(values, &mut out)?;
            }
            Op::Param(id) => self.device.write(params.values_of(*id), &mut out)?,
            _ => self.compute(i, comm, &mut out)?,
        }
        self.values[node] = Some(Arc::new(out));
        for &dead in &self.plan.steps[i].last_reads {
            self.values[dead as usize] = None;
        }
        Ok(())
    }

    fn compute(&self, i: usize, comm: &mut Comm, out: &mut Buffer) -> Result<(), Error> {
        let step = &self.plan.steps[i];
        let (op, shape) = &self.plan.nodes[step.node as usize];
        let operand = |&node: &u32| {
            let values = self.values[node as usize].as_ref();
            Operand {
                values: values.expect("a value is there until its last reader has run"),
                shape: self.plan.nodes[node as usize].1,
            }
        };
        let operands: Vec<Operand<'_>> = step.reads.iter().map(operand).collect();
        if !is_exchange(op) {
            let index = self.indices[i].as_ref();
            return local(&self.device, op, &operands, index, (out, *shape));
        }
        let mut ranks = Ranks {
            device: &self.device,
            comm,
            deadline: self.deadline,
            is_lent: true,
        };
        let result = exchange(&mut ranks, op, &operands, *shape)?;
        Ok(self.device.copy(&result, out)?)
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
        let named = &self.plan.outputs.named;
        match named.iter().find(|(other, _)| other == name) {
            Some((_, var)) => self.values_of(*var),
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
        let Some(grads) = &self.plan.outputs.gradient else {
            return usage(
                "program: it has no gradient: call Recorder::output_param_gradient".to_string(),
            );
        };
        let shapes = &self.plan.param_shapes[..grads.len()];
        let mut flat = Vec::with_capacity(shapes.iter().map(crate::Shape::len).sum());
        for (grad, shape) in grads.iter().zip(shapes) {
            match grad {
                Some(grad) => flat.extend(self.values_of(*grad)?),
                None => flat.resize(flat.len() + shape.len(), 0.0),
            }
        }
        Ok(flat)
    }

    fn values_of(&self, var: Var) -> Result<Vec<f32>, Error> {
        match &self.values[self.plan.stands_for[var.index()] as usize] {
            Some(values) => Ok(self.device.download(values)?),
            None => usage("program: it has no outputs before it has run".to_string()),
        }
    }
}

fn usage<T>(text: String) -> Result<T, Error> {
    Err(ErrorKind::Usage(text).into())
}
