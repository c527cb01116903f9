//! The performance model of the paper's A.4: what a graph, a machine and a few settled questions make of a schedule.

use crate::{DeviceSet, Error, ErrorKind, Graph, MAX_TOTAL, graph::NONE};

/// What to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The time from start to end, among schedules that fit the devices' memories.
    #[default]
    Runtime,
    /// The largest memory in use at any step on any device.
    Memory,
}

/// The questions that A.4 leaves open, answered; the defaults are those under which the paper's Table 1 comes out in scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelOptions {
    /// A control dependency between devices makes both wait for each other, as a transfer of data does. Default false: the later
    /// op starts no earlier than the other's end, and no device waits otherwise.
    pub control_blocks: bool,
    /// Transfers use the link and not the devices: one at a time on each directed link, from the producer's end on. Default false:
    /// a transfer waits for both devices and occupies both.
    pub asynchronous: bool,
    /// Tensors that nobody consumes stay until the end. Default false: they are freed when their producer ends (A.4, literally).
    pub keep_outputs: bool,
    /// Persistent bytes of ops count from start to end on their device. Default true.
    pub count_persistent: bool,
    /// The op with the largest cost (with the largest inputs, outputs and scratch, for [`Objective::Memory`]) runs on device 0,
    /// which loses nothing where devices are interchangeable; where they are not, or ops are
    /// [colocated](Graph::with_colocation), this has no effect. Default true.
    pub fix_largest: bool,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            control_blocks: false,
            asynchronous: false,
            keep_outputs: false,
            count_persistent: true,
            fix_largest: true,
        }
    }
}

/// What a schedule costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outcome {
    /// When the last op ends.
    pub runtime_ns: u64,
    /// The largest memory in use at any step on any device.
    pub peak_bytes: u64,
    /// By how much the worst device exceeds its memory; 0 when the schedule fits.
    pub excess_bytes: u64,
}

impl Outcome {
    /// A pair to be minimised lexicographically: (excess, runtime) or (peak, runtime).
    ///
    /// Every schedule that fits comes before every one that does not.
    #[must_use]
    pub fn fitness(&self, objective: Objective) -> (u64, u64) {
        match objective {
            Objective::Runtime => (self.excess_bytes, self.runtime_ns),
            Objective::Memory => (self.peak_bytes, self.runtime_ns),
        }
    }
}

/// A graph, a machine, an objective and options, made ready for many evaluations.
///
/// ```
/// use shardgraph_costgraph::{DeviceSet, GraphBuilder, ModelOptions, Objective, OpSpec, Problem};
///
/// let mut builder = GraphBuilder::new("one");
/// builder.op(OpSpec::new("a", 5));
/// let graph = builder.build()?;
/// let devices = DeviceSet::uniform(2, None)?;
/// let problem = Problem::new(&graph, &devices, Objective::Runtime, ModelOptions::default())?;
/// assert_eq!(problem.n_keys(), 2 + 1);
/// # Ok::<(), shardgraph_costgraph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Problem<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) devices: DeviceSet,
    pub(crate) objective: Objective,
    pub(crate) options: ModelOptions,
    /// Op-major: the cost of op j on device d is at `j * n_devices + d`.
    pub(crate) costs: Vec<u64>,
    /// The op that runs on device 0, or [`NONE`].
    pub(crate) fixed: u32,
    /// Every transfer takes no time.
    pub(crate) free_links: bool,
    /// Some op may have to wait for something other than its own device: control edges that do not block, asynchronous transfers.
    pub(crate) tracks_ready: bool,
    /// By op: where among the consumers of its outputs those begin that wait for it without blocking.
    pub(crate) unblocked_from: Vec<u32>,
    pub(crate) has_views: bool,
    /// Persistent bytes count, and there are some.
    pub(crate) has_persistent: bool,
    /// Memory has a say in the fitness.
    pub(crate) memory_matters: bool,
}

impl<'g> Problem<'g> {
    /// Checks that graph and machine fit together and computes each op's cost on each device.
    ///
    /// # Errors
    /// `Argument` when a device's cost class is not one of the graph's, or an op's given device does not exist; `TooLarge` when a serial schedule with every possible
    /// transfer would take more than [`MAX_TOTAL`] ns.
    pub fn new(
        graph: &'g Graph,
        devices: &DeviceSet,
        objective: Objective,
        options: ModelOptions,
    ) -> Result<Problem<'g>, Error> {
        let costs = costs(graph, devices)?;
        let n_devices = devices.len();
        let free_links = pairs(n_devices).all(|(from, to)| {
            let link = devices.link(from, to);
            link.latency_ns == 0 && link.bandwidth_gbs.is_infinite()
        });
        let has_controls = (0..graph.n_tensors() as u32).any(|t| graph.is_control(t));
        let limited = devices.devices().iter().any(|d| d.memory_bytes.is_some());
        let mut problem = Problem {
            graph,
            devices: devices.clone(),
            objective,
            options,
            costs,
            fixed: NONE,
            free_links,
            tracks_ready: options.asynchronous || (has_controls && !options.control_blocks),
            unblocked_from: unblocked_from(graph, options.control_blocks),
            has_views: (0..graph.n_tensors() as u32).any(|t| graph.alias_of(t).is_some()),
            has_persistent: options.count_persistent
                && graph.ops.persistent_bytes.iter().any(|&bytes| bytes > 0),
            memory_matters: limited || objective == Objective::Memory,
        };
        problem.check_total()?;
        problem.check_given_devices()?;
        let is_colocated = graph.colocation.is_some();
        if options.fix_largest && devices.are_interchangeable() && !is_colocated {
            problem.fixed = problem.largest_op();
        }
        Ok(problem)
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &'g Graph {
        self.graph
    }

    /// The machine.
    #[must_use]
    pub fn devices(&self) -> &DeviceSet {
        &self.devices
    }

    /// What is minimised.
    #[must_use]
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> ModelOptions {
        self.options
    }

    /// How many devices there are.
    #[must_use]
    pub fn n_devices(&self) -> usize {
        self.devices.len()
    }

    /// The length of a chromosome (A.5): ops x devices affinities, op priorities, tensors x devices transfer priorities.
    #[must_use]
    pub fn n_keys(&self) -> usize {
        let (o, t, d) = (self.graph.n_ops(), self.graph.n_tensors(), self.n_devices());
        o * d + o + t * d
    }

    /// What op `op` costs on device `device`, in nanoseconds.
    ///
    /// # Panics
    /// When there is no such op or device.
    #[must_use]
    pub fn cost_ns(&self, op: u32, device: usize) -> u64 {
        self.costs[op as usize * self.n_devices() + device]
    }

    /// The op that runs on device 0 by [`ModelOptions::fix_largest`].
    #[must_use]
    pub fn fixed_op(&self) -> Option<u32> {
        (self.fixed != NONE).then_some(self.fixed)
    }

    /// True when no transfer takes any time.
    #[must_use]
    pub fn has_free_links(&self) -> bool {
        self.free_links
    }

    /// True when memory has a say in the fitness: it is the objective, or some device has a limit.
    #[must_use]
    pub fn memory_matters(&self) -> bool {
        self.memory_matters
    }

    /// Keeps groups together, and exchanges device 0 and another where [`Problem::fixed_op`] is not on device 0, which costs nothing.
    pub(crate) fn pin(&self, placement: &mut [u8]) {
        self.colocate(placement);
        let Some(op) = self.fixed_op() else { return };
        let on = placement[op as usize];
        for device in placement {
            *device = match *device {
                0 => on,
                device if device == on => 0,
                device => device,
            };
        }
    }

    /// True when a consumer of `tensor` on another device needs a transfer: always for data, by option for control.
    #[must_use]
    pub fn is_transferred(&self, tensor: u32) -> bool {
        self.options.control_blocks || !self.graph.is_control(tensor)
    }

    /// How long the transfer of `tensor` takes.
    ///
    /// # Panics
    /// When there is no such tensor or device.
    #[must_use]
    pub fn transfer_ns(&self, tensor: u32, from: usize, to: usize) -> u64 {
        if self.free_links {
            return 0;
        }
        self.devices
            .link(from, to)
            .transfer_ns(self.graph.tensor_bytes(tensor))
    }

    /// The bytes of inputs, outputs and scratch of op `op`; outputs that are views count nothing.
    #[must_use]
    pub fn footprint_bytes(&self, op: u32) -> u64 {
        let graph = self.graph;
        let outputs = graph.outputs(op).filter(|&t| graph.alias_of(t).is_none());
        let tensors = graph.inputs(op).iter().copied().chain(outputs);
        tensors.map(|t| graph.tensor_bytes(t)).sum::<u64>() + graph.internal_bytes(op)
    }

    /// True for tensors that stay until the end although nobody consumes them.
    #[must_use]
    pub fn is_kept(&self, tensor: u32) -> bool {
        self.options.keep_outputs
            && self.graph.consumers(tensor).is_empty()
            && !self.graph.is_control(tensor)
    }

    fn largest_op(&self) -> u32 {
        let size = |op: u32| match self.objective {
            Objective::Runtime => self.cost_ns(op, 0),
            Objective::Memory => self.footprint_bytes(op),
        };
        // Of equal maxima, `max_by_key` gives the last: hence from the highest id down.
        let ops = (0..self.graph.n_ops() as u32).rev();
        ops.max_by_key(|&op| size(op)).unwrap_or(NONE)
    }

    fn check_total(&self) -> Result<(), Error> {
        let n = self.n_devices();
        let slowest = self.costs.chunks(n).map(|c| c.iter().max());
        let mut total: u128 = slowest.map(|c| c.map_or(0, |&c| u128::from(c))).sum();
        if !self.free_links {
            for tensor in 0..self.graph.n_tensors() as u32 {
                let times = pairs(n).map(|(from, to)| self.transfer_ns(tensor, from, to));
                total += u128::from(times.max().unwrap_or(0)) * (n as u128 - 1);
            }
        }
        if total > u128::from(MAX_TOTAL) {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "all ops and transfers, one after the other, take {total} ns; at most {MAX_TOTAL} (2^62) is possible"
                ),
            ));
        }
        Ok(())
    }
}

/// A control tensor is its producer's last output.
fn unblocked_from(graph: &Graph, control_blocks: bool) -> Vec<u32> {
    let begin = |op: u32| {
        let outputs = graph.outputs(op);
        let data = outputs
            .clone()
            .filter(|&t| control_blocks || !graph.is_control(t));
        let end = outputs.start + data.count() as u32;
        graph.tensors.consumer_offsets[end as usize]
    };
    (0..graph.n_ops() as u32).map(begin).collect()
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(move |from| {
        (0..n)
            .filter(move |&to| to != from)
            .map(move |to| (from, to))
    })
}

fn costs(graph: &Graph, devices: &DeviceSet) -> Result<Vec<u64>, Error> {
    let mut costs = Vec::with_capacity(graph.n_ops() * devices.len());
    for device in devices.devices() {
        if device.class >= graph.n_cost_classes() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "`{}` is of cost class {}; the graph has costs for classes 0..{}",
                    device.name,
                    device.class,
                    graph.n_cost_classes()
                ),
            ));
        }
    }
    for op in 0..graph.n_ops() as u32 {
        for device in devices.devices() {
            let cost = graph.cost_ns(device.class, op);
            // Beyond 2^53 the product would round even by 1.0.
            let is_unscaled = device.cost_factor.to_bits() == 1.0f64.to_bits();
            costs.push(if is_unscaled {
                cost
            } else {
                (cost as f64 * device.cost_factor).round() as u64
            });
        }
    }
    Ok(costs)
}
