//! R-GCN: classes of the nodes of a relational graph, and links between them.

use std::path::PathBuf;

use numpy::{
    IntoPyArray as _, PyArray1, PyArray2, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;
use shardgraph_collectives::Timeout;
use shardgraph_rgcn::{
    Config, Error, Labels, LinkConfig, LinkData, LinkOptions, LinkScores, Question, RankScores,
    RelationalGraph, RunOptions, SavedLinks, predict, predict_probabilities, train, train_links,
};

use crate::errors::{IntoPyErr, by_class};
use crate::job::{Done, check_stop, detached, run};
use crate::settings::overlay;

/// A relational graph with the inverse of each edge.
#[pyclass(frozen, module = "shardgraph._shardgraph")]
pub(crate) struct NativeTriples {
    graph: RelationalGraph,
}

#[pymethods]
impl NativeTriples {
    #[new]
    fn new(
        py: Python<'_>,
        n_nodes: u32,
        n_relations: u32,
        heads: PyReadonlyArray1<'_, u32>,
        relations: PyReadonlyArray1<'_, u32>,
        tails: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<NativeTriples> {
        let columns = [heads.to_vec()?, relations.to_vec()?, tails.to_vec()?];
        detached(py, || {
            let [heads, relations, tails] = columns;
            let graph = RelationalGraph::new(n_nodes, n_relations, heads, relations, tails)?;
            let graph = graph.with_inverses()?;
            Ok::<_, Error>(NativeTriples { graph })
        })
    }

    /// Trains a model into a folder; the loss of each epoch.
    fn train(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        nodes: PyReadonlyArray1<'_, u32>,
        classes: PyReadonlyArray1<'_, u32>,
        config: &str,
        ranks: u32,
    ) -> PyResult<Vec<f64>> {
        let config: Config = serde_json::from_str(config)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let n_classes = classes
            .as_slice()?
            .iter()
            .max()
            .map_or(0, |&class| class + 1);
        let pairs = nodes.as_slice()?.iter().copied();
        let pairs = pairs.zip(classes.as_slice()?.iter().copied()).collect();
        let options = RunOptions {
            folder: Some(folder),
            n_ranks: ranks,
            ..RunOptions::default()
        };
        let Done { value, .. } = run(py, |stop| {
            let labels = Labels::new(n_classes, pairs, Vec::new(), Vec::new())?;
            labels.check_nodes(&self.graph)?;
            train(&self.graph, &labels, &config, &options, &mut |_| {
                check_stop(stop)
            })
        })?;
        Ok(value.reports.iter().map(|report| report.loss).collect())
    }

    /// The likeliest class of each node by the model in a folder.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        nodes: PyReadonlyArray1<'py, u32>,
    ) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let nodes = nodes.as_slice()?;
        let found = detached(py, || {
            predict(&self.graph, &folder, nodes, Timeout::default())
        })?;
        let found: Vec<i64> = found.into_iter().map(i64::from).collect();
        Ok(found.into_pyarray(py))
    }

    /// The probability of each class of each node by the model in a folder, [nodes, classes].
    fn predict_probabilities<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        nodes: PyReadonlyArray1<'py, u32>,
        n_classes: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let nodes = nodes.as_slice()?;
        let found = detached(py, || {
            predict_probabilities(&self.graph, &folder, nodes, Timeout::default())
        })?;
        let flat: Vec<f64> = found
            .into_iter()
            .flat_map(|one| one.probabilities)
            .collect();
        flat.into_pyarray(py).reshape([nodes.len(), n_classes])
    }
}

/// Triples to learn from, to choose by and to test on.
#[pyclass(frozen, module = "shardgraph._shardgraph")]
pub(crate) struct NativeLinks {
    data: LinkData,
}

#[pymethods]
impl NativeLinks {
    /// The first `n_train` triples are to learn from, the next `n_valid` to choose by, the others to test on.
    #[new]
    fn new(
        py: Python<'_>,
        shape: (u32, u32),
        heads: PyReadonlyArray1<'_, u32>,
        relations: PyReadonlyArray1<'_, u32>,
        tails: PyReadonlyArray1<'_, u32>,
        n_train: usize,
        n_valid: usize,
    ) -> PyResult<NativeLinks> {
        let columns = [heads.to_vec()?, relations.to_vec()?, tails.to_vec()?];
        let data = detached(py, || {
            let [heads, relations, tails] = columns;
            let n = heads.len();
            let graph = RelationalGraph::new(shape.0, shape.1, heads, relations, tails)?;
            let n_fitted = n_train.saturating_add(n_valid);
            LinkData::new(&graph, 0..n_train, n_train..n_fitted, n_fitted..n)
        })?;
        Ok(NativeLinks { data })
    }

    /// Trains a model into a folder; settings that differ from the defaults are JSON.
    fn train<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        settings: &str,
        ranks: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let config = link_config(self.data.n_nodes(), settings)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let options = LinkOptions {
            folder: Some(folder),
            n_ranks: ranks,
            ..LinkOptions::default()
        };
        let Done { value, .. } = run(py, |stop| {
            train_links(&self.data, &config, &options, &mut |_| check_stop(stop))
        })?;
        let losses: Vec<f64> = value.reports.iter().map(|report| report.loss).collect();
        let dict = PyDict::new(py);
        dict.set_item("losses", losses)?;
        dict.set_item("best_epoch", value.best_epoch)?;
        dict.set_item("params_hash", format!("{:016x}", value.params_hash))?;
        Ok(dict)
    }

    /// The scores of the test triples by the model of a folder, filtered and raw; absent without triples to test on.
    fn rank<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
    ) -> PyResult<Option<(Bound<'py, PyDict>, Bound<'py, PyDict>)>> {
        let done = run(py, |_| {
            let (_, test) = SavedLinks::read(&self.data, &folder)?.rank(&self.data)?;
            Ok::<Option<LinkScores>, Error>(test)
        })?;
        let both = |scores: LinkScores| {
            let dicts = (
                scores_dict(py, &scores.filtered),
                scores_dict(py, &scores.raw),
            );
            Ok((dicts.0?, dicts.1?))
        };
        done.value.map(both).transpose()
    }

    /// The nodes of the highest scores at the other end of each question, and their scores, [n, n_best] each.
    #[expect(clippy::type_complexity, reason = "two arrays")]
    fn complete<'py>(
        &self,
        py: Python<'py>,
        folder: PathBuf,
        questions: PyReadonlyArray2<'py, u32>,
        is_head: bool,
        n_best: usize,
    ) -> PyResult<(Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f32>>)> {
        let question = |pair: &[u32]| Question {
            given: pair[0],
            relation: pair[1],
            is_head,
        };
        let questions: Vec<Question> = questions
            .as_slice()?
            .chunks_exact(2)
            .map(question)
            .collect();
        let done = run(py, |_| {
            SavedLinks::read(&self.data, &folder)?.complete_all(&self.data, &questions, n_best)
        })?;
        let shape = [questions.len(), n_best.min(self.data.n_nodes() as usize)];
        let found = done.value.iter().flatten();
        let nodes: Vec<i64> = found.clone().map(|one| i64::from(one.node)).collect();
        let scores: Vec<f32> = found.map(|one| one.score).collect();
        Ok((
            nodes.into_pyarray(py).reshape(shape)?,
            scores.into_pyarray(py).reshape(shape)?,
        ))
    }
}

fn scores_dict<'py>(py: Python<'py>, scores: &RankScores) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("n_ranks", scores.n_ranks)?;
    dict.set_item("mrr", scores.mrr)?;
    dict.set_item("mean_rank", scores.mean_rank)?;
    dict.set_item("hits@1", scores.hits_at_1)?;
    dict.set_item("hits@3", scores.hits_at_3)?;
    dict.set_item("hits@10", scores.hits_at_10)?;
    Ok(dict)
}

/// The default settings of a model, with those of `settings` in their place.
///
/// With `"encode": true` R-GCN beside the decoder; where the loss is sampled, the paper's model or a sampled decoder; else the
/// default for so many nodes.
fn link_config(n_nodes: u32, settings: &str) -> Result<LinkConfig, serde_json::Error> {
    let settings: Value = serde_json::from_str(settings)?;
    let encodes = settings.get("encode") == Some(&Value::Bool(true));
    let is_sampled =
        matches!(settings.get("loss"), Some(Value::String(loss)) if loss != "k-vs-all");
    let base = match (encodes, is_sampled) {
        (true, true) => LinkConfig::paper(),
        (true, false) => LinkConfig::with_encoder(),
        (false, true) => LinkConfig::sampled(),
        (false, false) => LinkConfig::for_nodes(n_nodes),
    };
    let is_warm_up_given = settings.get("warm_epochs").is_some();
    let mut whole = serde_json::to_value(base)?;
    overlay(&mut whole, settings);
    let config: LinkConfig = serde_json::from_value(whole)?;
    Ok(match is_warm_up_given {
        true => config,
        false => config.with_short_warm_up(),
    })
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
