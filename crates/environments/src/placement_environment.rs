//! Placement of computation graphs as an environment of agents: an op at a step.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{DeviceSet, Graph, Link, ModelOptions, Objective, Problem, baseline};
use shardgraph_costgraph_io::{ReadOptions, read_graphs};
use shardgraph_random::KeyedRng;

use crate::error::Error;
use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::space::Space;

/// Graphs and machine of a [`PlacementEnvironment`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlacementOptions {
    /// `synthetic`, or a file of computation graphs.
    pub graphs: String,
    /// Synthetic graphs that are drawn before the first episode.
    pub n_graphs: u32,
    /// Fewest ops of a synthetic graph between source and sink.
    pub min_ops: u32,
    /// Most ops of a synthetic graph between source and sink.
    pub max_ops: u32,
    /// Equal devices.
    pub n_devices: usize,
    /// Of each link, in gigabytes a second.
    pub bandwidth_gbs: f64,
    /// Of each transfer, in nanoseconds.
    pub latency_ns: u64,
}

impl Default for PlacementOptions {
    fn default() -> PlacementOptions {
        PlacementOptions {
            graphs: "synthetic".to_owned(),
            n_graphs: 64,
            min_ops: 20,
            max_ops: 40,
            n_devices: 2,
            bandwidth_gbs: 1.0,
            latency_ns: 0,
        }
    }
}

/// Places the ops of a computation graph one by one, in the order of their upward ranks.
///
/// All ops are on device 0 at first. An action moves the next op to a device and earns the fall of
/// the graph's time, as a share of the time on device 0 alone; so a return is the share of that time
/// which the placement saves. Times are those of the list schedule over the placement, by
/// costgraph's performance model.
///
/// # Shapes
/// An observation has 4 + 3 d floats for d devices: the share of ops that are placed; the op's cost
/// and the time of its largest transfer, in mean costs of an op; the logarithm of its number of
/// consumers plus 1; then for each device, by a schedule of the placed ops in their order, the time
/// at which it is free and that at which the op's inputs are there, both as shares of the time on
/// device 0, and how much later than on the best device the op would end, in mean costs.
///
/// # Complexity
/// O(ops + uses) a step, times the logarithm of both for the list schedule.
///
/// # Source
/// The performance model of Paliwal et al., "Reinforced genetic algorithm learning for optimizing
/// computation graphs", 2020; steps and features as in Addanki et al., "Placeto", 2019.
///
/// ```
/// use shardgraph_environments::{Actions, Autoreset, FunctionalVector};
/// use shardgraph_environments::{PlacementEnvironment, PlacementOptions, VectorEnvironment};
///
/// let placement = PlacementEnvironment::new(&PlacementOptions::default())?;
/// let mut machines = FunctionalVector::new(placement, 4, Autoreset::SameStep, None)?;
/// machines.reset(1);
/// // Where all ops are already.
/// assert_eq!(machines.step(Actions::Discrete(&[0; 4]))?.rewards, [0.0; 4]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone)]
pub struct PlacementEnvironment {
    tasks: Arc<[Task]>,
    devices: DeviceSet,
}

/// A graph with what does not depend on a placement.
struct Task {
    graph: Graph,
    /// Ops in the order in which they are placed.
    order: Vec<u32>,
    /// The time on device 0 alone.
    serial_ns: u64,
    mean_cost_ns: f64,
}

/// An episode in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementState {
    graph: u32,
    /// The device of each op that is placed, in the order of placing.
    placed: Vec<u8>,
    runtime_ns: u64,
}

impl PlacementState {
    /// The present time of the graph, in nanoseconds.
    pub fn runtime_ns(&self) -> u64 {
        self.runtime_ns
    }
}

/// Features beside those of the devices.
const N_FEATURES: usize = 4;
const N_DEVICE_FEATURES: usize = 3;
/// Larger features are cut to this.
const MOST: f64 = 10.0;
/// More graphs, or ops of one, are refused: an episode takes a step for each op.
const MAX_GRAPHS: u32 = 1 << 16;
const MAX_OPS: usize = 1 << 14;

impl PlacementEnvironment {
    /// For the graphs of the options.
    ///
    /// # Errors
    /// When there are no graphs, the file cannot be read, a graph has an op that must run on a given
    /// device or more than 16,384 ops, or there are no two devices.
    pub fn new(options: &PlacementOptions) -> Result<PlacementEnvironment, Error> {
        let link = Link {
            bandwidth_gbs: options.bandwidth_gbs,
            latency_ns: options.latency_ns,
        };
        if options.n_devices < 2 {
            return Err(refused("n_devices", "at least 2", options.n_devices));
        }
        let devices = DeviceSet::uniform(options.n_devices, None)
            .and_then(|devices| devices.with_link(link))
            .map_err(|error| refused("the machine", "devices with links", error))?;
        let tasks = graphs(options)?
            .into_iter()
            .map(|graph| Task::new(graph, &devices))
            .collect::<Result<Vec<Task>, Error>>()?;
        Ok(PlacementEnvironment {
            tasks: tasks.into(),
            devices,
        })
    }

    /// The graph of a state.
    pub fn graph(&self, state: &PlacementState) -> &Graph {
        &self.task(state).graph
    }

    /// The devices.
    pub fn devices(&self) -> &DeviceSet {
        &self.devices
    }

    /// The device of each op: of those that are not placed yet, device 0.
    pub fn placement(&self, state: &PlacementState) -> Vec<u8> {
        self.task(state).placement(&state.placed)
    }

    fn task(&self, state: &PlacementState) -> &Task {
        &self.tasks[state.graph as usize]
    }
}

fn refused(what: &str, expected: &str, given: impl fmt::Display) -> Error {
    let (expected, given) = (expected.to_owned(), given.to_string());
    Error::mismatch("PlacementEnvironment::new", what, expected, given)
}

fn graphs(options: &PlacementOptions) -> Result<Vec<Graph>, Error> {
    if options.graphs != "synthetic" {
        let read =
            read_graphs(Path::new(&options.graphs), &ReadOptions::default()).and_then(|graphs| {
                graphs
                    .map(|read| Ok(read?.graph))
                    .collect::<Result<Vec<_>, _>>()
            });
        let expected = "synthetic, or a file of computation graphs";
        return match read {
            Ok(graphs) if !graphs.is_empty() => Ok(graphs),
            Ok(_) => Err(refused("graphs", expected, "a file without one")),
            Err(error) => Err(refused("graphs", expected, error)),
        };
    }
    if !(1..=MAX_GRAPHS).contains(&options.n_graphs) {
        return Err(refused("n_graphs", "1 to 65536", options.n_graphs));
    }
    let recipe = Synthetic {
        min_nodes: options.min_ops,
        max_nodes: options.max_ops,
        ..Synthetic::default()
    };
    (0..u64::from(options.n_graphs))
        .map(|idx| synthetic(&recipe, 1, idx))
        .collect::<Result<_, _>>()
        .map_err(|error| refused("min_ops and max_ops", "sizes of graphs", error))
}

fn problem<'g>(
    graph: &'g Graph,
    devices: &DeviceSet,
) -> Result<Problem<'g>, shardgraph_costgraph::Error> {
    let options = ModelOptions {
        fix_largest: false, // the agent places each op
        ..ModelOptions::default()
    };
    Problem::new(graph, devices, Objective::Runtime, options)
}

/// The time of a placement.
fn runtime_ns(problem: &Problem<'_>, placement: &[u8]) -> u64 {
    let schedule = baseline::placed_list(problem, placement);
    let simulation = schedule.simulate(problem);
    simulation
        .expect("a list schedule is valid")
        .outcome
        .runtime_ns
}

impl Task {
    fn new(graph: Graph, devices: &DeviceSet) -> Result<Task, Error> {
        if !(1..=MAX_OPS).contains(&graph.n_ops()) {
            return Err(refused("ops of a graph", "1 to 16384", graph.n_ops()));
        }
        let on_machine = problem(&graph, devices)
            .map_err(|error| refused("graphs", "graphs for this machine", error))?;
        let on_first = vec![0; graph.n_ops()];
        let mut colocated = on_first.clone();
        on_machine.colocate(&mut colocated);
        let mut on_second = vec![1; graph.n_ops()];
        on_machine.colocate(&mut on_second);
        if colocated != on_first || on_second.contains(&0) {
            let given = format!("ops of {} with a device that is given", graph.name());
            return Err(refused("graphs", "ops that may run on each device", given));
        }
        let keys = baseline::upward_rank_keys(&on_machine);
        let priorities = &keys[graph.n_ops() * devices.len()..][..graph.n_ops()];
        let mut order = graph.topological_order().to_vec();
        order.sort_by(|&a, &b| priorities[b as usize].total_cmp(&priorities[a as usize]));
        let serial_ns = runtime_ns(&on_machine, &on_first).max(1);
        Ok(Task {
            mean_cost_ns: serial_ns as f64 / graph.n_ops() as f64,
            serial_ns,
            order,
            graph,
        })
    }

    fn placement(&self, placed: &[u8]) -> Vec<u8> {
        let mut placement = vec![0; self.graph.n_ops()];
        for (&op, &device) in self.order.iter().zip(placed) {
            placement[op as usize] = device;
        }
        placement
    }

    /// Ends of the placed ops and of their devices, each as early as its inputs and its device allow.
    fn ends(&self, problem: &Problem<'_>, placed: &[u8]) -> Ends {
        let mut ends = Ends {
            of_ops: vec![0; self.graph.n_ops()],
            of_devices: vec![0; problem.n_devices()],
            placement: self.placement(placed),
        };
        for (&op, &device) in self.order.iter().zip(placed) {
            let device = usize::from(device);
            let start = ends
                .arrival(problem, op, device)
                .max(ends.of_devices[device]);
            let end = start + problem.cost_ns(op, device);
            (ends.of_ops[op as usize], ends.of_devices[device]) = (end, end);
        }
        ends
    }
}

struct Ends {
    of_ops: Vec<u64>,
    of_devices: Vec<u64>,
    placement: Vec<u8>,
}

impl Ends {
    /// The time at which the inputs of an op are on a device.
    fn arrival(&self, problem: &Problem<'_>, op: u32, device: usize) -> u64 {
        let graph = problem.graph();
        let of_tensor = |&tensor: &u32| {
            let producer = graph.producer(tensor) as usize;
            let from = usize::from(self.placement[producer]);
            let transfer = match from != device && problem.is_transferred(tensor) {
                true => problem.transfer_ns(tensor, from, device),
                false => 0,
            };
            self.of_ops[producer] + transfer
        };
        graph.inputs(op).iter().map(of_tensor).max().unwrap_or(0)
    }
}

impl fmt::Debug for PlacementEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacementEnvironment")
            .field("graphs", &self.tasks.len())
            .field("devices", &self.devices.len())
            .finish()
    }
}

impl FunctionalEnvironment for PlacementEnvironment {
    type State = PlacementState;

    fn observation_space(&self) -> Space {
        let width = N_FEATURES + N_DEVICE_FEATURES * self.devices.len();
        Space::boxed(&[width], 0.0, MOST as f32).expect("a feature")
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.devices.len() as u32).expect("a device")
    }

    fn initial(&self, rng: &mut KeyedRng) -> PlacementState {
        let graph = rng.index(self.tasks.len()) as u32;
        PlacementState {
            graph,
            placed: Vec::new(),
            runtime_ns: self.tasks[graph as usize].serial_ns,
        }
    }

    fn transition(
        &self,
        state: &mut PlacementState,
        action: Action<'_>,
        _rng: &mut KeyedRng,
    ) -> Transition {
        let task = self.task(state);
        state.placed.push(action.number() as u8);
        let before = state.runtime_ns;
        if action.number() > 0 {
            let problem = problem(&task.graph, &self.devices).expect("it was made before");
            let mut placement = task.placement(&state.placed);
            problem.colocate(&mut placement);
            state.runtime_ns = runtime_ns(&problem, &placement);
        }
        let fall = before as f64 - state.runtime_ns as f64;
        Transition {
            reward: (fall / task.serial_ns as f64) as f32,
            terminated: state.placed.len() >= task.order.len(),
        }
    }

    fn observe(&self, state: &PlacementState, out: &mut [f32]) {
        let task = self.task(state);
        let n_placed = state.placed.len();
        let Some(&op) = task.order.get(n_placed) else {
            out.fill(0.0);
            out[0] = 1.0;
            return;
        };
        let problem = problem(&task.graph, &self.devices).expect("it was made before");
        let cut = |x: f64| x.clamp(0.0, MOST) as f32;
        let outputs = task.graph.outputs(op);
        let transfer = outputs
            .clone()
            .filter(|&tensor| problem.is_transferred(tensor))
            .map(|tensor| problem.transfer_ns(tensor, 0, 1))
            .max();
        let n_consumers: usize = outputs
            .map(|tensor| task.graph.consumers(tensor).len())
            .sum();
        let (head, of_devices) = out.split_at_mut(N_FEATURES);
        head[0] = n_placed as f32 / task.order.len() as f32;
        head[1] = cut(problem.cost_ns(op, 0) as f64 / task.mean_cost_ns);
        head[2] = cut(transfer.unwrap_or(0) as f64 / task.mean_cost_ns);
        head[3] = cut(libm::log(1.0 + n_consumers as f64));
        let ends = task.ends(&problem, &state.placed);
        let end = |device: usize| {
            let start = ends
                .arrival(&problem, op, device)
                .max(ends.of_devices[device]);
            start + problem.cost_ns(op, device)
        };
        let soonest = (0..self.devices.len()).map(end).min().unwrap_or(0);
        let serial = task.serial_ns as f64;
        for (device, row) in of_devices.chunks_exact_mut(N_DEVICE_FEATURES).enumerate() {
            row[0] = cut(ends.of_devices[device] as f64 / serial);
            row[1] = cut(ends.arrival(&problem, op, device) as f64 / serial);
            row[2] = cut((end(device) - soonest) as f64 / task.mean_cost_ns);
        }
    }

    fn is_state(&self, state: &PlacementState) -> bool {
        let Some(task) = self.tasks.get(state.graph as usize) else {
            return false;
        };
        let is_device = |&device: &u8| usize::from(device) < self.devices.len();
        if state.placed.len() > task.order.len() || !state.placed.iter().all(is_device) {
            return false;
        }
        let Ok(problem) = problem(&task.graph, &self.devices) else {
            return false;
        };
        let mut placement = task.placement(&state.placed);
        problem.colocate(&mut placement);
        state.runtime_ns == runtime_ns(&problem, &placement)
    }
}
