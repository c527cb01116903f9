//! One rank's work on a vertex cover: its part of the graph, its scores, its episode.

use std::borrow::Cow;

use shardgraph_classical::vertex_cover::Peeling;
use shardgraph_collectives::{Comm, Op};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;
use shardgraph_layers::autodiff::{leave_group, rank_device};
use shardgraph_layers::{Path, ScoreTable};
use shardgraph_shard::{Adjacency, BitShard, Communication, Partition};

use super::Scores;
use crate::exchange::{Exchange, check_wanted, cut_bits, cut_lists};
use crate::inference::{Episode, Rules, Scorer, check_finite, run_episode};
use crate::memory::{check_room, keep_freed_memory, layer_bytes};
use crate::model_scorer::{ModelScorer, RankModel};
use crate::on_device::{run_model_on_device, run_on_device};
use crate::on_ranks::Progress;
use crate::residual::{BitsResidual, Counts, ListsResidual, NeighborLists, Ranks, Residual};
use crate::solve_options::usable_path;
use crate::{Error, SolveOptions, TrainedPolicy};

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

/// One rank's part of a graph.
enum Cut<'a> {
    Lists(NeighborLists<'a>),
    Bits(&'a BitShard),
}

/// One graph, one policy, P ranks.
pub(super) struct PolicyRun<'a> {
    adjacency: &'a Adjacency,
    policy: &'a TrainedPolicy,
    options: &'a SolveOptions,
    pub(super) path: Path,
    partition: Partition,
    /// The graph as lists, where rules are applied between the steps.
    inside: Option<Cow<'a, Graph>>,
}

impl<'a> PolicyRun<'a> {
    pub(super) fn new(
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
    pub(super) fn check_memory(&self, n_processes: u32) -> Result<(), Error> {
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

    /// This rank's part of a bit matrix; absent where it has all of it, or lists.
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
        let RankModel { device, shard, .. } = &model.model;
        let communication = self.communication();
        Exchange::of_job(ranks, device, communication, before, shard.bytes()).map(Some)
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
    pub(super) fn score_rank(&self, comm: &mut Comm) -> Result<Scores, Error> {
        let (rank, before) = (comm.rank(), comm.received_bytes());
        let shard = self.own_bits(rank);
        let cut = self.cut(rank, shard.as_ref());
        let mut scorer = self.scorer(comm, shard.as_ref())?;
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
    pub(super) fn run_rank(
        &self,
        comm: &mut Comm,
        progress: &mut Progress<'_>,
    ) -> Result<Episode, Error> {
        let (rank, before) = (comm.rank(), comm.received_bytes());
        let shard = self.own_bits(rank);
        let mut rules = Rules {
            select: self.options.select,
            keep_isolated: self.options.keep_isolated,
            inside: None,
            n_nodes: self.adjacency.n_nodes(),
            options: self.options,
            progress,
            start: 0,
        };
        let mut scorer = self.scorer(comm, shard.as_ref())?;
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
        if let Scorer::Model(model) = &mut scorer
            && model.takes_states_on_device()
            && self.options.starts == 1
        {
            let scale = self.policy.config.adjacency_scale;
            let mut episode = run_model_on_device(model, scale, rules, ranks.comm)?;
            leave_group(&model.model.device, ranks.timeout)?;
            episode.exchange = self.exchange(&scorer, &mut ranks, before)?;
            return Ok(episode);
        }
        let mut episode: Option<Episode> = None;
        let mut n_steps = 0;
        for start in 0..self.options.starts {
            rules.start = start as usize;
            rules.inside = self.inside.as_ref().map(|graph| Peeling::new(graph));
            scorer.begin();
            let mut residual = self.residual(self.cut(rank, shard.as_ref()), &mut ranks)?;
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
            Adjacency::Bits(bits) => cut_bits(bits, shard, partition, rank, communication),
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
