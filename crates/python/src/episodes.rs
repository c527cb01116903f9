//! Vectors of episodes of a graph problem, on random graphs or on one graph.

use std::sync::Arc;

use numpy::{
    IntoPyArray as _, PyArray1, PyArray2, PyArray3, PyArrayMethods as _, PyReadonlyArray1,
};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use shardgraph_environments::{Autoreset, Episode, Problem, problem_by_name};
use shardgraph_graph::Graph;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_random::mix;

use crate::errors::{IntoPyErr as _, Wrong};
use crate::graph::NativeGraph;
use crate::gym::{StepBuffers, autoreset_of, numbers};
use crate::job::detached;

/// What episodes are played on.
enum Source {
    /// A graph of this model for each episode.
    Generator(GeneratorSpec),
    /// One graph.
    Graph(Arc<Graph>),
}

impl Source {
    fn graph(&self, key: u64) -> Result<Arc<Graph>, Wrong> {
        match self {
            Source::Graph(graph) => Ok(Arc::clone(graph)),
            Source::Generator(model) => match model.graph(key) {
                Ok(graph) => Ok(Arc::new(graph)),
                Err(error) => Err(Wrong(error.to_string())),
            },
        }
    }
}

/// One environment of the vector.
struct Slot {
    episode: Episode,
    graph: Arc<Graph>,
    /// The number of the episode, from 0.
    number: u32,
    n_steps: usize,
    is_over: bool,
}

/// Everything of a vector but Python's arrays.
struct Episodes {
    problem: &'static Problem,
    source: Source,
    autoreset: Autoreset,
    seed: u64,
    n_nodes: usize,
    slots: Vec<Slot>,
    /// The slots whose graph is another one than at the last look.
    begun: Vec<usize>,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    in_answer: Vec<i8>,
    mask: Vec<i8>,
    /// The end of the episodes that ended within the last step ([`Autoreset::SameStep`] only).
    last: Vec<Option<End>>,
}

/// The end of an episode.
#[derive(Clone)]
struct End {
    graph: Arc<Graph>,
    in_answer: Vec<i8>,
    mask: Vec<i8>,
}

impl Episodes {
    /// The graph's key of an episode: bijective in (index, number) for each seed.
    fn key(&self, index: usize, number: u32) -> u64 {
        mix(mix(self.seed) ^ mix((index as u64) << 32 | u64::from(number)))
    }

    fn slot(&self, index: usize, number: u32) -> Result<Slot, Wrong> {
        let graph = self.source.graph(self.key(index, number))?;
        if graph.n_nodes() as usize != self.n_nodes {
            let (found, expected) = (graph.n_nodes(), self.n_nodes);
            return Err(Wrong(format!(
                "a graph of {found} nodes beside one of {expected}: an environment has one number of nodes"
            )));
        }
        let episode = self.problem.begin(Arc::clone(&graph));
        Ok(Slot {
            is_over: episode.is_done(),
            episode,
            graph,
            number,
            n_steps: 0,
        })
    }

    fn begin(&mut self, index: usize, number: u32) -> Result<(), Wrong> {
        self.slots[index] = self.slot(index, number)?;
        self.begun.push(index);
        self.show(index);
        Ok(())
    }

    fn reset(&mut self, seed: u64) -> Result<(), Wrong> {
        self.seed = seed;
        (0..self.slots.len()).try_for_each(|index| self.begin(index, 0))
    }

    /// Writes the marks of the answer and of the candidates.
    fn show(&mut self, index: usize) {
        let row = index * self.n_nodes..(index + 1) * self.n_nodes;
        let episode = &self.slots[index].episode;
        let in_answer = &mut self.in_answer[row.clone()];
        in_answer.fill(0);
        for &node in episode.picks() {
            in_answer[node as usize] = 1;
        }
        for (node, mark) in (0..).zip(&mut self.mask[row]) {
            *mark = i8::from(episode.is_candidate(node));
        }
    }

    fn step(&mut self, actions: &[u32]) -> Result<(), Wrong> {
        let n = self.slots.len();
        if actions.len() != n {
            let given = actions.len();
            return Err(Wrong(format!(
                "{given} actions for {n} environments: expected one each"
            )));
        }
        if self.autoreset == Autoreset::Disabled
            && let Some(index) = self.slots.iter().position(|slot| slot.is_over)
        {
            return Err(Wrong(format!(
                "the episode of environment {index} is over: reset begins the next"
            )));
        }
        for (index, &action) in actions.iter().enumerate() {
            self.advance(index, action)?;
        }
        Ok(())
    }

    fn advance(&mut self, index: usize, action: u32) -> Result<(), Wrong> {
        (self.rewards[index], self.last[index]) = (0.0, None);
        (self.terminated[index], self.truncated[index]) = (false, false);
        let slot = &mut self.slots[index];
        let next = slot.number.wrapping_add(1);
        if slot.is_over {
            // With `Autoreset::NextStep` alone: the step begins the next episode.
            return self.begin(index, next);
        }
        slot.n_steps += 1;
        let is_picked = (action as usize) < self.n_nodes && slot.episode.is_candidate(action);
        if is_picked {
            let picked = slot.episode.pick(action);
            self.rewards[index] = picked.map_err(|error| Wrong(error.to_string()))?;
        }
        self.terminated[index] = slot.episode.is_done();
        self.truncated[index] = !slot.episode.is_done() && slot.n_steps >= 2 * self.n_nodes;
        slot.is_over = self.terminated[index] || self.truncated[index];
        let is_over = slot.is_over;
        if is_picked {
            self.show(index);
        }
        if is_over && self.autoreset == Autoreset::SameStep {
            let row = index * self.n_nodes..(index + 1) * self.n_nodes;
            self.last[index] = Some(End {
                graph: Arc::clone(&self.slots[index].graph),
                in_answer: self.in_answer[row.clone()].to_vec(),
                mask: self.mask[row].to_vec(),
            });
            return self.begin(index, next);
        }
        Ok(())
    }
}

/// The adjacency, the marks of the answer and those of the candidates.
type Observations<'py> = (
    Bound<'py, PyArray3<i8>>,
    Bound<'py, PyArray2<i8>>,
    Bound<'py, PyArray2<i8>>,
);

/// The same of one environment.
type FinalObservation<'py> = (
    Bound<'py, PyArray2<i8>>,
    Bound<'py, PyArray1<i8>>,
    Bound<'py, PyArray1<i8>>,
);

/// Observations, rewards, and which episodes ended or were cut.
type StepArrays<'py> = (
    Observations<'py>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<bool>>,
    Bound<'py, PyArray1<bool>>,
);

/// Episodes of a graph problem side by side; the arrays of a step are the same at each step.
#[pyclass(module = "shardgraph._shardgraph")]
pub(crate) struct NativeEpisodes {
    episodes: Episodes,
    actions: Vec<u32>,
    adjacency: Py<PyArray3<i8>>,
    in_answer: Py<PyArray2<i8>>,
    mask: Py<PyArray2<i8>>,
    buffers: StepBuffers,
}

#[pymethods]
impl NativeEpisodes {
    /// Episodes on one graph, or for each on a random one of a generator's specification.
    #[new]
    fn new(
        py: Python<'_>,
        problem: &str,
        graphs: &Bound<'_, PyAny>,
        n_environments: usize,
        autoreset: &str,
    ) -> PyResult<NativeEpisodes> {
        let problem = problem_by_name(problem);
        let problem = problem.map_err(|error| Wrong(error.to_string()).into_py(py))?;
        let source = source_of(py, graphs)?;
        if n_environments == 0 || u32::try_from(n_environments).is_err() {
            let message = format!("{n_environments} environments: expected 1 to 4294967295");
            return Err(PyValueError::new_err(message));
        }
        let first = source.graph(0).map_err(|wrong| wrong.into_py(py))?;
        let n = first.n_nodes() as usize;
        let mut episodes = Episodes {
            problem,
            source,
            autoreset: autoreset_of(py, autoreset)?,
            seed: 0,
            n_nodes: n,
            slots: Vec::new(),
            begun: Vec::new(),
            rewards: vec![0.0; n_environments],
            terminated: vec![false; n_environments],
            truncated: vec![false; n_environments],
            in_answer: vec![0; n_environments * n],
            mask: vec![0; n_environments * n],
            last: vec![None; n_environments],
        };
        detached(py, || {
            let slots = (0..n_environments).map(|index| episodes.slot(index, 0));
            episodes.slots = slots.collect::<Result<_, Wrong>>()?;
            episodes.begun = (0..n_environments).collect();
            (0..n_environments).for_each(|index| episodes.show(index));
            Ok::<_, Wrong>(())
        })?;
        Ok(NativeEpisodes {
            episodes,
            actions: Vec::new(),
            adjacency: PyArray3::zeros(py, [n_environments, n, n], false).unbind(),
            in_answer: PyArray2::zeros(py, [n_environments, n], false).unbind(),
            mask: PyArray2::zeros(py, [n_environments, n], false).unbind(),
            buffers: StepBuffers::new(py, n_environments),
        })
    }

    #[getter]
    fn n_nodes(&self) -> usize {
        self.episodes.n_nodes
    }

    /// Begins an episode everywhere; the observations.
    fn reset<'py>(&mut self, py: Python<'py>, seed: u64) -> PyResult<Observations<'py>> {
        let episodes = &mut self.episodes;
        detached(py, || episodes.reset(seed))?;
        self.shown(py)
    }

    /// Begins the next episode of the marked environments; the observations.
    fn reset_where<'py>(
        &mut self,
        py: Python<'py>,
        marks: PyReadonlyArray1<'py, bool>,
    ) -> PyResult<Observations<'py>> {
        let (episodes, marks) = (&mut self.episodes, marks.as_slice()?);
        if marks.len() != episodes.slots.len() {
            let (given, n) = (marks.len(), episodes.slots.len());
            let message = format!("{given} marks for {n} environments: expected one each");
            return Err(PyValueError::new_err(message));
        }
        detached(py, || {
            let marked = marks.iter().enumerate().filter(|(_, mark)| **mark);
            marked.map(|(index, _)| index).try_for_each(|index| {
                let number = episodes.slots[index].number.wrapping_add(1);
                episodes.begin(index, number)
            })
        })?;
        self.shown(py)
    }

    /// A step of every environment: a candidate goes into the answer, another action changes nothing.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray1<'py, i64>,
    ) -> PyResult<StepArrays<'py>> {
        numbers(py, actions.as_slice()?, &mut self.actions)?;
        let (episodes, actions) = (&mut self.episodes, self.actions.as_slice());
        detached(py, || episodes.step(actions))?;
        let observations = self.shown(py)?;
        let episodes = &self.episodes;
        let flags = (
            episodes.terminated.as_slice(),
            episodes.truncated.as_slice(),
        );
        let (rewards, terminated, truncated) = self.buffers.fill(py, &episodes.rewards, flags)?;
        Ok((observations, rewards, terminated, truncated))
    }

    /// The graph of an environment's episode.
    fn graph(&self, index: usize) -> PyResult<NativeGraph> {
        Ok(NativeGraph::of(Arc::clone(&self.slot(index)?.graph)))
    }

    /// The picked nodes of an environment's episode, in order.
    fn picks<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let picks = self.slot(index)?.episode.picks().iter();
        let picks: Vec<i64> = picks.map(|&node| i64::from(node)).collect();
        Ok(picks.into_pyarray(py))
    }

    /// The last observation of the episode that ended within the last step (same-step only).
    fn final_observation<'py>(
        &self,
        py: Python<'py>,
        index: usize,
    ) -> PyResult<Option<FinalObservation<'py>>> {
        let Some(end) = self.episodes.last.get(index).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let n = self.episodes.n_nodes;
        let adjacency = PyArray2::zeros(py, [n, n], false);
        write_adjacency(&end.graph, adjacency.readwrite().as_slice_mut()?);
        Ok(Some((
            adjacency,
            PyArray1::from_slice(py, &end.in_answer),
            PyArray1::from_slice(py, &end.mask),
        )))
    }
}

/// Writes a matrix of n x n marks.
fn write_adjacency(graph: &Graph, matrix: &mut [i8]) {
    let n = graph.n_nodes() as usize;
    matrix.fill(0);
    for (u, v) in graph.edges() {
        matrix[u as usize * n + v as usize] = 1;
        matrix[v as usize * n + u as usize] = 1;
    }
}

impl NativeEpisodes {
    fn slot(&self, index: usize) -> PyResult<&Slot> {
        let slots = &self.episodes.slots;
        slots.get(index).ok_or_else(|| {
            PyIndexError::new_err(format!("no environment {index} of {}", slots.len()))
        })
    }

    /// Python's arrays, after what changed was written to them.
    fn shown<'py>(&mut self, py: Python<'py>) -> PyResult<Observations<'py>> {
        let episodes = &mut self.episodes;
        let (n, adjacency) = (episodes.n_nodes, self.adjacency.bind(py));
        let mut out = adjacency.readwrite();
        let out = out.as_slice_mut()?;
        for index in episodes.begun.drain(..) {
            let matrix = &mut out[index * n * n..(index + 1) * n * n];
            write_adjacency(&episodes.slots[index].graph, matrix);
        }
        let arrays = [
            (&self.in_answer, &episodes.in_answer),
            (&self.mask, &episodes.mask),
        ];
        for (array, from) in arrays {
            let array = array.bind(py);
            array.readwrite().as_slice_mut()?.copy_from_slice(from);
        }
        Ok((
            adjacency.clone(),
            self.in_answer.bind(py).clone(),
            self.mask.bind(py).clone(),
        ))
    }
}

fn source_of(py: Python<'_>, graphs: &Bound<'_, PyAny>) -> PyResult<Source> {
    if let Ok(graph) = graphs.cast::<NativeGraph>() {
        return Ok(Source::Graph(Arc::clone(&graph.get().graph)));
    }
    let text: String = graphs.extract()?;
    if let Some(graph) = shardgraph_graph::builtin::by_name(&text) {
        return Ok(Source::Graph(Arc::new(graph)));
    }
    let model = text.parse::<GeneratorSpec>();
    Ok(Source::Generator(model.map_err(|error| error.into_py(py))?))
}
