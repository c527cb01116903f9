//! Figure 4a: seconds from nothing to a program that can run, phase by phase, for one component and for a whole agent.

use std::any::Any;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};
use shardgraph_agents::{AgentConfig, Algorithm, DqnConfig, transition_layout};
use shardgraph_autodiff::{Ctx, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{
    DqnBatch, DqnLoss, EnvironmentSpaces, Error, Initialiser, Mlp, Optimiser, QNetwork,
    QNetworkShape,
};
use shardgraph_device::{Device, Timer};
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_replay::{NStepAssembler, Prioritization, PrioritizedMemory};

use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// How often each is built.
    runs: usize,
}

/// The name of a built program's result.
const LOSS: &str = "loss";

/// What a component computes with its examples.
type Loss = Box<dyn Fn(&mut dyn Ctx) -> Result<Var, Error>>;

/// An assembled component, before it is recorded.
struct Assembled {
    params: Params,
    /// Names of the parts that have no parameters of their own.
    others: &'static [&'static str],
    /// What the component computes: the loss of examples.
    loss: Loss,
    /// Those parts.
    _kept: Box<dyn Any>,
}

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    let config = AgentConfig::named("cartpole-dueling-double-dqn").ok_or("no such settings")?;
    let Algorithm::Dqn(dqn) = config.algorithm else {
        return Err("the settings are of another algorithm".into());
    };
    let mut memory_s = Vec::new();
    for _ in 0..request.runs {
        let timer = Timer::wall();
        let memory = memory(&dqn)?;
        memory_s.push(timer.elapsed_s());
        ensure(memory.is_empty(), || "a new memory has rows".to_owned())?;
    }
    out.row(json!({"what": "a prioritised memory", "components": 1, "total_s": memory_s}));
    measure("a network of 4-120-84-2", request.runs, out, &network)?;
    measure(
        "dueling double DQN with prioritised replay",
        request.runs,
        out,
        &|| agent(&dqn),
    )
}

/// Its storage is taken as rows come.
fn memory(dqn: &DqnConfig) -> Result<PrioritizedMemory, Failure> {
    let (layout, how) = (transition_layout(4)?, Prioritization::default());
    Ok(PrioritizedMemory::new(layout, dqn.replay.capacity, how)?)
}

fn network() -> Result<Assembled, Failure> {
    let mut params = Params::new();
    let network = Mlp::build(
        &mut params,
        "network",
        4,
        &[120, 84, 2],
        Initialiser::default(),
    )?;
    let loss = move |ctx: &mut dyn Ctx| {
        let x = ctx.input(Shape::new(128, 4), &[0.0; 128 * 4])?;
        let values = network.apply(ctx, x)?;
        let of_actions = ctx.sum_rows(values)?;
        let ones = ctx.input(Shape::new(2, 1), &[1.0; 2])?;
        Ok(ctx.matmul(of_actions, ones)?)
    };
    Ok(Assembled {
        params,
        others: &[],
        loss: Box::new(loss),
        _kept: Box::new(()),
    })
}

fn agent(dqn: &DqnConfig) -> Result<Assembled, Failure> {
    let carts = CartPoles::new(1, Autoreset::SameStep)?;
    let spaces = (carts.observation_space(), carts.action_space());
    let spaces = EnvironmentSpaces::new(&spaces.0, &spaces.1);
    let shape: &QNetworkShape = &dqn.network;
    let (mut params, initialiser) = (Params::new(), Initialiser::default());
    let online = QNetwork::build(&mut params, "online", spaces, shape, initialiser)?;
    params.freeze_rest();
    let target = QNetwork::build(&mut params, "target", spaces, shape, initialiser)?;
    params.copy_trained_to_frozen()?;
    let optimiser = Optimiser::new(dqn.optimiser, params.trained_len())?;
    let schedule = dqn.exploration.schedule(500_000);
    let folder = NStepAssembler::<[f32; 4]>::new(dqn.n_step, dqn.gamma);
    let (n, loss) = (dqn.batch_size, dqn_loss(dqn));
    let of_batch = move |ctx: &mut dyn Ctx| {
        let batch = DqnBatch::inputs(ctx, n, &online, true)?;
        Ok(loss.of_networks(ctx, &online, &target, &batch)?.loss)
    };
    Ok(Assembled {
        params,
        others: &[
            "loss",
            "prioritised memory",
            "optimiser",
            "epsilon schedule",
            "n-step folder",
        ],
        loss: Box::new(of_batch),
        _kept: Box::new((loss, memory(dqn)?, optimiser, schedule, folder)),
    })
}

fn dqn_loss(dqn: &DqnConfig) -> DqnLoss {
    DqnLoss {
        td_loss: dqn.td_loss,
        double: dqn.double,
    }
}

/// What the seconds of building are made of.
const PHASES: [&str; 5] = [
    "assembly_s",
    "shape_check_s",
    "record_and_gradient_s",
    "plan_s",
    "arena_s",
];

/// Builds it over and over.
fn measure(
    what: &str,
    runs: usize,
    out: &mut Report,
    assemble: &dyn Fn() -> Result<Assembled, Failure>,
) -> Result<(), Failure> {
    let device = Device::host();
    let (mut row, mut seconds) = (Value::Null, Vec::new());
    for _ in 0..runs {
        let (counts, phases) = build_once(&device, assemble)?;
        row = counts;
        seconds.push(phases);
    }
    row["what"] = what.into();
    for (idx, phase) in PHASES.into_iter().enumerate() {
        row[phase] = seconds.iter().map(|phases| phases[idx]).collect();
    }
    row["total_s"] = seconds.iter().map(|p| p.iter().sum::<f64>()).collect();
    out.row(row);
    Ok(())
}

/// Counts of what was built, and the seconds of each phase. What was built runs once, untimed.
fn build_once(
    device: &Device,
    assemble: &dyn Fn() -> Result<Assembled, Failure>,
) -> Result<(Value, [f64; 5]), Failure> {
    let timer = Timer::wall();
    let built = assemble()?;
    let assembled = timer.elapsed_s();
    (built.loss)(&mut Recorder::new(&built.params, 0, 1))?;
    let checked = timer.elapsed_s();
    let mut record = Recorder::new(&built.params, 0, 1);
    let loss = (built.loss)(&mut record)?;
    record.output(LOSS, loss);
    record.output_param_gradient(loss)?;
    let recorded = timer.elapsed_s();
    let plan = record.plan();
    let planned = timer.elapsed_s();
    let counts = json!({
        "components": n_components(&built), "operations": plan.n_recorded(), "kernels": plan.n_steps(),
        "arena_bytes": plan.arena_bytes(),
    });
    let loading = Timer::wall();
    let mut program = plan.load(device)?;
    let loaded = loading.elapsed_s();
    check_runs(&mut program, &built.params)?;
    let phases = [
        assembled,
        checked - assembled,
        recorded - checked,
        planned - recorded,
        loaded,
    ];
    Ok((counts, phases))
}

/// A component for each scope of the parameters, and those without parameters.
fn n_components(built: &Assembled) -> usize {
    let mut scopes = BTreeSet::new();
    for id in built.params.ids() {
        let name = built.params.name(id);
        let ends = name.match_indices('/').map(|(end, _)| end);
        scopes.extend(ends.map(|end| name[..end].to_owned()));
    }
    scopes.len() + built.others.len()
}

fn check_runs(program: &mut Program, params: &Params) -> Result<(), Failure> {
    program.run(&mut Comm::solo(), params)?;
    let (loss, gradient) = (program.read(LOSS)?, program.param_gradient()?);
    let numbers = loss.iter().chain(&gradient);
    ensure(numbers.into_iter().all(|x| x.is_finite()), || {
        format!("the loss {loss:?} or its gradient is not finite")
    })
}
