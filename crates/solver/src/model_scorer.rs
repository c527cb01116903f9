//! Scores of a residual graph's nodes by the model itself, over one rank's rows.

use std::sync::Arc;

use shardgraph_collectives::{Comm, Timeout};
use shardgraph_device::{Buffer, Device, Graph as Launches};
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{DeviceComm, Plan, Program, Recorder, Recording};
use shardgraph_layers::{BatchLayout, Group, MaskInputs, Propagation, RowShard};
use shardgraph_layers::{Path, StateBatch, StateInputs};
use shardgraph_shard::Partition;

use crate::kernels::cover::ModelRows;
use crate::residual::{Ranks, Residual, are_finite};
use crate::select::TopD;
use crate::{Error, TrainedPolicy};

/// The model over one rank's rows.
pub(crate) struct ModelScorer<'a> {
    pub(crate) model: RankModel<'a>,
    /// Which nodes have been picked.
    pub(crate) removed: Vec<bool>,
    layout: Arc<BatchLayout>,
    /// One evaluation; its memory is taken before the first and serves all.
    program: Program,
    /// The state as inputs of the program; absent where it is recorded anew for each state.
    inputs: Option<Inputs>,
}

/// The model, and what one rank evaluates it on.
pub(crate) struct RankModel<'a> {
    pub(crate) policy: &'a TrainedPolicy,
    pub(crate) device: Device,
    pub(crate) path: Path,
    pub(crate) shard: RowShard,
    pub(crate) partition: Partition,
    /// The graph, where its edges have weights.
    pub(crate) weighted: Option<&'a Graph>,
}

/// The inputs that differ from state to state.
#[derive(Clone, Copy)]
pub(crate) struct Inputs {
    pub(crate) rows: StateInputs,
    pub(crate) masks: MaskInputs,
}

/// The values of these inputs.
struct State {
    node: Vec<f32>,
    edge: Vec<f32>,
    neighbor_degree: Vec<f32>,
    keep: Vec<f32>,
    scale: f32,
}

/// What the program gives.
const SCORES: &str = "scores";

impl<'a> ModelScorer<'a> {
    /// Records one evaluation and takes its memory.
    pub(crate) fn new(model: RankModel<'a>, comm: &Comm, deadline: Timeout) -> Result<Self, Error> {
        let group = Group {
            partition: model.partition.clone(),
            n_states: 1,
        };
        let layout = Arc::new(BatchLayout::new(vec![group], comm.rank()));
        let world = (comm.rank(), comm.size());
        let (plan, inputs) = match model.takes_inputs() {
            true => {
                let (plan, inputs) = model.plan_for_all_states(&layout, world)?;
                (plan, Some(inputs))
            }
            false => {
                let state = State::without_picks(&layout);
                let batch = model.batch(&layout, state)?;
                (model.record(&batch, world)?.plan(), None)
            }
        };
        let program = match model.device.is_host() {
            true => plan.load(&model.device)?,
            false => {
                let mut program = plan.resident_leaves().load(&model.device)?;
                program.set_params(&model.policy.params)?;
                program
            }
        };
        Ok(Self {
            removed: vec![false; model.partition.n_rows() as usize],
            program: program.with_deadline(deadline),
            model,
            layout,
            inputs,
        })
    }

    /// True if kernels of the device can write the states: the model takes them as inputs.
    pub(crate) fn takes_states_on_device(&self) -> bool {
        let has_graph = self.model.shard.resident_adjacency().is_some();
        let on_device = !self.model.device.is_host() && has_graph;
        on_device && self.inputs.is_some()
    }

    /// Records what `f` launches as one launch: kernels that write the inputs, the evaluation, kernels that read its scores.
    /// The inputs begin as those of a state without picks, whose degrees are 0.
    pub(crate) fn capture(
        &mut self,
        comm: &mut Comm,
        f: impl FnOnce(&mut ModelRecording<'_, '_>) -> Result<(), Error>,
    ) -> Result<Launches, Error> {
        let inputs = self.begin_states()?;
        if !self.model.policy.model.head.reads_nodes_alone() {
            // The first sum over a state takes the numbers of its rows to the device, which no recording can do.
            self.program.run_again(comm)?;
        }
        let mut done = Ok(());
        let launches = self.program.capture(comm, |program| {
            done = f(&mut ModelRecording { program, inputs });
            Ok(())
        });
        done.and(launches.map_err(Error::from))
    }

    fn inputs(&self) -> Result<Inputs, Error> {
        let none = || Error::internal("a model without inputs has no states");
        self.inputs.ok_or_else(none)
    }

    /// Sets the inputs to a state without picks, whose degrees are 0.
    pub(crate) fn begin_states(&mut self) -> Result<Inputs, Error> {
        let inputs = self.inputs()?;
        self.set(inputs, State::without_picks(&self.layout))?;
        Ok(inputs)
    }

    /// Runs what `f` launches, the evaluation among it, on all ranks.
    pub(crate) fn run_with(
        &mut self,
        comm: &mut Comm,
        f: impl FnOnce(&mut ModelRecording<'_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let inputs = self.inputs()?;
        let mut done = Ok(());
        let launched = self.program.run_with(comm, |program| {
            done = f(&mut ModelRecording { program, inputs });
            Ok(())
        });
        done.and(launched.map_err(Error::from))
    }

    pub(crate) fn offer(
        &mut self,
        residual: &dyn Residual,
        scale: f32,
        top: &mut TopD,
        ranks: &mut Ranks<'_>,
    ) -> Result<(), Error> {
        let scores = self.scores(residual, scale, ranks)?;
        let first = self.model.partition.range(ranks.comm.rank()).start;
        // Told to the others when they meet: a rank's own reason ends them all.
        if !are_finite(residual, &scores, first) {
            return Err(Error::unbounded_scores());
        }
        residual.for_each_own(&mut |node, _, _| top.offer(scores[(node - first) as usize], node));
        Ok(())
    }

    /// The node scores of all own rows, without the state's constant.
    pub(crate) fn scores(
        &mut self,
        residual: &dyn Residual,
        scale: f32,
        ranks: &mut Ranks<'_>,
    ) -> Result<Vec<f32>, Error> {
        let state = self.state(residual, scale);
        match self.inputs {
            Some(inputs) => self.set(inputs, state)?,
            None => {
                let world = (ranks.comm.rank(), ranks.comm.size());
                let batch = self.model.batch(&self.layout, state)?;
                self.program.refill(&self.model.record(&batch, world)?)?;
            }
        }
        match self.model.device.is_host() {
            true => self.program.run(ranks.comm, &self.model.policy.params)?,
            false => self.program.run_again(ranks.comm)?,
        }
        let scores = self.program.read(SCORES)?;
        debug_assert_eq!(scores.len(), self.layout.n_rows());
        Ok(scores)
    }

    fn set(&mut self, inputs: Inputs, state: State) -> Result<(), Error> {
        let Inputs { rows, masks } = inputs;
        self.program.set_input(rows.node, &state.node)?;
        self.program.set_input(rows.edge, &state.edge)?;
        self.program
            .set_input(rows.neighbor_degree, &state.neighbor_degree)?;
        self.program.set_input(masks.keep, &state.keep)?;
        self.program.set_input(masks.scale, &[state.scale])?;
        Ok(())
    }

    fn state(&self, residual: &dyn Residual, scale: f32) -> State {
        let own = self.model.partition.range(self.layout.rank());
        let mut edge = vec![0.0; 2 * own.len()];
        let mut neighbor_degree = vec![0.0; own.len()];
        residual.for_each_own(&mut |node, degree, d2| {
            let row = (node - own.start) as usize;
            edge[2 * row] = degree as f32 * scale;
            neighbor_degree[row] = d2 as f32 * (scale * scale);
        });
        if let Some(graph) = self.model.weighted {
            self.sum_weights(graph, own.start, scale, &mut edge);
        }
        let node = own.map(|v| f32::from(u8::from(self.removed[v as usize])));
        let keep = self.removed.iter().map(|&gone| f32::from(u8::from(!gone)));
        State {
            node: node.collect(),
            edge,
            neighbor_degree,
            keep: keep.collect(),
            scale,
        }
    }

    /// Weights have no incremental form: the sums of positive and negative weights to residual neighbours.
    fn sum_weights(&self, graph: &Graph, first: u32, scale: f32, edge: &mut [f32]) {
        for (i, sums) in edge.chunks_exact_mut(2).enumerate() {
            let node = first + i as u32;
            sums.fill(0.0);
            if self.removed[node as usize] {
                continue;
            }
            let weights = graph.weights_of(node).unwrap_or(&[]);
            for (&u, &weight) in graph.neighbors(node).iter().zip(weights) {
                if !self.removed[u as usize] {
                    let weight = weight * scale;
                    sums[usize::from(weight < 0.0)] += weight.abs();
                }
            }
        }
    }
}

/// An evaluation whose launches are recorded.
pub(crate) struct ModelRecording<'r, 'p> {
    program: &'r mut Recording<'p>,
    inputs: Inputs,
}

impl ModelRecording<'_, '_> {
    /// The memory of the inputs.
    pub(crate) fn rows(&mut self) -> Result<ModelRows<'_>, Error> {
        let Inputs { rows, masks } = self.inputs;
        let inputs = [
            rows.node,
            rows.edge,
            rows.neighbor_degree,
            masks.keep,
            masks.scale,
        ];
        let [node, edge, neighbor_degree, keep, scale] = self.program.inputs(inputs)?;
        Ok(ModelRows {
            node,
            edge,
            neighbor_degree,
            keep,
            scale,
        })
    }

    /// Launches the evaluation; gives where the own rows' scores are, and the ranks.
    pub(crate) fn scores_on_ranks(&mut self) -> Result<(&Buffer, DeviceComm<'_>), Error> {
        self.program.launch()?;
        Ok(self.program.output_on_ranks(SCORES)?)
    }

    /// Launches the evaluation; gives where its scores are.
    pub(crate) fn scores(&mut self) -> Result<&Buffer, Error> {
        self.program.launch()?;
        Ok(self.program.output(SCORES)?)
    }
}

impl State {
    /// The state before the first pick, but for degrees, which are 0.
    fn without_picks(layout: &BatchLayout) -> Self {
        let n_rows = layout.n_rows();
        let n_nodes = layout.groups().iter().map(|group| group.partition.n_rows());
        Self {
            node: vec![0.0; n_rows],
            edge: vec![0.0; 2 * n_rows],
            neighbor_degree: vec![0.0; n_rows],
            keep: vec![1.0; n_nodes.sum::<u32>() as usize],
            scale: 1.0,
        }
    }
}

impl<'a> RankModel<'a> {
    /// True if one recorded program serves all states: blocks mask rows by their numbers, which are part of it.
    fn takes_inputs(&self) -> bool {
        self.policy.model.embedding.takes_inputs() && !self.shard.has_block()
    }

    /// One evaluation of whatever state its inputs are set to.
    fn plan_for_all_states(
        &self,
        layout: &Arc<BatchLayout>,
        world: (u32, u32),
    ) -> Result<(Plan, Inputs), Error> {
        let mut recorder = Recorder::new(&self.policy.params, world.0, world.1);
        let rows = StateInputs::record(&mut recorder, layout, 0)?;
        let masks = MaskInputs::record(&mut recorder, layout)?;
        let graph = Propagation::with_inputs(Arc::clone(layout), self.shard.clone(), masks)?;
        let batch = StateBatch {
            inputs: Some(rows),
            counted: None,
            layout: Arc::clone(layout),
            node: Vec::new(),
            edge: Vec::new(),
            neighbor_degree: Vec::new(),
            propagation: Some(Arc::new(graph)),
        };
        self.record_scores(&mut recorder, &batch)?;
        Ok((recorder.plan(), Inputs { rows, masks }))
    }

    /// One evaluation of a state as the rank and the number of ranks `world`; nothing is computed.
    fn record(&self, batch: &StateBatch, world: (u32, u32)) -> Result<Recorder<'a>, Error> {
        let mut recorder = Recorder::new(&self.policy.params, world.0, world.1);
        self.record_scores(&mut recorder, batch)?;
        Ok(recorder)
    }

    fn record_scores(&self, recorder: &mut Recorder<'a>, batch: &StateBatch) -> Result<(), Error> {
        let model = &self.policy.model;
        let embed = model.embedding.embed(recorder, batch, self.path)?;
        let scores = model.head.node_values(recorder, embed, &batch.layout)?;
        recorder.output(SCORES, scores);
        Ok(())
    }

    fn batch(&self, layout: &Arc<BatchLayout>, state: State) -> Result<StateBatch, Error> {
        let (shards, keep) = (vec![self.shard.clone()], vec![state.keep]);
        let graph = Propagation::new(Arc::clone(layout), shards, keep, vec![state.scale])?;
        Ok(StateBatch {
            inputs: None,
            counted: None,
            layout: Arc::clone(layout),
            node: state.node,
            edge: state.edge,
            neighbor_degree: state.neighbor_degree,
            propagation: Some(Arc::new(graph)),
        })
    }
}
