//! A policy and the graphs that it is run on: what every rank knows before the first step.

use std::sync::Arc;

use shardgraph_device::DeviceKind;
use shardgraph_graph::Graph;
use shardgraph_layers::{Path, ScoreTable};
use shardgraph_shard::{Adjacency, Communication, Partition};

use crate::exchange::check_wanted;
use crate::memory::{check_room, embedding_bytes, keep_freed_memory, layer_bytes};
use crate::problem::{Problem, check_graph};
use crate::solve_options::usable_path;
use crate::{Error, SolveOptions, TrainedPolicy};

/// Graphs, a policy, and how it is run on them.
pub(crate) struct Inputs<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) graphs: &'a [Adjacency],
    pub(crate) policy: &'a TrainedPolicy,
    pub(crate) options: &'a SolveOptions,
    /// Whether covers are found by increments, where the inputs allow that.
    pub(crate) is_incremental: bool,
}

/// One policy, some graphs, P ranks.
pub(crate) struct Solver<'a> {
    pub(crate) problem: &'a Problem,
    pub(crate) policy: &'a TrainedPolicy,
    pub(crate) options: &'a SolveOptions,
    pub(crate) instances: Vec<Instance<'a>>,
    /// Whether states are residual graphs whose degrees are counted by increments; else they are the problem's own.
    pub(crate) is_incremental: bool,
    /// The closed form, where the policy has one that this solve may use.
    table: Option<ScoreTable>,
    /// The graph as lists, where rules are applied between the steps.
    pub(crate) inside: Option<Arc<Graph>>,
}

/// A graph, and how it is cut.
pub(crate) struct Instance<'a> {
    pub(crate) adjacency: &'a Adjacency,
    pub(crate) path: Path,
    pub(crate) partition: Partition,
}

impl<'a> Instance<'a> {
    fn new(
        adjacency: &'a Adjacency,
        policy: &TrainedPolicy,
        options: &SolveOptions,
    ) -> Result<Self, Error> {
        let n_ranks = options.n_ranks;
        Ok(Self {
            adjacency,
            path: usable_path(policy, adjacency.weighted().is_some(), options.path)?,
            partition: match adjacency {
                Adjacency::Csr(graph) => Partition::by_nonzeros(graph, n_ranks),
                Adjacency::Bits(bits) => Partition::by_rows(bits.n_rows(), n_ranks),
            },
        })
    }
}

impl<'a> Solver<'a> {
    /// The solver for these inputs.
    pub(crate) fn new(inputs: &Inputs<'a>) -> Result<Self, Error> {
        let (policy, options) = (inputs.policy, inputs.options);
        options.check()?;
        policy.check_problem(inputs.problem)?;
        let mut instances = Vec::with_capacity(inputs.graphs.len());
        for adjacency in inputs.graphs {
            if !inputs.is_incremental {
                check_graph(inputs.problem, adjacency)?;
            }
            instances.push(Instance::new(adjacency, policy, options)?);
        }
        let is_on_host = options.device.kind() == DeviceKind::Host;
        let solver = Self {
            problem: inputs.problem,
            policy,
            options,
            instances,
            is_incremental: inputs.is_incremental,
            table: match is_on_host || inputs.is_incremental {
                true => ScoreTable::new(&policy.model, &policy.params),
                false => None,
            },
            inside: match (inputs.graphs, options.reduce_inside) {
                (_, false) => None,
                ([graph], true) if inputs.is_incremental => Some(lists_inside(graph, options)?),
                _ => {
                    return Err(Error::input(
                        "reductions inside the episode are for vertex covers: leave them out",
                    ));
                }
            },
        };
        let mut all = solver.instances.iter();
        let has_sums = all.any(|instance| solver.table_of(instance).is_none());
        check_wanted(options.communication, has_sums)?;
        solver.check_closed_form()?;
        Ok(solver)
    }

    pub(crate) fn is_closed_form_on_device(&self) -> bool {
        let mut all = self.instances.iter();
        let has_table = all.any(|instance| self.table_of(instance).is_some());
        has_table && self.options.device.kind() != DeviceKind::Host
    }

    /// Refuses what the closed form does not do on a device.
    fn check_closed_form(&self) -> Result<(), Error> {
        let kind = self.options.device.kind();
        match self.is_closed_form_on_device() {
            true if self.options.n_ranks > 1 => Err(Error::input(format!(
                "on device `{kind}` the closed form runs on one rank: use --ranks 1, or --device host, or --path free-first-layer",
            ))),
            _ => Ok(()),
        }
    }

    /// The closed form for a graph, which makes no embeddings.
    pub(crate) fn table_of(&self, instance: &Instance<'_>) -> Option<&ScoreTable> {
        let is_collapsed = instance.path == Path::Collapsed;
        self.table.as_ref().filter(|_| is_collapsed)
    }

    pub(crate) fn communication(&self) -> Communication {
        self.options.communication.unwrap_or_default()
    }

    /// Refuses what this process, one of `n_processes`, has no memory for: the embeddings of a step, which scores all graphs at once, and
    /// a byte an entry of the matrix that a recorded program multiplies.
    pub(crate) fn check_memory(&self, n_processes: u32) -> Result<(), Error> {
        keep_freed_memory();
        let shape = self.policy.config.shape();
        let least_of = |instance: &Instance<'_>| {
            let n_nodes = u64::from(instance.adjacency.n_nodes());
            match self.is_incremental {
                true => {
                    layer_bytes(shape, n_nodes).saturating_add(2 * instance.adjacency.n_edges())
                }
                false => embedding_bytes(shape, n_nodes),
            }
        };
        let graphs = self.instances.iter();
        let graphs = graphs.filter(|instance| self.table_of(instance).is_none());
        let least = graphs.map(least_of).fold(0, u64::saturating_add);
        let cure = "give fewer graphs or smaller ones, or a policy of less width; the closed form of --model mvc-default makes no embeddings";
        check_room(&self.options.device, least / u64::from(n_processes), cure)
    }
}

/// The graph as lists, as rules between the steps read it.
fn lists_inside(adjacency: &Adjacency, options: &SolveOptions) -> Result<Arc<Graph>, Error> {
    if options.device.kind() != DeviceKind::Host {
        return Err(Error::input(
            "reductions inside the episode are made on the host: leave them or the device out",
        ));
    }
    if options.keep_isolated {
        return Err(Error::input(
            "picks that were left without an edge are not kept with reductions inside the episode: leave one of them out",
        ));
    }
    let lists = adjacency.to_lists();
    lists.map_err(|error| Error::input(error.to_string()))
}
