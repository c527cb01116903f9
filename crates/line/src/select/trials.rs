//! Trials: trainings on the edges that are known, judged by those held back.

use shardgraph_device::Timer;
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

use super::{Baselines, Component, Family, SelectConfig, Selection, Trainer, Trial};
use crate::embedding::eval::{Judge, Split, adamic_adar, common_neighbors, degree_product, split};
use crate::train::{SoftmaxTraining, row_norm};
use crate::{Embedding, Error, NodeLabels, Progress, Store};

/// Fewest edges that can decide anything.
const FEWEST: u64 = 20;
/// Weight of the squares in the regression, as in link prediction.
const L2: f64 = 1e-4;
/// Better by less than this is no better: a wider table must be worth its columns.
const WORTH: f64 = 0.002;
/// An order whose score is so much below the other's, after as many epochs, climbs no further.
/// (Softmax has its best score after few epochs, orders after many: they are not compared.)
const BEHIND: f64 = 0.03;
/// Samples of a trial that takes no longer than its judgement: an order whose next trial has no
/// more is not left for being behind, since order 2 rises late on sparse graphs.
const SHORT_TRIAL: u64 = 1 << 21;
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

/// Epochs to try. Those of an order double at one rate, so the sum of an edge's rates doubles too.
/// Those of softmax, each trial of which goes on from the one before it, rise by less: 2, 4, 6, 8,
/// 12, 16, ... More epochs, from the first number on, only add trials.
pub(super) fn ladder(family: Family, most_epochs: u32) -> Vec<u32> {
    let first = match family {
        Family::Softmax => 2,
        Family::Order(_) | Family::Spectral => 5,
    };
    let next = |&epochs: &u32| match family {
        // From 2^k to 3 * 2^(k - 1), and on to 2^(k + 1).
        Family::Softmax if epochs > 3 => epochs.checked_add(1 << (epochs.ilog2() - 1)),
        _ => epochs.checked_mul(2),
    };
    std::iter::successors(Some(most_epochs.min(first)), next)
        .take_while(|&epochs| epochs <= most_epochs)
        .collect()
}

/// True for an order that climbs no further beside the best one: its score is far behind, and its
/// next trial, of so many samples, is long.
pub(super) fn is_left(score: f64, best: f64, next_samples: u64) -> bool {
    score < best - BEHIND && next_samples > SHORT_TRIAL
}

/// The best trial of a kind of table, with its rows.
struct Best {
    family: Family,
    trial: usize,
    rows: Embedding,
}

/// A kind of table whose epochs rise.
struct Climber {
    family: Family,
    /// Of its last trial.
    epochs: u32,
    /// Of its last trial.
    score: f64,
    /// Of its last trial; 0 before the first.
    seconds: f64,
}

impl Climber {
    fn new(family: Family) -> Climber {
        Climber {
            family,
            epochs: 0,
            score: 0.0,
            seconds: 0.0,
        }
    }
}

/// What came of a trial.
struct Attempt {
    score: f64,
    /// Over the best trial of its kind so far; infinite for the first.
    gain: f64,
    seconds: f64,
}

/// A search in progress.
pub(super) struct Search<'s> {
    known: Graph,
    /// The same edges in buckets.
    store: Store,
    /// The softmax training, as far as it is.
    softmax: Option<SoftmaxTraining>,
    judge: Judge<'s>,
    trainer: &'s Trainer<'s>,
    select: &'s SelectConfig,
    n_held_back: usize,
    trials: Vec<Trial>,
    /// One for each kind of table that was tried.
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
        let judge = Judge::new(graph, sample, select.judged_edges, L2, &mut stream)?
            .with_threads(trainer.config.threads);
        let known = Graph::from_edges(graph.n_nodes(), &sample.train)?;
        let edges: Vec<(u32, u32)> = known.edges().collect();
        let labels = NodeLabels::numbers(graph.n_nodes());
        Ok(Search {
            store: Store::from_edges(graph.n_nodes(), &edges, trainer.n_parts, labels)?,
            softmax: None,
            known,
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

    /// Tries eigenvectors, without and with regularisation.
    pub(super) fn try_spectral(
        &mut self,
        timer: &Timer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        for regularisation in [0.0, 1.0] {
            if !self.has_time(timer, 0.0) {
                self.is_cut_short = true;
                break;
            }
            let component = Component::Spectral { regularisation };
            self.attempt(Family::Spectral, component, timer, progress)?;
        }
        Ok(())
    }

    /// Raises the epochs of all kinds of tables side by side, of each one while its score rises by
    /// [`WORTH`], and of an order while it is not [`BEHIND`] the other, or its trials are short.
    pub(super) fn climb(
        &mut self,
        families: &[Family],
        timer: &Timer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let mut climbing: Vec<Climber> = families.iter().copied().map(Climber::new).collect();
        for rung in 0.. {
            let mut rising = Vec::new();
            for climber in climbing {
                let family = climber.family;
                let rungs = ladder(family, self.select.most_epochs);
                let Some(&epochs) = rungs.get(rung) else {
                    continue;
                };
                let Some(component) = self.trainer.component(family, epochs) else {
                    continue;
                };
                if !self.has_time(timer, 2.0 * climber.seconds) {
                    self.is_cut_short = true;
                    continue;
                }
                let attempt = self.attempt(family, component, timer, progress)?;
                if attempt.gain >= WORTH {
                    rising.push(Climber {
                        family,
                        epochs,
                        score: attempt.score,
                        seconds: attempt.seconds,
                    });
                }
            }
            let orders = rising.iter().filter(|climber| climber.family.is_order());
            let best = orders.map(|climber| climber.score).fold(0.0, f64::max);
            rising.retain(|climber| {
                let next = 2 * u64::from(climber.epochs) * self.known.n_edges();
                !climber.family.is_order() || !is_left(climber.score, best, next)
            });
            if rising.is_empty() {
                break;
            }
            climbing = rising;
        }
        Ok(())
    }

    /// Makes a table of the known edges and judges it.
    fn attempt(
        &mut self,
        family: Family,
        component: Component,
        timer: &Timer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Attempt, Error> {
        let began = timer.elapsed_s();
        let rows = self.rows(component, progress)?;
        self.judge(vec![component], &rows, began, timer)?;
        self.report(progress);
        let trial = self.trials.len() - 1;
        let score = self.trials[trial].score();
        if score > self.trials[self.chosen].score() {
            self.chosen = trial;
        }
        let earlier = self.best.iter_mut().find(|best| best.family == family);
        let gain = match earlier {
            None => {
                self.best.push(Best {
                    family,
                    trial,
                    rows,
                });
                f64::INFINITY
            }
            Some(best) => {
                let gain = score - self.trials[best.trial].score();
                if gain > 0.0 {
                    *best = Best {
                        family,
                        trial,
                        rows,
                    };
                }
                gain
            }
        };
        Ok(Attempt {
            score,
            gain,
            seconds: timer.elapsed_s() - began,
        })
    }

    /// Makes one table of the known edges.
    fn rows(
        &mut self,
        component: Component,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Embedding, Error> {
        let Component::Softmax { epochs, .. } = component else {
            let made = (self.trainer).make(component, &self.store, &self.known, progress)?;
            return Ok(made.rows);
        };
        let training = match &mut self.softmax {
            Some(training) if training.epochs() <= epochs => training,
            other => other.insert(self.trainer.softmax_training(&self.known)?),
        };
        training.train_to(epochs, progress)?;
        let labels = NodeLabels::numbers(self.known.n_nodes());
        Embedding::new(self.trainer.config.dim, training.rows().to_vec(), labels)
    }

    /// Puts the best tables side by side with the best one, each as long as that is worth its
    /// columns.
    pub(super) fn join(
        &mut self,
        timer: &Timer,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
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
            self.judge(components, &joined, began, timer)?;
            self.report(progress);
            let trial = self.trials.len() - 1;
            if self.trials[trial].score() > self.trials[self.chosen].score() + WORTH {
                self.chosen = trial;
                rows = joined;
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        components: Vec<Component>,
        rows: &Embedding,
        began: f64,
        timer: &Timer,
    ) -> Result<(), Error> {
        let auc = self.judge.embedding(rows)?;
        self.trials.push(Trial {
            components,
            auc,
            row_norm: row_norm(rows.values(), rows.n_nodes()),
            seconds: timer.elapsed_s() - began,
        });
        Ok(())
    }

    /// Reports the last trial.
    fn report(&self, progress: &mut dyn FnMut(Progress)) {
        progress(Progress {
            samples: 0,
            n_samples: 0,
            pass: None,
            is_choice: true,
            trial: self.trials.last(),
        });
    }

    /// True if a trial of so many seconds fits; the first one does in any case.
    fn has_time(&self, timer: &Timer, seconds: f64) -> bool {
        let Some(limit) = self.select.time_limit_s else {
            return true;
        };
        self.trials.is_empty() || timer.elapsed_s() + seconds <= TRIAL_SHARE * limit
    }

    fn baselines(&self) -> Baselines {
        let (judge, known) = (&self.judge, &self.known);
        Baselines {
            degree_product: judge.score(&|u, v| degree_product(known, u, v)),
            common_neighbors: judge.score(&|u, v| f64::from(common_neighbors(known, u, v))),
            adamic_adar: judge.score(&|u, v| adamic_adar(known, u, v)),
        }
    }

    pub(super) fn finish(self, seconds: f64) -> Selection {
        Selection {
            components: self.trials[self.chosen].components.clone(),
            auc: Some(self.trials[self.chosen].auc),
            baselines: Some(self.baselines()),
            held_back_edges: self.n_held_back,
            is_cut_short: self.is_cut_short,
            trials: self.trials,
            seconds,
        }
    }
}
