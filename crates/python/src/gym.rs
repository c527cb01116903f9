//! Vectors of environments, by name or of a graph problem, and the cart with a pole as Gymnasium begins it.

use std::sync::{Arc, Mutex};

use numpy::{IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use shardgraph_environments::{
    Actions, Autoreset, CartPole, ENVIRONMENTS, Environment as _, Error, FunctionalVector,
    GraphEnvironment, GraphSource, GraphState, InvalidActions, Threads, VectorEnvironment,
    named_environment, problem_by_name,
};

use crate::errors::{IntoPyErr, Wrong};
use crate::graph::NativeGraph;
use crate::job::detached;

/// Rewards, and which episodes ended or were cut, an element for each environment.
type StepFlags<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);

/// Observations, rewards, and which episodes ended or were cut.
type StepArrays<'py> = (
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);

/// An observation and the mask of its actions.
type FinalArrays<'py> = (
    Bound<'py, PyArray1<f32>>,
    Option<Bound<'py, PyArray1<bool>>>,
);

/// The mode of this name.
///
/// # Errors
/// ValueError that names all three.
fn autoreset_of(py: Python<'_>, name: &str) -> PyResult<Autoreset> {
    match name {
        "next-step" => Ok(Autoreset::NextStep),
        "same-step" => Ok(Autoreset::SameStep),
        "disabled" => Ok(Autoreset::Disabled),
        other => {
            let message = format!("autoreset `{other}`: expected next-step, same-step or disabled");
            Err(Wrong(message).into_py(py))
        }
    }
}

/// Action numbers as the environments take them.
///
/// # Errors
/// ValueError for a number below 0 or beyond 32 bits.
fn numbers(py: Python<'_>, actions: &[i64], out: &mut Vec<u32>) -> PyResult<()> {
    // Of all at once: the loop of vector instructions has no way out.
    let is_number = |action: i64| u32::try_from(action).is_ok();
    if !is_number(actions.iter().fold(0, |bits, action| bits | action)) {
        let wrong = actions.iter().position(|&action| !is_number(action));
        let idx = wrong.unwrap_or_default();
        let action = actions[idx];
        let message = format!("action {action} at {idx}: expected a number from 0");
        return Err(Wrong(message).into_py(py));
    }
    out.clear();
    out.extend(actions.iter().map(|&action| action as u32));
    Ok(())
}

/// Arrays of a step, which are the same at each step.
struct StepBuffers {
    rewards: Py<PyArray1<f64>>,
    terminated: Py<PyArray1<bool>>,
    truncated: Py<PyArray1<bool>>,
}

impl StepBuffers {
    fn new(py: Python<'_>, n_environments: usize) -> StepBuffers {
        StepBuffers {
            rewards: PyArray1::zeros(py, n_environments, false).unbind(),
            terminated: PyArray1::zeros(py, n_environments, false).unbind(),
            truncated: PyArray1::zeros(py, n_environments, false).unbind(),
        }
    }

    fn fill<'py>(
        &self,
        py: Python<'py>,
        rewards: &[f32],
        flags: (&[bool], &[bool]),
    ) -> PyResult<StepFlags<'py>> {
        let mut out = self.rewards.bind(py).readwrite();
        for (to, &from) in out.as_slice_mut()?.iter_mut().zip(rewards) {
            *to = f64::from(from);
        }
        let (terminated, truncated) = (self.terminated.bind(py), self.truncated.bind(py));
        copy_into(terminated, flags.0)?;
        copy_into(truncated, flags.1)?;
        Ok((
            self.rewards.bind(py).clone(),
            terminated.clone(),
            truncated.clone(),
        ))
    }
}

fn copy_into(array: &Bound<'_, PyArray1<bool>>, from: &[bool]) -> PyResult<()> {
    array.readwrite().as_slice_mut()?.copy_from_slice(from);
    Ok(())
}

/// Name, description and options of every environment that comes with the program.
#[pyfunction]
pub(crate) fn environments() -> Vec<(&'static str, &'static str, &'static str)> {
    let rows = ENVIRONMENTS.iter();
    rows.map(|known| (known.name, known.about, known.options))
        .collect()
}

/// Environments whose type is known where their state is asked for.
enum Vector {
    Named(Box<dyn VectorEnvironment>),
    Graphs(Box<FunctionalVector<GraphEnvironment>>),
}

impl Vector {
    fn get(&mut self) -> &mut dyn VectorEnvironment {
        match self {
            Vector::Named(vector) => vector.as_mut(),
            Vector::Graphs(vector) => vector.as_mut(),
        }
    }
}

/// Copies of an environment; the arrays of a step are the same at each step.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeVector {
    vector: Mutex<Vector>,
    actions: Vec<u32>,
    observations: Py<PyArray2<f32>>,
    mask: Option<Py<PyArray2<bool>>>,
    buffers: StepBuffers,
}

#[pymethods]
impl NativeVector {
    /// Copies of an environment of a name, with its options as JSON.
    #[staticmethod]
    fn named(
        py: Python<'_>,
        name: &str,
        options: &str,
        n_environments: usize,
        autoreset: &str,
    ) -> PyResult<NativeVector> {
        let options = serde_json::from_str(options)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let autoreset = autoreset_of(py, autoreset)?;
        let vector = detached(py, || {
            named_environment(name, &options, n_environments, autoreset)
        })?;
        Ok(NativeVector::of(py, Vector::Named(vector)))
    }

    /// Episodes of a graph problem on one graph, or each on its own graph of a generator. An action that is no candidate changes
    /// nothing, and episodes are truncated after two steps for each node.
    #[staticmethod]
    fn of_graphs(
        py: Python<'_>,
        problem: &str,
        graphs: &Bound<'_, PyAny>,
        n_environments: usize,
        autoreset: &str,
    ) -> PyResult<NativeVector> {
        let problem = problem_by_name(problem).map_err(|error| error.into_py(py))?;
        let graphs = source_of(py, graphs)?;
        let autoreset = autoreset_of(py, autoreset)?;
        let vector = detached(py, || {
            let environment = GraphEnvironment::new(problem, graphs, InvalidActions::Ignored)?;
            let step_limit = Some(2 * environment.n_nodes());
            FunctionalVector::new(environment, n_environments, autoreset, step_limit)
        })?;
        Ok(NativeVector::of(py, Vector::Graphs(Box::new(vector))))
    }

    /// Lets threads share the steps; their number changes no bit.
    fn set_threads(&mut self, py: Python<'_>, n_threads: usize) -> PyResult<()> {
        let threads = Threads::new(n_threads).map_err(|error| error.into_py(py))?;
        inner(&mut self.vector).get().set_threads(&threads);
        Ok(())
    }

    /// The spaces of an observation and of an action, as JSON.
    fn spaces(&mut self) -> PyResult<(String, String)> {
        let vector = inner(&mut self.vector).get();
        let json = |space| {
            let text = serde_json::to_string(&space);
            text.map_err(|error| PyValueError::new_err(error.to_string()))
        };
        Ok((
            json(vector.observation_space())?,
            json(vector.action_space())?,
        ))
    }

    /// Begins an episode everywhere; the observations.
    fn reset<'py>(&mut self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let vector = inner(&mut self.vector).get();
        detached(py, || {
            vector.reset(seed);
            Ok::<_, Wrong>(())
        })?;
        self.shown(py)
    }

    /// Begins the next episode of the marked environments; the observations.
    fn reset_where<'py>(
        &mut self,
        py: Python<'py>,
        marks: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (vector, marks) = (inner(&mut self.vector).get(), marks.as_slice()?);
        detached(py, || vector.reset_where(marks))?;
        self.shown(py)
    }

    /// A step of every environment by numbers of discrete actions.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<StepArrays<'py>> {
        numbers(py, actions.as_slice()?, &mut self.actions)?;
        let (vector, actions) = (inner(&mut self.vector).get(), self.actions.as_slice());
        detached(py, || vector.step(Actions::Discrete(actions)).map(|_| ()))?;
        self.stepped(py)
    }

    /// A step of every environment by the elements of boxes.
    fn step_continuous<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<StepArrays<'py>> {
        let (vector, actions) = (inner(&mut self.vector).get(), actions.as_slice()?);
        detached(py, || vector.step(Actions::Continuous(actions)).map(|_| ()))?;
        self.stepped(py)
    }

    /// A mark for each action that may be taken; absent where all always may.
    fn action_mask<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyArray2<bool>>>> {
        let Some(array) = &self.mask else {
            return Ok(None);
        };
        let array = array.bind(py).clone();
        if let Some(mask) = inner(&mut self.vector).get().action_mask() {
            array.readwrite().as_slice_mut()?.copy_from_slice(mask);
        }
        Ok(Some(array))
    }

    /// The last observation of the episode that ended within the last step (same-step only), and its mask where there are any.
    fn final_observation<'py>(
        &mut self,
        py: Python<'py>,
        index: usize,
    ) -> Option<FinalArrays<'py>> {
        let vector = inner(&mut self.vector).get();
        let row = (index < vector.n_environments()).then(|| vector.final_observation(index))??;
        let mask = vector.final_action_mask(index);
        let mask = mask.map(|mask| PyArray1::from_slice(py, mask));
        Some((PyArray1::from_slice(py, row), mask))
    }

    /// The graph of an environment's episode (graph problems only).
    fn graph(&mut self, index: usize) -> PyResult<NativeGraph> {
        let residual = self.state(index)?.episode().state().residual();
        Ok(NativeGraph::of(Arc::clone(residual.graph())))
    }

    /// The picked nodes of an environment's episode, in order (graph problems only).
    fn picks<'py>(&mut self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let picks = self.state(index)?.episode().picks();
        let picks: Vec<i64> = picks.iter().map(|&node| i64::from(node)).collect();
        Ok(picks.into_pyarray(py))
    }
}

/// A graph, or the generator, the built-in graph or the file of a text.
fn source_of(py: Python<'_>, graphs: &Bound<'_, PyAny>) -> PyResult<GraphSource> {
    if let Ok(graph) = graphs.cast::<NativeGraph>() {
        return Ok(GraphSource::Fixed(Arc::clone(&graph.get().graph)));
    }
    let text: String = graphs.extract()?;
    detached(py, || text.parse())
}

/// The environments, of which the caller has the only borrow.
fn inner(vector: &mut Mutex<Vector>) -> &mut Vector {
    match vector.get_mut() {
        Ok(vector) => vector,
        Err(poisoned) => poisoned.into_inner(),
    }
}

impl NativeVector {
    fn of(py: Python<'_>, mut vector: Vector) -> NativeVector {
        let environments = vector.get();
        let n = environments.n_environments();
        let mask = environments.action_mask().map(|mask| mask.len() / n);
        let n_features = environments.observations().len() / n;
        NativeVector {
            actions: Vec::new(),
            observations: PyArray2::zeros(py, [n, n_features], false).unbind(),
            mask: mask.map(|n_columns| PyArray2::zeros(py, [n, n_columns], false).unbind()),
            buffers: StepBuffers::new(py, n),
            vector: Mutex::new(vector),
        }
    }

    fn state(&mut self, index: usize) -> PyResult<&GraphState> {
        let vector = match inner(&mut self.vector) {
            Vector::Named(_) => return Err(PyTypeError::new_err("environments without graphs")),
            Vector::Graphs(vector) => vector,
        };
        let n = vector.n_environments();
        if index >= n {
            return Err(PyIndexError::new_err(format!(
                "no environment {index} of {n}"
            )));
        }
        Ok(vector.state(index))
    }

    fn shown<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let observations = self.observations.bind(py);
        let mut out = observations.readwrite();
        out.as_slice_mut()?
            .copy_from_slice(inner(&mut self.vector).get().observations());
        Ok(observations.clone())
    }

    fn stepped<'py>(&mut self, py: Python<'py>) -> PyResult<StepArrays<'py>> {
        let observations = self.shown(py)?;
        let step = inner(&mut self.vector).get().last_step();
        let flags = (step.terminated.as_slice(), step.truncated.as_slice());
        let (rewards, terminated, truncated) = self.buffers.fill(py, &step.rewards, flags)?;
        Ok((observations, rewards, terminated, truncated))
    }
}

/// One cart with a pole, whose episodes begin in a state that the caller draws.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeCartPole {
    cart: CartPole,
}

#[pymethods]
impl NativeCartPole {
    #[new]
    fn new() -> NativeCartPole {
        NativeCartPole {
            cart: CartPole::new(0, 0),
        }
    }

    /// Begins an episode in a state: position, velocity, angle, angular velocity; the observation.
    fn reset<'py>(&mut self, py: Python<'py>, motion: [f64; 4]) -> Bound<'py, PyArray1<f32>> {
        self.cart.begin_at(motion);
        PyArray1::from_slice(py, self.cart.state())
    }

    /// A push; the observation, the reward, and whether the episode ended or was cut.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        action: u32,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, f64, bool, bool)> {
        let step = self.cart.step(action).map_err(|error| error.into_py(py))?;
        let observation = PyArray1::from_slice(py, self.cart.state());
        let reward = f64::from(step.reward);
        Ok((observation, reward, step.terminated, step.truncated))
    }
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        // Of these classes every error is about an argument.
        PyValueError::new_err(self.to_string())
    }
}
