//! The ranks of a run, threads or processes: all have read the same, and rank 0 alone touches the
//! folder.

use std::sync::Mutex;

use shardgraph_collectives::Comm;
use shardgraph_job::{Ranks, World};
use shardgraph_storage::hash;

use super::inputs::Inputs;
use super::job::Job;
use super::memory::Here;
use super::model::Start;
use super::options::RunOptions;
use super::report::{EpochReport, Outcome};
use super::{classes, folder};
use crate::{Config, Error, Labels, RelationalGraph};

/// As [`train`](super::train), as one rank of `comm`, whose ranks may be processes: each calls this
/// with the same graph, labels and settings; one process alone has the ranks of `options`, as threads. Rank 0 alone reads and writes the folder, and calls
/// `progress`; all get the outcome.
///
/// # Errors
/// As [`train`](super::train); on all ranks where they were not given the same.
/// # Determinism
/// As [`train`](super::train): processes give the bits of threads.
///
/// ```
/// use shardgraph_collectives::Comm;
/// use shardgraph_rgcn::{Config, Labels, RelationalGraph, RunOptions, train_as_rank};
///
/// let graph = RelationalGraph::new(3, 1, vec![0, 1], vec![0; 2], vec![1, 2])?.with_inverses()?;
/// let labels = Labels::new(2, vec![(0, 0), (2, 1)], vec![], vec![])?;
/// let (config, options) = (Config::default(), RunOptions::default());
/// let outcome = train_as_rank(&mut Comm::solo(), &graph, &labels, &config, &options, &mut |_| ())?;
/// assert_eq!(outcome.evaluation.train.n_right, 2);
/// # Ok::<(), shardgraph_rgcn::Error>(())
/// ```
pub fn train_as_rank(
    comm: &mut Comm,
    graph: &RelationalGraph,
    labels: &Labels,
    config: &Config,
    options: &RunOptions,
    progress: &mut (dyn FnMut(&EpochReport) + Send),
) -> Result<Outcome, Error> {
    let n_ranks = match comm.size() {
        1 => options.n_ranks,
        n_processes => n_processes,
    };
    let options = &RunOptions {
        n_ranks,
        ..options.clone()
    };
    classes::check_ranks(n_ranks)?;
    let inputs = Inputs {
        graph,
        labels,
        config,
        options,
    };
    Ranks::new(comm, options.deadline).fail_together(|ranks| inputs.train(ranks, progress))
}

impl Inputs<'_> {
    /// The run of one process.
    fn train(
        self,
        ranks: &mut Ranks<'_>,
        progress: &mut (dyn FnMut(&EpochReport) + Send),
    ) -> Result<Outcome, Error> {
        let fingerprint = ("graph, labels or settings", self.fingerprint());
        ranks.agree(&[Ranks::version_fact(), fingerprint])?;
        self.config.check()?;
        self.labels.check_nodes(self.graph)?;
        let place = folder::place(self.options);
        let (saved, taken) = place.load(
            ranks,
            |_| Ok(None),
            |_, newest| folder::resumed(newest, self).map(Some),
        )?;
        let saved = saved.as_ref();
        let inputs = Inputs {
            config: saved.map_or(self.config, |saved| &saved.config),
            ..self
        };
        let here = match ranks.size() {
            1 => Here::All,
            _ => Here::One(ranks.rank() as usize),
        };
        // Before there is a folder: a refused run leaves none behind.
        let job = Job::new(inputs, here)?;
        let recorder = Mutex::new(place.open(ranks, taken)?);
        let progress = Mutex::new(progress);
        let run = |comm: &mut Comm| {
            let is_first = comm.rank() == 0;
            let recorder = recorder.lock().ok().filter(|_| is_first);
            let recorder = recorder.and_then(|mut recorder| recorder.take());
            let start = Start {
                state: saved.map(|saved| &saved.state),
                best: saved.and_then(|saved| saved.best),
            };
            job.run(comm, start, recorder, &mut |report| {
                if is_first && let Ok(mut progress) = progress.lock() {
                    progress(report);
                }
            })
        };
        match ranks.size() {
            1 => World::Threads(self.options.n_ranks).run(ranks.timeout, |ranks| run(ranks.comm)),
            _ => run(ranks.comm),
        }
    }

    /// The hash of all settings and data that decide what a run computes.
    fn fingerprint(self) -> u64 {
        let sets = [self.labels.train(), self.labels.test(), self.labels.valid()];
        let text = format!(
            "{} {:?} {:?} {:?} {:?} {} {:?} {} {:?} {:?} {:x} {} {sets:?}",
            env!("CARGO_PKG_VERSION"),
            self.config,
            self.options.partition,
            self.options.execution,
            self.options.budget_per_device,
            self.options.resume,
            self.options.folder,
            self.options.checkpoint_epochs,
            self.options.checkpoint_s,
            self.options.class_names,
            folder::graph_hash(self.graph),
            self.labels.n_classes()
        );
        hash(text.as_bytes())
    }
}
