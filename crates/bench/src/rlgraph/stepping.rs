//! Stepping alone: how many steps a second a vector of environments takes, by its name, its size and the threads.
//!
//! Actions are drawn once, among those that masks allow, and taken again in the time: no choice of an action is in it. All threads must end in
//! the same observations.

use serde::Deserialize;
use serde_json::json;
use shardgraph_device::Timer;
use shardgraph_environments::space::SpaceKind;
use shardgraph_environments::{Actions, Autoreset, Threads, VectorEnvironment, named_environment};
use shardgraph_random::KeyedRng;

use super::peers;
use crate::measure::Context;
use crate::report::{Failure, Report, ensure};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// Names of environments.
    names: Vec<String>,
    /// How many take their steps together.
    environments: Vec<usize>,
    threads: Vec<usize>,
    /// Steps of all environments in a repetition, at least.
    steps: usize,
    runs: usize,
    /// Whether peers step cart and pole, too, for `--peer-python`.
    #[serde(default)]
    peers: bool,
}

const SEED: u64 = 1;

pub(crate) fn run(
    context: &Context<'_>,
    request: &Request,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    for name in &request.names {
        for &n in &request.environments {
            measure(request, name, n, out)?;
        }
    }
    let asked = json!({
        "task": "steps", "environments": request.environments, "threads": request.threads, "steps": request.steps, "runs": request.runs,
    });
    match request.peers {
        true => peers::run(options, &asked, out),
        false => Ok(()),
    }
}

/// The actions of all steps, a list for each.
enum Drawn {
    Discrete(Vec<Vec<u32>>),
    Continuous(Vec<Vec<f32>>),
}

impl Drawn {
    fn n_steps(&self) -> usize {
        match self {
            Drawn::Discrete(steps) => steps.len(),
            Drawn::Continuous(steps) => steps.len(),
        }
    }

    fn of_step(&self, step: usize) -> Actions<'_> {
        match self {
            Drawn::Discrete(steps) => Actions::Discrete(&steps[step]),
            Drawn::Continuous(steps) => Actions::Continuous(&steps[step]),
        }
    }
}

fn make(name: &str, n: usize) -> Result<Box<dyn VectorEnvironment>, Failure> {
    let mut vector = named_environment(name, &Default::default(), n, Autoreset::SameStep)?;
    vector.reset(SEED);
    Ok(vector)
}

fn draw(name: &str, n: usize, n_steps: usize) -> Result<Drawn, Failure> {
    let mut vector = make(name, n)?;
    let mut random = KeyedRng::new(SEED, "actions", 0);
    let SpaceKind::Discrete { n: n_actions } = *vector.action_space().kind() else {
        let width = vector.action_space().flat_width()?;
        let steps = (0..n_steps).map(|_| {
            let elements = (0..n * width).map(|_| 2.0 * random.uniform_f32() - 1.0);
            elements.collect()
        });
        return Ok(Drawn::Continuous(steps.collect()));
    };
    let mut steps = Vec::with_capacity(n_steps);
    for _ in 0..n_steps {
        let mut actions: Vec<u32> = (0..n).map(|_| random.below_u32(n_actions)).collect();
        if let Some(masks) = vector.action_mask() {
            for (action, mask) in actions
                .iter_mut()
                .zip(masks.chunks_exact(n_actions as usize))
            {
                // The next one that may be taken.
                let from = *action as usize;
                let others = (from..n_actions as usize).chain(0..from);
                *action = others
                    .into_iter()
                    .find(|&action| mask[action])
                    .unwrap_or(from) as u32;
            }
        }
        vector.step(Actions::Discrete(&actions))?;
        steps.push(actions);
    }
    Ok(Drawn::Discrete(steps))
}

fn measure(request: &Request, name: &str, n: usize, out: &mut Report) -> Result<(), Failure> {
    let drawn = draw(name, n, request.steps.div_ceil(n))?;
    let mut last: Option<Vec<f32>> = None;
    for &n_threads in &request.threads {
        let mut vector = make(name, n)?;
        vector.set_threads(&Threads::new(n_threads)?);
        let mut rates = Vec::new();
        for run in 0..=request.runs {
            vector.reset(SEED);
            let timer = Timer::wall();
            for step in 0..drawn.n_steps() {
                vector.step(drawn.of_step(step))?;
            }
            let rate = (n * drawn.n_steps()) as f64 / timer.elapsed_s();
            if run > 0 {
                rates.push(rate); // the first warms caches up
            }
        }
        let seen = vector.observations().to_vec();
        ensure(last.as_ref().is_none_or(|last| *last == seen), || {
            format!("{name}: {n_threads} threads end in other observations")
        })?;
        last = Some(seen);
        out.row(json!({
            "environment": name, "environments": n, "threads": n_threads, "steps_per_s": rates,
        }));
    }
    Ok(())
}
