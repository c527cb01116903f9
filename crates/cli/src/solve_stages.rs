//! The stages of `shardgraph solve` beside the policy: reductions before it, local search after it, and what both do without it.

use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use shardgraph_classical::Budget;
use shardgraph_classical::vertex_cover::{
    RuleCounts, Rules, SearchOptions, edge_greedy, improve, reduce_and_peel,
};
use shardgraph_collectives::Timeout;
use shardgraph_device::{DeviceKind, Timer};
use shardgraph_environments::baselines::max_degree_greedy;
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_solver::problem::Problem;
use shardgraph_solver::train::Preset;
use shardgraph_solver::{ReducedSolution, Solution, check_cover, has_classical_search};

use crate::duration;
use crate::exit::BadInput;
use crate::solve::Method;

/// The flags of these stages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reductions and local search")]
pub(crate) struct StageArgs {
    /// Shrink the graph by exact rules, in turn with the policy's picks; beside it the policy alone
    #[arg(long, conflicts_with = "weighted")]
    reduce: bool,
    /// Apply the exact rules that only remove nodes inside the policy's episode, after each step; beside it the policy alone
    #[arg(long)]
    reduce_inside: bool,
    /// Time of a local search: one from the cover found, one from nothing; the answer is never worse than
    /// either
    #[arg(long, value_name = "DURATION", value_parser = duration::positive_seconds)]
    local_search: Option<f64>,
    /// Steps of a local search, in place of its time: the covers are then the same on every machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..u64::MAX))]
    local_search_steps: Option<u64>,
    /// Seed of the local search [default: 1]
    #[arg(long, value_name = "SEED")]
    local_search_seed: Option<u64>,
    /// Show other methods beside the answer: greedy covers, and the local search from them with the same
    /// budget
    #[arg(long)]
    compare: bool,
}

impl StageArgs {
    /// Refuses what the stages cannot do.
    pub(crate) fn check(
        &self,
        problem: &str,
        deadline_of_processes: Option<Timeout>,
        n_graphs: usize,
    ) -> anyhow::Result<()> {
        let is_wanted = self.reduce || self.reduce_inside || self.is_polished();
        if is_wanted && problem != "mvc" {
            let why = format!(
                "--reduce, --reduce-inside and --local-search of --method policy are for vertex covers (mvc), not for `{problem}`"
            );
            return Err(BadInput(why).into());
        }
        if self.local_search_seed.is_some() && !self.is_polished() {
            let why = "--local-search-seed is for local search: it needs --local-search or --local-search-steps";
            return Err(BadInput(why.into()).into());
        }
        // The other processes wait while the first polishes.
        let Some(deadline) = deadline_of_processes.filter(|_| self.is_polished()) else {
            return Ok(());
        };
        let of_each = if self.compare { 3.0 } else { 2.0 };
        let n_polishes = of_each * n_graphs as f64;
        let longest = deadline.duration().as_secs_f64() / 2.0;
        match self.local_search {
            Some(seconds) if seconds * n_polishes <= longest => Ok(()),
            _ => Err(BadInput(format!(
                "on several processes the others wait while one polishes, from the policy's cover and from nothing: expected a --local-search that leaves half of --timeout, {longest} s in all"
            ))
            .into()),
        }
    }

    /// Refuses what is for the policy's own method, where another one is asked for.
    pub(crate) fn check_search(&self, method: Method, problem: &Problem) -> anyhow::Result<()> {
        let given = [
            ("--reduce", self.reduce, "which reduces anyway"),
            (
                "--reduce-inside",
                self.reduce_inside,
                "which reduces anyway",
            ),
            (
                "--local-search",
                self.local_search.is_some(),
                "whose length is --time-limit",
            ),
            (
                "--local-search-seed",
                self.local_search_seed.is_some(),
                "whose seed is --seed",
            ),
        ];
        if let Some((flag, _, how)) = given.iter().find(|(_, is_given, _)| *is_given) {
            let why = format!(
                "{flag} goes with --method policy: say that too, or leave it to --method {method}, {how}"
            );
            return Err(BadInput(why).into());
        }
        let needs_search = matches!(method, Method::Search | Method::Exact);
        if needs_search && !has_classical_search(problem) {
            let why = format!(
                "--method {method}: no search is known for {}",
                problem.title
            );
            return Err(BadInput(why).into());
        }
        Ok(())
    }

    /// Whether other methods are to be shown beside the answer.
    pub(crate) fn compares(&self) -> bool {
        self.compare
    }

    /// Steps of a local search, in place of its time.
    pub(crate) fn search_steps(&self) -> Option<u64> {
        self.local_search_steps
    }

    /// Whether the graph is to be reduced.
    pub(crate) fn is_reduced(&self) -> bool {
        self.reduce
    }

    /// Whether the rules are applied inside an episode.
    pub(crate) fn is_reduced_inside(&self) -> bool {
        self.reduce_inside
    }

    /// Refuses what rules inside an episode do not go with.
    pub(crate) fn check_inside(&self, preset: Preset, device: DeviceKind) -> Result<(), BadInput> {
        let why = match self.reduce_inside {
            true if preset.keeps_isolated() => "--preset paper keeps picks that the rules remove",
            true if device != DeviceKind::Host => "the rules are applied on the host",
            _ => return Ok(()),
        };
        Err(BadInput(format!(
            "--reduce-inside: {why}: leave one of them out"
        )))
    }

    /// Refuses a graph that a later stage could not take: before the policy's work, not after it.
    pub(crate) fn check_size(&self, adjacency: &Adjacency, name: &str) -> anyhow::Result<()> {
        let is_searched = self.is_polished() && adjacency.n_edges() >= 1 << 31;
        match is_searched {
            true => Err(BadInput(format!(
                "{name}: --local-search: local search takes graphs of less than 2^31 edges, not {}",
                adjacency.n_edges()
            ))
            .into()),
            false => Ok(()),
        }
    }

    fn is_polished(&self) -> bool {
        self.local_search.is_some() || self.local_search_steps.is_some()
    }
}

/// A part of the job that makes an answer of its own or improves one.
#[derive(Serialize)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) objective: usize,
    pub(crate) seconds: f64,
    #[serde(flatten)]
    search: Option<SearchReport>,
}

/// How a local search went.
#[derive(Serialize)]
struct SearchReport {
    search_steps: u64,
    steps_per_s: f64,
    best_seconds: f64,
}

/// What the reductions did.
#[derive(Serialize)]
pub(crate) struct ReductionReport {
    kernel_nodes: u32,
    kernel_edges: u64,
    offset: u32,
    lower_bound: u32,
    /// How often the policy was run, and its evaluations in all.
    rounds: u32,
    steps: u64,
    seconds: f64,
    removed: RuleCounts,
}

/// The answer of all stages.
pub(crate) struct Refined {
    /// The smallest cover of the stages, in the order of its making.
    pub(crate) cover: Vec<u32>,
    /// In the order of their making; each starts from the one before, `polish_from_empty` from nothing.
    pub(crate) stages: Vec<Stage>,
    pub(crate) reduction: Option<ReductionReport>,
    /// The same stages without the policy.
    pub(crate) compare: Option<Vec<Stage>>,
}

/// What the policy found, in one of its ways or several.
pub(crate) struct Found {
    pub(crate) alone: Solution,
    /// With rules inside the episode.
    pub(crate) inside: Option<Solution>,
    /// With rules on the whole graph in turn with the policy.
    pub(crate) reduced: Option<ReducedSolution>,
}

impl Refined {
    /// The policy's answer, where a later stage failed.
    pub(crate) fn alone(found: &Found) -> Refined {
        let alone = &found.alone;
        Refined {
            cover: alone.nodes.clone(),
            stages: vec![Stage::new("policy", &alone.nodes, alone.seconds)],
            reduction: None,
            compare: None,
        }
    }
}

/// The stages after the policy, each with its cover checked. Where other ranks wait meanwhile, `patience` has the seconds that those stages
/// may take which have no budget of their own.
pub(crate) fn refine(
    args: &StageArgs,
    adjacency: &Adjacency,
    found: &Found,
    patience: Option<f64>,
) -> anyhow::Result<Refined> {
    let (alone, reduced) = (&found.alone, found.reduced.as_ref());
    let mut stages = vec![Stage::new("policy", &alone.nodes, alone.seconds)];
    let mut best = alone.nodes.clone();
    let is_needed = args.is_polished() || args.compare;
    let whole = is_needed.then(|| adjacency.to_lists());
    let whole = whole.transpose()?;
    let ground = Ground {
        args,
        adjacency,
        whole,
        reduced,
        patience,
    };
    if let Some(inside) = &found.inside {
        stages.push(Stage::new("reduce_inside", &inside.nodes, inside.seconds));
        if inside.nodes.len() < best.len() {
            best.clone_from(&inside.nodes);
        }
    }
    let mut start = best.clone();
    if let Some(reduced) = reduced {
        start.clone_from(&reduced.kernel_cover);
        stages.push(ground.lifted("reduce", &start, reduced.seconds, &mut best)?);
    }
    if args.is_polished() {
        stages.push(ground.polished("polish", &start, &mut best)?);
        let nothing = edge_greedy(ground.graph()?);
        stages.push(ground.polished("polish_from_empty", &nothing, &mut best)?);
    }
    let compare = args.compare.then(|| ground.without_policy());
    Ok(Refined {
        cover: best,
        stages,
        reduction: reduced.map(ReductionReport::new),
        compare: compare.transpose()?,
    })
}

/// Where the stages work: on the kernel if there is one, else on the graph.
struct Ground<'a> {
    args: &'a StageArgs,
    adjacency: &'a Adjacency,
    /// The graph as lists, where a stage wants it.
    whole: Option<Arc<Graph>>,
    reduced: Option<&'a ReducedSolution>,
    /// Seconds for what has no budget of its own.
    patience: Option<f64>,
}

impl Ground<'_> {
    fn graph(&self) -> anyhow::Result<&Graph> {
        let kernel = self.reduced.map(|reduced| reduced.reduction.kernel());
        let graph = kernel.or(self.whole.as_deref());
        graph.ok_or_else(|| anyhow::anyhow!("a stage without a graph"))
    }

    /// A stage's report, once its cover is lifted and checked; `best` becomes that cover if it is smaller.
    fn lifted(
        &self,
        name: &'static str,
        cover: &[u32],
        seconds: f64,
        best: &mut Vec<u32>,
    ) -> anyhow::Result<Stage> {
        let cover = match self.reduced {
            Some(reduced) => reduced.reduction.lift(cover)?,
            None => cover.to_vec(),
        };
        check_cover(self.adjacency, &cover)?;
        let stage = Stage::new(name, &cover, seconds);
        if cover.len() < best.len() {
            *best = cover;
        }
        Ok(stage)
    }

    /// Local search from a cover of the ground.
    fn polished(
        &self,
        name: &'static str,
        start: &[u32],
        best: &mut Vec<u32>,
    ) -> anyhow::Result<Stage> {
        let timer = Timer::wall();
        let clock = || timer.elapsed_s();
        let watch = Budget {
            clock: &clock,
            time_limit: self.args.local_search,
            ..Budget::unlimited()
        };
        let default = SearchOptions::default();
        let options = SearchOptions {
            seed: self.args.local_search_seed.unwrap_or(default.seed),
            steps: self.args.local_search_steps.unwrap_or(default.steps),
            ..default
        };
        let found = improve(self.graph()?, start, &options, &watch)?;
        let mut stage = self.lifted(name, &found.cover, found.seconds, best)?;
        stage.search = Some(SearchReport {
            search_steps: found.steps,
            steps_per_s: found.steps_per_s(),
            best_seconds: found.best_seconds,
        });
        Ok(stage)
    }

    /// The rows that say what the policy adds.
    fn without_policy(&self) -> anyhow::Result<Vec<Stage>> {
        let mut stages = Vec::new();
        if let Some(whole) = &self.whole {
            let timer = Timer::wall();
            let greedy = max_degree_greedy(whole);
            check_cover(self.adjacency, &greedy)?;
            stages.push(Stage::new("greedy", &greedy, timer.elapsed_s()));
        }
        let timer = Timer::wall();
        let greedy = max_degree_greedy(self.graph()?);
        let ignored = &mut Vec::new();
        if let Some(reduced) = self.reduced {
            let watch = Budget {
                clock: &|| timer.elapsed_s(),
                time_limit: self.patience,
                ..Budget::unlimited()
            };
            let peeled = reduce_and_peel(self.graph()?, &Rules::all(), &watch);
            let seconds = reduced.reduction_seconds + timer.elapsed_s();
            stages.push(self.lifted("reduce_greedy", &peeled, seconds, ignored)?);
        }
        if self.args.is_polished() {
            stages.push(self.polished("polish_from_greedy", &greedy, ignored)?);
        }
        Ok(stages)
    }
}

impl ReductionReport {
    fn new(reduced: &ReducedSolution) -> ReductionReport {
        let (reduction, kernel) = (&reduced.reduction, reduced.reduction.kernel());
        ReductionReport {
            kernel_nodes: kernel.n_nodes(),
            kernel_edges: kernel.n_edges(),
            offset: reduction.offset(),
            lower_bound: reduction.lower_bound(),
            rounds: reduced.n_rounds,
            steps: reduced.n_steps,
            seconds: reduced.reduction_seconds,
            removed: *reduction.counts(),
        }
    }

    pub(crate) fn lower_bound(&self) -> u64 {
        u64::from(self.lower_bound)
    }
}

impl Stage {
    fn new(name: &'static str, cover: &[u32], seconds: f64) -> Stage {
        Stage {
            name,
            objective: cover.len(),
            seconds,
            search: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_needs_a_polish() {
        let args = |local_search_seed, local_search_steps| StageArgs {
            reduce: false,
            reduce_inside: false,
            local_search: None,
            local_search_steps,
            local_search_seed,
            compare: false,
        };
        assert!(args(Some(5), Some(100)).check("mvc", None, 1).is_ok());
        assert!(args(None, None).check("cut", None, 1).is_ok());
        for problem in ["mvc", "cut"] {
            let refused = args(Some(5), None).check(problem, None, 1).unwrap_err();
            assert!(
                refused.to_string().contains("--local-search-seed"),
                "{refused}"
            );
        }
    }
}
