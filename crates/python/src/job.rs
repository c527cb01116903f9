//! Work without the GIL: a thread does it, the caller's thread waits and looks for Ctrl-C; a panic becomes a RuntimeError.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

use crate::errors::IntoPyErr;

/// The time between two looks for signals.
const SIGNAL_CHECK: Duration = Duration::from_millis(20);

/// Set once the work should end with what it has.
pub(crate) type Stop = Arc<AtomicBool>;

/// What came of a job, and whether Ctrl-C ended it.
pub(crate) struct Done<T> {
    /// Its answer.
    pub(crate) value: T,
    /// True after an interrupt.
    pub(crate) interrupted: bool,
}

/// Runs `work` on a thread of its own, without the GIL. Ctrl-C sets its flag; what it then returns is the answer.
///
/// # Errors
/// The error of `work`, the exception of a signal handler other than KeyboardInterrupt, and RuntimeError for a panic.
pub(crate) fn run<T, E, F>(py: Python<'_>, work: F) -> PyResult<Done<T>>
where
    T: Send,
    E: IntoPyErr + Send,
    F: FnOnce(&Stop) -> Result<T, E> + Send,
{
    let stop = Stop::default();
    let mut raised = None;
    let outcome = std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let flag = &stop;
        let worker = std::thread::Builder::new().spawn_scoped(scope, move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(flag)));
            // The receiver waits for it.
            let _ = sender.send(outcome);
        });
        worker
            .map_err(|error| PyRuntimeError::new_err(format!("a thread did not start: {error}")))?;
        let receiver = std::sync::Mutex::new(receiver);
        loop {
            let received = py.detach(|| match receiver.lock() {
                Ok(receiver) => receiver.recv_timeout(SIGNAL_CHECK),
                Err(_) => Err(RecvTimeoutError::Disconnected),
            });
            match received {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = py.check_signals() {
                        stop.store(true, Ordering::Relaxed);
                        raised = Some(error);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("a thread ended without an answer"));
                }
            }
        }
    })?;
    match (finish(py, outcome), raised) {
        (Ok(value), None) => Ok(Done {
            value,
            interrupted: false,
        }),
        (Ok(value), Some(error)) if error.is_instance_of::<PyKeyboardInterrupt>(py) => Ok(Done {
            value,
            interrupted: true,
        }),
        // Work that ends without an answer because of a signal: the signal is the reason.
        (_, Some(error)) | (Err(error), None) => Err(error),
    }
}

/// Short work without the GIL, on this thread.
///
/// # Errors
/// As [`run`].
pub(crate) fn detached<T, E, F>(py: Python<'_>, work: F) -> PyResult<T>
where
    T: Send,
    E: IntoPyErr + Send,
    F: FnOnce() -> Result<T, E> + Send,
{
    let outcome = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    finish(py, outcome)
}

fn finish<T, E: IntoPyErr>(
    py: Python<'_>,
    outcome: Result<Result<T, E>, Box<dyn Any + Send>>,
) -> PyResult<T> {
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.into_py(py)),
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> PyErr {
    if panic.is::<Interrupted>() {
        return PyKeyboardInterrupt::new_err(());
    }
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("no message");
    PyRuntimeError::new_err(format!("shardgraph panicked, please report this: {text}"))
}

/// The payload of a panic that ends a training from a function that returns no error.
pub(crate) struct Interrupted;

/// Ends a training from its progress function once Ctrl-C has come: [`run`] then raises KeyboardInterrupt.
pub(crate) fn check_stop(stop: &Stop) {
    if stop.load(Ordering::Relaxed) {
        std::panic::resume_unwind(Box::new(Interrupted));
    }
}
