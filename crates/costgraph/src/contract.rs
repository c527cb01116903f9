//! Contraction: ops that lose nothing by running right after another become one op with it, exactly and reversibly.
//!
//! Op b joins op a, which makes tensor x for b alone, in two cases:
//! - x is all that b waits for, and x is all that a makes or b costs nothing (so that nobody sees a end earlier than before);
//! - x is all that a makes, and a costs nothing (constants, parameters, shapes).
//!
//! Neither makes a cycle. The scratch memory of the joint op is such that its peak is that of a and b one after the other; where
//! that depends on what else a schedule does (an input that a frees, unless another op needs it) and the dependence can
//! show, or where it would be negative, a and b stay apart.

use crate::{
    ColocationGroup, Error, Graph, GraphBuilder, OpSpec, Schedule, Step, TensorSpec, graph::NONE,
};

/// A smaller graph and the way back.
///
/// ```
/// use shardgraph_costgraph::*;
///
/// let mut builder = GraphBuilder::new("chain");
/// let weights = builder.op(OpSpec::new("weights", 0));
/// let conv = builder.op(OpSpec::new("conv", 90));
/// let relu = builder.op(OpSpec::new("relu", 9));
/// builder.tensor(TensorSpec::new(weights, 64, &[conv]));
/// builder.tensor(TensorSpec::new(conv, 32, &[relu]));
/// let contraction = Contraction::new(&builder.build()?)?;
/// assert_eq!(contraction.graph().n_ops(), 1);
/// assert_eq!(contraction.graph().cost_ns(0, 0), 99);
/// assert_eq!(contraction.members(0), [weights, conv, relu]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contraction {
    graph: Graph,
    n_original_ops: usize,
    /// Of each op, the original ops in the order in which they run.
    members: Vec<Vec<u32>>,
    /// Of each tensor, the original one.
    tensor_origin: Vec<u32>,
}

impl Contraction {
    /// Contracts `graph` as far as it goes.
    ///
    /// Any schedule of the contracted graph, [expanded](Contraction::expand), has the same runtime and peak memory on devices
    /// whose cost factor is 1, under all [`crate::ModelOptions`]; other factors round each op by itself. The best schedule may be
    /// worse than that of the original graph, because what was joined can no longer be torn apart.
    ///
    /// # Errors
    /// None that a checked graph can cause; the builder's are passed on.
    ///
    /// # Complexity
    /// Each sweep looks at every tensor; there are as many as anything is joined, in practice a few. A join takes time in proportion to
    /// the inputs of one op times those of the other, and to the consumers of these tensors; how many ops were joined before does
    /// not matter.
    pub fn new(graph: &Graph) -> Result<Contraction, Error> {
        let mut merger = Merger::new(graph);
        while merger.sweep() {}
        merger.finish()
    }

    /// The contracted graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The original ops in `op`, in the order in which they run.
    ///
    /// # Panics
    /// When there is no such op.
    #[must_use]
    pub fn members(&self, op: u32) -> &[u32] {
        &self.members[op as usize]
    }

    /// The original graph's schedule for a schedule of the contracted one; [`Schedule::pinned`] puts its largest op where it belongs.
    ///
    /// # Panics
    /// When the schedule is none of the contracted graph.
    #[must_use]
    pub fn expand(&self, schedule: &Schedule) -> Schedule {
        let mut expanded = Schedule {
            placement: vec![0; self.n_original_ops],
            steps: Vec::with_capacity(schedule.steps.len() + self.n_original_ops),
        };
        for (members, &device) in self.members.iter().zip(&schedule.placement) {
            for &op in members {
                expanded.placement[op as usize] = device;
            }
        }
        for &step in &schedule.steps {
            match step {
                Step::Op(op) => {
                    let members = self.members[op as usize].iter();
                    expanded.steps.extend(members.map(|&op| Step::Op(op)));
                }
                Step::Transfer { tensor, to } => expanded.steps.push(Step::Transfer {
                    tensor: self.tensor_origin[tensor as usize],
                    to,
                }),
            }
        }
        expanded
    }
}

/// A joint op in the making.
#[derive(Clone, Debug, Default)]
struct Group {
    /// The first and the last member.
    ends: (u32, u32),
    cost_ns: Vec<u64>,
    internal_bytes: u64,
    persistent_bytes: u64,
    inputs: Vec<u32>,
    outputs: Vec<u32>,
}

struct Merger<'g> {
    graph: &'g Graph,
    /// By original op; of a joint op, the group of its last member counts.
    groups: Vec<Group>,
    /// By original op: itself, or a later member of its joint op.
    taken_in_by: Vec<u32>,
    /// By original op: the member that comes after it.
    next_member: Vec<u32>,
    /// By original tensor, as groups; ascending, without duplicates.
    consumers: Vec<Vec<u32>>,
    alias_of: Vec<u32>,
    /// By group, which is where its device comes from.
    colocated: Vec<u32>,
}

impl<'g> Merger<'g> {
    fn new(graph: &'g Graph) -> Merger<'g> {
        let n_ops = graph.n_ops() as u32;
        let n_tensors = graph.n_tensors() as u32;
        let classes = 0..graph.n_cost_classes();
        let group = |op: u32| Group {
            ends: (op, op),
            cost_ns: classes
                .clone()
                .map(|class| graph.cost_ns(class, op))
                .collect(),
            internal_bytes: graph.internal_bytes(op),
            persistent_bytes: graph.persistent_bytes(op),
            inputs: graph.inputs(op).to_vec(),
            outputs: graph.outputs(op).collect(),
        };
        Merger {
            graph,
            groups: (0..n_ops).map(group).collect(),
            taken_in_by: (0..n_ops).collect(),
            next_member: vec![NONE; n_ops as usize],
            consumers: (0..n_tensors)
                .map(|t| graph.consumers(t).to_vec())
                .collect(),
            alias_of: graph.tensors.alias_of.clone(),
            colocated: match &graph.colocation {
                Some(colocation) => colocation.group_of.clone(),
                None => vec![NONE; n_ops as usize],
            },
        }
    }

    /// Tries every tensor with one consumer once; true when something was joined.
    fn sweep(&mut self) -> bool {
        let mut changed = false;
        for tensor in 0..self.graph.n_tensors() as u32 {
            let &[after] = &self.consumers[tensor as usize][..] else {
                continue;
            };
            let before = self.group_of(self.graph.producer(tensor));
            if before != after
                && let Some(internal_bytes) = self.joint_scratch(before, after, tensor)
            {
                self.merge(before, after, tensor, internal_bytes);
                changed = true;
            }
        }
        changed
    }

    /// The group that an op is in by now.
    fn group_of(&mut self, mut op: u32) -> u32 {
        while self.taken_in_by[op as usize] != op {
            // Halving the path keeps later walks short.
            let next = self.taken_in_by[op as usize];
            self.taken_in_by[op as usize] = self.taken_in_by[next as usize];
            op = next;
        }
        op
    }

    /// The members of a group in the order in which they run.
    fn members(&self, group: &Group) -> Vec<u32> {
        let next = |&op: &u32| (op != group.ends.1).then(|| self.next_member[op as usize]);
        std::iter::successors(Some(group.ends.0), next).collect()
    }

    /// The scratch memory of `before` and `after` as one op; none where they must stay apart.
    fn joint_scratch(&self, before: u32, after: u32, x: u32) -> Option<u64> {
        let (a, b) = (&self.groups[before as usize], &self.groups[after as usize]);
        let is_free = |group: &Group| group.cost_ns.iter().all(|&cost| cost == 0);
        let makes_only_x = a.outputs == [x];
        let follows =
            b.inputs == [x] && (makes_only_x || is_free(b)) && !self.both_control(a, b, x);
        let is_taken_in = makes_only_x && is_free(a);
        if (!follows && !is_taken_in) || !self.may_share_device(before, after) {
            return None;
        }
        let dies_early = |&t: &u32| self.consumers[t as usize].is_empty() && self.bytes(t) > 0;
        if a.outputs.iter().any(dies_early) || !self.views_survive(b, x) {
            return None;
        }
        let own = |group: &Group| {
            group
                .outputs
                .iter()
                .map(|&t| self.own_bytes(t))
                .sum::<i128>()
        };
        let (made_a, made_b) = (own(a), own(b));
        let (freed, is_known) = self.freed_by(a, b, before);
        // Beyond what is resident when a starts, with a's and with b's step.
        let step_a = made_a + i128::from(a.internal_bytes);
        let step_b = made_a + made_b + i128::from(b.internal_bytes) - freed;
        if !is_known && step_b > step_a {
            return None;
        }
        // Of the joint op's outputs, x is none; a view of x takes over its storage.
        let kept = made_a + made_b
            - if self.view_of(b, x).is_some() {
                0
            } else {
                self.own_bytes(x)
            };
        u64::try_from(step_a.max(step_b) - kept).ok()
    }

    /// Ops of different colocation groups stay apart.
    fn may_share_device(&self, before: u32, after: u32) -> bool {
        let (a, b) = (
            self.colocated[before as usize],
            self.colocated[after as usize],
        );
        a == b || a == NONE || b == NONE
    }

    /// Two control tensors cannot become one: with blocking control they are two transfers.
    fn both_control(&self, a: &Group, b: &Group, x: u32) -> bool {
        let has_control = |group: &Group| {
            let mut outputs = group.outputs.iter();
            outputs.any(|&t| t != x && self.graph.is_control(t))
        };
        has_control(a) && has_control(b)
    }

    fn bytes(&self, tensor: u32) -> u64 {
        self.graph.tensor_bytes(tensor)
    }

    /// What the tensor adds to the memory of the device where it is made.
    fn own_bytes(&self, tensor: u32) -> i128 {
        if self.alias_of[tensor as usize] == NONE {
            i128::from(self.bytes(tensor))
        } else {
            0
        }
    }

    fn view_of(&self, b: &Group, x: u32) -> Option<u32> {
        let is_view = |&&t: &&u32| self.alias_of[t as usize] == x;
        b.outputs.iter().find(is_view).copied()
    }

    /// True when the views of x among b's outputs have something to be views of without x: what x is a view of, or themselves.
    fn views_survive(&self, b: &Group, x: u32) -> bool {
        let views = b
            .outputs
            .iter()
            .filter(|&&t| self.alias_of[t as usize] == x);
        let n_views = views.count();
        let takes_over = |y| self.bytes(y) == self.bytes(x);
        n_views == 0
            || self.alias_of[x as usize] != NONE
            || (n_views == 1 && self.view_of(b, x).is_some_and(takes_over))
    }

    /// The bytes that are freed between a and b in every schedule, and whether they are all that can be.
    fn freed_by(&self, a: &Group, b: &Group, before: u32) -> (i128, bool) {
        let (mut freed, mut is_known) = (0, true);
        for &tensor in a.inputs.iter().filter(|t| !b.inputs.contains(t)) {
            let is_viewed = a
                .outputs
                .iter()
                .any(|&t| self.alias_of[t as usize] == tensor);
            if self.bytes(tensor) == 0 && self.alias_of[tensor as usize] == NONE {
                continue;
            }
            if self.alias_of[tensor as usize] == NONE
                && !is_viewed
                && self.consumers[tensor as usize] == [before]
            {
                freed += i128::from(self.bytes(tensor));
            } else {
                is_known = false;
            }
        }
        (freed, is_known)
    }

    fn merge(&mut self, before: u32, after: u32, x: u32, internal_bytes: u64) {
        let a = std::mem::take(&mut self.groups[before as usize]);
        let base = self.alias_of[x as usize];
        let outputs = self.groups[after as usize].outputs.clone();
        for tensor in outputs {
            // A view of x is now one of what x was a view of, or is none.
            if self.alias_of[tensor as usize] == x {
                self.alias_of[tensor as usize] = base;
            }
        }
        for &tensor in &a.inputs {
            let consumers = &mut self.consumers[tensor as usize];
            consumers.retain(|&group| group != before);
            if let Err(at) = consumers.binary_search(&after) {
                consumers.insert(at, after);
            }
        }
        self.taken_in_by[before as usize] = after;
        if self.colocated[after as usize] == NONE {
            self.colocated[after as usize] = self.colocated[before as usize];
        }
        self.consumers[x as usize].clear();
        let b = &mut self.groups[after as usize];
        b.internal_bytes = internal_bytes;
        b.persistent_bytes += a.persistent_bytes;
        for (sum, cost) in b.cost_ns.iter_mut().zip(&a.cost_ns) {
            *sum += cost;
        }
        self.next_member[a.ends.1 as usize] = b.ends.0;
        b.ends.0 = a.ends.0;
        b.inputs.retain(|&t| t != x);
        b.inputs.extend(a.inputs);
        b.inputs.sort_unstable();
        b.inputs.dedup();
        b.outputs.extend(a.outputs.into_iter().filter(|&t| t != x));
    }

    /// Builds the contracted graph.
    fn finish(self) -> Result<Contraction, Error> {
        let graph = self.graph;
        let mut builder = GraphBuilder::new(graph.name());
        let mut id_of = vec![NONE; graph.n_ops()];
        let mut members = Vec::new();
        for (op, group) in self.groups.iter().enumerate() {
            if self.taken_in_by[op] == op as u32 {
                let joined = self.members(group);
                id_of[op] = builder.op(joint_op(graph, group, &joined));
                members.push(joined);
            }
        }
        let tensors = self.surviving_tensors(&id_of);
        let mut number_of = vec![NONE; graph.n_tensors()];
        for (number, &(_, tensor)) in tensors.iter().enumerate() {
            number_of[tensor as usize] = number as u32;
        }
        for &(producer, tensor) in &tensors {
            let consumers = self.consumers[tensor as usize].iter();
            let consumers: Vec<u32> = consumers.map(|&group| id_of[group as usize]).collect();
            if graph.is_control(tensor) {
                consumers
                    .into_iter()
                    .for_each(|after| builder.control(producer, after));
                continue;
            }
            let base = self.alias_of[tensor as usize];
            builder.tensor(TensorSpec {
                producer,
                bytes: graph.tensor_bytes(tensor),
                alias_of: (base != NONE).then(|| number_of[base as usize]),
                consumers,
            });
        }
        Ok(Contraction {
            graph: builder.build()?.with_colocation(&self.colocation(&id_of))?,
            n_original_ops: graph.n_ops(),
            members,
            tensor_origin: by_producer(graph, &tensors),
        })
    }

    /// The groups of the original graph, as ops of the contracted one.
    fn colocation(&self, id_of: &[u32]) -> Vec<ColocationGroup> {
        let mut groups = self.graph.colocation_groups().to_vec();
        groups.iter_mut().for_each(|group| group.ops.clear());
        for (op, &id) in id_of.iter().enumerate().filter(|(_, id)| **id != NONE) {
            if let Some(group) = groups.get_mut(self.colocated[op] as usize) {
                group.ops.push(id);
            }
        }
        groups
    }

    /// (new producer, original tensor): data first, as the builder numbers them, then control.
    fn surviving_tensors(&self, id_of: &[u32]) -> Vec<(u32, u32)> {
        let mut tensors = Vec::new();
        for wants_control in [false, true] {
            for (at, group) in self.groups.iter().enumerate() {
                let mut outputs = group.outputs.clone();
                outputs.sort_unstable();
                outputs.retain(|&t| self.graph.is_control(t) == wants_control);
                tensors.extend(outputs.into_iter().map(|t| (id_of[at], t)));
            }
        }
        tensors
    }
}

/// A joint op has the name and the kind of its most expensive member, of equals the last.
fn joint_op(graph: &Graph, group: &Group, members: &[u32]) -> OpSpec {
    let ops = members.iter().copied();
    let weights = ops.clone().flat_map(|op| graph.weights(op).to_vec());
    let weights = weights.collect();
    let main = ops.max_by_key(|&op| graph.cost_ns(0, op)).unwrap_or(0);
    OpSpec {
        name: graph.op_name(main).to_owned(),
        kind: graph.op_kind(main).to_owned(),
        cost_ns: group.cost_ns.clone(),
        internal_bytes: group.internal_bytes,
        persistent_bytes: group.persistent_bytes,
        weights,
    }
}

/// The original tensors in the contracted graph's order: by producer, control last.
fn by_producer(graph: &Graph, tensors: &[(u32, u32)]) -> Vec<u32> {
    let mut order = tensors.to_vec();
    order.sort_by_key(|&(producer, tensor)| (producer, graph.is_control(tensor), tensor));
    order.into_iter().map(|(_, tensor)| tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::Contraction;
    use crate::tests::random_problems::{for_problems, keys};
    use crate::{
        Decoder, DecoderKind, Device, DeviceSet, GraphBuilder, OpSpec, Problem, TensorSpec, replay,
    };

    #[test]
    fn two_control_tensors_stay_two() {
        // Each of `a` and `b` has a dependent of its own: two transfers where control blocks, one if they were joint.
        let mut builder = GraphBuilder::new("two controls");
        let [a, b, c, d] = [("a", 1), ("b", 0), ("c", 1), ("d", 1)]
            .map(|(n, cost)| builder.op(OpSpec::new(n, cost)));
        builder.tensor(TensorSpec::new(a, 8, &[b]));
        builder.control(a, c);
        builder.control(b, d);
        let contraction = Contraction::new(&builder.build().unwrap()).unwrap();
        assert!(
            (0..contraction.graph().n_ops() as u32).all(|op| contraction.members(op) != [a, b])
        );
    }

    #[test]
    fn an_expanded_schedule_costs_what_the_contracted_one_does() {
        let n_joined = std::cell::Cell::new(0);
        for_problems(2000, 40, |problem, seed| {
            let contraction = Contraction::new(problem.graph()).unwrap();
            n_joined.set(n_joined.get() + problem.graph().n_ops() - contraction.graph().n_ops());
            let unscaled = problem.devices().devices().iter().map(|device| Device {
                cost_factor: 1.0,
                ..device.clone()
            });
            let mut devices = DeviceSet::new(unscaled.collect()).unwrap();
            for from in 0..devices.len() {
                for to in 0..devices.len() {
                    devices
                        .set_link(from, to, problem.devices().link(from, to))
                        .unwrap();
                }
            }
            let problem_on = |graph| {
                Problem::new(graph, &devices, problem.objective(), problem.options()).unwrap()
            };
            let (large, small) = (problem_on(problem.graph()), problem_on(contraction.graph()));
            let schedule = Decoder::new(&small, DecoderKind::Paper).schedule(&keys(seed, &small));
            let expanded = contraction.expand(&schedule).pinned(&large);
            assert_eq!(
                replay(&large, &expanded).unwrap(),
                replay(&small, &schedule).unwrap()
            );
        });
        assert!(n_joined.get() > 2000, "{} ops were joined", n_joined.get());
    }
}
