//! Predicting plans directly, without a genetic algorithm at the end: the two approaches that the paper names in section 5.2 and leaves out.
//!
//! One network of both kinds: a graph network reads what has been decided so far (which ops, on which device, in which place) and gives
//! a logit to each pair of an op and a device. While a plan is made, the pairs are those of ops whose producers are decided; in the local
//! search afterwards, a pair moves an op to another device. The network runs once a decision, so that a plan takes quadratic time.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use shardgraph_agents::policy_step;
use shardgraph_components::autodiff::collectives::Comm;
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Axis, Ctx, Eager, Params, Shape, Var};
use shardgraph_components::environments::space::{GraphValue, Space, Value};
use shardgraph_components::{
    EdgeBatch, EdgeMessagePassing, EdgeMessagePassingShape, Error as NetworkError, Initialiser,
    Mlp, Optimiser, OptimiserConfig, OptimiserRule, PolicyLoss, SoftmaxPolicy,
};
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::{
    Decoder, DecoderKind, DeviceSet, Graph, ModelOptions, Objective, Problem, Step, topology,
};
use shardgraph_random::KeyedRng;
use shardgraph_regal::{GeneticOptions, PlaceOptions, features, search};

use crate::report::{Failure, Report, clock};

const N_DEVICES: usize = 2;
/// Of an op for the runtime on two devices, as the policies read it.
const N_STATIC: usize = 11;
/// Decided, ready, its place, and one for each device.
const N_STATE: usize = 3 + N_DEVICES;
const N_EDGE: usize = 3;
/// The logit of what cannot be done.
const IMPOSSIBLE: f32 = -1e9;
/// Plans that are sampled for a gradient of rewards.
const N_SAMPLES: usize = 8;

/// How it learns.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// To do what the genetic algorithm's best plan does next.
    Supervised,
    /// From rewards, with as many moves of a local search behind the plan as it has ops.
    Reinforced,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    kind: Kind,
    series: String,
    #[serde(default)]
    x: f64,
    /// Of the genetic algorithm, whose plans are imitated and compared with.
    evaluations: u64,
    genetic: GeneticOptions,
    /// Nodes of the synthetic graphs, at least and at most.
    nodes: [u32; 2],
    n_train: u64,
    n_test: u64,
    steps: u64,
    /// Nothing here has more than one; as other requests have it.
    #[serde(default, rename = "threads")]
    _threads: Option<f64>,
    #[serde(default, rename = "method")]
    _method: Option<String>,
}

/// The seeds of the graphs to learn on, and of those to test on.
const SEEDS: [u64; 2] = [21, 22];

/// A graph, what is read of it, and the genetic algorithm's plan of it.
struct Instance<'g> {
    problem: Problem<'g>,
    value: GraphValue,
    /// Its ops in order with their devices, and its runtime.
    plan: Vec<Pick>,
    runtime: f64,
}

/// An op and a device.
type Pick = (usize, usize);

impl<'g> Instance<'g> {
    fn new(graph: &'g Graph, request: &Request) -> Result<Instance<'g>, Failure> {
        let devices = DeviceSet::uniform(N_DEVICES, None)?;
        let problem = Problem::new(graph, &devices, Objective::Runtime, ModelOptions::default())?;
        let options = PlaceOptions {
            decoder: Some(DecoderKind::Paper),
            evaluations: request.evaluations,
            genetic: request.genetic,
            ..PlaceOptions::default()
        };
        let best = search(&problem, &options, Vec::new(), None)?.best;
        let schedule = Decoder::new(&problem, DecoderKind::Paper).schedule(&best.keys);
        let ops = schedule.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(*op as usize),
            Step::Transfer { .. } => None,
        });
        let plan = ops.map(|op| (op, usize::from(schedule.placement[op])));
        let plan: Vec<Pick> = plan.collect();
        let Value::Graph(value) = features(&problem, &options, 100)?.value else {
            return Err("features are a graph".into());
        };
        Ok(Instance {
            plan,
            runtime: best.fitness.1 as f64,
            value,
            problem,
        })
    }

    fn n_ops(&self) -> usize {
        self.problem.graph().n_ops()
    }

    /// The runtime of a whole plan, by the paper's decoder: ops in this order, transfers as soon as they can be.
    fn runtime_of(&self, plan: &[Pick]) -> f64 {
        let n = self.n_ops();
        let mut keys = vec![0.999; self.problem.n_keys()];
        keys[..n * N_DEVICES].fill(0.0);
        for (place, &(op, device)) in plan.iter().enumerate() {
            keys[op * N_DEVICES + device] = 0.9;
            keys[n * N_DEVICES + op] = 0.99 * (1.0 - (place + 1) as f32 / (n + 1) as f32);
        }
        let mut decoder = Decoder::new(&self.problem, DecoderKind::Paper);
        decoder.fitness(&keys).1 as f64
    }
}

/// A plan in the making, or a whole one whose ops are moved.
#[derive(Clone, Default)]
struct State {
    plan: Vec<Pick>,
}

impl State {
    /// Where each op is in the plan.
    fn places(&self, n_ops: usize) -> Vec<Option<usize>> {
        let mut places = vec![None; n_ops];
        for (place, &(op, _)) in self.plan.iter().enumerate() {
            places[op] = Some(place);
        }
        places
    }

    /// 0 for each pair that can be picked, op-major.
    fn mask(&self, of: &Instance<'_>) -> Vec<f32> {
        let (n, graph) = (of.n_ops(), of.problem.graph());
        let places = self.places(n);
        let is_whole = self.plan.len() == n;
        let fixed = of.problem.fixed_op();
        let mut mask = vec![IMPOSSIBLE; n * N_DEVICES];
        for op in 0..n {
            let inputs = graph.inputs(op as u32).iter();
            let is_ready = inputs
                .clone()
                .all(|&t| places[graph.producer(t) as usize].is_some());
            for device in 0..N_DEVICES {
                let can = match places[op] {
                    Some(place) => {
                        is_whole && self.plan[place].1 != device && fixed != Some(op as u32)
                    }
                    None => is_ready && (device == 0 || fixed != Some(op as u32)),
                };
                if can {
                    mask[op * N_DEVICES + device] = 0.0;
                }
            }
        }
        mask
    }

    fn pick(&mut self, pair: usize) {
        let (op, device) = (pair / N_DEVICES, pair % N_DEVICES);
        match self.plan.iter_mut().find(|(other, _)| *other == op) {
            Some(of_op) => of_op.1 = device,
            None => self.plan.push((op, device)),
        }
    }

    /// The graph with what is decided behind each op's features.
    fn value(&self, of: &Instance<'_>, mask: &[f32]) -> Value {
        let n = of.n_ops();
        let places = self.places(n);
        let mut features = Vec::with_capacity(n * (N_STATIC + N_STATE));
        for (op, own) in of.value.node_features.chunks_exact(N_STATIC).enumerate() {
            features.extend_from_slice(own);
            let can = mask[op * N_DEVICES..(op + 1) * N_DEVICES].contains(&0.0);
            features.extend([f32::from(places[op].is_some()), f32::from(can)]);
            features.push(places[op].map_or(0.0, |place| (place + 1) as f32 / n as f32));
            let device = places[op].map(|place| self.plan[place].1);
            features.extend((0..N_DEVICES).map(|other| f32::from(device == Some(other))));
        }
        Value::Graph(GraphValue {
            node_features: features,
            ..of.value.clone()
        })
    }
}

struct Network {
    params: Params,
    encoder: EdgeMessagePassing,
    head: Mlp,
    space: Space,
    device: Device,
}

impl Network {
    fn new() -> Result<Network, Failure> {
        let space = Space::graph(N_STATIC + N_STATE, N_EDGE)?;
        let (mut params, start) = (Params::new(), Initialiser::default());
        let shape = EdgeMessagePassingShape::default();
        let encoder = EdgeMessagePassing::build(&mut params, "encoder", &space, &shape, start)?;
        let head = Mlp::build(
            &mut params,
            "head",
            encoder.width(),
            &[32, N_DEVICES],
            start,
        )?;
        Ok(Network {
            params,
            encoder,
            head,
            space,
            device: Device::host(),
        })
    }

    /// What states of one graph look like, and which pairs they have.
    fn read(
        &self,
        of: &Instance<'_>,
        states: &[State],
    ) -> Result<(EdgeBatch, Vec<f32>), NetworkError> {
        let masks: Vec<Vec<f32>> = states.iter().map(|state| state.mask(of)).collect();
        let values = states
            .iter()
            .zip(&masks)
            .map(|(state, mask)| state.value(of, mask));
        let batch = EdgeBatch::new(&self.space, &values.collect::<Vec<_>>())?;
        Ok((batch, masks.concat()))
    }

    /// `[n_states, n_ops * n_devices]`.
    fn logits(
        &self,
        ctx: &mut dyn Ctx,
        batch: &EdgeBatch,
        masks: &[f32],
        n_states: usize,
    ) -> Result<Var, NetworkError> {
        let (nodes, edges) = (batch.nodes(ctx)?, batch.edges(ctx)?);
        let h = self.encoder.apply(ctx, nodes, edges, batch)?;
        let of_nodes = self.head.apply(ctx, h)?;
        let n_ops = batch.n_nodes() / n_states;
        let mut rows: Option<Var> = None;
        for op in 0..n_ops {
            let own: Vec<u32> = (0..n_states)
                .map(|state| (state * n_ops + op) as u32)
                .collect();
            let own = ctx.gather(of_nodes, Arc::from(own))?;
            rows = Some(match rows {
                None => own,
                Some(rows) => ctx.concat(rows, own, Axis::Cols)?,
            });
        }
        let masks = ctx.input(Shape::new(n_states, n_ops * N_DEVICES), masks)?;
        match rows {
            Some(rows) => Ok(ctx.add(rows, masks)?),
            None => Ok(masks),
        }
    }

    /// Picks a pair for each state: the likeliest, or drawn.
    fn picks(
        &self,
        of: &Instance<'_>,
        states: &[State],
        stream: Option<&mut KeyedRng>,
    ) -> Result<Vec<usize>, Failure> {
        let read = self.read(of, states)?;
        let mut comm = Comm::solo();
        let mut ctx = Eager::new(&self.device, &mut comm, &self.params);
        let (batch, masks) = &read;
        let logits = self.logits(&mut ctx, batch, masks, states.len())?;
        let logits = ctx.values(logits)?;
        let Some(stream) = stream else {
            let n_pairs = logits.len() / states.len();
            let likeliest = |row: &[f32]| {
                let best = |best: usize, at: usize| if row[at] > row[best] { at } else { best };
                (0..row.len()).fold(0, best)
            };
            return Ok(logits.chunks_exact(n_pairs).map(likeliest).collect());
        };
        let mut taken = Vec::new();
        policy(of)?.sample_into(&logits, stream, &mut taken)?;
        Ok(taken.into_iter().map(|pair| pair as usize).collect())
    }

    /// Descends minus the weighted logarithms of the probabilities of these picks, divided by their number.
    fn learn(
        &mut self,
        optimiser: &mut Optimiser,
        of: &Instance<'_>,
        states: &[State],
        picks: &[usize],
        weights: &[f32],
    ) -> Result<(), Failure> {
        let read = self.read(of, states)?;
        let n_pairs = of.n_ops() * N_DEVICES;
        let mut matrix = vec![0.0; states.len() * n_pairs];
        for ((row, &pick), &weight) in matrix.chunks_exact_mut(n_pairs).zip(picks).zip(weights) {
            row[pick] = weight;
        }
        let policy = policy(of)?;
        let mut params = std::mem::take(&mut self.params);
        let loss = |ctx: &mut dyn Ctx| {
            let (batch, masks) = &read;
            let logits = self.logits(ctx, batch, masks, states.len())?;
            let log_probabilities = policy.log_probabilities(ctx, logits)?;
            let matrix = ctx.input(Shape::new(states.len(), n_pairs), &matrix)?;
            let taken = policy.of_actions(ctx, log_probabilities, matrix)?;
            let sum = ctx.sum_rows(taken)?;
            let loss = ctx.scale(sum, -1.0 / states.len() as f32)?;
            Ok(PolicyLoss {
                loss,
                policy: loss,
                baseline: None,
                entropy: ctx.input(Shape::new(1, 1), &[0.0])?,
            })
        };
        let outcome = policy_step(&self.device, &mut params, optimiser, loss);
        self.params = params;
        outcome?;
        Ok(())
    }
}

fn policy(of: &Instance<'_>) -> Result<SoftmaxPolicy, Failure> {
    let space = Space::discrete((of.n_ops() * N_DEVICES) as u32)?;
    Ok(SoftmaxPolicy::build("pairs", &space)?)
}

/// Every state before a pick of the genetic algorithm's plan, with that pick.
fn prefixes(of: &Instance<'_>) -> (Vec<State>, Vec<usize>) {
    let state = |n: usize| State {
        plan: of.plan[..n].to_vec(),
    };
    let states = (0..of.plan.len()).map(state).collect();
    let picks = of.plan.iter().map(|&(op, device)| op * N_DEVICES + device);
    (states, picks.collect())
}

/// Steps of several plans side by side, and the least runtime of each.
struct Played {
    states: Vec<State>,
    picks: Vec<usize>,
    best: Vec<f64>,
    n_passes: usize,
}

fn play(
    network: &Network,
    of: &Instance<'_>,
    n: usize,
    n_moves: usize,
    mut stream: Option<&mut KeyedRng>,
) -> Result<Played, Failure> {
    let n_ops = of.n_ops();
    let mut now = vec![State::default(); n];
    let mut played = Played {
        states: Vec::new(),
        picks: Vec::new(),
        best: vec![f64::INFINITY; n],
        n_passes: 0,
    };
    for _ in 0..n_ops + n_moves {
        let can = |state: &State| state.mask(of).contains(&0.0);
        if !now.iter().all(can) {
            break;
        }
        let picks = network.picks(of, &now, stream.as_deref_mut())?;
        played.n_passes += 1;
        for (at, (state, &pick)) in now.iter_mut().zip(&picks).enumerate() {
            played.states.push(state.clone());
            state.pick(pick);
            if state.plan.len() == n_ops {
                played.best[at] = played.best[at].min(of.runtime_of(&state.plan));
            }
        }
        played.picks.extend(picks);
    }
    Ok(played)
}

/// A step on rewards: minus the least runtime over the genetic algorithm's, held against the mean of the other plans'.
fn reinforce(
    network: &mut Network,
    optimiser: &mut Optimiser,
    of: &Instance<'_>,
    step: u64,
) -> Result<f64, Failure> {
    let mut stream = KeyedRng::new(1, "direct prediction", step);
    let played = play(network, of, N_SAMPLES, of.n_ops(), Some(&mut stream))?;
    let rewards: Vec<f64> = played.best.iter().map(|best| -best / of.runtime).collect();
    let mean = rewards.iter().sum::<f64>() / N_SAMPLES as f64;
    let squares: f64 = rewards.iter().map(|r| (r - mean) * (r - mean)).sum();
    let size = (squares / N_SAMPLES as f64).sqrt().max(1e-6);
    let advantage = |at: usize| ((rewards[at % N_SAMPLES] - mean) / size) as f32;
    let weights: Vec<f32> = (0..played.picks.len()).map(advantage).collect();
    network.learn(optimiser, of, &played.states, &played.picks, &weights)?;
    Ok(mean)
}

/// A row: what the network's likeliest plans improve on the genetic algorithm, on graphs that it did not learn on.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let recipe = Synthetic {
        min_nodes: request.nodes[0],
        max_nodes: request.nodes[1],
        ..Synthetic::default()
    };
    let to_learn = (0..request.n_train).map(|index| synthetic(&recipe, SEEDS[0], index));
    let to_learn: Vec<Graph> = to_learn.collect::<Result<_, _>>()?;
    let to_test = unseen(&recipe, &to_learn, request.n_test)?;
    let read = |graphs| instances(graphs, request);
    let (to_learn, to_test) = (read(&to_learn)?, read(&to_test)?);
    let mut network = Network::new()?;
    let config = OptimiserConfig {
        rule: OptimiserRule::ADAM,
        learning_rate: 2e-3,
        max_gradient_norm: Some(10.0),
    };
    let mut optimiser = Optimiser::new(config, network.params.trained_len())?;
    for step in 0..request.steps {
        let of = &to_learn[KeyedRng::new(1, "direct graphs", step).below(request.n_train) as usize];
        let reward = match request.kind {
            Kind::Supervised => {
                let (states, picks) = prefixes(of);
                let weights = vec![1.0; picks.len()];
                network.learn(&mut optimiser, of, &states, &picks, &weights)?;
                None
            }
            Kind::Reinforced => Some(reinforce(&mut network, &mut optimiser, of, step)?),
        };
        if (step + 1).is_multiple_of(50) {
            out.progress(&format!(
                "{}: step {}, reward {reward:?}",
                request.series,
                step + 1
            ));
        }
    }
    test(request, &network, &to_test, out)
}

/// The first graphs of the test's seed whose topology no graph that is learned on has.
fn unseen(recipe: &Synthetic, to_learn: &[Graph], n: u64) -> Result<Vec<Graph>, Failure> {
    let seen: BTreeSet<u64> = to_learn.iter().map(topology::in_degree_hash).collect();
    let (mut unseen, mut index) = (Vec::new(), 0);
    while (unseen.len() as u64) < n {
        if index == 50 * n {
            return Err("the graphs to test on have the topologies of those to learn on".into());
        }
        let graph = synthetic(recipe, SEEDS[1], index)?;
        if !seen.contains(&topology::in_degree_hash(&graph)) {
            unseen.push(graph);
        }
        index += 1;
    }
    Ok(unseen)
}

fn instances<'g>(graphs: &'g [Graph], request: &Request) -> Result<Vec<Instance<'g>>, Failure> {
    let of = graphs.iter().map(|graph| Instance::new(graph, request));
    of.collect()
}

fn test(
    request: &Request,
    network: &Network,
    to_test: &[Instance<'_>],
    out: &mut Report,
) -> Result<(), Failure> {
    let (mut improvements, mut n_passes) = (Vec::new(), 0);
    let mut clock = clock();
    let start = clock();
    for of in to_test {
        let n_moves = match request.kind {
            Kind::Supervised => 0,
            Kind::Reinforced => of.n_ops(),
        };
        let played = play(network, of, 1, n_moves, None)?;
        n_passes += played.n_passes;
        improvements.push(100.0 * (1.0 - played.best[0] / of.runtime));
    }
    let seconds = (clock() - start) / to_test.len().max(1) as f64;
    let right = share_right(network, to_test)?;
    let again = replayed(to_test);
    let n = improvements.len().max(1) as f64;
    let at_least = improvements.iter().filter(|x| **x >= 0.0).count();
    let note = format!(
        "{} graphs, matched or beaten on {:.1} %, worst {:.2}, best {:.2}; {:.1} % of the next picks of BRKGA's plans, which give {again:.2} % here; {:.1} passes of the network a graph",
        to_test.len(),
        100.0 * at_least as f64 / n,
        improvements.iter().copied().fold(f64::INFINITY, f64::min),
        improvements
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max),
        100.0 * right,
        n_passes as f64 / n,
    );
    let mean = improvements.iter().sum::<f64>() / n;
    out.row(json!({
        "series": request.series, "x": request.x, "improvement_percent": mean, "note": note,
        "seconds_per_graph": seconds,
    }));
    Ok(())
}

/// How often the likeliest pick is that of the genetic algorithm's plan, in the states on the way to it.
fn share_right(network: &Network, to_test: &[Instance<'_>]) -> Result<f64, Failure> {
    let (mut n_right, mut n_picks) = (0, 0);
    for of in to_test {
        let (states, picks) = prefixes(of);
        let found = network.picks(of, &states, None)?;
        n_right += found.iter().zip(&picks).filter(|(a, b)| a == b).count();
        n_picks += picks.len();
    }
    Ok(n_right as f64 / n_picks.max(1) as f64)
}

/// What perfect picks would improve: transfers go as soon as they can, which is not where the genetic algorithm had them.
fn replayed(to_test: &[Instance<'_>]) -> f64 {
    let ratios = to_test
        .iter()
        .map(|of| of.runtime_of(&of.plan) / of.runtime);
    100.0 * (1.0 - ratios.sum::<f64>() / to_test.len().max(1) as f64)
}
