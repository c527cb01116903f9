//! Networks of the agents alone: built from spaces, applied to rows; parameters and gradients as arrays.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{IntoPyArray as _, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use shardgraph_components::autodiff::collectives::Comm;
use shardgraph_components::autodiff::device::Device;
use shardgraph_components::autodiff::{Ctx, Eager, Params, Shape, Var};
use shardgraph_components::environments::space::Space;
use shardgraph_components::{ActorCritic, EnvironmentSpaces, Error, Initialiser, QNetwork};

use crate::errors::{IntoPyErr, Wrong, by_class};
use crate::job::detached;

/// A network of agents with its parameters.
#[pyclass(frozen, module = "shardgraph._shardgraph")]
pub(crate) struct NativeNetwork {
    layers: Layers,
    params: Mutex<Params>,
}

enum Layers {
    Q(QNetwork),
    ActorCritic(ActorCritic),
}

impl Layers {
    fn n_inputs(&self) -> usize {
        match self {
            Layers::Q(network) => network.n_inputs(),
            Layers::ActorCritic(network) => network.n_inputs(),
        }
    }

    /// The action values; or logits and values of states.
    fn apply(&self, ctx: &mut dyn Ctx, rows: Var) -> Result<Vec<Var>, Error> {
        Ok(match self {
            Layers::Q(network) => vec![network.q_values(ctx, rows)?],
            Layers::ActorCritic(network) => {
                let out = network.apply(ctx, rows)?;
                vec![out.logits, out.values]
            }
        })
    }
}

/// Values and their number of columns.
type Output<'py> = (Bound<'py, PyArray1<f32>>, usize);

#[pymethods]
impl NativeNetwork {
    /// A network of this kind for spaces as JSON, with the fields of its shape as JSON.
    #[new]
    fn new(
        py: Python<'_>,
        kind: &str,
        spaces: (String, String),
        shape: &str,
        seed: u64,
    ) -> PyResult<NativeNetwork> {
        detached(py, || {
            let observation: Space = serde_json::from_str(&spaces.0)?;
            let action: Space = serde_json::from_str(&spaces.1)?;
            let spaces = EnvironmentSpaces::new(&observation, &action);
            let mut params = Params::new();
            let start = Initialiser {
                seed,
                ..Initialiser::default()
            };
            let layers = match kind {
                "q-network" => {
                    let shape = serde_json::from_str(shape)?;
                    Layers::Q(QNetwork::build(&mut params, kind, spaces, &shape, start)?)
                }
                _ => {
                    let shape = serde_json::from_str(shape)?;
                    let network = ActorCritic::build(&mut params, kind, spaces, &shape, start)?;
                    Layers::ActorCritic(network)
                }
            };
            let params = Mutex::new(params);
            Ok::<_, NetworkError>(NativeNetwork { layers, params })
        })
    }

    /// The outputs for rows of floats.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<Vec<Output<'py>>> {
        let rows = rows.as_slice()?;
        let outputs = detached(py, || {
            let (device, mut comm, params) = (Device::host(), Comm::solo(), self.locked());
            let mut ctx = Eager::new(&device, &mut comm, &params);
            let outputs = self.outputs(&mut ctx, rows)?;
            let values = outputs.iter().map(|&output| {
                let values = ctx.values(output).map_err(Error::from)?;
                Ok((values, ctx.shape(output).cols))
            });
            values.collect::<Result<Vec<_>, NetworkError>>()
        })?;
        let arrays = outputs.into_iter();
        Ok(arrays
            .map(|(values, n)| (values.into_pyarray(py), n))
            .collect())
    }

    /// The derivatives by all parameters of the outputs' sum, each element times its factor.
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, f32>,
        factors: Vec<PyReadonlyArray1<'py, f32>>,
    ) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let rows = rows.as_slice()?;
        let factors = factors.iter().map(|array| array.as_slice());
        let factors = factors.collect::<Result<Vec<_>, _>>()?;
        let gradient = detached(py, || {
            let (device, mut comm, params) = (Device::host(), Comm::solo(), self.locked());
            let mut ctx = Eager::new(&device, &mut comm, &params);
            let outputs = self.outputs(&mut ctx, rows)?;
            let loss = weighted_sum(&mut ctx, &outputs, &factors)?;
            Ok::<_, NetworkError>(ctx.param_gradient(loss).map_err(Error::from)?)
        })?;
        Ok(gradient.into_pyarray(py))
    }

    /// Numbers in an observation.
    #[getter]
    fn n_inputs(&self) -> usize {
        self.layers.n_inputs()
    }

    /// Names and shapes of the parameters, in the order of `values`.
    fn parameters(&self) -> Vec<(String, usize, usize)> {
        let params = self.locked();
        let described = params.ids().map(|id| {
            let Shape { rows, cols } = params.shape(id);
            (params.name(id).to_owned(), rows, cols)
        });
        described.collect()
    }

    /// All parameters, one behind the other.
    fn values<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, self.locked().trained())
    }

    /// Replaces all parameters.
    fn set_values(&self, py: Python<'_>, values: PyReadonlyArray1<'_, f32>) -> PyResult<()> {
        let done = self.locked().set_trained(values.as_slice()?);
        done.map_err(|error| Error::from(error).into_py(py))
    }
}

impl NativeNetwork {
    /// Held only while no Python code runs.
    fn locked(&self) -> MutexGuard<'_, Params> {
        self.params.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outputs(&self, ctx: &mut dyn Ctx, rows: &[f32]) -> Result<Vec<Var>, NetworkError> {
        let width = self.layers.n_inputs();
        if rows.is_empty() || !rows.len().is_multiple_of(width) {
            let n = rows.len();
            return Err(Wrong(format!("{n} numbers: expected rows of {width}")).into());
        }
        let shape = Shape::new(rows.len() / width, width);
        let rows = ctx.input(shape, rows).map_err(Error::from)?;
        Ok(self.layers.apply(ctx, rows)?)
    }
}

fn weighted_sum(
    ctx: &mut dyn Ctx,
    outputs: &[Var],
    factors: &[&[f32]],
) -> Result<Var, NetworkError> {
    let mut sum = None;
    for (&output, &factors) in outputs.iter().zip(factors) {
        let add = |ctx: &mut dyn Ctx| {
            let factors = ctx.input(ctx.shape(output), factors)?;
            let product = ctx.mul(output, factors)?;
            let of_rows = ctx.row_sums(product)?;
            let one = ctx.sum_rows(of_rows)?;
            sum.map_or(Ok(one), |sum| ctx.add(sum, one))
        };
        sum = Some(add(ctx).map_err(Error::from)?);
    }
    let n = outputs.len();
    sum.ok_or_else(|| Wrong(format!("expected factors for {n} outputs")).into())
}

/// An argument or the network's own error.
enum NetworkError {
    Argument(Wrong),
    Network(Error),
}

impl From<Wrong> for NetworkError {
    fn from(wrong: Wrong) -> NetworkError {
        NetworkError::Argument(wrong)
    }
}

impl From<serde_json::Error> for NetworkError {
    fn from(error: serde_json::Error) -> NetworkError {
        NetworkError::Argument(Wrong(error.to_string()))
    }
}

impl From<Error> for NetworkError {
    fn from(error: Error) -> NetworkError {
        NetworkError::Network(error)
    }
}

impl IntoPyErr for NetworkError {
    fn into_py(self, py: Python<'_>) -> PyErr {
        match self {
            NetworkError::Argument(wrong) => wrong.into_py(py),
            NetworkError::Network(error) => error.into_py(py),
        }
    }
}

impl IntoPyErr for Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
