//! `brkga.minimize`: the genetic algorithm with a Python decoder, one call a generation.

use numpy::{IntoPyArray as _, PyArray1, PyArrayMethods as _, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardgraph_brkga::{Brkga, Config, Fitness, Stop};

use crate::errors::{IntoPyErr as _, by_class};

/// Minimises a Python function of random keys.
///
/// `decode` takes float64 keys of shape [P, n_keys] and returns float64 values of shape [P].
#[pyfunction]
pub(crate) fn minimize<'py>(
    py: Python<'py>,
    decode: Bound<'py, PyAny>,
    n_keys: usize,
    config: &str,
    starts: Option<PyReadonlyArray2<'py, f64>>,
    callback: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let config: Config =
        serde_json::from_str(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let mut search = Brkga::new(n_keys, &config).map_err(|error| error.into_py(py))?;
    if let Some(starts) = &starts {
        let rows = starts.as_array();
        let rows = rows.outer_iter();
        let rows = rows.map(|row| row.iter().map(|&key| key as f32).collect());
        search = search
            .with_starts(rows.collect())
            .map_err(|error| error.into_py(py))?;
    }
    let mut interrupted = false;
    let stop = loop {
        let mut failed = None;
        let stop = search.step_batch(&mut |all| match fitness_of(&decode, n_keys, all) {
            Ok(found) => found,
            Err(error) => {
                failed = Some(error);
                Vec::new()
            }
        });
        match failed {
            // Ctrl-C within the decoder: the generations before it have their best.
            Some(error)
                if error.is_instance_of::<PyKeyboardInterrupt>(py) && search.best().is_some() =>
            {
                interrupted = true;
                break Stop::Caller;
            }
            Some(error) => return Err(error),
            None => (),
        }
        if let Some(stop) = stop.map_err(|error| error.into_py(py))? {
            break stop;
        }
        if let Err(error) = py.check_signals() {
            if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                return Err(error);
            }
            interrupted = true;
            break Stop::Caller;
        }
        if let (Some(callback), Some(best)) = (&callback, search.best()) {
            let keys = as_floats(&best.keys).into_pyarray(py);
            let wants_end = callback.call1((keys, value_of(best.fitness)))?;
            if wants_end.is_truthy()? {
                break Stop::Caller;
            }
        }
    };
    let outcome = search.outcome().map_err(|error| error.into_py(py))?;
    if outcome.best.fitness == WORST {
        let message = "decode returned NaN for every chromosome: expected values to minimise";
        return Err(PyValueError::new_err(message));
    }
    let dict = PyDict::new(py);
    dict.set_item("x", as_floats(&outcome.best.keys).into_pyarray(py))?;
    dict.set_item("fun", value_of(outcome.best.fitness))?;
    dict.set_item("nfev", outcome.evaluations)?;
    dict.set_item("nit", outcome.history.len())?;
    dict.set_item("stop", format!("{stop:?}").to_lowercase())?;
    dict.set_item("interrupted", interrupted)?;
    let history = outcome.history.iter();
    let history: Vec<f64> = history.map(|step| value_of(step.best)).collect();
    dict.set_item("history", history.into_pyarray(py))?;
    Ok(dict)
}

fn as_floats(keys: &[f32]) -> Vec<f64> {
    keys.iter().copied().map(f64::from).collect()
}

/// One call of the decoder.
fn fitness_of(decode: &Bound<'_, PyAny>, n_keys: usize, all: &[&[f32]]) -> PyResult<Vec<Fitness>> {
    let py = decode.py();
    let flat: Vec<f64> = all.iter().flat_map(|keys| as_floats(keys)).collect();
    let keys = PyArray1::from_vec(py, flat).reshape([all.len(), n_keys])?;
    let values = decode.call1((keys,))?;
    let values: PyReadonlyArray1<'_, f64> = values
        .extract()
        .map_err(|_| PyValueError::new_err("decode has to return a float64 array of shape [P]"))?;
    if values.as_array().len() != all.len() {
        let (found, wanted) = (values.as_array().len(), all.len());
        let message = format!("decode returned {found} values for {wanted} chromosomes");
        return Err(PyValueError::new_err(message));
    }
    Ok(values
        .as_array()
        .iter()
        .map(|&value| fitness(value))
        .collect())
}

/// That of NaN, above infinity's.
const WORST: Fitness = (u64::MAX, 0);

/// A u64 with the order of the floats; NaN is the worst.
fn fitness(value: f64) -> Fitness {
    if value.is_nan() {
        return WORST;
    }
    let bits = (value + 0.0).to_bits();
    let ordered = if bits >> 63 == 0 {
        bits | 1 << 63
    } else {
        !bits
    };
    (ordered, 0)
}

fn value_of(fitness: Fitness) -> f64 {
    let ordered = fitness.0;
    match ordered >> 63 {
        1 => f64::from_bits(ordered & !(1 << 63)),
        _ => f64::from_bits(!ordered),
    }
}

impl crate::errors::IntoPyErr for shardgraph_brkga::Error {
    fn into_py(self, _: Python<'_>) -> PyErr {
        by_class(self.class(), self.to_string())
    }
}
