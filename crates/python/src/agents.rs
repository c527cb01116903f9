//! Agents: trained by their settings in environments of the program or of Python, evaluated, and asked for actions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use shardgraph_agents::{
    ActionBuffer, Agent, AgentConfig, Choice, Environments, Error, Evaluation, RunOptions, Seen,
    Start, TrainProgress, train,
};
use shardgraph_random::KeyedRng;

use crate::errors::{IntoPyErr, Wrong, by_class};
use crate::job::{check_stop, detached, run};
use crate::python_vector::{PythonVector, Shared};
use crate::settings::overlay;

type BoxedAgent = Box<dyn Agent + Send>;

/// What a training is asked for; the keywords of `agents.train`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TrainRequest {
    /// A name, a file, or JSON.
    settings: String,
    /// JSON of settings in the place of those.
    overrides: String,
    folder: Option<PathBuf>,
    resume: bool,
    ranks: u32,
}

/// Names of the settings that come with the program, and what they are for.
#[pyfunction]
pub(crate) fn agent_settings() -> Vec<(&'static str, &'static str)> {
    AgentConfig::names().collect()
}

/// Trains an agent; it, and a dictionary of what the run was like.
///
/// `make` makes environments of Python; without it the settings name them. `callback` is called with a dictionary about every hundred
/// steps, and ends the training by an exception.
#[pyfunction]
pub(crate) fn train_agent<'py>(
    py: Python<'py>,
    request: TrainRequest,
    make: Option<Py<PyAny>>,
    callback: Option<Py<PyAny>>,
) -> PyResult<(NativeAgent, Bound<'py, PyDict>)> {
    let shared = Arc::<Shared>::default();
    let trained = run(py, |stop| {
        shared.watch(stop);
        let start = start_of(&request)?;
        let config = start.config()?;
        let options = RunOptions {
            n_ranks: request.ranks,
            environments: environments_of(make, &shared)?,
            ..RunOptions::default()
        };
        let mut progress = |report: &TrainProgress| {
            if let Some(callback) = &callback
                && let Err(error) = call(callback, report)
            {
                shared.keep(error);
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            check_stop(stop);
        };
        let trained = train(&start, &options, &mut progress)?;
        Ok::<_, AgentError>((trained, config, options))
    });
    if let Some(error) = shared.take() {
        return Err(error);
    }
    let (trained, config, options) = trained?.value;
    let dict = PyDict::new(py);
    dict.set_item("n_steps", trained.n_steps)?;
    dict.set_item("n_episodes", trained.n_episodes)?;
    dict.set_item("n_updates", trained.n_updates)?;
    dict.set_item("mean_return", trained.mean_return)?;
    dict.set_item("lost", trained.lost)?;
    let agent = NativeAgent::new(trained.agent, config, &options, shared);
    Ok((agent.map_err(|error| error.into_py(py))?, dict))
}

fn start_of(request: &TrainRequest) -> Result<Start, AgentError> {
    match (&request.folder, request.resume) {
        (Some(folder), true) => Ok(Start::Resumed {
            folder: folder.clone(),
        }),
        (None, true) => Err(Wrong("resume: expected a folder to go on with, `out`".into()).into()),
        (folder, false) => Ok(Start::New {
            config: config_of(&request.settings, &request.overrides)?,
            folder: folder.clone(),
        }),
    }
}

/// The settings of a name, of a file or of JSON, with `overrides` in their place.
fn config_of(settings: &str, overrides: &str) -> Result<AgentConfig, AgentError> {
    let json = |error: serde_json::Error| Wrong(format!("agent settings: {error}"));
    let named = AgentConfig::named(settings);
    let mut whole = match named {
        Some(config) => serde_json::to_value(config).map_err(json)?,
        None if Path::new(settings).is_file() => {
            serde_json::to_value(AgentConfig::read(Path::new(settings))?).map_err(json)?
        }
        None if settings.starts_with('{') => serde_json::from_str(settings).map_err(json)?,
        None => {
            let names: Vec<&str> = AgentConfig::names().map(|(name, _)| name).collect();
            let names = names.join(", ");
            let message = format!(
                "settings `{settings}`: expected a dictionary, a .toml or .json file, or one of {names}"
            );
            return Err(Wrong(message).into());
        }
    };
    let overrides: Value = serde_json::from_str(overrides).map_err(json)?;
    overlay(&mut whole, overrides);
    Ok(AgentConfig::from_json(&whole.to_string())?)
}

fn environments_of(
    make: Option<Py<PyAny>>,
    shared: &Arc<Shared>,
) -> Result<Option<Environments>, AgentError> {
    let Some(make) = make else {
        return Ok(None);
    };
    let shared = Arc::clone(shared);
    let environments =
        Environments::new(move |n| Ok(Box::new(PythonVector::new(&make, n, &shared)?)));
    Ok(Some(environments?))
}

fn call(callback: &Py<PyAny>, report: &TrainProgress) -> PyResult<()> {
    Python::attach(|py| {
        let dict = PyDict::new(py);
        dict.set_item("step", report.step)?;
        dict.set_item("stop_at", report.stop_at)?;
        dict.set_item("mean_return", report.mean_return)?;
        dict.set_item("newly_lost", report.newly_lost.clone())?;
        callback.call1(py, (dict,))?;
        Ok(())
    })
}

/// A trained agent.
#[pyclass(frozen, module = "shardgraph._shardgraph")]
pub(crate) struct NativeAgent {
    inner: Mutex<Inner>,
}

struct Inner {
    agent: BoxedAgent,
    config: AgentConfig,
    environments: Environments,
    /// Environments of the episodes that it plays now.
    n_environments: usize,
    n_acted: u64,
    shared: Arc<Shared>,
}

#[pymethods]
impl NativeAgent {
    /// The agent of a run's folder.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf, make: Option<Py<PyAny>>) -> PyResult<NativeAgent> {
        let shared = Arc::<Shared>::default();
        let loaded = detached(py, || {
            let start = Start::Resumed {
                folder: folder.clone(),
            };
            let config = start.config()?;
            let options = RunOptions {
                environments: environments_of(make, &shared)?,
                ..RunOptions::default()
            };
            let mut agent = config.agent(&options)?;
            agent.import(&folder.join("weights.safetensors"))?;
            Ok::<_, AgentError>(NativeAgent::new(
                agent,
                config,
                &options,
                Arc::clone(&shared),
            )?)
        });
        shared.take().map_or(loaded, Err)
    }

    /// The settings, as JSON.
    fn config(&self, py: Python<'_>) -> PyResult<String> {
        let text = py.detach(|| serde_json::to_string(&self.locked().config));
        text.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Forgets what it remembers: the next rows are the first of episodes in so many environments.
    fn begin_episodes(&self, py: Python<'_>, n_environments: usize) -> PyResult<()> {
        detached(py, || self.locked().begin(n_environments))
    }

    /// An action for each row: of the largest value or the likeliest, or drawn as training draws them.
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray1<'py, f32>,
        mask: Option<PyReadonlyArray1<'py, bool>>,
        is_sampled: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let observations = observations.as_slice()?;
        let mask = mask.as_ref().map(PyReadonlyArray1::as_slice).transpose()?;
        let seen = Seen { observations, mask };
        let actions = detached(py, || self.locked().act(seen, is_sampled))?;
        Ok(match actions {
            ActionBuffer::Discrete(numbers) => {
                let wide: Vec<i64> = numbers.into_iter().map(i64::from).collect();
                wide.into_pyarray(py).into_any()
            }
            ActionBuffer::Continuous(elements) => elements.into_pyarray(py).into_any(),
        })
    }

    /// The returns of episodes that are played with its weights as they are.
    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        n_episodes: usize,
        seed: u64,
        is_sampled: bool,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let choice = match is_sampled {
            true => Choice::Sampled,
            false => Choice::Greedy,
        };
        let mut exception = None;
        let done = run(py, |stop| {
            let inner = &mut *self.locked();
            inner.shared.watch(stop);
            let agent = inner.agent.as_mut();
            let played = Evaluation::play(agent, &inner.environments, n_episodes, choice, seed);
            inner.n_environments = 0;
            exception = inner.shared.take();
            Ok::<_, Error>(played?.returns)
        });
        if let Some(error) = exception {
            return Err(error);
        }
        Ok(done?.value.into_pyarray(py))
    }

    /// The trained weights, one parameter behind the other.
    fn weights<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let weights = py.detach(|| self.locked().agent.weights().to_vec());
        weights.into_pyarray(py)
    }

    /// A hash of the weights' bits.
    fn weights_hash(&self, py: Python<'_>) -> String {
        let hash = py.detach(|| self.locked().agent.weights_hash());
        format!("{hash:016x}")
    }

    /// Writes the weights as a safetensors file.
    fn export(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        detached(py, || self.locked().agent.export(&path))
    }
}

impl NativeAgent {
    fn new(
        agent: BoxedAgent,
        config: AgentConfig,
        options: &RunOptions,
        shared: Arc<Shared>,
    ) -> Result<NativeAgent, Error> {
        Ok(NativeAgent {
            inner: Mutex::new(Inner {
                environments: options.environments_of(&config)?,
                agent,
                config,
                n_environments: 0,
                n_acted: 0,
                shared,
            }),
        })
    }

    /// Taken without the GIL alone: who holds it may wait for the GIL, in an environment of Python.
    fn locked(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn begin(&mut self, n_environments: usize) -> Result<(), Error> {
        self.n_environments = n_environments;
        self.agent.begin_episodes(n_environments)
    }

    /// Rows of another number than before are the first of their episodes.
    fn act(&mut self, seen: Seen<'_>, is_sampled: bool) -> Result<ActionBuffer, Error> {
        let n = seen.observations.len() / self.environments.spaces().n_features().max(1);
        if n != self.n_environments {
            self.begin(n)?;
        }
        let mut actions = ActionBuffer::default();
        if is_sampled {
            let mut stream = KeyedRng::new(self.config.seed, "python actions", self.n_acted);
            self.n_acted += 1;
            self.agent.act_sampled(seen, &mut stream, &mut actions)?;
        } else {
            self.agent.act_greedily(seen, &mut actions)?;
        }
        Ok(actions)
    }
}

/// An argument or the agents' own error.
pub(crate) enum AgentError {
    Argument(Wrong),
    Agent(Error),
}

impl From<Wrong> for AgentError {
    fn from(wrong: Wrong) -> AgentError {
        AgentError::Argument(wrong)
    }
}

impl From<Error> for AgentError {
    fn from(error: Error) -> AgentError {
        AgentError::Agent(error)
    }
}

impl IntoPyErr for AgentError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            AgentError::Argument(wrong) => wrong.into_py(py),
            AgentError::Agent(error) => error.into_py(py),
        }
    }
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
