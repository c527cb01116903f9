//! Training on a device: the network of a rank in its device's memory, on top of autodiff.
//!
//! Ranks have a device each, or a stream of one, and exchange rows and sums of messages.
//! Parameters, the optimiser's means, the graph and the labels stay there. An epoch brings back its
//! loss and the number of right classes; the host's [`Network`] gets the parameters where a
//! checkpoint or the end of the run asks for them.

mod budget;
mod build;
mod exchange;
mod operations;
mod prefetch;
mod streamed;
mod tiles;

use std::borrow::Cow;
use std::sync::Arc;

use shardgraph_autodiff::{Adam, Ctx, DeviceGradient, Eager, Gradient, ParamId, Params, Sgd, Var};
use shardgraph_device::{Device, DeviceKind, Timer, Traffic};

use crate::Error;
use crate::config::{Config, Optimiser};
use crate::error::diverged;
use crate::kernels::{PairLists, Terms};
use crate::layer::optimiser::corrected_epsilon;
use crate::model::comm::RankComm;
use crate::model::network::Network;
use crate::train::state::{Part, set_flat};
use crate::train::{Execution, ValidScores};
pub(crate) use budget::DevicePlan;
pub(crate) use build::LabelSets;
use exchange::Handover;
use operations::{Matrix, Product, RelationOperation};
use streamed::{InputGradient, StreamedInput};
use tiles::Tiles;

/// Refuses what is trained on the host alone.
pub(crate) fn check(config: &Config, kind: DeviceKind, execution: Execution) -> Result<(), Error> {
    if kind == DeviceKind::Host {
        return Ok(());
    }
    let of_host = [
        (config.batch > 0, "batches"),
        (config.blocks > 1, "block-diagonal weights"),
        (config.dropout > 0.0, "dropout"),
        (config.optimiser == Optimiser::Adagrad, "adagrad"),
        (execution != Execution::Grouped, "the paper's execution"),
    ];
    match of_host.iter().find(|(is_wanted, _)| *is_wanted) {
        None => Ok(()),
        Some((_, what)) => {
            let message = format!(
                "training on device `{kind}` does not go with {what}: take --device host for that"
            );
            Err(Error::new(Error::Config, message))
        }
    }
}

/// A network on a device, with the labels that it learns from and is validated on.
pub(crate) struct DeviceModel {
    device: Device,
    place: RankPlace,
    params: Params,
    rule: StepRule,
    input: DeviceInput,
    /// Steps of this call, and the bytes moved before them.
    n_steps: u64,
    traffic: Traffic,
    layers: Vec<DeviceLayer>,
    /// The weight decay of `decayed`.
    decay: f32,
    /// The learnt rows of the input, and the parameters of the first layer's relations.
    decayed: Vec<ParamId>,
    train: Labelled,
    valid: Option<Labelled>,
    /// The most bytes that it is predicted to hold, and those on the device beside it.
    memory: DeviceBudget,
    /// The parameters of the best epoch of this call.
    best: Option<BestParams>,
}

/// Parameters of an epoch.
struct BestParams {
    params: Params,
    /// The input's rows where they are in host memory; else empty.
    rows: Vec<f32>,
}

/// The cut of a network for a device that does not hold it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// The most tiles of a layer's sources, whose messages are on the device one tile at a time.
    pub(crate) n_tiles: usize,
    /// True if the input's rows with their means, and the lists of all layers, come from host memory tile by tile.
    pub(crate) is_streamed: bool,
}

/// The place of the input's rows.
enum DeviceInput {
    /// The device.
    Resident(ParamId),
    /// The host, from where they come tile by tile.
    Streamed(Arc<StreamedInput>),
}

impl DeviceInput {
    fn streamed(&self) -> Option<&Arc<StreamedInput>> {
        match self {
            DeviceInput::Resident(_) => None,
            DeviceInput::Streamed(input) => Some(input),
        }
    }
}

/// Values of a program that the step of streamed rows needs: the first layer's sums, and its relations' rows.
#[derive(Clone, Copy)]
struct InputVars {
    sums: Var,
    table: Option<Var>,
}

/// Values of a pass forward.
struct ForwardVars {
    logits: Var,
    /// None where the input's rows are on the device.
    input: Option<InputVars>,
}

/// A rank among those that share a network.
#[derive(Debug, Clone, Copy)]
struct RankPlace {
    rank: u32,
    size: u32,
}

impl RankPlace {
    fn is_alone(self) -> bool {
        self.size == 1
    }

    /// A parameter that all ranks have alike; its gradient is the sum over their messages.
    fn shared(self, ctx: &mut dyn Ctx, id: ParamId) -> Result<Var, Error> {
        let param = ctx.param(id)?;
        match self.is_alone() {
            true => Ok(param),
            false => Ok(ctx.copy_to_ranks(param)?),
        }
    }

    /// The sum of a number over the ranks.
    fn sum(self, ctx: &mut dyn Ctx, own: Var) -> Result<Var, Error> {
        match self.is_alone() {
            true => Ok(own),
            false => Ok(ctx.all_reduce(own)?),
        }
    }
}

/// The bytes of a model on a device.
#[derive(Debug, Clone, Copy)]
struct DeviceBudget {
    /// Held by others on the device's stream.
    beside: u64,
    predicted: u64,
}

/// A layer's messages and the parameters that it reads.
struct DeviceLayer {
    /// None where a rank's messages are those of its own sources.
    handover: Option<Handover>,
    /// Nodes of each rank, whose sums it keeps.
    kept: Arc<[usize]>,
    sums: LayerSums,
    /// None for one-hot input without bases, whose rows are the messages.
    relations: Option<Relations>,
    bias: Option<Bias>,
}

/// A layer's messages, and how they are added.
#[derive(Clone)]
enum LayerSums {
    /// All at once.
    Whole {
        /// Pairs by targets: the weights with which a message is added.
        sends: Arc<Matrix>,
        /// None where the input's rows are the messages.
        lists: Option<Arc<PairLists>>,
    },
    /// Some sources' at a time.
    Tiled(Arc<Tiles>),
}

/// The parameters of a layer's relations.
struct Relations {
    terms: Terms,
    /// A row for each relation; with shared bases its coefficients.
    rows: ParamId,
    /// The bases that relations share.
    bases: Option<ParamId>,
}

/// A bias, and the column of ones that repeats it.
struct Bias {
    row: ParamId,
    ones: ParamId,
}

/// Labelled nodes, with the constants that make sums over them of logits.
struct Labelled {
    place: RankPlace,
    /// Of all ranks.
    n_nodes: usize,
    /// Labelled nodes by outputs: ones.
    selection: Arc<Matrix>,
    /// At each node's class its negative weight over the number of nodes.
    weights: ParamId,
    /// At each node's class 1.
    classes: ParamId,
    /// A row of ones, one a node.
    row: ParamId,
    /// A column of ones, one a class.
    column: ParamId,
}

/// An optimiser with its means on the device.
enum StepRule {
    Adam(Box<Adam>),
    Sgd(Sgd),
}

/// Loss and right classes of labelled nodes, as values of a program.
#[derive(Clone, Copy)]
struct ScoreVars {
    loss: Var,
    n_right: Var,
}

/// A step of training.
pub(crate) struct Step {
    /// Of the training nodes before the step.
    pub(crate) scores: ValidScores,
    /// Milliseconds until they were there.
    pub(crate) forward_ms: f64,
}

impl DeviceModel {
    /// Takes step `step`, counted from 1.
    ///
    /// # Errors
    /// The device's.
    /// # Determinism
    /// The same bits each time on one kind of device and number of ranks; the host's to rounding.
    /// # Complexity
    /// Eight bytes come back from the device, and some constants of a few bytes go there.
    pub(crate) fn step(&mut self, step: u32, ranks: &mut RankComm<'_>) -> Result<Step, Error> {
        let timer = Timer::wall();
        let mut ctx = Eager::new(&self.device, ranks.comm, &self.params);
        ctx = ctx.with_deadline(ranks.deadline);
        let forward = self.forward(&mut ctx)?;
        let vars = self.train.score(&mut ctx, forward.logits)?;
        let scores = self.train.read(&ctx, vars)?;
        if !scores.loss.is_finite() {
            return Err(diverged());
        }
        let forward_ms = timer.elapsed_s() * 1e3;
        let sums = forward.input.map(|input| input.sums);
        let (gradient, of_sums) = ctx.resident_gradient_by(vars.loss, sums)?;
        let of_input = of_sums.map(|sums| InputGradient {
            sums,
            table: forward
                .input
                .and_then(|input| Some(ctx.buffer(input.table?))),
        });
        // Buffers that a program shares are copied where they are written.
        drop(ctx);
        let Gradient::Device(gradient) = gradient else {
            let kind = self.device.kind();
            return Err(shardgraph_device::Error::unsupported("rgcn", kind).into());
        };
        self.step_params(step, gradient, of_input)?;
        self.n_steps += 1;
        self.device.synchronize()?;
        Ok(Step { scores, forward_ms })
    }

    /// Steps the parameters: the streamed rows first, whose gradient is made with the relations' rows as they were.
    fn step_params(
        &mut self,
        step: u32,
        mut gradient: DeviceGradient,
        of_input: Option<InputGradient>,
    ) -> Result<(), Error> {
        if let StepRule::Adam(adam) = &mut self.rule {
            adam.epsilon = corrected_epsilon(step);
        }
        if let (Some(input), Some(of_input)) = (self.input.streamed(), of_input) {
            input.step(&self.device, &self.rule, self.decay, &of_input)?;
        }
        for &id in self.decayed.iter().filter(|_| self.decay > 0.0) {
            gradient.add_decay(&self.device, &self.params, id, self.decay)?;
        }
        match &mut self.rule {
            StepRule::Adam(adam) => {
                adam.step_on_device(&self.device, &mut self.params, &gradient)?;
            }
            StepRule::Sgd(sgd) => {
                sgd.step_on_device(&self.device, &mut self.params, &gradient)?;
            }
        }
        Ok(())
    }

    /// The scores of the nodes to validate on; none without these.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn validate(&self, ranks: &mut RankComm<'_>) -> Result<Option<ValidScores>, Error> {
        let Some(valid) = &self.valid else {
            return Ok(None);
        };
        let mut ctx = Eager::new(&self.device, ranks.comm, &self.params);
        ctx = ctx.with_deadline(ranks.deadline);
        let forward = self.forward(&mut ctx)?;
        let vars = valid.score(&mut ctx, forward.logits)?;
        valid.read(&ctx, vars).map(Some)
    }

    /// Keeps the parameters of now as the best ones.
    pub(crate) fn keep_best(&mut self) {
        // A step copies what two share, on the device.
        let params = self.params.clone();
        let learnt = self.learnt_rows();
        let rows = learnt.map(|input| input.lock().values.clone());
        self.best = Some(BestParams {
            params,
            rows: rows.unwrap_or_default(),
        });
    }

    /// The parameters of [`DeviceModel::keep_best`].
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn best(&self) -> Result<Option<Cow<'_, [f32]>>, Error> {
        let Some(BestParams { params, rows }) = &self.best else {
            return Ok(None);
        };
        params.sync()?;
        Ok(Some(behind(rows, params.trained())))
    }

    /// Copies parameters and means to the host's network.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn store(&self, network: &mut Network<'_>) -> Result<(), Error> {
        self.params.sync()?;
        let rows = self.learnt_rows().map(|input| input.lock());
        let mut set = |part: Part, trained: &[f32]| {
            let rows = rows.as_ref().map_or(&[][..], |rows| rows.part(part));
            set_flat(network, part, &behind(rows, trained));
        };
        set(Part::Params, self.params.trained());
        if let StepRule::Adam(adam) = &self.rule {
            adam.sync()?;
            let [first, second] = adam.moments();
            set(Part::First, first);
            set(Part::Second, second);
        }
        Ok(())
    }

    /// The input whose learnt rows are in host memory.
    fn learnt_rows(&self) -> Option<&Arc<StreamedInput>> {
        self.input.streamed().filter(|input| input.is_learnt)
    }

    /// The logits of this rank's outputs.
    fn forward(&self, ctx: &mut dyn Ctx) -> Result<ForwardVars, Error> {
        let first = &self.layers[0];
        let (mut x, input) = match &self.input {
            DeviceInput::Resident(id) => {
                let x = ctx.param(*id)?;
                (first.sums(ctx, x, self.place)?, None)
            }
            DeviceInput::Streamed(input) => {
                let table = first.table(ctx, self.place)?;
                let sums = input.sums(ctx, table)?;
                (sums, Some(InputVars { sums, table }))
            }
        };
        for (idx, layer) in self.layers.iter().enumerate() {
            if idx > 0 {
                x = layer.sums(ctx, x, self.place)?;
            }
            if !self.place.is_alone() {
                x = ctx.reduce_scatter(x, Arc::clone(&layer.kept))?;
            }
            if let Some(Bias { row, ones }) = layer.bias {
                let (ones, row) = (ctx.param(ones)?, self.place.shared(ctx, row)?);
                let rows = ctx.matmul(ones, row)?;
                x = ctx.add(x, rows)?;
            }
            if idx + 1 < self.layers.len() {
                x = ctx.relu(x)?;
            }
        }
        Ok(ForwardVars { logits: x, input })
    }
}

impl DeviceLayer {
    /// The relations' rows; none for rows that are messages.
    fn table(&self, ctx: &mut dyn Ctx, place: RankPlace) -> Result<Option<Var>, Error> {
        let relations = self.relations.as_ref();
        relations
            .map(|relations| relations.table(ctx, place))
            .transpose()
    }

    /// The sums of the messages of this rank's rows `x`, at the nodes of all ranks.
    fn sums(&self, ctx: &mut dyn Ctx, x: Var, place: RankPlace) -> Result<Var, Error> {
        let x = match &self.handover {
            Some(handover) => handover.rows(ctx, x)?,
            None => x,
        };
        let table = self.table(ctx, place)?;
        let table = table.zip(self.relations.as_ref().map(|relations| relations.terms));
        let (sends, lists) = match &self.sums {
            LayerSums::Tiled(tiles) => {
                let Some((table, terms)) = table else {
                    return Err(Error::Config(
                        "tiles of a layer without relations".to_string(),
                    ));
                };
                let sums = RelationOperation::value(Arc::clone(tiles), terms);
                return Ok(ctx.apply(Arc::new(sums), &[x, table])?);
            }
            LayerSums::Whole { sends, lists } => (sends, lists),
        };
        let messages = match (table, lists) {
            (Some((table, terms)), Some(lists)) => {
                let messages = RelationOperation::value(Arc::clone(lists), terms);
                ctx.apply(Arc::new(messages), &[x, table])?
            }
            _ => x,
        };
        let sums = Product {
            matrix: Arc::clone(sends),
            is_transposed: true,
        };
        Ok(ctx.apply(Arc::new(sums), &[messages])?)
    }
}

impl Relations {
    /// The relations' rows.
    fn table(&self, ctx: &mut dyn Ctx, place: RankPlace) -> Result<Var, Error> {
        let rows = place.shared(ctx, self.rows)?;
        match self.bases {
            None => Ok(rows),
            Some(bases) => {
                let bases = place.shared(ctx, bases)?;
                Ok(ctx.matmul(rows, bases)?)
            }
        }
    }
}

impl Labelled {
    /// The loss and the right classes of all ranks, by the logits of this rank's outputs.
    fn score(&self, ctx: &mut dyn Ctx, logits: Var) -> Result<ScoreVars, Error> {
        let selection = Product {
            matrix: Arc::clone(&self.selection),
            is_transposed: false,
        };
        let logits = ctx.apply(Arc::new(selection), &[logits])?;
        let logarithms = ctx.log_softmax(logits)?;
        let likeliest = ctx.argmax_rows(logits)?;
        Ok(ScoreVars {
            loss: self.sum(ctx, logarithms, self.weights)?,
            n_right: self.sum(ctx, likeliest, self.classes)?,
        })
    }

    /// The sum of the values of all ranks, each times its factor.
    fn sum(&self, ctx: &mut dyn Ctx, values: Var, factors: ParamId) -> Result<Var, Error> {
        let factors = ctx.param(factors)?;
        let products = ctx.mul(values, factors)?;
        let (row, column) = (ctx.param(self.row)?, ctx.param(self.column)?);
        let by_class = ctx.matmul(row, products)?;
        let own = ctx.matmul(by_class, column)?;
        self.place.sum(ctx, own)
    }

    /// Copies the scores to the host.
    fn read(&self, ctx: &Eager<'_>, vars: ScoreVars) -> Result<ValidScores, Error> {
        let number =
            |var: Var| Ok::<f64, Error>(ctx.values(var)?.iter().copied().map(f64::from).sum());
        Ok(ValidScores {
            accuracy: number(vars.n_right)? / self.n_nodes.max(1) as f64,
            loss: number(vars.loss)?,
        })
    }
}

impl StepRule {
    /// The rule of the settings after `n_steps` steps; its means are still to be set.
    fn new(config: &Config, n_params: usize, n_steps: u32) -> StepRule {
        match config.optimiser {
            Optimiser::Adam => {
                let mut adam = Adam::new(config.rate, n_params);
                adam.n_steps = n_steps.into();
                StepRule::Adam(Box::new(adam))
            }
            Optimiser::Sgd | Optimiser::Adagrad => StepRule::Sgd(Sgd {
                learning_rate: config.rate,
            }),
        }
    }
}

/// The rows of the input, and the other trained numbers behind them.
fn behind<'v>(rows: &[f32], others: &'v [f32]) -> Cow<'v, [f32]> {
    match rows {
        [] => others.into(),
        rows => [rows, others].concat().into(),
    }
}
