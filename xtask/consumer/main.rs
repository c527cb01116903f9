//! A crate outside the workspace that calls every library crate, as its users do. `cargo xtask ci` builds it against the
//! packaged crates and runs it.

use std::error::Error;

use shardgraph_agents::{AgentConfig, Evaluation, Start};
use shardgraph_autodiff::{Ctx, Params, Shape, ShapeCheck};
use shardgraph_brkga::{Brkga, Config};
use shardgraph_collectives::{Deadline, Op, threads};
use shardgraph_components::EpsilonSchedule;
use shardgraph_costgraph::{DeviceSet, GraphBuilder, OpSpec};
use shardgraph_device::Device;
use shardgraph_environments::{Environment, MinimumVertexCover};
use shardgraph_graph::builtin;
use shardgraph_layers::{Policy, PolicyShape};
use shardgraph_line::{NodeLabels, Store, train};
use shardgraph_regal::{PlaceOptions, place};
use shardgraph_replay::EpisodeMemory;
use shardgraph_rgcn::{Labels, RelationalGraph};
use shardgraph_runs::Checkpoint;
use shardgraph_shard::{Adjacency, Partition};
use shardgraph_solver::{SolveOptions, TrainedPolicy, solve};
use shardgraph_vertex_cover::{Rules, Watch, reduce};

fn main() -> Result<(), Box<dyn Error>> {
    let karate = builtin::by_name("karate").ok_or("karate is built in")?;
    let halves = Partition::by_nonzeros(&karate, 2);
    println!("shardgraph_graph::builtin: {} edges", karate.n_edges());
    println!("shardgraph_shard::Partition: rows {:?}", halves.range(1));

    let device = Device::host();
    let uploaded = device.upload(&[1.0, 2.0])?;
    println!(
        "shardgraph_device::Device: {:?}",
        device.download(&uploaded)?
    );

    for met in threads::run(2, |mut comm| comm.run(Op::Barrier, Deadline::default())) {
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

    let mut ctx = ShapeCheck::new(&params, 1);
    let x = ctx.input(Shape::new(2, 3), &[0.0; 6])?;
    println!("shardgraph_autodiff::Ctx: {:?}", ctx.shape(x));

    let mut memory = EpisodeMemory::new(10);
    memory.begin_episode(0);
    let mut episode = MinimumVertexCover::new(karate.clone().into());
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
        "shardgraph_runs::Checkpoint: {} bytes of step {}",
        received.file("replay")?.len(),
        received.step()
    );

    let reduction = reduce(&karate, &Rules::all(), &Watch::unlimited());
    println!(
        "shardgraph_vertex_cover::reduce: a cover of {} nodes",
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
    search_and_place()?;
    embed_and_act()?;
    classify()
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
