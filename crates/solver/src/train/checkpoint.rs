//! Checkpoints: a folder with the run's whole state, complete once its MANIFEST is there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use shardgraph_device::{Device, DeviceKind};
use shardgraph_graph::{Graph, write_atomic};
use shardgraph_replay::EpisodeMemory;

use super::TrainConfig;
use super::trainer::Trainer;
use crate::Error;
use crate::fnv::fnv1a64;

const SCHEMA_VERSION: u32 = 1;
const STATE: &str = "state.safetensors";
const RUN: &str = "run.json";
const MANIFEST: &str = "MANIFEST";
/// Complete checkpoints that stay.
const KEPT: usize = 2;

/// What `run.json` holds: the settings and the counters that key all random streams.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    schema_version: u32,
    config: TrainConfig,
    /// What the graph files held.
    inputs: Vec<InputHash>,
    step: u64,
    n_episodes: u64,
    adam_steps: u64,
    /// The running episode; absent before the first.
    episode: Option<RunningEpisode>,
    /// The kind of device that the run computes on; before there were others, the host.
    #[serde(default = "host")]
    device: String,
}

fn host() -> String {
    kind_of(&Device::host())
}

/// What decides the last bits of a result: `host`, `emulated` or `cuda`, whichever GPU it is.
pub(super) fn kind_of(device: &Device) -> String {
    match device.kind() {
        DeviceKind::Cuda(_) => "cuda".to_string(),
        kind => kind.to_string(),
    }
}

impl Run {
    /// Whether this program can go on with the run, to so many steps, on the device.
    fn check(&self, steps: u64, device: &Device) -> Result<(), String> {
        if self.schema_version != SCHEMA_VERSION {
            return Err(format!(
                "version {} is not known here: this program reads version {SCHEMA_VERSION}",
                self.schema_version
            ));
        }
        if self.device != kind_of(device) {
            return Err(format!(
                "the run computes on `{0}`, and another kind of device rounds otherwise: resume it with --device {0}",
                self.device
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

/// One graph file of the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InputHash {
    pub(super) source: String,
    pub(super) fnv1a64: String,
}

/// One line a file in the MANIFEST.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    bytes: u64,
    fnv1a64: String,
}

/// Writes the checkpoint of the present step and removes old ones.
pub(super) fn write(folder: &Path, trainer: &Trainer) -> Result<(), Error> {
    let target = folder.join(format!("checkpoint-{:010}", trainer.step));
    fs::create_dir_all(&target).map_err(Error::io(&target))?;
    let run = Run {
        schema_version: SCHEMA_VERSION,
        config: trainer.config.clone(),
        inputs: trainer.inputs().to_vec(),
        device: kind_of(trainer.device()),
        step: trainer.step,
        n_episodes: trainer.n_episodes,
        adam_steps: trainer.adam.n_steps,
        episode: (trainer.n_episodes > 0).then(|| RunningEpisode {
            graph_id: trainer.graph_id,
            picks: trainer.running_picks().to_vec(),
        }),
    };
    let run = to_json(&run)?;
    let state = state_bytes(trainer)?;
    let files = [(STATE, &state[..]), (RUN, run.as_bytes())];
    let mut manifest = String::new();
    for (file, bytes) in files {
        let path = target.join(file);
        write_atomic(&path, |out| out.write_all(bytes)).map_err(Error::io(&path))?;
        let entry = Entry {
            file: file.to_string(),
            bytes: bytes.len() as u64,
            fnv1a64: format!("{:016x}", fnv1a64(bytes.iter().copied())),
        };
        manifest += &serde_json::to_string(&entry).map_err(no_json)?;
        manifest.push('\n');
    }
    let path = target.join(MANIFEST);
    write_atomic(&path, |out| out.write_all(manifest.as_bytes())).map_err(Error::io(&path))?;
    // The folder's own entry must be on disk before an older checkpoint goes.
    let parent = fs::File::open(folder).map_err(Error::io(folder))?;
    parent.sync_all().map_err(Error::io(folder))?;
    remove_old(folder, &target)
}

/// The newest complete checkpoint of a folder, if there is one.
pub(super) fn newest(folder: &Path) -> Result<Option<Checkpoint>, Error> {
    let paths = listed(folder)?.into_iter().rev();
    Ok(paths.map(|path| verified(&path)).find_map(Result::ok))
}

/// Folders with a checkpoint's name, by falling age, complete or not. Anything else in the folder is not ours.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let step = name.and_then(|name| name.strip_prefix("checkpoint-"));
        let is_step = |step: &str| step.len() == 10 && step.bytes().all(|b| b.is_ascii_digit());
        if step.is_some_and(is_step) && path.is_dir() {
            found.push(path);
        }
    }
    found.sort(); // ten digits: by name is by step
    Ok(found)
}

/// Removes what a kill has left incomplete, and complete checkpoints beyond the newest [`KEPT`]. `written` stays.
fn remove_old(folder: &Path, written: &Path) -> Result<(), Error> {
    let others = listed(folder)?.into_iter().filter(|path| path != written);
    let (complete, incomplete): (Vec<PathBuf>, Vec<PathBuf>) =
        others.partition(|path| path.join(MANIFEST).is_file());
    let n_old = complete.len().saturating_sub(KEPT - 1);
    for path in incomplete.iter().chain(&complete[..n_old]) {
        remove(path).map_err(Error::io(path))?;
    }
    Ok(())
}

/// The MANIFEST goes first: a kill in between leaves no checkpoint that promises files which are gone.
fn remove(checkpoint: &Path) -> io::Result<()> {
    match fs::remove_file(checkpoint.join(MANIFEST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir_all(checkpoint),
    }
}

/// The files of a checkpoint, checked against its MANIFEST.
fn verified(checkpoint: &Path) -> Result<Checkpoint, Error> {
    let path = checkpoint.join(MANIFEST);
    let manifest = fs::read_to_string(&path).map_err(Error::io(&path))?;
    let mut files = BTreeMap::new();
    for line in manifest.lines() {
        let entry: Entry = serde_json::from_str(line)
            .map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        let file = checkpoint.join(&entry.file);
        let bytes = fs::read(&file).map_err(Error::io(&file))?;
        let hash = format!("{:016x}", fnv1a64(bytes.iter().copied()));
        if bytes.len() as u64 != entry.bytes || hash != entry.fnv1a64 {
            return Err(Error::input(format!(
                "{}: the file is damaged: its MANIFEST says {} bytes with hash {}",
                file.display(),
                entry.bytes,
                entry.fnv1a64
            )));
        }
        files.insert(entry.file, bytes);
    }
    let mut file = |name| {
        let missing = || {
            Error::input(format!(
                "{}: the MANIFEST names no {name}",
                checkpoint.display()
            ))
        };
        files.remove(name).ok_or_else(missing)
    };
    Ok(Checkpoint {
        state: file(STATE)?,
        run: file(RUN)?,
        origin: checkpoint.display().to_string(),
    })
}

/// A complete checkpoint in memory, so that it can go to ranks that do not see its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Its folder, for messages.
    origin: String,
    /// The file `run.json`.
    run: Vec<u8>,
    /// The file `state.safetensors`.
    state: Vec<u8>,
}

impl Checkpoint {
    /// Rebuilds the run; `steps` is the number of steps to go to now.
    pub(super) fn trainer(&self, steps: u64, device: &Device) -> Result<Trainer, Error> {
        let wrong = |why: String| Error::input(format!("{}: {why}", self.origin));
        let run: Run =
            serde_json::from_slice(&self.run).map_err(|e| wrong(format!("{RUN}: {e}")))?;
        run.check(steps, device).map_err(wrong)?;
        let mut config = run.config;
        config.steps = steps;
        let mut trainer = Trainer::new(config)?;
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
        trainer.step = run.step;
        trainer.n_episodes = run.n_episodes;
        trainer.adam.n_steps = run.adam_steps;
        restore_tensors(&mut trainer, &self.state).map_err(wrong)?;
        if let Some(episode) = run.episode {
            trainer.restore_episode(episode.graph_id, &episode.picks)?;
        }
        Ok(trainer)
    }

    /// As bytes for another rank: each part after its length.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in [self.origin.as_bytes(), &self.run, &self.state] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Of the bytes that [`Checkpoint::to_bytes`] made.
    pub(super) fn from_bytes(mut bytes: &[u8]) -> Result<Self, Error> {
        let mut part = || -> Option<Vec<u8>> {
            let (n_bytes, rest) = bytes.split_first_chunk()?;
            let n_bytes = usize::try_from(u64::from_le_bytes(*n_bytes)).ok()?;
            let (part, rest) = rest.split_at_checked(n_bytes)?;
            bytes = rest;
            Some(part.to_vec())
        };
        let torn = || Error::internal("a checkpoint arrived incomplete");
        let origin = part().ok_or_else(torn)?;
        Ok(Self {
            origin: String::from_utf8_lossy(&origin).into_owned(),
            run: part().ok_or_else(torn)?,
            state: part().ok_or_else(torn)?,
        })
    }
}

fn restore_tensors(trainer: &mut Trainer, bytes: &[u8]) -> Result<(), String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| e.to_string())?;
    let n = trainer.policy.params.flat().len();
    let flat = |name: &str| {
        let values = f32_values(&tensors, name)?;
        match values.len() == n {
            true => Ok(values),
            false => Err(format!(
                "`{name}` has {} values, the model {n}",
                values.len()
            )),
        }
    };
    let set = |e: shardgraph_layers::autodiff::Error| e.to_string();
    trainer
        .policy
        .params
        .set_flat(&flat("params")?)
        .map_err(set)?;
    trainer.target.set_flat(&flat("target")?).map_err(set)?;
    trainer.adam.first = flat("adam_first")?;
    trainer.adam.second = flat("adam_second")?;
    let replay = tensors.tensor("replay").map_err(|e| e.to_string())?;
    trainer.memory = EpisodeMemory::from_bytes(replay.data()).map_err(|e| e.to_string())?;
    Ok(())
}

fn f32_values(tensors: &SafeTensors<'_>, name: &str) -> Result<Vec<f32>, String> {
    let view = tensors.tensor(name).map_err(|e| format!("`{name}`: {e}"))?;
    if view.dtype() != Dtype::F32 {
        return Err(format!("`{name}` is {:?}, expected F32", view.dtype()));
    }
    let value = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    Ok(view.data().chunks_exact(4).map(value).collect())
}

fn state_bytes(trainer: &Trainer) -> Result<Vec<u8>, Error> {
    let bytes =
        |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let tensors = [
        ("params", Dtype::F32, bytes(trainer.policy.params.flat())),
        ("target", Dtype::F32, bytes(trainer.target.flat())),
        ("adam_first", Dtype::F32, bytes(&trainer.adam.first)),
        ("adam_second", Dtype::F32, bytes(&trainer.adam.second)),
        ("replay", Dtype::U8, trainer.memory.to_bytes()),
    ];
    let failed = |e| Error::internal(format!("safetensors refused: {e}"));
    let mut views = Vec::new();
    for (name, dtype, bytes) in &tensors {
        let size = if *dtype == Dtype::F32 { 4 } else { 1 };
        let view = TensorView::new(*dtype, vec![bytes.len() / size], bytes).map_err(failed)?;
        views.push((*name, view));
    }
    safetensors::serialize(views, None).map_err(failed)
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(value).map_err(no_json)
}

fn no_json(error: serde_json::Error) -> Error {
    Error::internal(format!("a record without JSON form: {error}"))
}

/// What a graph holds, as one number; weights are not read in training.
pub(super) fn hash_graph(source: &str, graph: &Graph) -> InputHash {
    let words = graph.offsets().iter().flat_map(|x| x.to_le_bytes());
    let hash = fnv1a64(words.chain(graph.columns().iter().flat_map(|x| x.to_le_bytes())));
    InputHash {
        source: source.to_string(),
        fnv1a64: format!("{hash:016x}"),
    }
}
