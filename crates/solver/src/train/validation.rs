//! The policy on graphs that it is not trained on, beside the best greedy answer; the best one so far is what a run gives.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use super::TrainConfig;
use super::dataset::{Source, of_size};
use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER, Problem, Sense, check_answer};
use crate::{Error, SolveOptions, TrainedPolicy, cover_by_independent_set, solve, solve_problem};

/// Graphs of a generator that are held back: eight of up to 250 nodes, two of more than 1000.
const NODES_OF_A_KIND: u32 = 2000;
/// Small graphs have larger ones of the same model beside them: policies are mostly used on larger graphs than they are trained on.
const TRANSFER_FROM: u32 = 100;
const TRANSFER_NODES: u32 = 250;
const TRANSFER_GRAPHS: u64 = 8;
/// What is not named by the caller has at most so many edges.
const MAX_EDGES: f64 = 1e6;

/// What a policy finds on the held-back graphs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The mean objective.
    pub objective: f64,
    /// The mean objective of the best greedy answer of each graph.
    pub baseline: f64,
    /// How much worse than that greedy answer the policy's is, as a mean of ratios over the graphs: 1 is equal, less is better.
    pub ratio: f64,
    /// That mean over the graphs of the kind where it is worst.
    #[serde(default)]
    pub worst_ratio: f64,
}

impl Evaluation {
    /// Whether a policy with this evaluation is chosen over one with another: where no kind of graphs falls behind greedy answers so far, and of those
    /// by the mean.
    pub(super) fn is_no_worse(&self, other: &Evaluation) -> bool {
        let key = |evaluation: &Evaluation| (evaluation.worst_ratio.max(1.0), evaluation.ratio);
        key(self) <= key(other)
    }
}

/// The best policy so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Best {
    pub(super) step: u64,
    pub(super) evaluation: Evaluation,
    pub(super) params: Vec<f32>,
}

/// Graphs that are held back, each with its best greedy objective.
#[derive(Clone)]
pub(super) struct Validation {
    problem: &'static Problem,
    graphs: Vec<HeldBack>,
}

/// A graph that is held back.
#[derive(Clone)]
struct HeldBack {
    /// The number of its kind.
    kind: usize,
    graph: Arc<Graph>,
    greedy: f64,
}

/// Graphs to come: made when the first evaluation is due.
#[derive(Clone)]
pub(super) struct Held {
    problem: &'static Problem,
    seed: u64,
    sources: Vec<(Source, u64)>,
    /// Steps between evaluations; 0 for none.
    pub(super) every: u64,
}

impl Held {
    /// The graphs of `valid`, or of the same kinds as the training graphs where it names none.
    pub(super) fn new(
        problem: &'static Problem,
        config: &TrainConfig,
        named: Vec<Source>,
        trained: impl Iterator<Item = Source>,
    ) -> Self {
        let mut held = Self {
            problem,
            seed: config.seed,
            sources: Vec::new(),
            every: 0,
        };
        if config.valid_steps == 0 {
            return held;
        }
        if named.is_empty() {
            trained.for_each(|source| held.add_kind(source));
        } else {
            let of_each = |source| (n_graphs(&source), source);
            held.sources = named
                .into_iter()
                .map(of_each)
                .map(|(n, s)| (s, n))
                .collect();
        }
        // An evaluation takes at most as many picks as the steps between them learn from states.
        let n_picks: u64 = (held.sources.iter())
            .map(|(source, n)| u64::from(source.n_nodes()) * n)
            .sum();
        let per_period = config.valid_steps * config.batch_size as u64;
        if !held.sources.is_empty() {
            held.every = config.valid_steps * n_picks.div_ceil(per_period).max(1);
        }
        held
    }

    /// Graphs of the same kind as a training graph. A graph file is its own measure: answers, not labels, are looked for in it.
    fn add_kind(&mut self, source: Source) {
        if source.n_edges() > MAX_EDGES {
            return;
        }
        let n_nodes = source.n_nodes();
        let larger = match &source {
            Source::Generator(spec) if n_nodes <= TRANSFER_FROM => {
                of_size(*spec, (10 * n_nodes).min(TRANSFER_NODES))
            }
            _ => None,
        };
        self.sources.push((source.clone(), n_graphs(&source)));
        self.sources
            .extend(larger.map(|spec| (Source::Generator(spec), TRANSFER_GRAPHS)));
    }

    /// Makes the graphs and their greedy answers.
    pub(super) fn make(&self) -> Result<Validation, Error> {
        let mut graphs = Vec::new();
        for (kind, (source, n)) in self.sources.iter().enumerate() {
            let mut seeds = KeyedRng::new(self.seed, "held-back graph", kind as u64);
            for _ in 0..*n {
                let graph = match source {
                    Source::File(graph) => Arc::clone(graph),
                    Source::Generator(spec) => Arc::new(spec.graph(seeds.next_u64())?),
                };
                if self.problem.begin(Arc::clone(&graph)).is_done() {
                    continue;
                }
                let greedy = best_greedy(self.problem, &graph)?;
                graphs.push(HeldBack {
                    kind,
                    graph,
                    greedy,
                });
            }
        }
        let problem = self.problem;
        Ok(Validation { problem, graphs })
    }
}

fn n_graphs(source: &Source) -> u64 {
    match source {
        Source::File(_) => 1,
        Source::Generator(spec) => {
            let n_nodes = spec.n_nodes().max(1);
            u64::from((NODES_OF_A_KIND / n_nodes).clamp(2, 8))
        }
    }
}

fn best_greedy(problem: &Problem, graph: &Graph) -> Result<f64, Error> {
    let mut best: Option<f64> = None;
    for baseline in problem.baselines {
        let found = check_answer(problem, graph, &(baseline.find)(graph))?.value();
        best = Some(match (best, problem.sense) {
            (None, _) => found,
            (Some(best), Sense::Minimise) => best.min(found),
            (Some(best), Sense::Maximise) => best.max(found),
        });
    }
    Ok(best.unwrap_or(0.0))
}

impl Validation {
    /// Solves each graph with the policy, one node a step, on this rank alone; none without graphs.
    ///
    /// # Determinism
    /// The same on every rank.
    pub(super) fn evaluate(&self, policy: &TrainedPolicy) -> Result<Option<Evaluation>, Error> {
        let n_graphs = self.graphs.len() as f64;
        let (mut objective, mut baseline, mut ratio) = (0.0, 0.0, 0.0);
        let mut worst_ratio = f64::NEG_INFINITY;
        for of_kind in self.graphs.chunk_by(|one, next| one.kind == next.kind) {
            let mut of_this_kind = 0.0;
            for HeldBack { graph, greedy, .. } in of_kind {
                let found = self.solve(policy, graph)?;
                objective += found / n_graphs;
                baseline += greedy / n_graphs;
                ratio += self.ratio(found, *greedy) / n_graphs;
                of_this_kind += self.ratio(found, *greedy) / of_kind.len() as f64;
            }
            worst_ratio = worst_ratio.max(of_this_kind);
        }
        let evaluation = Evaluation {
            objective,
            baseline,
            ratio,
            worst_ratio,
        };
        Ok((!self.graphs.is_empty()).then_some(evaluation))
    }

    fn solve(&self, policy: &TrainedPolicy, graph: &Arc<Graph>) -> Result<f64, Error> {
        let options = SolveOptions::default();
        if self.problem.name == MINIMUM_VERTEX_COVER.name {
            let adjacency = shardgraph_shard::Adjacency::from_graph((**graph).clone());
            let is_of_sets = policy.config.problem == MAXIMUM_INDEPENDENT_SET.name;
            let way = match is_of_sets {
                true => cover_by_independent_set,
                false => solve,
            };
            let found = way(&adjacency, policy, &options, &mut |_, _| ())?;
            return Ok(found.nodes.len() as f64);
        }
        let found = solve_problem(self.problem, graph, policy, &options, &mut |_, _| ())?;
        Ok(found.objective.value())
    }

    /// 1 where nothing is to be won.
    fn ratio(&self, found: f64, greedy: f64) -> f64 {
        let ratio = match self.problem.sense {
            Sense::Minimise => found / greedy,
            Sense::Maximise => greedy / found,
        };
        if ratio.is_finite() && ratio > 0.0 {
            ratio
        } else {
            1.0
        }
    }
}
