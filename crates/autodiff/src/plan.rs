//! A recorded program, planned: what is computed once, in which order, and where in one arena each value lives.

use std::collections::BTreeMap;
use std::ops::Range;

use shardgraph_device::{Arena, Device};

use crate::operation::{Signature, signature};
use crate::slots::{Value, assign_slots};
use crate::{Error, Op, Program, Role, Shape, Var, World};

/// The results of a recorded program.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outputs {
    pub(crate) named: Vec<(String, Var)>,
    /// For each trained parameter the derivative, where the loss depends on it.
    pub(crate) gradient: Option<Vec<Option<Var>>>,
}

/// A static program over one arena: [`crate::Recorder`] records it, [`Plan::load`] puts it on a device.
///
/// **What is done.** Equal operations on equal operands are done once (an input is equal to itself only, whatever values
/// it was recorded with); what no output needs is left out; each remaining value has a place in the arena from the
/// step that makes it to the last that reads it. The steps that remain are those of the eager interpreter with the same
/// operands, so that results have the same bits.
///
/// **What is fixed:** operations, shapes, factors, slices, the rank and the number of ranks, and rows a rank in
/// all-gathers and reduce-scatters. **What may change from run to run:** parameters, values of inputs
/// ([`Program::set_input`]), and everything else that the program hands over with its operations: row numbers of gathers,
/// layouts, masks, scales and shards ([`Program::refill`]), as long as no shape changes.
///
/// **Ranks.** Operations in which ranks exchange values are all kept, and none is merged with another, so that every rank
/// comes to them in the recorded order.
///
/// ```
/// use shardgraph_autodiff::collectives::Comm;
/// use shardgraph_autodiff::device::Device;
/// use shardgraph_autodiff::ops::Loss;
/// use shardgraph_autodiff::{Ctx, Params, Recorder, Shape};
///
/// let mut params = Params::new();
/// let w = params.add("w", Shape::new(1, 1), || 3.0);
/// let mut record = Recorder::new(&params, 0, 1);
/// let weight = record.param(w)?;
/// let x = record.input(Shape::new(1, 1), &[2.0])?;
/// let y = record.matmul(weight, x)?;
/// let zero = record.input(Shape::new(1, 1), &[0.0])?;
/// let loss = record.loss(Loss::Mse, y, zero)?; // (w x)^2
/// record.output("loss", loss);
/// record.output_param_gradient(loss)?;
/// let mut program = record.plan().load(&Device::host())?;
/// let mut comm = Comm::solo();
/// program.run(&mut comm, &params)?;
/// assert_eq!(program.read("loss")?, [36.0]);
/// assert_eq!(program.param_gradient()?, [24.0]); // 2 w x^2
/// program.set_input(x, &[1.0])?;
/// program.run(&mut comm, &params)?;
/// assert_eq!(program.param_gradient()?, [6.0]);
/// # Ok::<(), shardgraph_autodiff::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    /// All recorded operations with their shapes.
    pub(crate) nodes: Vec<(Op, Shape)>,
    /// For each of them the one whose value it has.
    pub(crate) alias_of: Vec<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) param_shapes: Vec<Shape>,
    pub(crate) outputs: Outputs,
    pub(crate) world: World,
    /// The values that have a slot of their own.
    pub(crate) residency: Residency,
    arena_len: usize,
}

/// Values of a plan that have a slot of their own, and stay from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residency {
    Nothing,
    /// Parameters and inputs.
    Leaves,
    All,
}

/// One operation of a plan.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) node: u32,
    /// The nodes that it reads.
    pub(crate) reads: Vec<u32>,
    /// Slot of its result in the arena.
    pub(crate) slot: Range<usize>,
    /// The nodes that nothing reads any more after this step.
    pub(crate) last_reads: Vec<u32>,
}

impl Plan {
    pub(crate) fn build(
        nodes: Vec<(Op, Shape)>,
        param_shapes: Vec<Shape>,
        outputs: Outputs,
        world: World,
    ) -> Self {
        let alias_of = merge(&nodes, world);
        let mut wanted: Vec<u32> = outputs.vars().map(|var| alias_of[var.index()]).collect();
        let order = needed(&nodes, &alias_of, &wanted, world);
        let steps = order.iter().map(|&node| step(&nodes, &alias_of, node));
        let mut steps: Vec<Step> = steps.collect();
        wanted.sort_unstable();
        let values = lifetimes(&nodes, &mut steps, &wanted);
        let (slots, arena_len) = assign_slots(&values, Arena::ALIGNMENT);
        for (step, (value, first)) in steps.iter_mut().zip(values.iter().zip(slots)) {
            step.slot = first..first + value.len;
        }
        Self {
            nodes,
            alias_of,
            steps,
            param_shapes,
            outputs,
            world,
            residency: Residency::Nothing,
            arena_len,
        }
    }

    /// The same plan with a slot of its own for every value.
    ///
    /// Values that have been written once then stay on the device: [`Program::run_again`] writes only the inputs that were set
    /// since the last run. For forward programs that run for one small batch after another; a program with a gradient
    /// takes several times the memory.
    pub fn resident(mut self) -> Self {
        let mut end = 0;
        for step in &mut self.steps {
            step.slot = end..end + step.slot.len();
            step.last_reads.clear();
            end = step.slot.end.next_multiple_of(Arena::ALIGNMENT);
        }
        self.arena_len = end;
        self.residency = Residency::All;
        self
    }

    /// The same plan with slots of their own for parameters and inputs, which stay on the device as those of a
    /// [resident](Plan::resident) plan do; results share memory, as they do without.
    ///
    /// For forward programs over many rows, whose inputs differ from run to run.
    pub fn resident_leaves(mut self) -> Self {
        let outputs = self.outputs.vars().map(|var| self.alias_of[var.index()]);
        let leaves = self.steps.iter().map(|step| step.node);
        let is_leaf =
            |node: &u32| matches!(self.nodes[*node as usize].0, Op::Input(_) | Op::Param(_));
        let mut wanted: Vec<u32> = outputs.chain(leaves.filter(is_leaf)).collect();
        wanted.sort_unstable();
        self.steps
            .iter_mut()
            .for_each(|step| step.last_reads.clear());
        let values = lifetimes(&self.nodes, &mut self.steps, &wanted);
        let (slots, arena_len) = assign_slots(&values, Arena::ALIGNMENT);
        for (step, (value, first)) in self.steps.iter_mut().zip(values.iter().zip(slots)) {
            step.slot = first..first + value.len;
        }
        self.arena_len = arena_len;
        self.residency = Residency::Leaves;
        self
    }

    /// Bytes of the arena: all parameters, inputs and results of the program at the fullest moment of a run.
    ///
    /// Beside it, exchanges between ranks and neighbour sums take memory of their own while they run; on the host a program keeps that of the rows it gathers.
    pub fn arena_bytes(&self) -> usize {
        self.arena_len * size_of::<f32>()
    }

    /// Bytes of all recorded results together: what an eager run of the same program holds in the end.
    pub fn eager_bytes(&self) -> usize {
        let elements: usize = self.nodes.iter().map(|(_, shape)| shape.len()).sum();
        elements * size_of::<f32>()
    }

    /// The number of recorded operations.
    pub fn n_recorded(&self) -> usize {
        self.nodes.len()
    }

    /// The number of operations that a run does, parameters and inputs among them.
    pub fn n_steps(&self) -> usize {
        self.steps.len()
    }

    /// The program on a device: allocates the arena, once.
    ///
    /// # Errors
    /// The device's.
    pub fn load(self, device: &Device) -> Result<Program, Error> {
        let arena = device.arena(self.arena_len)?;
        Program::new(self, device, arena)
    }
}

impl Outputs {
    fn vars(&self) -> impl Iterator<Item = Var> + '_ {
        let named = self.named.iter().map(|(_, var)| *var);
        named.chain(self.gradient.iter().flatten().flatten().copied())
    }
}

/// The role of a node, unless it is a constant or a parameter.
fn role(op: &Op) -> Option<Role> {
    op.operation().map(|operation| operation.role())
}

/// True if every rank has to come to an operation where the program has it.
fn is_fixed(op: &Op, world: World) -> bool {
    world.size > 1 && role(op) == Some(Role::Exchange)
}

/// For each node the one that readers take its value from: the first that has the same, whatever inputs and parameters
/// are. [`Role::Recomputed`] operations are computed anew for each reader.
fn merge(nodes: &[(Op, Shape)], world: World) -> Vec<u32> {
    let mut equal_to: Vec<u32> = Vec::with_capacity(nodes.len());
    let mut alias_of: Vec<u32> = Vec::with_capacity(nodes.len());
    let mut known: BTreeMap<(Signature, Option<usize>), u32> = BTreeMap::new();
    for (i, (op, _)) in nodes.iter().enumerate() {
        let own = i as u32;
        let first = match (op, role(op)) {
            (op, Some(Role::Alias)) => equal_to[op.operands()[0].index()],
            (Op::Input(_), _) => own,
            (op, _) if is_fixed(op, world) => own,
            (op, _) => {
                let form = signature(op, |var| equal_to[var.index()]);
                let payload = op.operation().and_then(|operation| operation.payload());
                let address = payload.map(|payload| payload.address());
                *known.entry((form, address)).or_insert(own)
            }
        };
        equal_to.push(first);
        alias_of.push(match role(op) {
            Some(Role::Alias) => alias_of[op.operands()[0].index()],
            Some(Role::Recomputed) => own,
            _ => first,
        });
    }
    alias_of
}

/// The nodes that a run computes: parameters and inputs first, so that all copies from the host come before all kernels,
/// then the others in the recorded order.
fn needed(nodes: &[(Op, Shape)], alias_of: &[u32], wanted: &[u32], world: World) -> Vec<u32> {
    let mut is_needed = vec![false; nodes.len()];
    wanted
        .iter()
        .for_each(|&node| is_needed[node as usize] = true);
    for (i, (op, _)) in nodes.iter().enumerate().rev() {
        is_needed[i] |= is_fixed(op, world);
        if is_needed[i] {
            for operand in op.operands() {
                is_needed[alias_of[operand.index()] as usize] = true;
            }
        }
    }
    let (mut order, computed): (Vec<u32>, Vec<u32>) = (0..nodes.len() as u32)
        .filter(|&node| is_needed[node as usize])
        .partition(|&node| matches!(nodes[node as usize].0, Op::Input(_) | Op::Param(_)));
    order.extend(computed);
    order
}

fn step(nodes: &[(Op, Shape)], alias_of: &[u32], node: u32) -> Step {
    let operands = nodes[node as usize].0.operands();
    Step {
        node,
        reads: operands.iter().map(|var| alias_of[var.index()]).collect(),
        slot: 0..0,
        last_reads: Vec::new(),
    }
}

/// For each step its result's size, and the steps between which it has to stay; `wanted` (sorted) stay to the end.
fn lifetimes(nodes: &[(Op, Shape)], steps: &mut [Step], wanted: &[u32]) -> Vec<Value> {
    let mut last_read = vec![None; nodes.len()];
    for (i, step) in steps.iter().enumerate() {
        last_read[step.node as usize] = Some(i); // also where nothing reads it
        step.reads
            .iter()
            .for_each(|&node| last_read[node as usize] = Some(i));
    }
    let mut values = Vec::with_capacity(steps.len());
    for i in 0..steps.len() {
        let node = steps[i].node;
        let last = match (wanted.binary_search(&node), last_read[node as usize]) {
            (Err(_), Some(last)) => {
                steps[last].last_reads.push(node);
                last
            }
            _ => steps.len(),
        };
        values.push(Value {
            len: nodes[node as usize].1.len(),
            first: i,
            last,
        });
    }
    values
}
