//! Training of policies for graph problems.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardgraph_solver::train::{RunOptions, StepReport, TrainConfig, train as train_policy};

use crate::job::{Done, check_stop, run};

/// Trains a policy and writes it; the settings are JSON with the names of the command line.
///
/// `callback` is called after each step with a dictionary, and ends the training by an exception.
#[pyfunction]
pub(crate) fn train<'py>(
    py: Python<'py>,
    config: &str,
    out: PathBuf,
    folder: Option<PathBuf>,
    resume: bool,
    ranks: u32,
    callback: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let config = settings(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let options = RunOptions {
        n_ranks: ranks,
        folder,
        resume,
        ..RunOptions::default()
    };
    let raised = Mutex::new(None);
    let done = run(py, |stop| {
        let mut progress = |report: &StepReport| {
            if let Some(callback) = &callback
                && let Err(error) = call(callback, report)
            {
                if let Ok(mut raised) = raised.lock() {
                    *raised = Some(error);
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            check_stop(stop);
        };
        let outcome = train_policy(&config, &options, &mut progress)?;
        outcome.policy.write(&out)?;
        Ok::<_, shardgraph_solver::Error>(outcome)
    });
    if let Ok(Some(error)) = raised.into_inner() {
        return Err(error);
    }
    let Done { value, .. } = done?;
    let dict = PyDict::new(py);
    let losses = value.reports.iter();
    let losses: Vec<Option<f32>> = losses.map(|report| report.loss).collect();
    dict.set_item("losses", losses)?;
    dict.set_item(
        "params_hash",
        format!("{:016x}", value.policy.params_hash()),
    )?;
    dict.set_item("best_step", value.best.map(|(step, _)| step))?;
    Ok(dict)
}

/// The default settings with those of a JSON object over them. Keys that are absent are not those of runs from before there was such a choice.
fn settings(text: &str) -> serde_json::Result<TrainConfig> {
    let mut all = serde_json::to_value(TrainConfig::default())?;
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text)?;
    if let Some(all) = all.as_object_mut() {
        all.extend(given);
    }
    serde_json::from_value(all)
}

fn call(callback: &Py<PyAny>, report: &StepReport) -> PyResult<()> {
    Python::attach(|py| {
        let dict = PyDict::new(py);
        dict.set_item("step", report.step)?;
        dict.set_item("loss", report.loss)?;
        dict.set_item("epsilon", report.epsilon)?;
        let cover = report.cover.map(|size| size as f64);
        dict.set_item("objective", report.objective.or(cover))?;
        callback.call1(py, (dict,))?;
        Ok(())
    })
}
