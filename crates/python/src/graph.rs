//! The class `Graph`: graphs from arrays, files and generators, and back to arrays.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardgraph_device::free_host_bytes;
use shardgraph_graph::generate::GeneratorSpec;
use shardgraph_graph::{
    EdgeSink as _, Graph, GraphBuilder, ImportReport, Labels, MAX_NODES, ReadOptions, WeightPolicy,
    WriteOptions, builtin, read_graph, write_graph,
};

use crate::errors::{IntoPyErr as _, Wrong, capacity};
use crate::job::detached;

/// Counts of what was changed on the way to an undirected simple graph.
#[derive(Clone, Default)]
struct Counts {
    self_loops: u64,
    duplicates: u64,
    weight_conflicts: u64,
    weights_rounded: u64,
}

/// An undirected simple graph; the Python class `shardgraph.Graph` holds one.
#[pyclass(frozen, module = "shardgraph._shardgraph", name = "NativeGraph")]
pub(crate) struct NativeGraph {
    /// The graph.
    pub(crate) graph: Arc<Graph>,
    labels: Option<Labels>,
    counts: Counts,
    report: Option<ImportReport>,
}

/// Arrays of edges, borrowed.
struct Edges<'a> {
    sources: &'a [i64],
    targets: &'a [i64],
    weights: Option<&'a [f64]>,
}

#[pymethods]
impl NativeGraph {
    /// A graph from arrays of ends, with ids from 0.
    #[staticmethod]
    #[pyo3(signature = (sources, targets, weights, n_nodes))]
    fn from_edges(
        py: Python<'_>,
        sources: PyReadonlyArray1<'_, i64>,
        targets: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_nodes: Option<u64>,
    ) -> PyResult<NativeGraph> {
        let edges = Edges {
            sources: sources.as_slice()?,
            targets: targets.as_slice()?,
            weights: weights
                .as_ref()
                .map(PyReadonlyArray1::as_slice)
                .transpose()?,
        };
        let wanted = check_n_nodes(py, &edges, n_nodes)?;
        detached(py, || build(&edges, wanted))
    }

    /// A graph from rows that are simple and symmetric, with one copy; nothing for other rows.
    #[staticmethod]
    fn from_symmetric_rows(
        py: Python<'_>,
        offsets: PyReadonlyArray1<'_, i64>,
        columns: PyReadonlyArray1<'_, i32>,
        weights: Option<PyReadonlyArray1<'_, f32>>,
    ) -> PyResult<Option<NativeGraph>> {
        let (offsets, columns) = (offsets.as_slice()?, columns.as_slice()?);
        let weights = weights
            .as_ref()
            .map(|weights| weights.to_vec())
            .transpose()?;
        let made = detached(py, || {
            // A negative number becomes one that no row has.
            let offsets = offsets.iter().map(|&offset| offset as u64).collect();
            let columns = columns.iter().map(|&column| column as u32).collect();
            Ok::<_, Wrong>(Graph::from_csr(offsets, columns, weights))
        })?;
        Ok(made.ok().map(NativeGraph::plain))
    }

    /// A graph from compressed sparse rows.
    #[staticmethod]
    fn from_csr(
        py: Python<'_>,
        offsets: PyReadonlyArray1<'_, i64>,
        columns: PyReadonlyArray1<'_, i64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<NativeGraph> {
        let (offsets, columns) = (offsets.as_slice()?, columns.as_slice()?);
        let weights = weights
            .as_ref()
            .map(PyReadonlyArray1::as_slice)
            .transpose()?;
        let n_nodes = offsets.len().saturating_sub(1) as u64;
        let rows = detached(py, || expand_rows(offsets, columns.len()))?;
        let edges = Edges {
            sources: &rows,
            targets: columns,
            weights,
        };
        let n_nodes = check_n_nodes(py, &edges, Some(n_nodes))?;
        detached(py, || build(&edges, n_nodes))
    }

    /// A graph file, a built-in graph or a generator specification.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        weighted: bool,
        max_nodes: Option<u32>,
        index: Option<usize>,
    ) -> PyResult<NativeGraph> {
        let format = format.map(str::parse).transpose();
        let format = format.map_err(|error: shardgraph_graph::Error| error.into_py(py))?;
        let options = ReadOptions {
            format,
            weights: match weighted {
                true => WeightPolicy::ThirdColumn,
                false => WeightPolicy::Declared,
            },
            max_nodes,
            index,
            ..ReadOptions::default()
        };
        let import = detached(py, || read_graph(&path, &options))?;
        Ok(NativeGraph {
            graph: Arc::new(import.graph),
            labels: Some(import.labels),
            counts: Counts {
                self_loops: import.report.self_loops_dropped,
                duplicates: import.report.duplicates_merged,
                weight_conflicts: import.report.weight_conflicts,
                weights_rounded: 0,
            },
            report: Some(import.report),
        })
    }

    /// A built-in graph by its name, or a random graph of a model by its specification.
    #[staticmethod]
    fn generate(py: Python<'_>, specification: &str, seed: u64) -> PyResult<NativeGraph> {
        let graph = detached(py, || match builtin::by_name(specification) {
            Some(graph) => Ok(graph),
            None => specification
                .parse::<GeneratorSpec>()
                .and_then(|model| model.graph(seed)),
        })?;
        Ok(NativeGraph::plain(graph))
    }

    /// Writes a graph file; the lines that say what the format could not hold.
    fn write(&self, py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<String> {
        let format = format.map(str::parse).transpose();
        let format = format.map_err(|error: shardgraph_graph::Error| error.into_py(py))?;
        let options = WriteOptions {
            format,
            compression: None,
        };
        let labels = self.labels.as_ref();
        let report = detached(py, || write_graph(&path, &self.graph, labels, options))?;
        Ok(report.to_string())
    }

    /// The graph of the edges that this one lacks.
    fn complement(&self, py: Python<'_>) -> PyResult<NativeGraph> {
        let (n, m) = (u64::from(self.graph.n_nodes()), self.graph.n_edges());
        let n_entries = n.saturating_mul(n.saturating_sub(1)) - 2 * m;
        check_room(py, n_entries.saturating_mul(4), "the complement")?;
        detached(py, || self.graph.complement()).map(NativeGraph::plain)
    }

    #[getter]
    fn n_nodes(&self) -> u32 {
        self.graph.n_nodes()
    }

    #[getter]
    fn n_edges(&self) -> u64 {
        self.graph.n_edges()
    }

    #[getter]
    fn has_weights(&self) -> bool {
        self.graph.weights().is_some()
    }

    /// The counts of reading, and the lines of a file's report.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("self_loops", self.counts.self_loops)?;
        dict.set_item("duplicates", self.counts.duplicates)?;
        dict.set_item("weight_conflicts", self.counts.weight_conflicts)?;
        dict.set_item("weights_rounded", self.counts.weights_rounded)?;
        let report = self.report.as_ref().map(ToString::to_string);
        dict.set_item("report", report.unwrap_or_default())?;
        Ok(dict)
    }

    /// Degrees, by node.
    fn degrees<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let degrees = py.detach(|| self.graph.degrees());
        let wide: Vec<i64> = degrees.into_iter().map(i64::from).collect();
        wide.into_pyarray(py)
    }

    /// Row pointers, columns and, where there are any, weights.
    #[expect(clippy::type_complexity, reason = "the three arrays of a CSR matrix")]
    fn csr<'py>(
        &self,
        py: Python<'py>,
    ) -> (
        Bound<'py, PyArray1<i64>>,
        Bound<'py, PyArray1<i64>>,
        Option<Bound<'py, PyArray1<f32>>>,
    ) {
        let graph = &self.graph;
        let (offsets, columns) = py.detach(|| {
            let offsets: Vec<i64> = graph.offsets().iter().map(|&o| o as i64).collect();
            let columns: Vec<i64> = graph.columns().iter().map(|&c| i64::from(c)).collect();
            (offsets, columns)
        });
        let weights = graph
            .weights()
            .map(|weights| weights.to_vec().into_pyarray(py));
        (offsets.into_pyarray(py), columns.into_pyarray(py), weights)
    }

    /// The names of some nodes in their file; absent for a graph without a file.
    fn labels(&self, nodes: PyReadonlyArray1<'_, i64>) -> PyResult<Option<Vec<String>>> {
        let Some(labels) = &self.labels else {
            return Ok(None);
        };
        let n_nodes = labels.n_nodes();
        let name = |&node: &i64| match u32::try_from(node) {
            Ok(node) if node < n_nodes => Ok(labels.get(node)),
            _ => Err(Wrong::node(node, n_nodes)),
        };
        let names: Result<Vec<String>, Wrong> = nodes.as_slice()?.iter().map(name).collect();
        names
            .map(Some)
            .map_err(|wrong| pyo3::exceptions::PyValueError::new_err(wrong.0))
    }

    fn __eq__(&self, other: &NativeGraph) -> bool {
        self.graph == other.graph
    }
}

impl NativeGraph {
    fn plain(graph: Graph) -> NativeGraph {
        NativeGraph::of(Arc::new(graph))
    }

    /// A graph without labels or counts.
    pub(crate) fn of(graph: Arc<Graph>) -> NativeGraph {
        NativeGraph {
            graph,
            labels: None,
            counts: Counts::default(),
            report: None,
        }
    }
}

impl Wrong {
    /// The sentence for an id that is no node's.
    pub(crate) fn node(node: i64, n_nodes: u32) -> Wrong {
        Wrong(format!(
            "node {node} does not exist: the graph has {n_nodes} nodes (ids start at 0)"
        ))
    }
}

/// The number of nodes: as given, or one more than the largest id.
fn check_n_nodes(py: Python<'_>, edges: &Edges<'_>, n_nodes: Option<u64>) -> PyResult<u32> {
    let n_edges = edges.sources.len();
    let has_weights = edges.weights.is_none_or(|weights| weights.len() == n_edges);
    if edges.targets.len() != n_edges || !has_weights {
        let message = format!(
            "{n_edges} sources, {} targets and {} weights: expected arrays of one length",
            edges.targets.len(),
            edges.weights.map_or(n_edges, <[f64]>::len)
        );
        return Err(Wrong(message).into_py(py));
    }
    let n_nodes = match n_nodes {
        Some(n_nodes) => n_nodes,
        None => detached(py, || {
            let ends = edges.sources.iter().chain(edges.targets);
            Ok::<u64, Wrong>(
                ends.max()
                    .map_or(0, |&id| id.max(-1).wrapping_add(1) as u64),
            )
        })?,
    };
    let n_nodes = u32::try_from(n_nodes).ok().filter(|&n| n <= MAX_NODES);
    let n_nodes = n_nodes.ok_or_else(|| {
        capacity(
            py,
            &format!("a graph holds at most {MAX_NODES} nodes: number them densely from 0"),
        )
    })?;
    let bytes = 16 * u64::from(n_nodes) + 24 * n_edges as u64;
    check_room(py, bytes, "the graph")?;
    Ok(n_nodes)
}

/// Refuses what the machine has no memory for.
fn check_room(py: Python<'_>, bytes: u64, what: &str) -> PyResult<()> {
    match free_host_bytes() {
        // A look into /proc is worth it only for what could be too much.
        Some(free) if bytes > 1 << 28 && bytes > free => {
            let gib = bytes as f64 / f64::from(1 << 30);
            let message = format!("{what} needs {gib:.1} GiB, more than this machine has free");
            Err(capacity(py, &message))
        }
        _ => Ok(()),
    }
}

/// The row of each entry.
fn expand_rows(offsets: &[i64], n_entries: usize) -> Result<Vec<i64>, Wrong> {
    let is_sound = offsets.first() == Some(&0)
        && offsets.last() == Some(&(n_entries as i64))
        && offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    if !is_sound {
        return Err(Wrong(format!(
            "indptr has to ascend from 0 to the number of entries, {n_entries}"
        )));
    }
    let mut rows = Vec::with_capacity(n_entries);
    for (row, pair) in offsets.windows(2).enumerate() {
        rows.resize(rows.len() + (pair[1] - pair[0]) as usize, row as i64);
    }
    Ok(rows)
}

fn build(edges: &Edges<'_>, n_nodes: u32) -> Result<NativeGraph, BuildError> {
    let mut builder = GraphBuilder::with_capacity(edges.sources.len());
    let mut counts = Counts::default();
    let id = |id: i64| {
        let small = u32::try_from(id).ok().filter(|&small| small < n_nodes);
        small.ok_or_else(|| BuildError::Argument(Wrong::node(id, n_nodes)))
    };
    for (i, (&u, &v)) in edges.sources.iter().zip(edges.targets).enumerate() {
        let (u, v) = (id(u)?, id(v)?);
        if u == v {
            counts.self_loops += 1;
            continue;
        }
        let weight = edges.weights.map_or(1.0, |weights| weights[i]);
        let narrow = weight as f32;
        counts.weights_rounded += u64::from(f64::from(narrow).to_bits() != weight.to_bits());
        builder.edge(u, v, narrow)?;
    }
    let built = builder.finish_counted(n_nodes, edges.weights.is_some())?;
    counts.duplicates = built.duplicates_merged;
    counts.weight_conflicts = built.weight_conflicts;
    Ok(NativeGraph {
        counts,
        ..NativeGraph::plain(built.graph)
    })
}

/// Why no graph could be made of arrays.
enum BuildError {
    Argument(Wrong),
    Graph(shardgraph_graph::Error),
}

impl From<shardgraph_graph::Error> for BuildError {
    fn from(error: shardgraph_graph::Error) -> BuildError {
        BuildError::Graph(error)
    }
}

impl crate::errors::IntoPyErr for BuildError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            BuildError::Argument(wrong) => wrong.into_py(py),
            BuildError::Graph(error) => error.into_py(py),
        }
    }
}
