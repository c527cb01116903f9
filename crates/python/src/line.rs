//! LINE: an embedding of a graph's nodes.

use numpy::{PyArray1, PyArray2, PyArrayMethods as _};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use shardgraph_device::Device;
use shardgraph_line::{Config, Error, NodeLabels, Store, train};

use crate::errors::{IntoPyErr, by_class, capacity};
use crate::graph::NativeGraph;
use crate::job::{Done, check_stop, run};

/// Trains an embedding; float32 of shape [n_nodes, columns]. The settings are JSON with the names of the command line.
#[pyfunction]
pub(crate) fn embed<'py>(
    py: Python<'py>,
    graph: &NativeGraph,
    config: &str,
    parts: Option<u32>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let config: Config =
        serde_json::from_str(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let graph = &graph.graph;
    let Done { value, .. } = run(py, |stop| {
        let n_nodes = graph.n_nodes();
        let edges: Vec<(u32, u32)> = graph.edges().collect();
        let parts = parts.unwrap_or_else(|| Store::default_parts(n_nodes));
        let store = Store::from_edges(n_nodes, &edges, parts, NodeLabels::numbers(n_nodes))?;
        drop(edges);
        train(&store, &config, &Device::host(), &mut |_| check_stop(stop))
    })?;
    let (n_rows, n_columns) = (value.embedding.n_nodes(), value.embedding.dim());
    let rows = PyArray1::from_slice(py, value.embedding.values());
    rows.reshape([n_rows, n_columns])
}

impl IntoPyErr for Error {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            Error::Reader(error) => error.into_py(py),
            Error::Memory(message) => capacity(py, &message),
            other => by_class(other.class(), other.to_string()),
        }
    }
}
