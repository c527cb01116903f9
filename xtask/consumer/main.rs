//! A crate outside the workspace that calls every library crate, as its users do. `cargo xtask ci` builds it against the
//! packaged crates and runs it.

use std::error::Error;

use shardgraph_agents::{AgentConfig, Evaluation, Start};
use shardgraph_autodiff::{Ctx, Params, Recorder, Shape};
use shardgraph_brkga::{Brkga, Config};
use shardgraph_collectives::{Timeout, Op, threads};
use shardgraph_components::EpsilonSchedule;
use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec};
use shardgraph_device::Device;
use shardgraph_environments::{Environment, Episode, MinimumVertexCover};
use shardgraph_error::Class;
use shardgraph_graph::builtin;
use shardgraph_job::Checkpoint;
use shardgraph_layers::autodiff::{Error as ModelError, ParamId, Var};
use shardgraph_layers::{
    Embedding, EmbeddingKind, LayerRegistry, Parameter, Path, Policy, PolicyShape, ShardedOps,
    StateBatch,
};
use shardgraph_line::{NodeLabels, Store, train};
use shardgraph_plot::{Axis, Figure, Panel, Point, Series};
use shardgraph_regal::{PlaceOptions, place};
use shardgraph_replay::EpisodeMemory;
use shardgraph_rgcn::{Labels, RelationalGraph};
use shardgraph_shard::{Adjacency, Partition};
use shardgraph_solver::{
    AdjacencyScale, HeadKind, PolicyConfig, SolveOptions, TrainedPolicy, solve,
};
use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{Rules, reduce};

fn main() -> Result<(), Box<dyn Error>> {
    let karate = builtin::by_name("karate").ok_or("karate is built in")?;
    let halves = Partition::by_nonzeros(&karate, 2);
    println!("shardgraph_graph::builtin: {} edges", karate.n_edges());
    println!("shardgraph_shard::Partition: rows {:?}", halves.range(1));

    let device = Device::host();
    let (one, mut two) = (device.upload(&[1.0, 2.0])?, device.zeros(2)?);
    shardgraph_ops::scale(&device, 2.0, &one, &mut two)?;
    println!(
        "shardgraph_device::Device, shardgraph_ops::scale: {:?}",
        device.download(&two)?
    );

    for met in threads::run(2, |mut comm| comm.run(Op::Barrier, Timeout::default())) {
        met??;
    }
    println!("shardgraph_collectives::threads: 2 ranks met");

    let mut params = Params::new();
    let shape = PolicyShape {
        embed_dim: 4,
        n_layers: 2,
        ..PolicyShape::default()
    };
    Policy::build(&mut params, shape, &mut || 0.5)?;
    println!(
        "shardgraph_layers::Policy: {} parameters",
        params.ids().count()
    );

    let mut ctx = Recorder::new(&params, 0, 1);
    let x = ctx.input(Shape::new(2, 3), &[0.0; 6])?;
    println!("shardgraph_autodiff::Ctx: {:?}", ctx.shape(x));

    let mut memory = EpisodeMemory::new(10);
    memory.begin_episode(0);
    let mut episode = Episode::<MinimumVertexCover>::new(karate.clone().into());
    let step = episode.step(0)?;
    memory.record(0, step.reward, None)?;
    println!(
        "shardgraph_environments::Environment: reward {}",
        step.reward
    );
    println!(
        "shardgraph_replay::EpisodeMemory: {} transitions",
        memory.len()
    );

    let mut checkpoint = Checkpoint::new(40);
    checkpoint.add("replay", memory.to_bytes())?;
    let received = Checkpoint::from_bytes(&checkpoint.to_bytes())?;
    println!(
        "shardgraph_job::Checkpoint: {} bytes of step {}",
        received.file("replay")?.len(),
        received.step()
    );

    let reduction = reduce(&karate, &Rules::all(), &Budget::unlimited());
    println!(
        "shardgraph_classical::vertex_cover::reduce: a cover of {} nodes",
        reduction.lift(&[])?.len()
    );

    let adjacency = Adjacency::from_graph(karate);
    let solution = solve(
        &adjacency,
        &TrainedPolicy::shipped()?,
        &SolveOptions::default(),
        &mut |_, _| (),
    )?;
    println!(
        "shardgraph_solver::solve: a cover of {} nodes",
        solution.cover.len()
    );
    measure_and_draw();
    policy_with_own_layer()?;
    search_and_place()?;
    embed_and_act()?;
    classify()
}

/// The crates below everything: what they count, measure and draw.
fn measure_and_draw() {
    let mut rng = shardgraph_random::KeyedRng::new(7, "scores", 0);
    let scores: Vec<f64> = (0..8).map(|_| (rng.next_u64() >> 11) as f64).collect();
    let auc = shardgraph_metrics::auc(&scores[..4], &scores[4..]);
    println!("shardgraph_random::KeyedRng, shardgraph_metrics::auc: {auc}");
    println!(
        "shardgraph_storage::hash: {:016x}",
        shardgraph_storage::hash(b"karate")
    );
    println!(
        "shardgraph_error::Class: exit code {}",
        Class::Input.exit_code()
    );
    let line = Series::line("auc", [Point::from((1.0, auc)), Point::from((2.0, 1.0))]);
    let panel = Panel::new(Axis::linear("run"), Axis::linear("auc")).with(line);
    let figure = Figure::new("AUC", "AUC of two runs.").panel(panel);
    println!(
        "shardgraph_plot::Figure: {} bytes of SVG",
        figure.svg().len()
    );
}

/// An embedding of another crate than the program's: a node's own numbers, through one matrix.
#[derive(Debug)]
struct OwnRow {
    weights: ParamId,
}

const OWN_ROW: EmbeddingKind = EmbeddingKind {
    name: "own-row",
    parameters: |sizes| {
        let n_inputs = 1 + sizes.n_node_features;
        vec![Parameter::new("own_row", n_inputs, sizes.embed_dim)]
    },
    build: |_, ids| std::sync::Arc::new(OwnRow { weights: ids[0] }),
};

impl Embedding for OwnRow {
    fn embed(&self, ctx: &mut dyn Ctx, batch: &StateBatch, _: Path) -> Result<Var, ModelError> {
        let weights = ctx.param(self.weights)?;
        let n_rows = batch.layout.n_rows();
        let rows = ctx.input(
            Shape::new(n_rows, batch.node.len() / n_rows.max(1)),
            &batch.node,
        )?;
        let product = ctx.shard_matmul(rows, (weights, false), &batch.layout)?;
        ctx.relu(product)
    }
}

/// A policy file that names a layer of this crate, which the registry has.
fn policy_with_own_layer() -> Result<(), Box<dyn Error>> {
    let config = PolicyConfig::new(4, 1, AdjacencyScale::One).with_layers(OWN_ROW, HeadKind::Q);
    let path = std::env::temp_dir().join(format!("own-row-{}.safetensors", std::process::id()));
    TrainedPolicy::random(config, 1, 0.1)?.write(&path)?;
    let read = TrainedPolicy::read_with(&path, &LayerRegistry::default().with_embedding(OWN_ROW));
    let refused = TrainedPolicy::read(&path).is_err();
    std::fs::remove_file(&path)?;
    if read?.config.embedding != OWN_ROW || !refused {
        return Err("the registry does not decide which layers are known".into());
    }
    println!("shardgraph_layers::LayerRegistry: a policy with a layer of this crate");
    Ok(())
}

/// The crates of the job `place`.
fn search_and_place() -> Result<(), Box<dyn Error>> {
    let search = Brkga::new(4, &Config::default())?;
    let outcome = search.run(&mut [|keys: &[f32]| ((keys[0] * 1e6) as u64, 0)])?;
    println!(
        "shardgraph_brkga::Brkga: {} evaluations",
        outcome.evaluations
    );

    let mut builder = GraphBuilder::new("two ops");
    builder.op(OpSpec::new("a", 3));
    builder.op(OpSpec::new("b", 4));
    let plan = place(
        &builder.build()?,
        &DeviceSet::uniform(2, None)?,
        &PlaceOptions::default(),
    )?;
    println!(
        "shardgraph_costgraph, shardgraph_regal: {} ns",
        plan.outcome.runtime_ns
    );
    Ok(())
}

/// The crates of the jobs `embed` and `agent`.
fn embed_and_act() -> Result<(), Box<dyn Error>> {
    let store = Store::from_edges(3, &[(0, 1), (1, 2)], 1, NodeLabels::numbers(3))?;
    let config = shardgraph_line::Config {
        dim: 8,
        epochs: 2,
        ..shardgraph_line::Config::default()
    };
    let trained = train(&store, &config, &Device::host(), &mut |_| {})?;
    println!(
        "shardgraph_line::train: {} nodes near one",
        trained.embedding.nearest(0, 2).len()
    );

    let greedy = EpsilonSchedule::Constant { epsilon: 0.0 };
    greedy.check()?;
    println!("shardgraph_components::EpsilonSchedule: {}", greedy.at(7));

    learn_and_play()
}

/// A small agent, from its settings to episodes without chance.
fn learn_and_play() -> Result<(), Box<dyn Error>> {
    let config = AgentConfig::from_toml(
        "steps = 400
         environment = { name = 'cartpole' }
         algorithm = { name = 'dqn', learning_starts = 200, network = { hidden = [16] } }",
    )?;
    let start = Start::New {
        config,
        folder: None,
    };
    let mut outcome = shardgraph_agents::train(&start, &Default::default(), &mut |_| ())?;
    if outcome.n_updates != 21 {
        return Err(format!("{} updates in 400 steps", outcome.n_updates).into());
    }
    let played = Evaluation::play(&mut outcome.agent, 5, 1)?;
    println!(
        "shardgraph_agents::train: {} updates, mean return {}",
        outcome.n_updates,
        played.mean_return()
    );
    Ok(())
}

/// The crate of the job `rgcn`.
fn classify() -> Result<(), Box<dyn Error>> {
    let (sources, targets) = (vec![0, 1, 2, 3], vec![4, 4, 5, 5]);
    let graph = RelationalGraph::new(6, 1, sources, vec![0; 4], targets)?.with_inverses()?;
    let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![(1, 0), (3, 1)], vec![])?;
    let config = shardgraph_rgcn::Config::default();
    let outcome =
        shardgraph_rgcn::train(&graph, &labels, &config, &Default::default(), &mut |_| {})?;
    println!(
        "shardgraph_rgcn::train: {} of 2 training nodes right",
        outcome.evaluation.train.n_right
    );
    Ok(())
}
