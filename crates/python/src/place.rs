//! Placement and schedules of computation graphs.

use std::path::PathBuf;

use numpy::IntoPyArray as _;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use shardgraph_costgraph::{
    Device, DeviceSet, Graph, Link, NAMED_LINKS, Objective, Problem, Step, chrome_trace,
    device_map, gantt_svg,
};
use shardgraph_costgraph_io::{Format, ReadOptions, read_graphs};
use shardgraph_device::Timer;
use shardgraph_regal::{PlaceOptions, Plan, Watch, place_watched};

use crate::errors::{IntoPyErr, by_class, capacity, io_error, read_error};
use crate::job::{Done, detached, run};

/// A computation graph.
#[pyclass(frozen, module = "shardgraph._shardgraph")]
pub(crate) struct NativeCostGraph {
    graph: Graph,
    warnings: Vec<String>,
}

#[pymethods]
impl NativeCostGraph {
    /// Reads an ONNX model, a CostGraphDef or another format of computation graphs.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        path: PathBuf,
        format: Option<&str>,
        open_dim: u64,
        index: usize,
    ) -> PyResult<NativeCostGraph> {
        let format = format.map(str::parse::<Format>).transpose();
        let format = format.map_err(|error| error.into_py(py))?;
        let options = ReadOptions {
            format,
            open_dim,
            ..ReadOptions::default()
        };
        let imported = detached(py, || read_graphs(&path, &options)?.nth_graph(index))?;
        Ok(NativeCostGraph {
            graph: imported.graph,
            warnings: imported.report.warnings(),
        })
    }

    #[getter]
    fn n_ops(&self) -> usize {
        self.graph.n_ops()
    }

    #[getter]
    fn n_tensors(&self) -> usize {
        self.graph.n_tensors()
    }

    /// What the reader assumed or left out.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// The names of all ops.
    fn op_names(&self) -> Vec<String> {
        let ops = 0..self.graph.n_ops() as u32;
        ops.map(|op| self.graph.op_name(op).to_owned()).collect()
    }
}

/// The machine and the search; the keywords of `place.plan`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct PlaceRequest {
    /// Name, bytes of memory and cost factor.
    devices: Vec<(String, Option<u64>, f64)>,
    links: String,
    bandwidth_gbs: Option<f64>,
    latency_ns: Option<u64>,
    objective: String,
    evaluations: u64,
    seed: u64,
    threads: usize,
    time_limit: Option<f64>,
    /// The number of a device by the name of a module or op.
    pins: Vec<(String, u8)>,
    /// Names of modules whose ops share a device.
    together: Vec<String>,
}

/// Makes a plan; a dictionary of what `Plan` shows.
#[pyfunction]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    graph: &NativeCostGraph,
    request: PlaceRequest,
) -> PyResult<Bound<'py, PyDict>> {
    let graph = (graph.graph.clone()).with_named_colocation(&request.together, &request.pins);
    let graph = &graph.map_err(|error| error.into_py(py))?;
    let objective = match request.objective.as_str() {
        "runtime" => Objective::Runtime,
        "memory" => Objective::Memory,
        other => {
            let message = format!("objective = `{other}`: expected runtime or memory");
            return Err(PyValueError::new_err(message));
        }
    };
    let devices = devices(&request).map_err(|error| error.into_py(py))?;
    let options = PlaceOptions {
        objective,
        evaluations: request.evaluations,
        seed: request.seed,
        threads: request.threads,
        ..PlaceOptions::default()
    };
    let Done { value, interrupted } = run(py, |stop| {
        let timer = Timer::wall();
        let mut watch = Watch {
            clock: &mut || timer.elapsed_s(),
            deadline: request.time_limit,
            on_progress: &mut |_| !stop.load(std::sync::atomic::Ordering::Relaxed),
        };
        let plan = place_watched(graph, &devices, &options, &mut watch)?;
        Shown::new(graph, &devices, &options, plan)
    })?;
    let dict = value.dict(py)?;
    dict.set_item("interrupted", interrupted)?;
    Ok(dict)
}

fn devices(request: &PlaceRequest) -> Result<DeviceSet, shardgraph_costgraph::Error> {
    let device = |(name, memory_bytes, cost_factor): &(String, Option<u64>, f64)| Device {
        name: name.clone(),
        memory_bytes: *memory_bytes,
        class: 0,
        cost_factor: *cost_factor,
    };
    let Some(named) = (NAMED_LINKS.iter()).find(|named| named.name == request.links) else {
        let names: Vec<&str> = NAMED_LINKS.iter().map(|named| named.name).collect();
        let message = format!(
            "links = `{}`: expected one of {}",
            request.links,
            names.join(", ")
        );
        let kind = shardgraph_costgraph::ErrorKind::Argument;
        return Err(shardgraph_costgraph::Error::new(kind, message));
    };
    let link = Link {
        bandwidth_gbs: request.bandwidth_gbs.unwrap_or(named.link.bandwidth_gbs),
        latency_ns: request.latency_ns.unwrap_or(named.link.latency_ns),
    };
    DeviceSet::new(request.devices.iter().map(device).collect())?.with_link(link)
}

/// A plan with what is derived from it.
struct Shown {
    plan: Plan,
    peaks: Vec<u64>,
    modules: Vec<(String, u8)>,
    trace: String,
    svg: String,
}

impl Shown {
    fn new(
        graph: &Graph,
        devices: &DeviceSet,
        options: &PlaceOptions,
        plan: Plan,
    ) -> Result<Shown, shardgraph_regal::Error> {
        let problem = Problem::new(graph, devices, options.objective, options.model)?;
        let simulation = plan.schedule.simulate(&problem)?;
        Ok(Shown {
            peaks: simulation.peaks,
            modules: device_map(&problem, &plan.schedule.placement)
                .into_iter()
                .collect(),
            trace: chrome_trace(&problem, &plan.schedule)?,
            svg: gantt_svg(&problem, &plan.schedule)?,
            plan,
        })
    }

    fn dict<'py>(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let plan = self.plan;
        let dict = PyDict::new(py);
        let device = plan
            .schedule
            .placement
            .iter()
            .map(|&device| i64::from(device));
        dict.set_item("device", device.collect::<Vec<_>>().into_pyarray(py))?;
        let order = plan.schedule.steps.iter().filter_map(|step| match step {
            Step::Op(op) => Some(i64::from(*op)),
            Step::Transfer { .. } => None,
        });
        dict.set_item("order", order.collect::<Vec<_>>().into_pyarray(py))?;
        dict.set_item("makespan", plan.outcome.runtime_ns as f64 * 1e-9)?;
        let peaks = self.peaks.iter().map(|&bytes| bytes as i64);
        dict.set_item("peak_bytes", peaks.collect::<Vec<_>>().into_pyarray(py))?;
        dict.set_item("value", plan.value())?;
        dict.set_item("bound", plan.lower_bound())?;
        dict.set_item("fits", plan.fits())?;
        dict.set_item("speedup", plan.speedup())?;
        dict.set_item("evaluations", plan.evaluations)?;
        let baselines = plan.baselines.iter().map(|baseline| {
            let outcome = &baseline.outcome;
            (
                baseline.method.to_string(),
                outcome.runtime_ns as f64 * 1e-9,
                outcome.peak_bytes,
            )
        });
        dict.set_item("baselines", PyList::new(py, baselines.collect::<Vec<_>>())?)?;
        dict.set_item("modules", self.modules)?;
        dict.set_item("trace", self.trace)?;
        dict.set_item("svg", self.svg)?;
        Ok(dict)
    }
}

impl IntoPyErr for shardgraph_costgraph::Error {
    fn into_py(self, py: Python<'_>) -> PyErr {
        use shardgraph_costgraph::ErrorKind;
        let message = self.to_string();
        let source = std::error::Error::source(&self);
        match (self.kind(), source.and_then(|source| source.downcast_ref())) {
            (ErrorKind::TooLarge, _) => capacity(py, &message),
            (ErrorKind::Io, Some(cause)) => io_error(cause, &message),
            _ if !self.place().file.is_empty() => {
                read_error(py, &message, &self.place().file, self.place().line)
            }
            _ => by_class(self.class(), message),
        }
    }
}

impl IntoPyErr for shardgraph_regal::Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
