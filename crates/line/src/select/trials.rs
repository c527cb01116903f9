//! Trials: trainings on the edges that are known, judged by those held back.

use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use super::{Component, SelectConfig, Selection, Trainer, Trial};
use crate::embedding::eval::{Judge, Split, split};
use crate::{Config, Embedding, Error, Optimiser, Order, Progress};

/// Fewest edges that can decide anything.
const FEWEST: u64 = 20;
/// Weight of the squares in the regression, as in link prediction.
const L2: f64 = 1e-4;
/// Better by less than this is no better: a wider table must be worth its columns.
const WORTH: f64 = 0.002;
/// Share of the time limit that trials may take; the rest is for the final training.
const TRIAL_SHARE: f64 = 0.6;

/// Known and held-back edges; none for a graph with too few of them, or with hardly a pair that is
/// no edge.
pub(super) fn hold_back(
    graph: &Graph,
    select: &SelectConfig,
    seed: u64,
) -> Result<Option<Split>, Error> {
    let n_edges = graph.n_edges();
    if n_edges < FEWEST || graph.density() > 0.5 {
        return Ok(None);
    }
    let enough = 1000.0 / n_edges as f64;
    let share = enough.clamp(select.held_back, (4.0 * select.held_back).min(0.5));
    let mut sample = split(graph, 1.0 - share, seed)?;
    sample.test.truncate(select.judged_edges);
    Ok(Some(sample))
}

/// Settings to try: epochs double at one rate, so the sum of an edge's rates doubles too. More
/// epochs, from 5 on, only add trials.
fn ladder(order: Order, most_epochs: u32, config: &Config) -> Vec<Component> {
    let usual = match config.optimiser {
        Optimiser::Sgd => 0.15,
        Optimiser::Adagrad => 0.05,
    };
    let component = |epochs| Component {
        order,
        epochs,
        learning_rate: config.learning_rate.unwrap_or(usual),
    };
    let first = most_epochs.min(5);
    let doubling = std::iter::successors(Some(first), |&epochs| epochs.checked_mul(2));
    let rungs = doubling.take_while(|&epochs| epochs <= most_epochs);
    rungs.map(component).collect()
}

/// The best trial of an order, with its rows.
struct Best {
    trial: usize,
    rows: Embedding,
}

/// A search in progress.
pub(super) struct Search<'s> {
    known: Graph,
    judge: Judge<'s>,
    trainer: &'s Trainer<'s>,
    select: &'s SelectConfig,
    n_held_back: usize,
    trials: Vec<Trial>,
    /// One for each order that was tried.
    best: Vec<Best>,
    /// The trial that is chosen.
    chosen: usize,
    is_cut_short: bool,
}

impl<'s> Search<'s> {
    pub(super) fn new(
        graph: &Graph,
        sample: &'s Split,
        trainer: &'s Trainer<'s>,
        select: &'s SelectConfig,
    ) -> Result<Search<'s>, Error> {
        let mut stream = KeyedRng::new(trainer.config.seed, "line select", 0);
        let judge = Judge::new(graph, sample, select.judged_edges, L2, &mut stream)?;
        Ok(Search {
            known: Graph::from_edges(graph.n_nodes(), &sample.train)?,
            judge,
            trainer,
            select,
            n_held_back: sample.test.len(),
            trials: Vec::new(),
            best: Vec::new(),
            chosen: 0,
            is_cut_short: false,
        })
    }

    /// Doubles the epochs of an order while its score rises.
    pub(super) fn climb(
        &mut self,
        order: Order,
        timer: &Timer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let mut best: Option<Best> = None;
        let mut last_s = 0.0;
        for component in ladder(order, self.select.most_epochs, self.trainer.config) {
            if !self.has_time(timer, 2.0 * last_s) {
                self.is_cut_short = true;
                break;
            }
            let began = timer.elapsed_s();
            let rows = self.trainer.train(component, &self.known, progress)?;
            self.judge(vec![component], &rows, began, timer);
            last_s = timer.elapsed_s() - began;
            let trial = self.trials.len() - 1;
            let score = self.trials[trial].score();
            match &best {
                Some(best) if score <= self.trials[best.trial].score() => break,
                _ => best = Some(Best { trial, rows }),
            }
        }
        if let Some(best) = best {
            let is_better = self.trials[best.trial].score() > self.trials[self.chosen].score();
            if self.best.is_empty() || is_better {
                self.chosen = best.trial;
            }
            self.best.push(best);
        }
        Ok(())
    }

    /// Puts the best tables side by side with the best one, each as long as that is worth its
    /// columns.
    pub(super) fn join(&mut self, timer: &Timer) -> Result<(), Error> {
        let mut others = std::mem::take(&mut self.best);
        let score = |search: &Search<'_>, best: &Best| search.trials[best.trial].score();
        others.sort_by(|a, b| score(self, b).total_cmp(&score(self, a)));
        let mut others = others.into_iter();
        let Some(first) = others.next() else {
            return Ok(());
        };
        let mut rows = first.rows;
        for other in others {
            let began = timer.elapsed_s();
            let joined = rows.join(&other.rows)?;
            let mut components = self.trials[self.chosen].components.clone();
            components.extend_from_slice(&self.trials[other.trial].components);
            self.judge(components, &joined, began, timer);
            let trial = self.trials.len() - 1;
            if self.trials[trial].score() > self.trials[self.chosen].score() + WORTH {
                self.chosen = trial;
                rows = joined;
            }
        }
        Ok(())
    }

    fn judge(&mut self, components: Vec<Component>, rows: &Embedding, began: f64, timer: &Timer) {
        let squares: f64 = rows
            .values()
            .iter()
            .map(|&x| f64::from(x) * f64::from(x))
            .sum();
        let auc = self.judge.embedding(rows);
        self.trials.push(Trial {
            components,
            auc,
            row_norm: (squares / rows.n_nodes().max(1) as f64).sqrt(),
            seconds: timer.elapsed_s() - began,
        });
    }

    /// True if a trial of so many seconds fits; the first one does in any case.
    fn has_time(&self, timer: &Timer, seconds: f64) -> bool {
        let Some(limit) = self.select.time_limit_s else {
            return true;
        };
        self.trials.is_empty() || timer.elapsed_s() + seconds <= TRIAL_SHARE * limit
    }

    pub(super) fn finish(self, seconds: f64) -> Selection {
        Selection {
            components: self.trials[self.chosen].components.clone(),
            auc: Some(self.trials[self.chosen].auc),
            held_back_edges: self.n_held_back,
            is_cut_short: self.is_cut_short,
            trials: self.trials,
            seconds,
        }
    }
}
