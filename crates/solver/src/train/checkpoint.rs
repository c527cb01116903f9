//! What of a training run is in its checkpoints: which tensors and which counters.

use std::path::Path;

use serde::{Deserialize, Serialize};
use shardgraph_device::Device;
use shardgraph_job::{Checkpoint, Tensors};

use super::TrainConfig;
use super::config::problem_of;
use super::dataset::InputHash;
use super::grid::SumsOverRanks;
use super::trainer::{Running, Trainer};
use super::validation::{Best, Evaluation};
use crate::Error;
use crate::problem::Problem;

const SCHEMA_VERSION: u32 = 1;
const STATE: &str = "state.safetensors";
const RUN: &str = "run.json";
/// The tensors with what Adam keeps for each parameter.
const ADAM_SLOTS: [&str; 2] = ["adam_first", "adam_second"];
/// The files of a checkpoint.
pub(super) const FILES: [&str; 2] = [STATE, RUN];

/// What `run.json` holds: the settings and the counters that key all random streams.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    config: TrainConfig,
    /// What the graph files held.
    inputs: Vec<InputHash>,
    step: u64,
    n_episodes: u64,
    adam_steps: u64,
    /// The running episode of the first environment; absent before the first.
    episode: Option<RunningEpisode>,
    /// Those of the other environments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_episodes: Vec<RunningEpisode>,
    /// The kind of device that the run computes on; before there were others, the host.
    #[serde(default = "host")]
    device: String,
    /// How floats are added over ranks; absent where none are, so that the bits depend on no rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sums: Option<SumsOverRanks>,
    /// The step of the best policy on the held-back graphs, and what it found there; its weights are the tensor `best`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    best: Option<(u64, Evaluation)>,
}

fn host() -> String {
    Device::host().kind().family().to_string()
}

impl Run {
    /// Whether this program can go on with the run from its checkpoint, to so many steps.
    fn check(&self, checkpoint: u64, steps: u64) -> Result<(), String> {
        if self.step != checkpoint {
            return Err(format!(
                "{RUN} is of step {}: give the folder back the name that it had",
                self.step
            ));
        }
        match steps < self.step {
            true => Err(format!(
                "the run is at step {} already: give at least that many steps, not {steps}",
                self.step
            )),
            false => Ok(()),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunningEpisode {
    graph_id: u64,
    picks: Vec<u32>,
}

/// The checkpoint of the present step.
pub(super) fn of_trainer(trainer: &Trainer) -> Result<Checkpoint, Error> {
    let mut running = running_episodes(trainer).into_iter();
    let run = Run {
        config: trainer.config.clone(),
        inputs: trainer.inputs().to_vec(),
        device: trainer.device().kind().family().to_string(),
        sums: trainer.sums.clone(),
        step: trainer.step,
        n_episodes: trainer.n_episodes,
        adam_steps: trainer.optimiser.n_steps(),
        episode: running.next(),
        other_episodes: running.collect(),
        best: (trainer.best.as_ref()).map(|best| (best.step, best.evaluation)),
    };
    let mut checkpoint = Checkpoint::new(trainer.step);
    checkpoint.add(STATE, state_bytes(trainer)?)?;
    checkpoint.add_json(RUN, SCHEMA_VERSION, &run)?;
    Ok(checkpoint)
}

/// In the order of the environments; none before the first step.
fn running_episodes(trainer: &Trainer) -> Vec<RunningEpisode> {
    let running = |running: &Running| {
        let episode = running.episode.as_ref()?;
        Some(RunningEpisode {
            graph_id: running.graph_id,
            picks: episode.picks().to_vec(),
        })
    };
    trainer.running.iter().filter_map(running).collect()
}

fn state_bytes(trainer: &Trainer) -> Result<Vec<u8>, Error> {
    let replay = trainer.memory.to_bytes();
    trainer.policy.params.sync()?;
    trainer.optimiser.sync()?;
    let mut tensors = Tensors::new();
    tensors.add_f32("params", trainer.policy.params.flat())?;
    tensors.add_f32("target", trainer.target.flat())?;
    if let Some(best) = &trainer.best {
        tensors.add_f32("best", &best.params)?;
    }
    for (name, slot) in ADAM_SLOTS.into_iter().zip(trainer.optimiser.slots()) {
        tensors.add_f32(name, slot)?;
    }
    for (name, bytes) in &replay {
        tensors.add_u8(name, bytes)?;
    }
    Ok(tensors.to_bytes()?)
}

/// The step that the run in a folder was to go to, by its newest checkpoint; none without one.
///
/// # Errors
/// A checkpoint that cannot be read.
pub fn target_steps(folder: &Path) -> Result<Option<u64>, Error> {
    let newest = Checkpoint::newest_files(folder, &[RUN])?;
    let run = newest.map(|newest| newest.json::<Run>(RUN, SCHEMA_VERSION));
    Ok(run.transpose()?.map(|run| run.config.steps))
}

/// Rebuilds the run; `steps` is the number of steps to go to now.
pub(super) fn trainer(
    checkpoint: &Checkpoint,
    steps: u64,
    device: &Device,
    problem: Option<&'static Problem>,
) -> Result<Trainer, Error> {
    let wrong = |why: String| Error::input(format!("{}: {why}", checkpoint.origin()));
    let run: Run = checkpoint.json(RUN, SCHEMA_VERSION)?;
    checkpoint.check_device(&run.device, device.kind().family())?;
    run.check(checkpoint.step(), steps).map_err(wrong)?;
    let mut config = run.config;
    config.steps = steps;
    let problem = problem_of(problem, &config.problem).map_err(|e| wrong(e.to_string()))?;
    let mut trainer = Trainer::new(problem, config)?;
    if let Some(changed) = trainer
        .inputs()
        .iter()
        .find(|input| !run.inputs.contains(input))
    {
        return Err(wrong(format!(
            "`{}` is not the graph that the run was started with: put that graph back, or start a new run",
            changed.source
        )));
    }
    trainer.sums = run.sums;
    trainer.step = run.step;
    trainer.n_episodes = run.n_episodes;
    restore_tensors(&mut trainer, checkpoint, run.adam_steps, run.best)?;
    let running: Vec<RunningEpisode> = run.episode.into_iter().chain(run.other_episodes).collect();
    if !running.is_empty() && running.len() != trainer.running.len() {
        return Err(wrong(format!(
            "{} running episodes for {} environments",
            running.len(),
            trainer.running.len()
        )));
    }
    for (environment, episode) in running.iter().enumerate() {
        trainer.restore_episode(environment, episode.graph_id, &episode.picks)?;
    }
    Ok(trainer)
}

/// Refuses to go on where the ranks would add floats in another way than the run did.
pub(super) fn check_sums(trainer: &Trainer, wanted: Option<&SumsOverRanks>) -> Result<(), Error> {
    let kept = trainer.sums.as_ref();
    match kept == wanted {
        true => Ok(()),
        false => Err(Error::input(format!(
            "the run was trained {}, and would go on {}, which rounds otherwise: resume it with the same --communication, --ranks and --batch-ranks",
            SumsOverRanks::shown(kept),
            SumsOverRanks::shown(wanted)
        ))),
    }
}

fn restore_tensors(
    trainer: &mut Trainer,
    checkpoint: &Checkpoint,
    adam_steps: u64,
    best: Option<(u64, Evaluation)>,
) -> Result<(), Error> {
    let wrong = |why: String| Error::input(format!("{}/{STATE}: {why}", checkpoint.origin()));
    let tensors = checkpoint.tensors(STATE)?;
    let n = trainer.policy.params.flat().len();
    let flat = |name: &str| {
        let values = tensors.f32s(name)?;
        match values.len() == n {
            true => Ok(values),
            false => Err(wrong(format!(
                "`{name}` has {} values, the model {n}",
                values.len()
            ))),
        }
    };
    trainer.policy.params.set_flat(&flat("params")?)?;
    trainer.target.set_flat(&flat("target")?)?;
    if let Some((step, evaluation)) = best {
        let params = flat("best")?;
        trainer.best = Some(Best {
            step,
            evaluation,
            params,
        });
    }
    let [first, second] = ADAM_SLOTS.map(flat);
    let restored = trainer
        .optimiser
        .restore_slots(adam_steps, &[first?, second?].concat());
    restored.map_err(|e| wrong(format!("`adam_first`, `adam_second`: {e}")))?;
    let part = |name: &str| Ok(tensors.u8s(name)?);
    trainer.memory.restore(part, wrong)
}
