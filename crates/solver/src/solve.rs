//! Solving one graph on P ranks: cut, run the episode, check the answer.

use std::sync::Arc;

use shardgraph_collectives::{Comm, Deadline, threads};
use shardgraph_device::{Device, Timer};
use shardgraph_layers::autodiff::RowShard;
use shardgraph_layers::{Path, ScoreTable, choose_path};
use shardgraph_shard::{Adjacency, BitShard, CsrShard, Partition, Storage};

use crate::error::ErrorKind;
use crate::inference::{Episode, ModelScorer, Rules, Scorer, run_episode};
use crate::residual::{BitsResidual, ListsResidual, NeighborLists, Ranks, Residual};
use crate::{Error, Select, TrainedPolicy};

/// How a graph is solved.
#[derive(Debug, Clone)]
pub struct SolveOptions {
    /// Ranks that share the graph; threads of this process.
    pub n_ranks: u32,
    /// Nodes for each policy evaluation.
    pub select: Select,
    /// The path of the embedding; absent means the cheapest exact one.
    pub path: Option<Path>,
    /// Keep picks that earlier picks of the same step have left without an edge, as the paper does.
    pub keep_isolated: bool,
    /// The longest wait for another rank.
    pub deadline: Deadline,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            n_ranks: 1,
            select: Select::Fixed(1),
            path: None,
            keep_isolated: false,
            deadline: Deadline::default(),
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
/// When the options cannot be right, a rank is lost, or the cover fails its check.
/// # Complexity
/// On the collapsed path, for each removed node `v` with residual neighbours `N(v)`: lists read the lists of `N(v)`,
/// bits read `|N(v)| N / 8` B; every evaluation costs a few operations a candidate. Other paths compute `L - 1` or `L`
/// sparse products of width K for each evaluation.
/// # Determinism
/// The same cover for every number of ranks.
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
    if options.n_ranks == 0 || options.n_ranks > 1024 {
        let text = format!("{} ranks were asked for: expected 1 to 1024", options.n_ranks);
        return Err(Error::input(text));
    }
    let timer = Timer::start(&Device::host());
    let path = usable_path(adjacency, policy, options.path)?;
    let job = Job {
        adjacency,
        policy,
        options,
        path,
        partition: partition(adjacency, options.n_ranks),
    };
    let episode = if options.n_ranks == 1 {
        job.run_rank(Comm::solo(), None, progress)?
    } else {
        job.run_threads(progress)?
    };
    check_cover(adjacency, &episode.cover)?;
    Ok(Solution {
        cover: episode.cover,
        n_steps: episode.n_steps,
        path,
        storage: adjacency.storage(),
        seconds: timer.elapsed_s(),
    })
}

/// The path to use: the wanted one if it applies, else the cheapest exact one.
fn usable_path(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    wanted: Option<Path>,
) -> Result<Path, Error> {
    let best = choose_path(policy.config.shape(), weighted(adjacency).is_some());
    match wanted {
        None => Ok(best),
        Some(Path::Collapsed) if best != Path::Collapsed => Err(Error::input(
            "the collapsed path needs edges without weights: leave --path at auto",
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

/// One graph, one policy, P ranks.
struct Job<'a> {
    adjacency: &'a Adjacency,
    policy: &'a TrainedPolicy,
    options: &'a SolveOptions,
    path: Path,
    partition: Partition,
}

impl Job<'_> {
    fn run_threads(
        &self,
        progress: &mut (dyn FnMut(u32, usize) + Send),
    ) -> Result<Episode, Error> {
        let shards: Option<Vec<BitShard>> = match self.adjacency {
            Adjacency::Bits(bits) => Some(bits.clone().split(&self.partition)),
            Adjacency::Csr(_) => None,
        };
        let progress = std::sync::Mutex::new(progress);
        let results = threads::run(self.options.n_ranks, |comm| {
            let rank = comm.rank() as usize;
            let shard = shards.as_ref().map(|shards| &shards[rank]);
            self.run_rank(comm, shard, &mut |candidates, size| {
                if rank == 0
                    && let Ok(mut progress) = progress.lock()
                {
                    progress(candidates, size);
                }
            })
        });
        let mut episodes = Vec::new();
        for result in results {
            episodes.push(result.map_err(Error::from)??);
        }
        let first = episodes.swap_remove(0);
        if episodes.iter().any(|other| other.cover != first.cover) {
            return Err(Error::internal("the ranks found different covers"));
        }
        Ok(first)
    }

    /// What one rank does. `shard` is its part of a bit matrix; absent where it has all of it, or lists.
    fn run_rank(
        &self,
        mut comm: Comm,
        shard: Option<&BitShard>,
        progress: &mut dyn FnMut(u32, usize),
    ) -> Result<Episode, Error> {
        let rank = comm.rank();
        let mut ranks = Ranks {
            comm: &mut comm,
            deadline: self.options.deadline,
        };
        let mut residual: Box<dyn Residual + '_> = match self.adjacency {
            Adjacency::Csr(graph) => {
                let lists = NeighborLists::cut(graph, &self.partition, rank);
                Box::new(ListsResidual::new(lists, &self.partition, &mut ranks)?)
            }
            Adjacency::Bits(bits) => {
                let shard = shard.unwrap_or(bits);
                Box::new(BitsResidual::new(shard, &self.partition, &mut ranks)?)
            }
        };
        let mut scorer = self.scorer(rank, shard);
        let rules = Rules {
            select: self.options.select,
            keep_isolated: self.options.keep_isolated,
            n_nodes: self.adjacency.n_nodes(),
            progress,
        };
        run_episode(&mut *residual, self.policy, &mut scorer, rules, &mut ranks)
    }

    fn scorer(&self, rank: u32, shard: Option<&BitShard>) -> Scorer<'_> {
        if self.path == Path::Collapsed
            && let Some(table) = ScoreTable::new(&self.policy.model, &self.policy.params)
        {
            return Scorer::Table(table);
        }
        let shard = match self.adjacency {
            Adjacency::Csr(graph) => {
                let own = self.partition.range(rank);
                RowShard::Csr(Arc::new(CsrShard::by_rows(graph, own)))
            }
            Adjacency::Bits(bits) => RowShard::Bits(Arc::new(shard.unwrap_or(bits).clone())),
        };
        Scorer::Model(ModelScorer {
            policy: self.policy,
            device: Device::host(),
            path: self.path,
            shard,
            partition: self.partition.clone(),
            weighted: weighted(self.adjacency),
            removed: vec![false; self.adjacency.n_nodes() as usize],
        })
    }
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
