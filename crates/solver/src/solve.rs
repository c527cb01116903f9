//! Solving one graph on P ranks: cut, run the episode, check the answer.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_collectives::{Comm, CommError, Op, Timeout, threads};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{leave_group, rank_device};
use shardgraph_layers::{Path, ScoreTable};
use shardgraph_shard::{Adjacency, BitShard, Communication, Partition, Storage};

use crate::agreement::{Fingerprint, graph_fingerprint, options_fingerprint, policy_fingerprint};
use crate::error::ErrorKind;
use crate::exchange::{Exchange, check_wanted, cut_bits, cut_lists};
use crate::inference::{Episode, ModelScorer, RankModel, Rules, Scorer, check_finite, run_episode};
use crate::kept_scores::is_sparse;
use crate::memory::{check_room, keep_freed_memory, layer_bytes};
use crate::on_device::run_on_device;
use crate::problem::{MAXIMUM_INDEPENDENT_SET, MINIMUM_VERTEX_COVER};
use crate::residual::{BitsResidual, Counts, ListsResidual, NeighborLists, Ranks, Residual};
use crate::{Error, Select, TrainedPolicy, solve_problem};

/// Each has the candidates before it to pass over.
const MOST_STARTS: u32 = 65_536;

/// How a graph is solved.
#[derive(Debug, Clone)]
pub struct SolveOptions {
    /// Ranks that share the graph; threads of this process.
    pub n_ranks: u32,
    /// Nodes for each policy evaluation.
    pub select: Select,
    /// Episodes, each from another first pick: the best node, the second best, and so on. The best answer is given, of equal ones the first.
    ///
    /// # Source
    /// Kwon et al., POMO: Policy Optimization with Multiple Optima for Reinforcement Learning, NeurIPS 2020, section 4.
    pub starts: u32,
    /// The path of the embedding; absent means the cheapest exact one.
    pub path: Option<Path>,
    /// Keep picks that earlier picks of the same step have left without an edge, as the paper does.
    pub keep_isolated: bool,
    /// Apply the exact rules that only remove nodes before the first step and after each ([`shardgraph_classical::vertex_cover::Peeling`]). For
    /// vertex covers, on the host; every rank then has lists of the whole graph for them.
    pub reduce_inside: bool,
    /// How ranks share the sums over neighbours; absent means by gathering all rows. Refused where there are none: the closed form has no
    /// use for it.
    pub communication: Option<Communication>,
    /// The longest wait for another rank.
    pub deadline: Timeout,
    /// Set, for example by `progress`, it ends the solve after the present step with [`ErrorKind::Cancelled`].
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Where to compute. The closed form runs wholly on a device that is not the host, on one rank; of other paths the
    /// model's operations do, with a stream for each rank.
    pub device: Device,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            select: Select::Fixed(1),
            starts: 1,
            path: None,
            keep_isolated: false,
            reduce_inside: false,
            communication: None,
            deadline: Timeout::default(),
            cancelled: None,
            device: Device::host(),
        }
    }
}

impl SolveOptions {
    /// Refuses numbers that cannot be right.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_ranks(self.n_ranks)?;
        self.select.check()?;
        match self.starts {
            1..=MOST_STARTS => Ok(()),
            n => Err(Error::input(format!(
                "{n} starts were asked for: expected 1 to {MOST_STARTS}"
            ))),
        }
    }

    /// Ends a solve that was cancelled.
    pub(crate) fn check_cancelled(&self) -> Result<(), Error> {
        match &self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(ErrorKind::Cancelled.into()),
            _ => Ok(()),
        }
    }
}

/// A checked cover.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The cover's nodes in the order in which they were picked.
    pub cover: Vec<u32>,
    /// Policy evaluations.
    pub n_steps: u64,
    /// The path of the embedding that was used.
    pub path: Path,
    /// The form of the adjacency that was used.
    pub storage: Storage,
    /// What ranks exchanged; absent with the closed form, which sums nothing over neighbours.
    pub exchange: Option<Exchange>,
    /// Seconds for cutting, the episode and the check.
    pub seconds: f64,
}

impl Solution {
    /// The path and the storage in one word, for reports: for example `collapsed+bits`.
    pub fn path_name(&self) -> String {
        let storage = match self.storage {
            Storage::Csr => "csr",
            Storage::Bits => "bits",
        };
        format!("{}+{storage}", self.path)
    }
}

/// Finds a vertex cover with a policy and checks it.
///
/// `progress` is called on rank 0 after each step with the number of candidates left and the cover's size.
///
/// # Errors
/// When the options cannot be right, a score overflows, a rank is lost, or the cover fails its check.
/// # Complexity
/// On the collapsed path, for each removed node `v` with residual neighbours `N(v)`: lists read the lists of `N(v)`,
/// bits read `|N(v)| N / 8` B; every evaluation costs a few operations a candidate. Other paths compute `L - 1` or `L`
/// sparse products of width K for each evaluation.
/// # Determinism
/// The same cover for every number of ranks (where floats are added over ranks, as [`Communication::ColumnAllReduce`] and
/// [`Communication::Grid`] do, but for ties within rounding), and in the closed form on every device. The model's operations round in
/// another order on another device, which can decide ties.
/// # Source
/// OpenGraphGym-MG, algorithm 4 and section 4.5.1.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve};
///
/// let karate = Adjacency::from_graph(builtin::by_name("karate").unwrap());
/// let policy = TrainedPolicy::shipped()?;
/// let solution = solve(&karate, &policy, &SolveOptions::default(), &mut |_, _| ())?;
/// assert_eq!(solution.cover.len(), 14);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    let timer = Timer::start(&Device::host());
    policy.check_problem(&MINIMUM_VERTEX_COVER)?;
    if let Some(graph) = graph_with_kept_rows(adjacency, policy, options) {
        return solve_with_kept_rows(graph, policy, options, progress);
    }
    let job = Job::new(adjacency, policy, options)?;
    let progress = Mutex::new(progress);
    let episodes = job.on_ranks(&|comm, shard| {
        let is_first = comm.rank() == 0;
        job.run_rank(comm, shard, &mut |candidates, size| {
            if is_first && let Ok(mut progress) = progress.lock() {
                progress(candidates, size);
            }
        })
    })?;
    let mut episodes = episodes.into_iter();
    let episode = episodes.next().unwrap_or_default();
    if episodes.any(|other| other.cover != episode.cover) {
        return Err(Error::internal("the ranks found different covers"));
    }
    check_cover(adjacency, &episode.cover)?;
    Ok(Solution {
        cover: episode.cover,
        n_steps: episode.n_steps,
        path: job.path,
        storage: adjacency.storage(),
        exchange: episode.exchange,
        seconds: timer.elapsed_s(),
    })
}

/// The graph, where rows of three or more layers are kept from pick to pick: on one rank of the
/// host, without a wish that this way does not know.
fn graph_with_kept_rows<'a>(
    adjacency: &'a Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> Option<&'a Graph> {
    let Adjacency::Csr(graph) = adjacency else {
        return None;
    };
    let is_usual = options.n_ranks == 1
        && options.communication.is_none()
        && !options.keep_isolated
        && !options.reduce_inside
        && options.path.is_none_or(|path| path == Path::Collapsed)
        && options.device.kind() == DeviceKind::Host;
    let has_layers = policy.config.n_layers > 2 && policy.config.has_default_layers();
    let is_fit = is_usual && has_layers && graph.weights().is_none() && is_sparse(graph);
    is_fit.then_some(graph)
}

fn solve_with_kept_rows(
    graph: &Graph,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    let graph = Arc::new(graph.clone());
    let found = solve_problem(&MINIMUM_VERTEX_COVER, &graph, policy, options, progress)?;
    Ok(Solution {
        cover: found.nodes,
        n_steps: found.n_steps,
        path: found.path,
        storage: Storage::Csr,
        exchange: found.exchange,
        seconds: found.seconds,
    })
}

/// As [`solve`], as one rank of a world of processes: all call it with the same arguments, and all get the same answer.
///
/// The number of ranks is that of `comm`, not that of `options`. Each process has the whole graph and works on its part of it. `progress` is
/// called on rank 0.
///
/// # Errors
/// As [`solve`]. [`ErrorKind::Input`] on all ranks where one has another graph, policy or options than rank 0.
/// # Complexity
/// As [`solve`], and one pass over the graph for the comparison.
///
/// ```
/// use shardgraph_collectives::tcp;
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, solve_as_rank};
///
/// let karate = Adjacency::from_graph(builtin::by_name("karate").unwrap());
/// let policy = TrainedPolicy::shipped()?;
/// let sizes = tcp::run(2, |mut comm| {
///     let options = SolveOptions::default();
///     solve_as_rank(&mut comm, &karate, &policy, &options, &mut |_, _| ()).map(|solution| solution.cover.len())
/// });
/// for size in sizes {
///     assert_eq!(size.unwrap()?, 14);
/// }
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn solve_as_rank(
    comm: &mut Comm,
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut dyn FnMut(u32, usize),
) -> Result<Solution, Error> {
    let timer = Timer::start(&Device::host());
    let options = SolveOptions {
        n_ranks: comm.size(),
        ..options.clone()
    };
    let facts = [
        Ranks::version_fact(),
        ("graph", graph_fingerprint(adjacency)),
        ("policy", policy_fingerprint(policy)),
        ("set of options", options_fingerprint(&options)),
    ];
    let mut ranks = Ranks::new(comm, options.deadline);
    ranks.agree(&facts)?;
    policy.check_problem(&MINIMUM_VERTEX_COVER)?;
    let job = Job::new(adjacency, policy, &options)?;
    let shard = job.own_bits(ranks.rank());
    let is_first = ranks.is_first();
    let mut report = |n_candidates, n_cover| {
        if is_first {
            progress(n_candidates, n_cover);
        }
    };
    let episode = ranks.fail_together(|ranks| {
        job.check_memory(options.n_ranks)?;
        job.run_rank(ranks.comm, shard.as_ref(), &mut report)
    })?;
    let cover = Fingerprint::new().words(episode.cover.iter().map(|&node| u64::from(node)));
    ranks
        .agree(&[("cover", cover.value())])
        .map_err(|error| match error {
            shardgraph_job::Error::Disagreement { .. } => {
                Error::internal("the ranks found different covers")
            }
            error => error.into(),
        })?;
    check_cover(adjacency, &episode.cover)?;
    Ok(Solution {
        cover: episode.cover,
        n_steps: episode.n_steps,
        path: job.path,
        storage: adjacency.storage(),
        exchange: episode.exchange,
        seconds: timer.elapsed_s(),
    })
}

/// The scores of all nodes of a graph before any pick, computed from scratch: one policy evaluation.
///
/// The policy is for covers, or for independent sets. Without the state's own part of the scores, which is the same for all nodes. Nodes without an edge get NaN: they are
/// no candidates.
///
/// # Errors
/// As [`solve`].
/// # Determinism
/// The same bits for every number of ranks on one path, where [`Communication::is_exact`].
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, score_nodes};
///
/// let star = Adjacency::from_graph(shardgraph_graph::Graph::from_edges(4, &[(0, 1), (0, 2), (0, 3)])?);
/// let scores = score_nodes(&star, &TrainedPolicy::shipped()?, &SolveOptions::default())?;
/// assert!(scores.values[0] > scores.values[1]);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn score_nodes(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
) -> Result<Scores, Error> {
    // Before any pick the states of both problems are alike.
    match policy.config.problem == MAXIMUM_INDEPENDENT_SET.name {
        true => policy.check_problem(&MAXIMUM_INDEPENDENT_SET)?,
        false => policy.check_problem(&MINIMUM_VERTEX_COVER)?,
    }
    let job = Job::new(adjacency, policy, options)?;
    let parts = job.on_ranks(&|comm, shard| job.score_rank(comm, shard))?;
    let seconds = parts.iter().map(|part| part.seconds).fold(0.0, f64::max);
    let exchange = parts.first().and_then(|part| part.exchange);
    let values: Vec<Vec<f32>> = parts.into_iter().map(|part| part.values).collect();
    Ok(Scores {
        values: values.concat(),
        path: job.path,
        storage: adjacency.storage(),
        exchange,
        seconds,
    })
}

/// One score a node.
#[derive(Debug, Clone)]
pub struct Scores {
    /// The scores in node order; NaN for nodes without an edge.
    pub values: Vec<f32>,
    /// The path of the embedding that was used.
    pub path: Path,
    /// The form of the adjacency that was used.
    pub storage: Storage,
    /// What ranks exchanged; absent with the closed form, which sums nothing over neighbours.
    pub exchange: Option<Exchange>,
    /// Seconds of the slowest rank, from uncounted degrees to scores; cutting the graph and taking memory for the evaluation come before.
    pub seconds: f64,
}

/// The path to use: the wanted one if it applies, else the cheapest exact one.
pub(crate) fn usable_path(
    policy: &TrainedPolicy,
    is_weighted: bool,
    wanted: Option<Path>,
) -> Result<Path, Error> {
    let best = policy.model.embedding.best_path(is_weighted);
    match wanted {
        None => Ok(best),
        Some(path) if best == Path::General && path != best => Err(Error::input(format!(
            "the policy's embedding has the general path alone, not {path}: leave --path at auto"
        ))),
        Some(Path::Collapsed) if best != Path::Collapsed => Err(Error::input(
            "the collapsed path needs edges without weights and nodes without features: leave --path at auto",
        )),
        Some(path) => Ok(path),
    }
}

fn weighted(adjacency: &Adjacency) -> Option<&shardgraph_graph::Graph> {
    match adjacency {
        Adjacency::Csr(graph) if graph.weights().is_some() => Some(graph),
        _ => None,
    }
}

fn partition(adjacency: &Adjacency, n_ranks: u32) -> Partition {
    match adjacency {
        Adjacency::Csr(graph) => Partition::by_nonzeros(graph, n_ranks),
        Adjacency::Bits(bits) => Partition::by_rows(bits.n_rows(), n_ranks),
    }
}

fn inside<'a>(
    adjacency: &'a Adjacency,
    options: &SolveOptions,
) -> Result<Option<Cow<'a, Graph>>, Error> {
    if !options.reduce_inside {
        return Ok(None);
    }
    if options.device.kind() != DeviceKind::Host {
        return Err(Error::input(
            "reductions inside the episode are made on the host: leave them or the device out",
        ));
    }
    if options.keep_isolated {
        return Err(Error::input(
            "picks that were left without an edge are not kept with reductions inside the episode: leave one of them out",
        ));
    }
    Ok(Some(match adjacency {
        Adjacency::Csr(graph) => Cow::Borrowed(graph),
        Adjacency::Bits(_) => {
            let lists = adjacency.clone().into_graph();
            Cow::Owned(lists.map_err(|e| Error::input(e.to_string()))?)
        }
    }))
}

/// What one rank does with its communicator and its part of a bit matrix.
type RankJob<'a, R> = dyn Fn(&mut Comm, Option<&BitShard>) -> Result<R, Error> + Sync + 'a;

/// One rank's part of a graph.
enum Cut<'a> {
    Lists(NeighborLists<'a>),
    Bits(&'a BitShard),
}

/// One graph, one policy, P ranks.
struct Job<'a> {
    adjacency: &'a Adjacency,
    policy: &'a TrainedPolicy,
    options: &'a SolveOptions,
    path: Path,
    partition: Partition,
    /// The graph as lists, where rules are applied between the steps.
    inside: Option<Cow<'a, Graph>>,
}

impl<'a> Job<'a> {
    fn new(
        adjacency: &'a Adjacency,
        policy: &'a TrainedPolicy,
        options: &'a SolveOptions,
    ) -> Result<Self, Error> {
        options.check()?;
        let job = Self {
            adjacency,
            policy,
            options,
            path: usable_path(policy, weighted(adjacency).is_some(), options.path)?,
            partition: partition(adjacency, options.n_ranks),
            inside: inside(adjacency, options)?,
        };
        check_wanted(options.communication, job.table().is_none())?;
        if job.is_on_host() || options.n_ranks == 1 || job.table().is_none() {
            return Ok(job);
        }
        Err(Error::input(format!(
            "on device `{}` the closed form runs on one rank: use --ranks 1, or --device host, or --path free-first-layer",
            options.device.kind()
        )))
    }

    /// Refuses what this process, one of `n_processes`, has no memory for: the embeddings, and a byte an entry of the matrix that is multiplied.
    /// The closed form makes neither; others keep the memory of their steps.
    fn check_memory(&self, n_processes: u32) -> Result<(), Error> {
        if self.table().is_some() {
            return Ok(());
        }
        keep_freed_memory();
        let (n_nodes, n_edges) = (self.adjacency.n_nodes(), self.adjacency.n_edges());
        let embeddings = layer_bytes(self.policy.config.shape(), u64::from(n_nodes));
        let least = embeddings.saturating_add(2 * n_edges) / u64::from(n_processes);
        let cure = "take a policy of two layers, whose closed form makes no embeddings (--model mvc-default), or a smaller graph";
        check_room(&self.options.device, least, cure)
    }

    fn is_on_host(&self) -> bool {
        self.options.device.kind() == DeviceKind::Host
    }

    /// The closed form, where the path is that and the policy has one.
    fn table(&self) -> Option<ScoreTable> {
        match self.path {
            Path::Collapsed => ScoreTable::new(&self.policy.model, &self.policy.params),
            _ => None,
        }
    }

    /// Runs `f` as every rank and gives the results in rank order. `f` gets its part of a bit matrix where it has not
    /// all of it.
    fn on_ranks<R: Send>(&self, f: &RankJob<'_, R>) -> Result<Vec<R>, Error> {
        self.check_memory(1)?;
        if self.options.n_ranks == 1 {
            return Ok(vec![f(&mut Comm::solo(), None)?]);
        }
        let shards: Option<Vec<BitShard>> = match self.adjacency {
            Adjacency::Bits(bits) => Some(bits.split(&self.partition)),
            Adjacency::Csr(_) => None,
        };
        let results = threads::run(self.options.n_ranks, |mut comm| {
            let shard = shards.as_ref().map(|shards| &shards[comm.rank() as usize]);
            let mut ranks = Ranks::new(&mut comm, self.options.deadline);
            ranks.fail_together(|ranks| f(ranks.comm, shard))
        });
        collect_ranks(results)
    }

    /// This rank's part of a bit matrix that is shared by processes; absent where it has all of it, or lists.
    fn own_bits(&self, rank: u32) -> Option<BitShard> {
        match self.adjacency {
            Adjacency::Bits(bits) if self.options.n_ranks > 1 => {
                Some(bits.part(&self.partition, rank))
            }
            _ => None,
        }
    }

    /// A rank's part of the graph. `shard` is its part of a bit matrix; absent where it has all of it, or lists.
    fn cut<'b>(&'b self, rank: u32, shard: Option<&'b BitShard>) -> Cut<'b> {
        match self.adjacency {
            Adjacency::Csr(graph) => Cut::Lists(NeighborLists::cut(graph, &self.partition, rank)),
            Adjacency::Bits(bits) => Cut::Bits(shard.unwrap_or(bits)),
        }
    }

    fn residual<'b>(
        &self,
        cut: Cut<'b>,
        ranks: &mut Ranks<'_>,
    ) -> Result<Box<dyn Residual + 'b>, Error> {
        let (partition, counts) = (&self.partition, Counts::of(self.path));
        Ok(match cut {
            Cut::Lists(lists) => Box::new(ListsResidual::new(lists, partition, counts, ranks)?),
            Cut::Bits(shard) => Box::new(BitsResidual::new(shard, partition, counts, ranks)?),
        })
    }

    fn communication(&self) -> Communication {
        self.options.communication.unwrap_or_default()
    }

    /// What the job cost, where it makes sums; `before` is what the rank had received when it began.
    fn exchange(
        &self,
        scorer: &Scorer<'_>,
        ranks: &mut Ranks<'_>,
        before: u64,
    ) -> Result<Option<Exchange>, Error> {
        let Scorer::Model(model) = scorer else {
            return Ok(None);
        };
        let counts = (before, model.model.shard.bytes());
        Exchange::of_job(ranks, &model.model.device, self.communication(), counts).map(Some)
    }

    fn check_scorer(&self, scorer: &Scorer<'_>) -> Result<(), Error> {
        match matches!(scorer, Scorer::Table(_)) && !self.is_on_host() {
            false => Ok(()),
            true => Err(Error::input(
                "scores in closed form are computed on the host: use --device host, or --path free-first-layer",
            )),
        }
    }

    /// One rank's part of [`score_nodes`].
    fn score_rank(&self, comm: &mut Comm, shard: Option<&BitShard>) -> Result<Scores, Error> {
        let (rank, before) = (comm.rank(), comm.received_bytes());
        let cut = self.cut(rank, shard);
        let mut scorer = self.scorer(comm, shard)?;
        self.check_scorer(&scorer)?;
        let mut ranks = Ranks::new(comm, self.options.deadline);
        ranks.comm.run(Op::Barrier, ranks.timeout)?;
        let timer = Timer::start(&Device::host());
        let residual = self.residual(cut, &mut ranks)?;
        let scale = self.policy.config.adjacency_scale.of(residual.max_degree());
        let own = self.partition.range(rank);
        let mut values = vec![f32::NAN; own.len()];
        match &mut scorer {
            Scorer::Table(table) => residual.for_each_own(&mut |node, degree, d2| {
                let (x, y) = (degree as f32 * scale, d2 as f32 * (scale * scale));
                values[(node - own.start) as usize] = table.score(x, y);
            }),
            Scorer::Model(model) => {
                let all = model.scores(&*residual, scale, &mut ranks)?;
                leave_group(&model.model.device, ranks.timeout)?;
                residual.for_each_own(&mut |node, _, _| {
                    let row = (node - own.start) as usize;
                    values[row] = all[row];
                });
            }
        }
        check_finite(&*residual, &values, own.start)?;
        let seconds = timer.elapsed_s();
        Ok(Scores {
            values,
            path: self.path,
            storage: self.adjacency.storage(),
            exchange: self.exchange(&scorer, &mut ranks, before)?,
            seconds,
        })
    }

    /// One rank's episode.
    fn run_rank(
        &self,
        comm: &mut Comm,
        shard: Option<&BitShard>,
        progress: &mut dyn FnMut(u32, usize),
    ) -> Result<Episode, Error> {
        let (rank, before) = (comm.rank(), comm.received_bytes());
        let mut rules = Rules {
            select: self.options.select,
            keep_isolated: self.options.keep_isolated,
            inside: None,
            n_nodes: self.adjacency.n_nodes(),
            options: self.options,
            progress,
            start: 0,
        };
        let mut scorer = self.scorer(comm, shard)?;
        if let (Scorer::Table(table), false) = (&scorer, self.is_on_host()) {
            if self.options.starts > 1 {
                return Err(Error::input(
                    "several starts are made on the host: leave them or the device out",
                ));
            }
            let scale = self.policy.config.adjacency_scale;
            return run_on_device(&self.options.device, self.adjacency, table, scale, rules);
        }
        let mut ranks = Ranks::new(comm, self.options.deadline);
        let mut episode: Option<Episode> = None;
        let mut n_steps = 0;
        for start in 0..self.options.starts {
            rules.start = start as usize;
            rules.inside = self.inside.as_ref().map(|graph| Peeling::new(graph));
            scorer.begin();
            let mut residual = self.residual(self.cut(rank, shard), &mut ranks)?;
            let found = run_episode(
                &mut *residual,
                self.policy,
                &mut scorer,
                &mut rules,
                &mut ranks,
            )?;
            n_steps += found.n_steps;
            let size = episode.as_ref().map(|best| best.cover.len());
            if size.is_none_or(|size| found.cover.len() < size) {
                episode = Some(found);
            }
        }
        let mut episode = episode.unwrap_or_default();
        episode.n_steps = n_steps;
        if let Scorer::Model(model) = &scorer {
            leave_group(&model.model.device, ranks.timeout)?;
        }
        episode.exchange = self.exchange(&scorer, &mut ranks, before)?;
        Ok(episode)
    }

    fn scorer(&self, comm: &mut Comm, shard: Option<&BitShard>) -> Result<Scorer<'_>, Error> {
        let rank = comm.rank();
        if let Some(table) = self.table() {
            return Ok(Scorer::Table(table));
        }
        let (partition, communication) = (&self.partition, self.communication());
        let shard = match self.adjacency {
            Adjacency::Csr(graph) => cut_lists(graph, partition, rank, communication),
            Adjacency::Bits(bits) => cut_bits((bits, shard), partition, rank, communication),
        };
        let device = rank_device(&self.options.device, comm, self.options.deadline)?;
        let model = RankModel {
            policy: self.policy,
            path: self.path,
            shard: shard.resident(&device)?,
            device,
            partition: self.partition.clone(),
            weighted: weighted(self.adjacency),
        };
        let deadline = self.options.deadline;
        let scorer = ModelScorer::new(model, comm, deadline)?;
        Ok(Scorer::Model(Box::new(scorer)))
    }
}

/// Refuses a number of ranks that cannot be right.
pub(crate) fn check_ranks(n_ranks: u32) -> Result<(), Error> {
    match n_ranks {
        1..=1024 => Ok(()),
        _ => Err(Error::input(format!(
            "{n_ranks} ranks were asked for: expected 1 to 1024"
        ))),
    }
}

/// The results of all ranks, or the error that explains best why there are none: a rank's own error, not another rank's
/// report that it went away.
pub(crate) fn collect_ranks<R>(
    results: Vec<Result<Result<R, Error>, CommError>>,
) -> Result<Vec<R>, Error> {
    let (mut values, mut cause): (Vec<R>, Option<Error>) = (Vec::new(), None);
    for result in results {
        match result.map_err(Error::from).and_then(|result| result) {
            Ok(value) => values.push(value),
            Err(error) => {
                let explains = error.comm_error().is_none();
                if cause.is_none() || explains {
                    cause = Some(error);
                }
            }
        }
    }
    cause.map_or(Ok(values), Err)
}

/// Checks that the cover has no node twice and touches every edge.
///
/// # Errors
/// [`ErrorKind::Verification`] naming the node or the edge.
pub fn check_cover(adjacency: &Adjacency, cover: &[u32]) -> Result<(), Error> {
    let wrong = |text: String| Err(ErrorKind::Verification(text).into());
    let mut in_cover = vec![false; adjacency.n_nodes() as usize];
    for &node in cover {
        match in_cover.get_mut(node as usize) {
            None => return wrong(format!("node {node} does not exist")),
            Some(true) => return wrong(format!("node {node} is in the cover twice")),
            Some(slot) => *slot = true,
        }
    }
    match adjacency.uncovered_edge(&in_cover) {
        None => Ok(()),
        Some((u, v)) => wrong(format!("the edge between nodes {u} and {v} is not covered")),
    }
}
