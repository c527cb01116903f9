//! Environments: many carts with poles at once, and episodes of graph problems.

use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shardgraph_environments::{Autoreset, CartPoles, Episode, Error, problem_by_name};

use crate::errors::{IntoPyErr, Wrong};
use crate::graph::NativeGraph;

/// Carts with poles; the arrays of a step are the same at each step.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeCartPoles {
    carts: CartPoles,
    actions: Vec<u32>,
    observations: Py<PyArray2<f32>>,
    rewards: Py<PyArray1<f64>>,
    terminated: Py<PyArray1<bool>>,
    truncated: Py<PyArray1<bool>>,
}

/// Observations, rewards, and which episodes ended or were cut.
type StepArrays<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);

#[pymethods]
impl NativeCartPoles {
    #[new]
    fn new(py: Python<'_>, n_environments: usize, autoreset: &str) -> PyResult<NativeCartPoles> {
        let autoreset = match autoreset {
            "next-step" => Autoreset::NextStep,
            "disabled" => Autoreset::Disabled,
            other => {
                let message = format!("autoreset `{other}`: expected next-step or disabled");
                return Err(Wrong(message).into_py(py));
            }
        };
        let carts = CartPoles::new(n_environments, autoreset).map_err(|e| e.into_py(py))?;
        Ok(NativeCartPoles {
            carts,
            actions: vec![0; n_environments],
            observations: PyArray2::zeros(py, [n_environments, 4], false).unbind(),
            rewards: PyArray1::zeros(py, n_environments, false).unbind(),
            terminated: PyArray1::zeros(py, n_environments, false).unbind(),
            truncated: PyArray1::zeros(py, n_environments, false).unbind(),
        })
    }

    /// Begins an episode everywhere; the observations.
    fn reset<'py>(&mut self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyArray2<f32>>> {
        self.carts.reset(seed);
        self.copy_observations(py)?;
        Ok(self.observations.bind(py).clone())
    }

    /// Begins the next episode of the marked carts; the observations.
    fn reset_where<'py>(
        &mut self,
        py: Python<'py>,
        marks: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let done = self.carts.reset_where(marks.as_slice()?);
        done.map_err(|error| error.into_py(py))?;
        self.copy_observations(py)?;
        Ok(self.observations.bind(py).clone())
    }

    /// A step of every cart.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<StepArrays<'py>> {
        let actions = actions.as_slice()?;
        self.actions.clear();
        // What is no push stays none: 2 is refused with the cart's number.
        self.actions.extend(
            actions
                .iter()
                .map(|&action| u32::try_from(action).unwrap_or(2)),
        );
        let step = self.carts.step(&self.actions);
        let step = step.map_err(|error| error.into_py(py))?;
        let mut rewards = self.rewards.bind(py).readwrite();
        for (to, &from) in rewards.as_slice_mut()?.iter_mut().zip(&step.rewards) {
            *to = f64::from(from);
        }
        let flags = [
            (&self.terminated, &step.terminated),
            (&self.truncated, &step.truncated),
        ];
        for (to, from) in flags {
            to.bind(py)
                .readwrite()
                .as_slice_mut()?
                .copy_from_slice(from);
        }
        drop(rewards);
        self.copy_observations(py)?;
        Ok((
            self.observations.bind(py).clone(),
            self.rewards.bind(py).clone(),
            self.terminated.bind(py).clone(),
            self.truncated.bind(py).clone(),
        ))
    }
}

impl NativeCartPoles {
    fn copy_observations(&self, py: Python<'_>) -> PyResult<()> {
        let mut observations = self.observations.bind(py).readwrite();
        let flat = self.carts.observations().as_flattened();
        observations.as_slice_mut()?.copy_from_slice(flat);
        Ok(())
    }
}

/// An episode of a graph problem.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeEpisode {
    episode: Episode,
    n_nodes: u32,
}

#[pymethods]
impl NativeEpisode {
    #[new]
    fn new(py: Python<'_>, graph: &NativeGraph, problem: &str) -> PyResult<NativeEpisode> {
        let problem = problem_by_name(problem);
        let problem = problem.map_err(|error| Wrong(error.to_string()).into_py(py))?;
        Ok(NativeEpisode {
            episode: problem.begin(graph.graph.clone()),
            n_nodes: graph.graph.n_nodes(),
        })
    }

    /// Puts a candidate in the answer; the reward.
    fn pick(&mut self, py: Python<'_>, node: u32) -> PyResult<f32> {
        self.episode.pick(node).map_err(|error| error.into_py(py))
    }

    /// Whether the episode ended.
    #[getter]
    fn is_done(&self) -> bool {
        self.episode.is_done()
    }

    /// A mark for each node that may be picked.
    fn candidates<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let marks = (0..self.n_nodes).map(|node| self.episode.is_candidate(node));
        marks.collect::<Vec<bool>>().into_pyarray(py)
    }

    /// The picked nodes, in order.
    fn picks<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let picks = self.episode.picks().iter().map(|&node| i64::from(node));
        picks.collect::<Vec<i64>>().into_pyarray(py)
    }
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        // Of these classes every error is about an argument.
        PyValueError::new_err(self.to_string())
    }
}
