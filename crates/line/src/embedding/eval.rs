//! Link prediction: how well an embedding of part of a graph's edges tells the others from pairs
//! that are none.
//!
//! Edges are split, the embedding is trained on the larger share, and a logistic regression over
//! the products of columns (Hadamard) of the two rows is fitted to those edges and as many pairs
//! that are no edges. Its AUC is taken on the held-out edges and as many other pairs. Uniform pairs
//! are told apart by degree alone, so every AUC comes twice, the second time with pairs whose ends
//! are drawn as those of edges are; and beside scores that need no embedding, such as the product of
//! the degrees and Adamic and Adar's count of common neighbours, and factorised matrices.

mod baseline;
mod judge;
#[cfg(test)]
mod naive;
mod pairs;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use shardgraph_device::{Device, Timer};
use shardgraph_graph::Graph;
use shardgraph_random::KeyedRng;

pub use baseline::{adamic_adar, common_neighbors, degree_product};
pub(crate) use judge::Judge;
pub use pairs::{Split, degree_matched_pairs, split, uniform_pairs};

use crate::{
    Config, DeviceMemory, Embedding, Error, Line, NodeLabels, Progress, Selection, SpectralConfig,
    SpectralMatrix, Store, spectral_embedding, train,
};

/// How link prediction is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvalConfig {
    /// The share of the edges to train on; default 0.7.
    pub train_share: f64,
    /// Splits, each with an embedding of its own; default 1, the paper's number is 6.
    pub runs: u32,
    /// Edges that the logistic regression is fitted to at most, and as many other pairs; default
    /// 60000.
    pub fitted_edges: usize,
    /// Weight of the squares in the regression, relative to its mean loss; default 1e-4.
    pub l2: f64,
    /// Parts of the tables; by default [`Store::parts_on`] the device.
    pub parts: Option<u32>,
    /// Edges at most of a graph whose matrices are factorised as baselines; default 2^20.
    pub factorised_edges: u64,
}

impl Default for EvalConfig {
    fn default() -> EvalConfig {
        EvalConfig {
            train_share: 0.7,
            runs: 1,
            fitted_edges: 60_000,
            l2: 1e-4,
            parts: None,
            factorised_edges: 1 << 20,
        }
    }
}

/// One measure with both kinds of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Auc {
    /// Against pairs drawn uniformly.
    pub uniform: f64,
    /// Against pairs whose ends are drawn in proportion to their degrees.
    pub degree_matched: f64,
}

/// What one split gave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunScore {
    /// Of the embedding: a regression over the products of the columns of two rows.
    pub embedding: Auc,
    /// Of the same rows by other scores of a pair.
    pub operators: Operators,
    /// Of the product of the degrees in the edges that were trained on.
    pub degree_product: Auc,
    /// Of the number of common neighbours over those edges.
    pub common_neighbors: Auc,
    /// Of Adamic and Adar's score over those edges.
    pub adamic_adar: Auc,
    /// Of factorised matrices of those edges; none where the graph has too many.
    pub factorised: Option<Factorised>,
    /// Samples of the training.
    pub n_samples: u64,
    /// Seconds of the training.
    pub seconds: f64,
    /// Of these, the passes: what samples are counted by.
    pub training_s: f64,
    /// Nodes that have no edge among those trained on; their rows are as they began.
    pub unseen_nodes: u32,
}

/// Other scores of a pair than a regression over products of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Operators {
    /// The dot product of the rows, without a fit.
    pub dot: Auc,
    /// Their cosine, without a fit.
    pub cosine: Auc,
    /// A regression over the squares of the differences of the columns.
    pub weighted_l2: Auc,
}

impl Operators {
    /// Each score with its name.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Auc); 3] {
        [
            ("dot product", self.dot),
            ("cosine", self.cosine),
            ("weighted L2", self.weighted_l2),
        ]
    }
}

/// Rows of factorised matrices, as wide as the embedding and at most 256 columns, judged as it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Factorised {
    /// Eigenvectors of the normalised adjacency matrix.
    pub spectral: Auc,
    /// A truncated singular value decomposition of the adjacency matrix.
    pub truncated_svd: Auc,
    /// NetMF with a window of 1.
    pub netmf: Auc,
}

impl Factorised {
    /// Each baseline with its name.
    #[must_use]
    pub fn each(&self) -> [(&'static str, Auc); 3] {
        [
            ("spectral", self.spectral),
            ("truncated SVD", self.truncated_svd),
            ("NetMF, window 1", self.netmf),
        ]
    }
}

/// Splits, trains and scores, once for each run.
///
/// ```no_run
/// use shardgraph_device::Device;
/// use shardgraph_graph::builtin;
/// use shardgraph_line::{Config, eval};
///
/// let karate = builtin::by_name("karate").unwrap();
/// let config = Config { epochs: 100, ..Config::default() };
/// let (eval_config, device) = (eval::EvalConfig::default(), Device::host());
/// let scores = eval::evaluate(&karate, &config, &eval_config, &device, &mut |_| {})?;
/// println!("AUC {:.3}", scores[0].embedding.uniform);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// Settings that make no sense; a graph with too few edges, or with hardly a pair that is no edge;
/// what training fails with.
///
/// # Determinism
/// As [`train`]: split, pairs and fit depend on the seed alone.
pub fn evaluate(
    graph: &Graph,
    config: &Config,
    eval: &EvalConfig,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<RunScore>, Error> {
    let n_nodes = graph.n_nodes();
    let memory = DeviceMemory::of(device, config)?;
    let usual = || Store::parts_on(memory.as_ref(), n_nodes, graph.n_edges());
    let n_parts = eval.parts.unwrap_or_else(usual);
    let mut make = |edges: &[(u32, u32)], seed: u64| {
        let store = Store::from_edges(n_nodes, edges, n_parts, NodeLabels::numbers(n_nodes))?;
        let config = Config {
            seed,
            ..config.clone()
        };
        let trained = train(&store, &config, device, progress)?;
        Ok(Made {
            n_samples: trained.n_samples,
            seconds: trained.seconds,
            training_s: trained.work.training_s,
            embedding: trained.embedding,
        })
    };
    all_runs(graph, config.seed, eval, &mut make)
}

/// As [`evaluate`], with settings that held-back edges of each split's training share choose; and
/// the choice of each run.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_line(
    graph: &Graph,
    line: &Line,
    eval: &EvalConfig,
    device: &Device,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<RunScore>, Vec<Selection>), Error> {
    let n_nodes = graph.n_nodes();
    let mut selections = Vec::new();
    let mut make = |edges: &[(u32, u32)], seed: u64| {
        let labels = NodeLabels::numbers(n_nodes);
        let line = line.clone().seed(seed).parts(eval.parts);
        let fitted = line.fit_edges(edges, labels, device, progress)?;
        let choosing_s = fitted.selection.seconds;
        selections.push(fitted.selection);
        Ok(Made {
            n_samples: fitted.n_samples,
            seconds: fitted.seconds + choosing_s,
            training_s: fitted.work.training_s,
            embedding: fitted.embedding,
        })
    };
    let scores = all_runs(graph, line.config().seed, eval, &mut make)?;
    Ok((scores, selections))
}

/// What making rows may fail with.
pub type RowsFailure = Box<dyn std::error::Error + Send + Sync>;

/// Makes a row for each node from edges and a seed.
pub type MakeRows<'m> = dyn FnMut(&[(u32, u32)], u64) -> Result<Embedding, RowsFailure> + 'm;

/// As [`evaluate`], of rows that come from elsewhere: for each run, `make` is given the edges to
/// learn from and a seed, and is timed.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_line::{Embedding, NodeLabels, eval};
///
/// let karate = builtin::by_name("karate").unwrap();
/// // The degree as the only column.
/// let scores = eval::evaluate_rows(&karate, 1, &eval::EvalConfig::default(), &mut |edges, _seed| {
///     let mut rows = vec![0.0; 34];
///     edges.iter().flat_map(|&(u, v)| [u, v]).for_each(|node| rows[node as usize] += 1.0);
///     Ok(Embedding::new(1, rows, NodeLabels::numbers(34))?)
/// })?;
/// assert!((scores[0].embedding.uniform - scores[0].degree_product.uniform).abs() < 0.05);
/// # Ok::<(), shardgraph_line::Error>(())
/// ```
///
/// # Errors
/// As [`evaluate`]; what `make` fails with, of kind [`Error::File`] where it is no [`Error`]; rows
/// of another number of nodes.
pub fn evaluate_rows(
    graph: &Graph,
    seed: u64,
    eval: &EvalConfig,
    make: &mut MakeRows<'_>,
) -> Result<Vec<RunScore>, Error> {
    let mut timed = |edges: &[(u32, u32)], seed: u64| {
        let timer = Timer::wall();
        let embedding = make(edges, seed).map_err(|failure| match failure.downcast() {
            Ok(own) => *own,
            Err(other) => Error::File(other.to_string()),
        })?;
        let seconds = timer.elapsed_s();
        if embedding.n_nodes() != graph.n_nodes() as usize {
            let expected = format!("{}, one for each node", graph.n_nodes());
            return Err(Error::setting("rows", embedding.n_nodes(), &expected));
        }
        Ok(Made {
            embedding,
            n_samples: 0,
            seconds,
            training_s: seconds,
        })
    };
    all_runs(graph, seed, eval, &mut timed)
}

/// The rows of a run, and what they took.
struct Made {
    embedding: Embedding,
    n_samples: u64,
    seconds: f64,
    training_s: f64,
}

/// Makes the rows of a run.
type Make<'m> = dyn FnMut(&[(u32, u32)], u64) -> Result<Made, Error> + 'm;

fn all_runs(
    graph: &Graph,
    seed: u64,
    eval: &EvalConfig,
    make: &mut Make<'_>,
) -> Result<Vec<RunScore>, Error> {
    check(eval)?;
    let run = |run: u32| one_run(graph, seed.wrapping_add(u64::from(run)), eval, make);
    (0..eval.runs).map(run).collect()
}

fn check(eval: &EvalConfig) -> Result<(), Error> {
    if !(eval.train_share > 0.0 && eval.train_share < 1.0) {
        let expected = "a share between 0 and 1";
        return Err(Error::setting("train_share", eval.train_share, expected));
    }
    if eval.runs == 0 {
        return Err(Error::setting("runs", 0, "1 or more"));
    }
    if eval.fitted_edges == 0 {
        return Err(Error::setting("fitted_edges", 0, "1 or more"));
    }
    match eval.l2 >= 0.0 {
        true => Ok(()),
        false => Err(Error::setting("l2", eval.l2, "a number of 0 or more")),
    }
}

fn one_run(
    graph: &Graph,
    seed: u64,
    eval: &EvalConfig,
    make: &mut Make<'_>,
) -> Result<RunScore, Error> {
    let split = split(graph, eval.train_share, seed)?;
    let n_nodes = graph.n_nodes();
    let made = make(&split.train, seed)?;
    let known = Graph::from_edges(n_nodes, &split.train)?;
    let mut stream = KeyedRng::new(seed, "line pairs", 0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let judge =
        Judge::new(graph, &split, eval.fitted_edges, eval.l2, &mut stream)?.with_threads(threads);
    let factorised = match known.n_edges() <= eval.factorised_edges {
        true => Some(factorised(&known, &judge, made.embedding.dim(), seed)?),
        false => None,
    };
    Ok(RunScore {
        factorised,
        embedding: judge.embedding(&made.embedding)?,
        operators: judge.operators(&made.embedding)?,
        degree_product: judge.score(&|u, v| degree_product(&known, u, v)),
        common_neighbors: judge.score(&|u, v| f64::from(common_neighbors(&known, u, v))),
        adamic_adar: judge.score(&|u, v| adamic_adar(&known, u, v)),
        n_samples: made.n_samples,
        seconds: made.seconds,
        training_s: made.training_s,
        unseen_nodes: (0..n_nodes).filter(|&v| known.degree(v) == 0).count() as u32,
    })
}

/// The factorised matrices of the known edges, judged.
fn factorised(
    known: &Graph,
    judge: &Judge<'_>,
    dim: usize,
    seed: u64,
) -> Result<Factorised, Error> {
    let of = |matrix| {
        let config = SpectralConfig {
            matrix,
            dim: dim.min(MAX_FACTORS),
            seed,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            ..SpectralConfig::default()
        };
        judge.embedding(&spectral_embedding(known, &config)?)
    };
    Ok(Factorised {
        spectral: of(SpectralMatrix::Normalised)?,
        truncated_svd: of(SpectralMatrix::Adjacency)?,
        netmf: of(SpectralMatrix::NetMf)?,
    })
}

/// Columns of a factorised matrix at most.
const MAX_FACTORS: usize = 256;
