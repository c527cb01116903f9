//! Choice of tables and epochs by edges that are held back, and training with what was chosen.
//!
//! ```text
//! edges --split--> known edges --> trials of each order, rates and epochs ----------.
//!            `---> held-back edges, pairs without an edge ---------------------------+--> AUC
//!                                             the best trials --> train on all edges <'
//! ```

#[cfg(test)]
mod tests;
mod trials;

use std::fmt;

use serde::{Deserialize, Serialize};
use shardgraph_device::{Device, DeviceKind, Timer};
use shardgraph_graph::Graph;

use crate::embedding::eval::Auc;
use crate::spectral::{SpectralConfig, spectral_embedding};
use crate::train::{SoftmaxTraining, softmax_training, train_with};
use crate::{
    Config, DeviceMemory, Embedding, Error, Loss, NodeLabels, Optimiser, Order, Progress, Store,
    TrainOptions, WorkTime,
};
use trials::Search;

/// One table of an embedding, and how it is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "lowercase")]
pub enum Component {
    /// Trained on samples.
    Line {
        /// First or second order.
        order: Order,
        /// Passes over the edges.
        epochs: u32,
        /// Learning rate at the start.
        learning_rate: f32,
    },
    /// Trained by the softmax loss: [`Config::softmax`].
    Softmax {
        /// Passes over the edges.
        epochs: u32,
        /// Learning rate, which does not fall.
        learning_rate: f32,
    },
    /// Eigenvectors: [`spectral_embedding`].
    Spectral {
        /// What is added to each degree, in mean degrees.
        regularisation: f32,
    },
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Component::Spectral { regularisation } => {
                write!(f, "spectral, regularisation {regularisation}")
            }
            Component::Softmax {
                epochs,
                learning_rate,
            } => write!(f, "softmax, {epochs} epochs at {learning_rate}"),
            Component::Line {
                order,
                epochs,
                learning_rate,
            } => {
                let order = match order {
                    Order::First => "1",
                    Order::Second => "2",
                    Order::Both => "both",
                };
                write!(f, "order {order}, {epochs} epochs at {learning_rate}")
            }
        }
    }
}

/// How settings are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectConfig {
    /// Share of the edges that is held back; default 0.05. Small graphs hold back up to four times
    /// that, so that 1000 edges are there to decide.
    pub held_back: f64,
    /// Most passes over the edges that a trial takes; default 100.
    pub most_epochs: u32,
    /// Edges that a trial's regression is fitted to, and held-back edges that judge it, at most;
    /// default 5000.
    pub judged_edges: usize,
    /// Seconds of the whole run, with the training at the end; default none. A trial that would
    /// not end in time is left out, the first one is not.
    pub time_limit_s: Option<f64>,
}

impl Default for SelectConfig {
    fn default() -> SelectConfig {
        SelectConfig {
            held_back: 0.05,
            most_epochs: 100,
            judged_edges: 5000,
            time_limit_s: None,
        }
    }
}

/// One training on the known edges, judged by those held back.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Trial {
    /// What was trained, side by side.
    pub components: Vec<Component>,
    /// Of the held-back edges.
    pub auc: Auc,
    /// Root of the mean square of the rows' lengths.
    pub row_norm: f64,
    /// Seconds of training and judging.
    pub seconds: f64,
}

impl Trial {
    /// The mean of both AUCs, by which trials are compared.
    #[must_use]
    pub fn score(&self) -> f64 {
        0.5 * (self.auc.uniform + self.auc.degree_matched)
    }
}

/// AUC of the held-back edges by scores that need no embedding, taken over the known edges.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Baselines {
    /// Of the product of the degrees.
    pub degree_product: Auc,
    /// Of the number of common neighbours.
    pub common_neighbors: Auc,
    /// Of Adamic and Adar's score.
    pub adamic_adar: Auc,
}

impl Baselines {
    /// Each baseline with its name.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Auc); 3] {
        [
            ("degree product", self.degree_product),
            ("common neighbours", self.common_neighbors),
            ("Adamic-Adar", self.adamic_adar),
        ]
    }
}

/// What held-back edges chose.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Selection {
    /// Tables to train, side by side in this order.
    pub components: Vec<Component>,
    /// Of the best trial; none where the graph has too few edges to hold any back.
    pub auc: Option<Auc>,
    /// Scores without an embedding on the same edges; none where `auc` is none.
    pub baselines: Option<Baselines>,
    /// Edges that were held back.
    pub held_back_edges: usize,
    /// All trials in their order.
    pub trials: Vec<Trial>,
    /// True if the time limit left trials out.
    pub is_cut_short: bool,
    /// Seconds of all trials.
    pub seconds: f64,
}

impl Selection {
    /// The baselines that tell the held-back edges apart better than the chosen rows do, against
    /// one kind of pairs or the other, each with its name.
    #[must_use]
    pub fn better_baselines(&self) -> Vec<(&'static str, Auc)> {
        let Some((auc, baselines)) = self.auc.zip(self.baselines) else {
            return Vec::new();
        };
        let is_better =
            |other: Auc| other.uniform > auc.uniform || other.degree_matched > auc.degree_matched;
        let each = baselines.each().into_iter();
        each.filter(|&(_, other)| is_better(other)).collect()
    }
}

/// An embedding with settings that held-back edges chose.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fitted {
    /// `dim` columns for each component.
    pub embedding: Embedding,
    /// The choice and all trials.
    pub selection: Selection,
    /// Samples of the final training.
    pub n_samples: u64,
    /// Seconds of the final training.
    pub seconds: f64,
    /// Seconds of the final training by what they were spent on.
    pub work: WorkTime,
}

/// LINE as an estimator: settings are chosen by held-back edges, then all edges are trained on.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_line::{Config, Line};
///
/// let karate = builtin::by_name("karate").unwrap();
/// let config = Config { dim: 8, ..Config::default() };
/// let fitted = Line::new(config).fit(&karate)?;
/// assert_eq!(fitted.embedding.n_nodes(), 34);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    config: Config,
    select: SelectConfig,
    n_parts: Option<u32>,
    reports: bool,
}

impl Line {
    /// An estimator; of `config`, epochs and rate are chosen by [`Line::fit`], and which of its
    /// orders are in the embedding. Where it has both orders, and the graph neither directions nor
    /// weights, two other tables are tried beside them: a spectral one of up to 256 columns, and
    /// for up to 4 M edges on the host one of the softmax loss. A `config` of the softmax loss has
    /// its epochs chosen alone.
    #[must_use]
    pub fn new(config: Config) -> Line {
        Line {
            config,
            select: SelectConfig::default(),
            n_parts: None,
            reports: false,
        }
    }

    /// Another way to choose.
    #[must_use]
    pub fn selecting(self, select: SelectConfig) -> Line {
        Line { select, ..self }
    }

    /// Another number of parts than [`Store::parts_on`] the device.
    #[must_use]
    pub fn parts(self, n_parts: Option<u32>) -> Line {
        Line { n_parts, ..self }
    }

    /// Reports each pass of the final training, as [`TrainOptions::reports`] says.
    #[must_use]
    pub fn reporting(self, reports: bool) -> Line {
        Line { reports, ..self }
    }

    /// Another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Line {
        self.config.seed = seed;
        self
    }

    /// The settings that trials start from.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Fits an undirected graph on the host; its nodes are called by their numbers.
    ///
    /// # Errors
    /// As [`train`](crate::train()); settings out of range.
    /// # Determinism
    /// As [`train`](crate::train()), unless there is a time limit.
    pub fn fit(&self, graph: &Graph) -> Result<Fitted, Error> {
        let labels = NodeLabels::numbers(graph.n_nodes());
        let edges: Vec<(u32, u32)> = graph.edges().collect();
        self.fit_edges(&edges, labels, &Device::host(), &mut |_| {})
    }

    /// As [`Line::fit`], from edges without directions, with labels and on a device.
    ///
    /// # Errors
    /// As [`train`](crate::train()); settings out of range.
    /// # Determinism
    /// As [`train`](crate::train()), unless there is a time limit.
    pub fn fit_edges(
        &self,
        edges: &[(u32, u32)],
        labels: NodeLabels,
        device: &Device,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fitted, Error> {
        let n_nodes = labels.len() as u32;
        let memory = DeviceMemory::of(device, &self.config)?;
        let usual = || Store::parts_on(memory.as_ref(), n_nodes, edges.len() as u64);
        let n_parts = self.n_parts.unwrap_or_else(usual);
        let store = Store::from_edges(n_nodes, edges, n_parts, labels)?;
        self.fit_store(&store, device, progress)
    }

    /// As [`Line::fit`], of a store. Directions and weights count in the final training alone.
    ///
    /// # Errors
    /// As [`train`](crate::train()); settings out of range.
    /// # Determinism
    /// As [`train`](crate::train()), unless there is a time limit.
    pub fn fit_store(
        &self,
        store: &Store,
        device: &Device,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Fitted, Error> {
        let graph = store.graph()?;
        let is_plain = !store.is_directed() && !store.is_weighted();
        let tries_others = is_plain && self.config.order == Order::Both;
        let mut trainer = Trainer {
            reports: false, // not of trials
            config: &self.config,
            n_parts: store.n_parts(),
            device,
            tries_spectral: tries_others && self.config.dim <= MAX_SPECTRAL_DIM,
            tries_softmax: tries_others
                && device.kind() == DeviceKind::Host
                && graph.n_edges() <= MAX_SOFTMAX_EDGES,
        };
        let mut of_trials = |now: Progress<'_>| progress(now.of_choice());
        let selection = select(&graph, &trainer, &self.select, &mut of_trials)?;
        trainer.reports = self.reports;
        let timer = Timer::wall();
        let (mut n_samples, mut work) = (0, WorkTime::default());
        let mut joined: Option<Embedding> = None;
        for component in &selection.components {
            let made = trainer.make(*component, store, &graph, progress)?;
            n_samples += made.n_samples;
            work.add(made.work);
            let labels = store.labels()?.clone();
            let rows = Embedding::new(self.config.dim, made.rows.into_values(), labels)?;
            joined = Some(match joined {
                None => rows,
                Some(first) => first.join(&rows)?,
            });
        }
        let nothing = || Error::graph("no order was chosen".to_owned());
        Ok(Fitted {
            embedding: joined.ok_or_else(nothing)?,
            selection,
            n_samples,
            seconds: timer.elapsed_s(),
            work,
        })
    }
}

/// Columns of a spectral table at most: the eigenvectors of a matrix of as many columns take the
/// cube of their number.
const MAX_SPECTRAL_DIM: usize = 256;

/// Edges of a graph at most whose softmax table is tried: a sample takes about as long as ten of
/// the other loss.
const MAX_SOFTMAX_EDGES: u64 = 1 << 22;

/// What all trials share.
struct Trainer<'t> {
    config: &'t Config,
    n_parts: u32,
    device: &'t Device,
    tries_spectral: bool,
    tries_softmax: bool,
    /// True: passes are reported.
    reports: bool,
}

/// A kind of table, of which the best trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Order(Order),
    Softmax,
    Spectral,
}

impl Family {
    fn is_order(self) -> bool {
        matches!(self, Family::Order(_))
    }
}

/// One table, and what it took.
struct Made {
    rows: Embedding,
    n_samples: u64,
    work: WorkTime,
}

impl Trainer<'_> {
    /// Makes one table of a store, whose graph is at hand.
    fn make(
        &self,
        component: Component,
        store: &Store,
        graph: &Graph,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Made, Error> {
        match component {
            Component::Spectral { regularisation } => {
                let config = SpectralConfig {
                    dim: self.config.dim,
                    regularisation,
                    seed: self.config.seed,
                    threads: self.config.threads,
                    ..SpectralConfig::default()
                };
                Ok(Made {
                    rows: spectral_embedding(graph, &config)?,
                    n_samples: 0,
                    work: WorkTime::default(),
                })
            }
            Component::Line {
                order,
                epochs,
                learning_rate,
            } => {
                let settings = Config {
                    order,
                    epochs,
                    learning_rate: Some(learning_rate),
                    ..self.config.clone()
                };
                self.trained(&settings, store, progress)
            }
            Component::Softmax {
                epochs,
                learning_rate,
            } => {
                let settings = Config {
                    epochs,
                    learning_rate: Some(learning_rate),
                    ..self.softmax_config()
                };
                self.trained(&settings, store, progress)
            }
        }
    }

    fn trained(
        &self,
        settings: &Config,
        store: &Store,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Made, Error> {
        let options = TrainOptions {
            reports: self.reports,
            ..TrainOptions::default()
        };
        let trained = train_with(store, settings, options, self.device, progress)?;
        Ok(Made {
            rows: trained.embedding,
            n_samples: trained.n_samples,
            work: trained.work,
        })
    }

    /// The settings of softmax tables: the user's, or beside the orders the usual ones.
    fn softmax_config(&self) -> Config {
        if self.config.loss == Loss::Softmax {
            return self.config.clone();
        }
        let Config {
            dim, threads, seed, ..
        } = *self.config;
        Config {
            dim,
            threads,
            seed,
            ..Config::softmax()
        }
    }

    /// The kinds of tables whose epochs are chosen, in the order in which they are tried.
    fn climbing(&self) -> Vec<Family> {
        if self.config.loss == Loss::Softmax {
            return vec![Family::Softmax];
        }
        let orders = self.config.order.each().iter().rev();
        let orders = orders.map(|&number| Family::Order(Order::one(number)));
        let softmax = self.tries_softmax.then_some(Family::Softmax);
        orders.chain(softmax).collect()
    }

    /// A table that is trained for some epochs at its usual rate, or at the user's.
    fn component(&self, family: Family, epochs: u32) -> Option<Component> {
        match family {
            Family::Order(order) => {
                let usual = match self.config.optimiser {
                    Optimiser::Sgd => 0.15,
                    Optimiser::Adagrad => 0.05,
                };
                Some(Component::Line {
                    order,
                    epochs,
                    learning_rate: self.config.learning_rate.unwrap_or(usual),
                })
            }
            Family::Softmax => Some(Component::Softmax {
                epochs,
                learning_rate: self.softmax_config().first_rate(),
            }),
            Family::Spectral => None,
        }
    }

    /// A softmax training of a graph, before its first epoch.
    fn softmax_training(&self, graph: &Graph) -> Result<SoftmaxTraining, Error> {
        softmax_training(graph, &self.softmax_config(), self.device)
    }
}

/// Chooses orders, epochs and rates by edges that are held back.
///
/// The epochs of each kind of table rise while the held-back edges are told apart better; an
/// order that is far behind the other is left, where its trials are long. Then the best tables are
/// put side by side, if that is better still. A graph with too few edges to hold any back gets the
/// settings as they are, with `most_epochs`. Each trial is reported as it ends.
fn select(
    graph: &Graph,
    trainer: &Trainer<'_>,
    select: &SelectConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Selection, Error> {
    check(select)?;
    let timer = Timer::wall();
    let config = trainer.config;
    let Some(sample) = trials::hold_back(graph, select, config.seed)? else {
        return Ok(Selection {
            components: without_choice(trainer, select.most_epochs),
            auc: None,
            baselines: None,
            held_back_edges: 0,
            trials: Vec::new(),
            is_cut_short: false,
            seconds: timer.elapsed_s(),
        });
    };
    let mut search = Search::new(graph, &sample, trainer, select)?;
    if trainer.tries_spectral {
        search.try_spectral(&timer, progress)?;
    }
    search.climb(&trainer.climbing(), &timer, progress)?;
    search.join(&timer, progress)?;
    Ok(search.finish(timer.elapsed_s()))
}

/// The tables of a graph that has too few edges to hold any back.
fn without_choice(trainer: &Trainer<'_>, epochs: u32) -> Vec<Component> {
    let settings = Config {
        epochs,
        ..trainer.config.clone()
    };
    let learning_rate = settings.first_rate();
    if settings.loss == Loss::Softmax {
        return vec![Component::Softmax {
            epochs,
            learning_rate,
        }];
    }
    let orders = settings.order.each().iter().rev();
    let component = |&number: &u32| Component::Line {
        order: Order::one(number),
        epochs,
        learning_rate,
    };
    orders.map(component).collect()
}

fn check(select: &SelectConfig) -> Result<(), Error> {
    if !(select.held_back > 0.0 && select.held_back <= 0.5) {
        let expected = "a share above 0, at most 0.5";
        return Err(Error::setting("held_back", select.held_back, expected));
    }
    if select.most_epochs == 0 {
        return Err(Error::setting("epochs", 0, "1 or more"));
    }
    if select.judged_edges == 0 {
        return Err(Error::setting("judged_edges", 0, "1 or more"));
    }
    match select.time_limit_s {
        Some(limit) if limit.is_nan() || limit <= 0.0 => {
            Err(Error::setting("time_limit", limit, "seconds above 0"))
        }
        _ => Ok(()),
    }
}
