//! What a policy reads of a problem: features of its ops and of the uses of its tensors, among them what a short genetic search with
//! uniform keys has found out.

use serde::{Deserialize, Serialize};
use shardgraph_brkga::{Generation, Individual, Outcome};
use shardgraph_components::environments::space::{GraphValue, Value};
use shardgraph_costgraph::{Decoder, Objective, Problem, Step};

use crate::error::Error;
use crate::options::{GeneticOptions, PlaceOptions};
use crate::proposals::CheapSchedule;
use crate::search::search_on;
use crate::watch::{Search, unwatched};

/// What networks read of a problem: ops as nodes and uses as edges, and the order of the ops, producers before consumers.
pub(crate) type Read<'a> = (&'a Value, &'a [u32]);

/// Which features an op has.
///
/// On d devices, in this order: the bytes of its inputs, of its outputs and of its scratch, and 1 for the op with the most of them
/// together; for [`FeatureSet::Runtime`] also the time of its direct predecessors, of its direct successors and its own, and 1 for the op
/// with the largest on the first device, where it is pinned; then on which share of the elites' schedules it runs on each of the d devices, and its mean place in their
/// orders, from 0 for the first op to 1 for the last. That is 9 + d, or 5 + d without times.
///
/// Bytes are divided by the largest number of bytes of the graph, times by the largest time of an op; where that is 0 they are 0.
///
/// A use of a tensor is an edge from its producer to a consumer, with 3 features: its bytes, 1 for a control dependency, and the number
/// of the tensor, from 0 for the first to 1 for the last.
///
/// # Source
/// A.2, which counts 11 features of an op on two devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FeatureSet {
    /// For the runtime.
    Runtime,
    /// For the peak of memory.
    Memory,
}

/// Features of an edge.
pub(crate) const N_EDGE_FEATURES: usize = 3;
/// Of memory, as [`FeatureSet`] lists them.
const N_MEMORY: usize = 4;
/// Of time.
const N_RUNTIME: usize = 4;

impl FeatureSet {
    /// Those for an objective.
    #[must_use]
    pub fn of(objective: Objective) -> FeatureSet {
        match objective {
            Objective::Runtime => FeatureSet::Runtime,
            Objective::Memory => FeatureSet::Memory,
        }
    }

    /// The objective that they are for.
    #[must_use]
    pub fn objective(self) -> Objective {
        match self {
            FeatureSet::Runtime => Objective::Runtime,
            FeatureSet::Memory => Objective::Memory,
        }
    }

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FeatureSet::Runtime => "runtime",
            FeatureSet::Memory => "memory",
        }
    }

    /// How many an op has on so many devices.
    #[must_use]
    pub fn n_node_features(self, n_devices: usize) -> usize {
        let of_times = match self {
            FeatureSet::Runtime => N_RUNTIME,
            FeatureSet::Memory => 0,
        };
        N_MEMORY + of_times + n_devices + 1
    }
}

/// A problem as a policy reads it, and what the short search found on the way.
#[derive(Clone, Debug)]
pub struct Features {
    /// Ops as nodes and uses as edges, with the features of [`FeatureSet`].
    pub value: Value,
    /// The ops, producers before consumers.
    pub order: Vec<u32>,
    /// The best chromosome of the short search: worth keeping, as its evaluations are spent.
    pub best: Individual,
    /// How many those were.
    pub evaluations: u64,
    /// The best after each generation.
    pub history: Vec<Generation>,
}

impl Features {
    /// What networks read of them.
    pub(crate) fn read(&self) -> Read<'_> {
        (&self.value, &self.order)
    }

    /// With what a schedule says of each op behind its features.
    pub(crate) fn with_schedule(mut self, schedule: &CheapSchedule, n_devices: usize) -> Features {
        if let Value::Graph(graph) = &mut self.value {
            let width = graph.node_features.len() / schedule.placement.len().max(1);
            let old = graph.node_features.chunks_exact(width.max(1));
            let ops = schedule.placement.iter().zip(&schedule.ranks);
            let mut all = Vec::new();
            for (own, (&placed, &rank)) in old.zip(ops) {
                all.extend_from_slice(own);
                let devices = 0..n_devices;
                all.extend(devices.map(|device| f32::from(usize::from(placed) == device)));
                all.push(rank);
            }
            graph.node_features = all;
        }
        self
    }
}

/// Searches with uniform keys for so many evaluations, and makes the features of the problem for its objective.
///
/// The options' decoder, seed, threads and numbers of the genetic algorithm count, but not its distribution.
///
/// # Errors
/// As [`crate::search`].
///
/// # Determinism
/// The same bits for any number of threads.
///
/// # Complexity
/// The search, a schedule for each elite, and a pass over ops and uses.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem, TensorSpec};
/// use shardgraph_regal::{FeatureSet, PlaceOptions, features};
///
/// let mut builder = GraphBuilder::new("pair");
/// let [a, b] = ["a", "b"].map(|name| builder.op(OpSpec::new(name, 10)));
/// builder.tensor(TensorSpec::new(a, 64, &[b]));
/// let graph = builder.build()?;
/// let problem = Problem::new(&graph, &DeviceSet::uniform(2, None)?, Objective::Runtime, ModelOptions::default())?;
/// let features = features(&problem, &PlaceOptions::default(), 400)?;
/// assert_eq!(features.best.fitness, (0, 20));
/// assert_eq!(FeatureSet::Runtime.n_node_features(2), 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn features(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    evaluations: u64,
) -> Result<Features, Error> {
    unwatched(|watch| features_on(problem, options, evaluations, &mut Search::new(watch)))
}

/// As [`features`], when the watch has begun.
pub(crate) fn features_on(
    problem: &Problem<'_>,
    options: &PlaceOptions,
    evaluations: u64,
    watch: &mut Search<'_, '_>,
) -> Result<Features, Error> {
    let options = PlaceOptions {
        evaluations,
        genetic: GeneticOptions {
            alpha: 1.0,
            beta: 1.0,
            ..options.genetic
        },
        ..options.clone()
    };
    let outcome = search_on(problem, &options, Vec::new(), None, watch)?;
    let found = Found::of(problem, &options, &outcome);
    Ok(Features {
        value: Value::Graph(value_of_nodes(problem, node_features(problem, &found))),
        order: problem.graph().topological_order().to_vec(),
        evaluations: outcome.evaluations,
        best: outcome.best,
        history: outcome.history,
    })
}

/// What the elites of a search have in common.
struct Found {
    /// Op-major: on which share of their schedules an op runs on each device.
    placement: Vec<f32>,
    /// Each op's mean place among the ops, in [0, 1].
    position: Vec<f32>,
}

impl Found {
    fn of(problem: &Problem<'_>, options: &PlaceOptions, outcome: &Outcome) -> Found {
        let (n_ops, n_devices) = (problem.graph().n_ops(), problem.n_devices());
        let (mut placed, mut positions) = (vec![0u64; n_ops * n_devices], vec![0u64; n_ops]);
        let mut decoder = Decoder::new(problem, options.decoder());
        let mut n_elites = 0u64;
        let n_each = options.genetic.elites as usize;
        for elite in outcome
            .populations
            .iter()
            .flat_map(|p| p.iter().take(n_each))
        {
            n_elites += 1;
            let schedule = decoder.schedule(&elite.keys);
            for (op, &device) in schedule.placement.iter().enumerate() {
                placed[op * n_devices + usize::from(device)] += 1;
            }
            let ops = schedule.steps.iter().filter_map(|step| match step {
                Step::Op(op) => Some(*op),
                Step::Transfer { .. } => None,
            });
            for (position, op) in (0u64..).zip(ops) {
                positions[op as usize] += position;
            }
        }
        let last = n_ops.saturating_sub(1) as u64;
        Found {
            placement: placed.into_iter().map(|n| share(n, n_elites)).collect(),
            position: positions
                .into_iter()
                .map(|sum| share(sum, n_elites * last))
                .collect(),
        }
    }
}

/// `part / of`, and 0 where there is nothing to be a part of.
fn share(part: u64, of: u64) -> f32 {
    match of {
        0 => 0.0,
        of => (part as f64 / of as f64) as f32,
    }
}

fn node_features(problem: &Problem<'_>, found: &Found) -> Vec<f32> {
    let n_ops = problem.graph().n_ops() as u32;
    let memory = Memory::of(problem);
    let times = match problem.objective() {
        Objective::Runtime => Some(Times::of(problem)),
        Objective::Memory => None,
    };
    let mut node_features = Vec::new();
    for op in 0..n_ops {
        node_features.extend(memory.features(op));
        node_features.extend(times.iter().flat_map(|times| times.features(op)));
        let n_devices = problem.n_devices();
        let at = op as usize * n_devices;
        node_features.extend_from_slice(&found.placement[at..at + n_devices]);
        node_features.push(found.position[op as usize]);
    }
    node_features
}

/// Ops with these features, and uses with theirs, which depend on the problem alone.
pub(crate) fn value_of_nodes(problem: &Problem<'_>, node_features: Vec<f32>) -> GraphValue {
    let graph = problem.graph();
    let largest = Memory::of(problem).largest;
    let (mut edges, mut edge_features) = (Vec::new(), Vec::new());
    let last = graph.n_tensors().saturating_sub(1) as u64;
    for tensor in 0..graph.n_tensors() as u32 {
        for &consumer in graph.consumers(tensor) {
            edges.push([graph.producer(tensor), consumer]);
            edge_features.extend([
                share(graph.tensor_bytes(tensor), largest),
                f32::from(graph.is_control(tensor)),
                share(u64::from(tensor), last),
            ]);
        }
    }
    GraphValue {
        n_nodes: graph.n_ops() as u32,
        edges,
        node_features,
        edge_features,
    }
}

/// The op with the largest number; of equals the first.
fn largest_op(sizes: impl Iterator<Item = u64>) -> Option<u32> {
    let mut best: Option<(u64, u32)> = None;
    for (op, size) in (0u32..).zip(sizes) {
        if best.is_none_or(|(largest, _)| size > largest) {
            best = Some((size, op));
        }
    }
    best.map(|(_, op)| op)
}

/// Bytes of every op.
struct Memory {
    /// Inputs, outputs that are no views, scratch.
    of_ops: Vec<[u64; 3]>,
    largest_op: Option<u32>,
    /// The largest number of bytes of any op or tensor.
    largest: u64,
}

impl Memory {
    fn of(problem: &Problem<'_>) -> Memory {
        let graph = problem.graph();
        let sum = |tensors: &mut dyn Iterator<Item = u32>| -> u64 {
            tensors.map(|tensor| graph.tensor_bytes(tensor)).sum()
        };
        let ops = 0..graph.n_ops() as u32;
        let of_op = |op: u32| {
            let inputs = sum(&mut graph.inputs(op).iter().copied());
            let own = |tensor: &u32| graph.alias_of(*tensor).is_none();
            let outputs = sum(&mut graph.outputs(op).filter(own));
            [inputs, outputs, graph.internal_bytes(op)]
        };
        let of_ops: Vec<[u64; 3]> = ops.clone().map(of_op).collect();
        let of_tensors = (0..graph.n_tensors() as u32).map(|tensor| graph.tensor_bytes(tensor));
        let all = of_ops.iter().flatten().copied().chain(of_tensors);
        Memory {
            largest: all.max().unwrap_or(0),
            largest_op: largest_op(ops.map(|op| problem.footprint_bytes(op))),
            of_ops,
        }
    }

    fn features(&self, op: u32) -> [f32; N_MEMORY] {
        let [inputs, outputs, scratch] = self.of_ops[op as usize];
        let part = |bytes: u64| share(bytes, self.largest);
        let is_largest = f32::from(self.largest_op == Some(op));
        [part(inputs), part(outputs), part(scratch), is_largest]
    }
}

/// Nanoseconds of every op: the sum over all devices, where they differ.
struct Times {
    /// Direct predecessors, direct successors, own.
    of_ops: Vec<[u64; 3]>,
    largest_op: Option<u32>,
    largest: u64,
}

impl Times {
    fn of(problem: &Problem<'_>) -> Times {
        let graph = problem.graph();
        let cost = |op: u32| -> u64 {
            let devices = 0..problem.n_devices();
            devices.fold(0, |sum: u64, device| {
                sum.saturating_add(problem.cost_ns(op, device))
            })
        };
        let costs: Vec<u64> = (0..graph.n_ops() as u32).map(cost).collect();
        // Each neighbour once, however many tensors there are between the two.
        let sum = |mut ops: Vec<u32>| -> u64 {
            ops.sort_unstable();
            ops.dedup();
            let costs = ops.iter().map(|&op| costs[op as usize]);
            costs.fold(0, u64::saturating_add)
        };
        let of_op = |op: u32| {
            let producers = graph
                .inputs(op)
                .iter()
                .map(|&tensor| graph.producer(tensor));
            let consumers = graph.outputs(op).flat_map(|tensor| graph.consumers(tensor));
            let (before, behind) = (producers.collect(), consumers.copied().collect());
            [sum(before), sum(behind), costs[op as usize]]
        };
        Times {
            of_ops: (0..graph.n_ops() as u32).map(of_op).collect(),
            // The op that is pinned to the first device (A.2): the largest there.
            largest_op: largest_op((0..graph.n_ops() as u32).map(|op| problem.cost_ns(op, 0))),
            largest: costs.iter().copied().max().unwrap_or(0),
        }
    }

    fn features(&self, op: u32) -> [f32; N_RUNTIME] {
        let [before, behind, own] = self.of_ops[op as usize];
        let part = |time: u64| share(time, self.largest);
        let is_largest = f32::from(self.largest_op == Some(op));
        [part(before), part(behind), part(own), is_largest]
    }
}

#[cfg(test)]
mod tests;
