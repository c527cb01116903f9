//! Figure 4b: how many observations a second a network of 4-120-84-2 acts on, by the way that its method is called.
//!
//! All four ways end in the same kernels: what lies between them is routing. Their values must agree bit by bit.

use serde::Deserialize;
use serde_json::json;
use shardgraph_agents::{Agent, AgentConfig, DqnAgent, RunOptions};
use shardgraph_autodiff::{Ctx, Eager, Params, Program, Recorder, Shape, Var};
use shardgraph_collectives::Comm;
use shardgraph_components::{EnvironmentSpaces, Initialiser, QNetwork, QNetworkShape};
use shardgraph_device::{Buffer, Device, MatMul, Timer};
use shardgraph_environments::{Autoreset, CartPoles};
use shardgraph_random::KeyedRng;

use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Observations in a call.
    environments: Vec<usize>,
    /// Observations in a repetition.
    states: usize,
    runs: usize,
}

const N_INPUTS: usize = 4;
const N_ACTIONS: usize = 2;
const VALUES: &str = "values";

pub(crate) fn run(_: &Context<'_>, request: &Request, out: &mut Report) -> Result<(), Failure> {
    for &n in &request.environments {
        let mut carts = CartPoles::new(n, Autoreset::SameStep)?;
        carts.reset(1);
        let seen = carts.observations().as_flattened();
        let timed = Timed {
            n,
            n_calls: request.states.div_ceil(n),
            runs: request.runs,
        };
        measure(&timed, seen, out)?;
    }
    Ok(())
}

fn measure(timed: &Timed, seen: &[f32], out: &mut Report) -> Result<(), Failure> {
    let device = Device::host();
    let (network, params) = network()?;

    let mut layers = ByHand::new(&params, timed.n, &device)?;
    timed.report(out, "by hand, the kernels alone", || {
        layers.run(&device, seen).map(drop)
    })?;
    let expected = layers.run(&device, seen)?.to_vec();

    let mut planned = Planned::new(&network, &params, timed.n, &device)?;
    timed.report(out, "planned program", || planned.run(seen).map(drop))?;
    check(timed, "planned", planned.run(seen)?, &expected)?;

    let mut comm = Comm::solo();
    let mut eager = || -> Result<Vec<f32>, Failure> {
        let mut ctx = Eager::new(&device, &mut comm, &params);
        let x = ctx.input(Shape::new(timed.n, N_INPUTS), seen)?;
        let values = network.q_values(&mut ctx, x)?;
        Ok(ctx.values(values)?)
    };
    timed.report(out, "define-by-run", || eager().map(drop))?;
    check(timed, "eager", &eager()?, &expected)?;

    let config = AgentConfig::named("cartpole-dqn").ok_or("no such settings")?;
    let mut agent = DqnAgent::of_config(&config, &RunOptions::default())?;
    agent.set_weights(params.trained())?;
    let (mut actions, mut stream) = (Vec::new(), KeyedRng::new(1, "figure 4b", 0));
    timed.report(
        out,
        "agent, with its checks and the choice of actions",
        || Ok(agent.act(seen, 0.0, &mut stream, &mut actions)?),
    )?;
    let best = |row: &[f32]| u32::from(row[1] > row[0]);
    let best: Vec<u32> = expected.chunks_exact(N_ACTIONS).map(best).collect();
    ensure(actions == best, || {
        format!(
            "the agent's actions for {} observations are not the best ones",
            timed.n
        )
    })
}

fn check(timed: &Timed, way: &str, values: &[f32], expected: &[f32]) -> Result<(), Failure> {
    let bits = |values: &[f32]| -> Vec<u32> { values.iter().map(|x| x.to_bits()).collect() };
    ensure(bits(values) == bits(expected), || {
        format!("{way}, {} observations: other values than by hand", timed.n)
    })
}

fn network() -> Result<(QNetwork, Params), Failure> {
    let carts = CartPoles::new(1, Autoreset::SameStep)?;
    let spaces = (carts.observation_space(), carts.action_space());
    let spaces = EnvironmentSpaces::new(&spaces.0, &spaces.1);
    let mut params = Params::new();
    let shape = QNetworkShape::default();
    let network = QNetwork::build(
        &mut params,
        "online",
        spaces,
        &shape,
        Initialiser::default(),
    )?;
    Ok((network, params))
}

/// So many calls with so many observations, timed so often.
struct Timed {
    n: usize,
    n_calls: usize,
    runs: usize,
}

impl Timed {
    fn report(
        &self,
        out: &mut Report,
        way: &str,
        mut call: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut rates = Vec::new();
        for run in 0..=self.runs {
            let timer = Timer::wall();
            for _ in 0..self.n_calls {
                call()?;
            }
            let rate = (self.n * self.n_calls) as f64 / timer.elapsed_s();
            if run > 0 {
                rates.push(rate); // the first warms caches up
            }
        }
        out.row(json!({"environments": self.n, "way": way, "states_per_s": rates}));
        Ok(())
    }
}

/// The network's method as a program whose weights stay where it runs.
struct Planned {
    program: Program,
    observations: Var,
    solo: Comm,
}

impl Planned {
    fn new(
        network: &QNetwork,
        params: &Params,
        n: usize,
        device: &Device,
    ) -> Result<Planned, Failure> {
        let mut record = Recorder::new(params, 0, 1);
        let shape = Shape::new(n, N_INPUTS);
        let observations = record.input(shape, &vec![0.0; shape.len()])?;
        let values = network.q_values(&mut record, observations)?;
        record.output(VALUES, values);
        let mut program = record.plan().resident().load(device)?;
        program.set_params(params)?;
        Ok(Planned {
            program,
            observations,
            solo: Comm::solo(),
        })
    }

    fn run(&mut self, seen: &[f32]) -> Result<&[f32], Failure> {
        self.program.set_input(self.observations, seen)?;
        self.program.run_again(&mut self.solo)?;
        Ok(self.program.output(VALUES)?)
    }
}

/// The same kernels in a loop without components: buffers that are there, and a call for each layer.
struct ByHand {
    observations: Buffer,
    layers: Vec<Layer>,
}

struct Layer {
    shape: MatMul,
    w: Buffer,
    b: Buffer,
    relu: bool,
    out: Buffer,
}

impl ByHand {
    fn new(params: &Params, n: usize, device: &Device) -> Result<ByHand, Failure> {
        let ids: Vec<_> = params.ids().collect();
        let mut layers = Vec::new();
        for (idx, pair) in ids.chunks_exact(2).enumerate() {
            let (w, b) = (pair[0], pair[1]);
            let shape = params.shape(w);
            layers.push(Layer {
                shape: MatMul {
                    rows: n,
                    inner: shape.rows,
                    cols: shape.cols,
                    transpose_a: false,
                    transpose_b: false,
                },
                w: device.upload(params.values_of(w))?,
                b: device.upload(params.values_of(b))?,
                relu: 2 * (idx + 1) < ids.len(),
                out: device.zeros(n * shape.cols)?,
            });
        }
        Ok(ByHand {
            observations: device.zeros(n * N_INPUTS)?,
            layers,
        })
    }

    fn run(&mut self, device: &Device, seen: &[f32]) -> Result<&[f32], Failure> {
        device.write(seen, &mut self.observations)?;
        let mut x = &self.observations;
        for layer in &mut self.layers {
            shardgraph_ops::linear(
                device,
                layer.shape,
                x,
                &layer.w,
                &layer.b,
                layer.relu,
                &mut layer.out,
            )?;
            x = &layer.out;
        }
        x.as_host()
            .ok_or_else(|| "the values are not on the host".into())
    }
}
