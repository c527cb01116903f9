//! Graph problems as environments of agents: an episode's graph, its marks and its features in flat
//! rows, and masks of the nodes that may be picked.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{Graph, ReadOptions, builtin, read_graph};
use shardgraph_random::KeyedRng;

use crate::episode::Episode;
use crate::error::Error;
use crate::functional::{Action, FunctionalEnvironment, Transition};
use crate::problem::Problem;
use crate::problems::problem_by_name;
use crate::space::Space;

/// The graphs of a [`GraphEnvironment`].
#[derive(Clone, Debug)]
pub enum GraphSource {
    /// A random graph, drawn anew for each episode.
    Generator(GeneratorSpec),
    /// One graph for all episodes.
    Fixed(Arc<Graph>),
}

impl FromStr for GraphSource {
    type Err = Error;

    /// Reads a generator such as `er:20:0.15`, the name of a built-in graph, or a graph file.
    fn from_str(text: &str) -> Result<GraphSource, Error> {
        let wrong_generator = match text.parse() {
            Ok(spec) => return Ok(GraphSource::Generator(spec)),
            Err(error) => error,
        };
        if let Some(graph) = builtin::by_name(text) {
            return Ok(GraphSource::Fixed(Arc::new(graph)));
        }
        let path = std::path::Path::new(text);
        let refused = |found: String| {
            let expected = "a generator such as er:20:0.15, a graph file, or a built-in graph";
            Error::mismatch("GraphSource", "graphs", expected.into(), found)
        };
        if !path.exists() && text.contains(':') {
            return Err(refused(wrong_generator.to_string()));
        }
        if !path.exists() {
            return Err(refused(format!("{text}, which is none of them")));
        }
        match read_graph(path, &ReadOptions::default()) {
            Ok(import) => Ok(GraphSource::Fixed(Arc::new(import.graph))),
            Err(error) => Err(refused(error.to_string())),
        }
    }
}

/// The treatment of an action that is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InvalidActions {
    /// The mask excludes it, and a step with it is an error.
    Masked,
    /// It changes nothing and earns 0: for agents that read no masks.
    Ignored,
}

/// A graph problem: each action puts a node in the answer and earns the problem's reward.
///
/// # Shapes
/// For n nodes, of which a network reads f features each ([`Problem::n_node_features`]), an
/// observation has n (n + f + 2) floats:
/// - `adjacency`, n x n: 1 for an edge of the residual graph, 0 for none. Of a weighted graph its
///   weight, as a share of the largest sum of absolute weights at a node.
/// - `in_answer`, n: 1 for a node of the answer.
/// - `node_features`, n x f, where f is not 0.
/// - `action_mask`, n: 1 for a node that may be picked.
///
/// # Complexity
/// O(n^2) a step, for the observation.
///
/// # Determinism
/// The graph of an episode follows from its key alone.
///
/// ```
/// use shardgraph_environments::{
///     Actions, Autoreset, FunctionalVector, GraphEnvironment, InvalidActions, MAXIMUM_CLIQUE,
///     VectorEnvironment,
/// };
///
/// let clique = GraphEnvironment::new(&MAXIMUM_CLIQUE, "er:12:0.5".parse()?, InvalidActions::Masked)?;
/// let mut games = FunctionalVector::new(clique, 8, Autoreset::SameStep, None)?;
/// games.reset(1);
/// assert_eq!(games.observations().len(), 8 * 12 * (12 + 2));
/// assert_eq!(games.step(Actions::Discrete(&[3; 8]))?.rewards, [1.0; 8]);
/// # Ok::<(), shardgraph_environments::Error>(())
/// ```
#[derive(Clone)]
pub struct GraphEnvironment {
    problem: &'static Problem,
    graphs: GraphSource,
    invalid_actions: InvalidActions,
    n_nodes: u32,
    is_weighted: bool,
}

/// More nodes than this are refused: an observation grows with their square.
const MAX_NODES: u32 = 2048;

/// Draws of a graph until one has a candidate. A generator that makes none in [`TRIAL_DRAWS`] is
/// refused, so that as many in a row do not happen.
const MAX_DRAWS: u32 = 1 << 16;
const TRIAL_DRAWS: u64 = 64;

impl GraphEnvironment {
    /// A problem on graphs that all have the same number of nodes.
    ///
    /// # Errors
    /// When the graphs have no node or more than 2,048, have weights that the problem does not read,
    /// or leave nothing to pick.
    pub fn new(
        problem: &'static Problem,
        graphs: GraphSource,
        invalid_actions: InvalidActions,
    ) -> Result<GraphEnvironment, Error> {
        let (n_nodes, is_weighted) = match &graphs {
            GraphSource::Generator(spec) => (spec.n_nodes(), false),
            GraphSource::Fixed(graph) => (graph.n_nodes(), graph.weights().is_some()),
        };
        let refused = |expected: String, given: String| {
            Err(Error::mismatch(
                "GraphEnvironment::new",
                "graphs",
                expected,
                given,
            ))
        };
        if !(1..=MAX_NODES).contains(&n_nodes) {
            return refused(format!("1 to {MAX_NODES} nodes"), n_nodes.to_string());
        }
        if is_weighted && !problem.reads_weights {
            let expected = format!("no weights, which {} does not read", problem.title);
            return refused(expected, "a weighted graph".to_owned());
        }
        let environment = GraphEnvironment {
            problem,
            graphs,
            invalid_actions,
            n_nodes,
            is_weighted,
        };
        if !environment.has_candidates()? {
            let expected = format!("a node that may be picked for {}", problem.title);
            return refused(expected, format!("none in {:?}", environment.graphs));
        }
        Ok(environment)
    }

    /// The problem.
    pub fn problem(&self) -> &'static Problem {
        self.problem
    }

    /// The number of nodes of every graph.
    pub fn n_nodes(&self) -> u32 {
        self.n_nodes
    }

    fn has_candidates(&self) -> Result<bool, Error> {
        match &self.graphs {
            GraphSource::Fixed(graph) => Ok(!self.problem.begin(Arc::clone(graph)).is_done()),
            GraphSource::Generator(spec) => {
                for seed in 0..TRIAL_DRAWS {
                    let graph = spec.graph(seed).map_err(|error| {
                        let expected = "a generator that can be run".to_owned();
                        let method = "GraphEnvironment::new";
                        Error::mismatch(method, "graphs", expected, error.to_string())
                    })?;
                    if !self.problem.begin(Arc::new(graph)).is_done() {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn n_features(&self) -> usize {
        self.problem.n_node_features
    }

    fn draw(&self, rng: &mut KeyedRng) -> Episode {
        let spec = match &self.graphs {
            GraphSource::Fixed(graph) => return self.problem.begin(Arc::clone(graph)),
            GraphSource::Generator(spec) => spec,
        };
        for _ in 0..MAX_DRAWS {
            let graph = spec.graph(rng.next_u64()).expect("the generator was tried");
            let episode = self.problem.begin(Arc::new(graph));
            if !episode.is_done() {
                return episode;
            }
        }
        panic!("{spec} makes graphs with something to pick: that was tried");
    }

    /// Writes the edges of the residual graph, in both directions.
    fn write_adjacency(&self, episode: &Episode, out: &mut [f32]) {
        out.fill(0.0);
        let residual = episode.state().residual();
        let (graph, removed) = (residual.graph(), residual.removed());
        let scale = if self.is_weighted {
            episode.state().edge_scale()
        } else {
            1.0
        };
        let rows = out.chunks_exact_mut(removed.len());
        for ((u, row), _) in (0..).zip(rows).zip(removed).filter(|(_, gone)| !**gone) {
            match graph.weights_of(u) {
                None => {
                    for &v in graph.neighbors(u) {
                        row[v as usize] = f32::from(!removed[v as usize]);
                    }
                }
                Some(weights) => {
                    for (&v, weight) in graph.neighbors(u).iter().zip(weights) {
                        row[v as usize] = f32::from(!removed[v as usize]) * weight * scale;
                    }
                }
            }
        }
    }

    /// Writes what follows the edges: marks, features, and the mask.
    fn write_nodes(&self, episode: &Episode, out: &mut [f32]) {
        let n = self.n_nodes as usize;
        let (in_answer, rest) = out.split_at_mut(n);
        let (features, mask) = rest.split_at_mut(n * self.n_features());
        for (out, &is_picked) in in_answer.iter_mut().zip(episode.in_answer()) {
            *out = f32::from(is_picked);
        }
        self.write_features(episode, features);
        let mut flags = [false; 64];
        for (part, out) in mask.chunks_mut(flags.len()).enumerate() {
            let flags = &mut flags[..out.len()];
            episode.write_candidates((part * 64) as u32, flags);
            for (out, &flag) in out.iter_mut().zip(flags.iter()) {
                *out = f32::from(flag);
            }
        }
    }

    fn write_features(&self, episode: &Episode, out: &mut [f32]) {
        if out.is_empty() {
            return;
        }
        let mut features = Vec::with_capacity(out.len());
        let scale = episode.state().edge_scale();
        for node in 0..self.n_nodes {
            episode.state().push_features(node, scale, &mut features);
        }
        out.copy_from_slice(&features);
    }
}

/// Without the problem's functions, whose addresses differ from run to run.
impl fmt::Debug for GraphEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut form = f.debug_struct("GraphEnvironment");
        form.field("problem", &self.problem.name);
        match &self.graphs {
            GraphSource::Generator(spec) => form.field("graphs", spec),
            GraphSource::Fixed(graph) => form.field("graphs", &(graph.n_nodes(), graph.n_edges())),
        };
        form.field("invalid_actions", &self.invalid_actions)
            .finish()
    }
}

/// An episode in progress, which a checkpoint keeps as its graph and its picks.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "SavedEpisode", into = "SavedEpisode")]
pub struct GraphState {
    problem: &'static Problem,
    episode: Episode,
    /// Nodes that were removed before the last pick.
    n_removed_before: usize,
}

impl GraphState {
    /// The episode: the graph, the picks, and the state of the problem.
    pub fn episode(&self) -> &Episode {
        &self.episode
    }
}

impl fmt::Debug for GraphState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphState")
            .field("problem", &self.problem.name)
            .field("picks", &self.episode.picks())
            .finish_non_exhaustive()
    }
}

/// The form of a [`GraphState`] in checkpoints.
#[derive(Serialize, Deserialize)]
struct SavedEpisode {
    problem: String,
    n_nodes: u32,
    edges: Vec<(u32, u32)>,
    /// Of each edge; `None` for a graph without weights.
    weights: Option<Vec<f32>>,
    picks: Vec<u32>,
}

impl From<GraphState> for SavedEpisode {
    fn from(state: GraphState) -> SavedEpisode {
        let graph = state.episode.state().residual().graph();
        let weight = |edge: (u32, u32, f32)| edge.2;
        let is_weighted = graph.weights().is_some();
        SavedEpisode {
            problem: state.problem.name.to_owned(),
            n_nodes: graph.n_nodes(),
            edges: graph.edges().collect(),
            weights: is_weighted.then(|| graph.weighted_edges().map(weight).collect()),
            picks: state.episode.picks().to_vec(),
        }
    }
}

impl TryFrom<SavedEpisode> for GraphState {
    type Error = String;

    fn try_from(saved: SavedEpisode) -> Result<GraphState, String> {
        let problem = problem_by_name(&saved.problem).map_err(|error| error.to_string())?;
        if !(1..=MAX_NODES).contains(&saved.n_nodes) {
            return Err(format!("{} nodes", saved.n_nodes));
        }
        let graph = match &saved.weights {
            None => Graph::from_edges(saved.n_nodes, &saved.edges),
            Some(weights) if weights.len() == saved.edges.len() => {
                let edges = saved.edges.iter().zip(weights);
                let edges: Vec<_> = edges.map(|(&(u, v), &weight)| (u, v, weight)).collect();
                Graph::from_weighted_edges(saved.n_nodes, &edges)
            }
            Some(_) => return Err("another number of weights than of edges".to_owned()),
        };
        let graph = graph.map_err(|error| error.to_string())?;
        let mut episode = problem.begin(Arc::new(graph));
        for &node in &saved.picks {
            episode.pick(node).map_err(|error| error.to_string())?;
        }
        let n_removed_before = 0;
        Ok(GraphState {
            problem,
            episode,
            n_removed_before,
        })
    }
}

impl FunctionalEnvironment for GraphEnvironment {
    type State = GraphState;

    fn observation_space(&self) -> Space {
        let (n, n_features) = (self.n_nodes as usize, self.n_features());
        let lowest = if self.is_weighted { -1.0 } else { 0.0 };
        let infinity = f32::INFINITY;
        let flags = || Space::boxed(&[n], 0.0, 1.0).expect("a node");
        let adjacency = Space::boxed(&[n, n], lowest, 1.0).expect("a node");
        let mut members = vec![("adjacency", adjacency), ("in_answer", flags())];
        if n_features > 0 {
            let features = Space::boxed(&[n, n_features], -infinity, infinity);
            members.push(("node_features", features.expect("a node")));
        }
        members.push(("action_mask", flags()));
        Space::dict(members).expect("names that differ")
    }

    fn action_space(&self) -> Space {
        Space::discrete(self.n_nodes).expect("a node")
    }

    fn initial(&self, rng: &mut KeyedRng) -> GraphState {
        GraphState {
            problem: self.problem,
            episode: self.draw(rng),
            n_removed_before: 0,
        }
    }

    fn transition(
        &self,
        state: &mut GraphState,
        action: Action<'_>,
        _rng: &mut KeyedRng,
    ) -> Transition {
        state.n_removed_before = state.episode.state().residual().removals().len();
        // A node that is no candidate comes here with `InvalidActions::Ignored` alone.
        let reward = state.episode.pick(action.number()).unwrap_or(0.0);
        Transition {
            reward,
            terminated: state.episode.is_done(),
        }
    }

    fn observe(&self, state: &GraphState, out: &mut [f32]) {
        let n = self.n_nodes as usize;
        let (adjacency, rest) = out.split_at_mut(n * n);
        self.write_adjacency(&state.episode, adjacency);
        self.write_nodes(&state.episode, rest);
    }

    /// Of an unweighted graph the removed nodes' edges alone change.
    fn observe_change(&self, state: &GraphState, out: &mut [f32]) {
        if self.is_weighted {
            return self.observe(state, out);
        }
        let n = self.n_nodes as usize;
        let (adjacency, rest) = out.split_at_mut(n * n);
        let residual = state.episode.state().residual();
        for &gone in &residual.removals()[state.n_removed_before..] {
            let row = gone as usize * n;
            adjacency[row..row + n].fill(0.0);
            for &neighbor in residual.graph().neighbors(gone) {
                adjacency[neighbor as usize * n + gone as usize] = 0.0;
            }
        }
        self.write_nodes(&state.episode, rest);
    }

    fn is_state(&self, state: &GraphState) -> bool {
        let graph = state.episode.state().residual().graph();
        let is_ours = match &self.graphs {
            GraphSource::Fixed(fixed) => **fixed == **graph,
            GraphSource::Generator(_) => graph.weights().is_none(),
        };
        is_ours && graph.n_nodes() == self.n_nodes && state.problem.name == self.problem.name
    }

    fn has_mask(&self) -> bool {
        self.invalid_actions == InvalidActions::Masked
    }

    fn mask(&self, state: &GraphState, out: &mut [bool]) {
        state.episode.write_candidates(0, out);
    }
}
