//! R-GCN: classes of the nodes of a relational graph.

use std::path::PathBuf;

use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shardgraph_collectives::Timeout;
use shardgraph_rgcn::{Config, Error, Labels, RelationalGraph, RunOptions, predict, train};

use crate::errors::{IntoPyErr, by_class};
use crate::job::{Done, check_stop, detached, run};

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
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
