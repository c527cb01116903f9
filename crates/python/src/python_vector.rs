//! Environments of Python as agents train in them: `shardgraph.agents` flattens spaces and rows, this file holds them.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{PyArrayMethods as _, PyReadonlyArray1};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use shardgraph_environments::space::Space;
use shardgraph_environments::{Actions, Error, VectorEnvironment, VectorStep};

use crate::job::{Interrupted, Stop};

/// What the environments of a run and its caller share.
#[derive(Default)]
pub(crate) struct Shared {
    error: Mutex<Option<PyErr>>,
    stop: Mutex<Stop>,
}

impl Shared {
    /// Lets environments refuse steps once `stop` is set.
    pub(crate) fn watch(&self, stop: &Stop) {
        *locked(&self.stop) = Arc::clone(stop);
    }

    /// Keeps the first exception.
    pub(crate) fn keep(&self, error: PyErr) {
        locked(&self.error).get_or_insert(error);
    }

    /// The first exception, once.
    pub(crate) fn take(&self) -> Option<PyErr> {
        locked(&self.error).take()
    }

    fn is_stopped(&self) -> bool {
        locked(&self.stop).load(Ordering::Relaxed)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A vector of environments behind a Python object with `spaces`, `reset` and `step`.
pub(crate) struct PythonVector {
    object: Py<PyAny>,
    n_environments: usize,
    observation_space: Space,
    action_space: Space,
    shared: Arc<Shared>,
    rows: Rows,
    step: VectorStep,
}

/// What the environments show.
#[derive(Default)]
struct Rows {
    observations: Vec<f32>,
    mask: Option<Vec<bool>>,
    /// Of each environment, in the rows of those whose episodes ended within the last step.
    final_observations: Vec<f32>,
    final_mask: Option<Vec<bool>>,
    has_final: Vec<bool>,
}

/// Observations and mask, after a reset.
type Shown<'py> = (
    PyReadonlyArray1<'py, f32>,
    Option<PyReadonlyArray1<'py, bool>>,
);

/// Observations and mask, rewards, ended, cut, and the last observations and masks of what ended.
type Stepped<'py> = (
    Shown<'py>,
    PyReadonlyArray1<'py, f32>,
    PyReadonlyArray1<'py, bool>,
    PyReadonlyArray1<'py, bool>,
    Option<Shown<'py>>,
);

impl PythonVector {
    /// Calls `make` with the number of environments, and resets them with seed 0.
    ///
    /// # Errors
    /// A mismatch that names the exception, which `shared` keeps.
    pub(crate) fn new(
        make: &Py<PyAny>,
        n_environments: usize,
        shared: &Arc<Shared>,
    ) -> Result<PythonVector, Error> {
        let begun: PyResult<_> = Python::attach(|py| {
            let object = make.call1(py, (n_environments,))?;
            let spaces: (String, String) = object.call_method0(py, "spaces")?.extract(py)?;
            Ok((object, spaces))
        });
        let (object, spaces) = begun.map_err(|error| keep(shared, error))?;
        let space = |text: &str| {
            serde_json::from_str::<Space>(text)
                .map_err(|error| mismatch("the space", "one with a form here", error.to_string()))
        };
        let mut vector = PythonVector {
            observation_space: space(&spaces.0)?,
            action_space: space(&spaces.1)?,
            object,
            n_environments,
            shared: Arc::clone(shared),
            rows: Rows::default(),
            step: VectorStep::default(),
        };
        vector.begin(0)?;
        Ok(vector)
    }

    fn begin(&mut self, seed: u64) -> Result<(), Error> {
        let n = self.n_environments;
        let shown: PyResult<_> = Python::attach(|py| {
            let shown = self.object.bind(py).call_method1("reset", (seed,))?;
            let (observations, mask) = shown.extract::<Shown<'_>>()?;
            Ok((observations.to_vec()?, flags(mask)?))
        });
        let (observations, mask) = shown.map_err(|error| keep(&self.shared, error))?;
        self.rows = Rows {
            final_observations: vec![0.0; observations.len()],
            has_final: vec![false; n],
            observations,
            mask,
            final_mask: None,
        };
        self.step = VectorStep {
            rewards: vec![0.0; n],
            terminated: vec![false; n],
            truncated: vec![false; n],
            reset: vec![false; n],
        };
        Ok(())
    }

    fn take(&mut self, actions: Actions<'_>) -> PyResult<()> {
        if self.shared.is_stopped() {
            return Err(PyKeyboardInterrupt::new_err(()));
        }
        Python::attach(|py| {
            let actions: Bound<'_, PyAny> = match actions {
                Actions::Discrete(numbers) => {
                    let wide: Vec<i64> = numbers.iter().map(|&number| i64::from(number)).collect();
                    numpy::PyArray1::from_vec(py, wide).into_any()
                }
                Actions::Continuous(elements) => {
                    numpy::PyArray1::from_slice(py, elements).into_any()
                }
            };
            let found = self.object.bind(py).call_method1("step", (actions,))?;
            let found = found.extract::<Stepped<'_>>()?;
            let ((observations, mask), rewards, terminated, truncated, last) = found;
            self.step.rewards = rewards.to_vec()?;
            self.step.terminated = terminated.to_vec()?;
            self.step.truncated = truncated.to_vec()?;
            self.rows.observations = observations.to_vec()?;
            self.rows.mask = flags(mask)?;
            self.rows.has_final = (0..self.n_environments)
                .map(|idx| self.step.ended(idx))
                .collect();
            if let Some((observations, mask)) = last {
                self.rows.final_observations = observations.to_vec()?;
                self.rows.final_mask = flags(mask)?;
            }
            Ok(())
        })
    }

    /// The row of environment `idx` where its episode ended within the last step.
    fn last<'a, T>(&self, all: &'a [T], idx: usize) -> Option<&'a [T]> {
        let width = all.len() / self.n_environments;
        let row = idx * width..(idx + 1) * width;
        self.rows.has_final[idx].then(|| &all[row])
    }
}

fn flags(array: Option<PyReadonlyArray1<'_, bool>>) -> PyResult<Option<Vec<bool>>> {
    Ok(match array {
        Some(array) => Some(array.to_vec()?),
        None => None,
    })
}

fn mismatch(what: &str, expected: &str, given: String) -> Error {
    Error::Mismatch {
        method: "environment of Python",
        what: what.to_owned(),
        expected: expected.to_owned(),
        given,
    }
}

/// Keeps the first exception, and says it.
fn keep(shared: &Shared, error: PyErr) -> Error {
    let given = error.to_string();
    shared.keep(error);
    mismatch("the environment", "no exception", given)
}

impl fmt::Debug for PythonVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PythonVector")
            .field("n_environments", &self.n_environments)
            .finish_non_exhaustive()
    }
}

impl VectorEnvironment for PythonVector {
    fn n_environments(&self) -> usize {
        self.n_environments
    }

    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }

    fn action_space(&self) -> Space {
        self.action_space.clone()
    }

    fn reset(&mut self, seed: u64) {
        if self.begin(seed).is_err() {
            // There is no error to return: the caller of the training finds the exception in `shared`.
            std::panic::resume_unwind(Box::new(Interrupted));
        }
    }

    fn reset_where(&mut self, _marks: &[bool]) -> Result<(), Error> {
        let given = "reset_where".to_owned();
        Err(mismatch(
            "the call",
            "episodes that begin within the step that ends one",
            given,
        ))
    }

    fn step(&mut self, actions: Actions<'_>) -> Result<&VectorStep, Error> {
        match self.take(actions) {
            Ok(()) => Ok(&self.step),
            Err(error) => Err(keep(&self.shared, error)),
        }
    }

    fn last_step(&self) -> &VectorStep {
        &self.step
    }

    fn observations(&self) -> &[f32] {
        &self.rows.observations
    }

    fn final_observation(&self, idx: usize) -> Option<&[f32]> {
        self.last(&self.rows.final_observations, idx)
    }

    fn action_mask(&self) -> Option<&[bool]> {
        self.rows.mask.as_deref()
    }

    fn final_action_mask(&self, idx: usize) -> Option<&[bool]> {
        self.last(self.rows.final_mask.as_deref()?, idx)
    }

    fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&mut self, _bytes: &[u8]) -> Result<(), Error> {
        Err(mismatch(
            "the run to go on with",
            "one in an environment that comes with the program",
            "one in an environment of Python, whose state no checkpoint has".to_owned(),
        ))
    }
}
