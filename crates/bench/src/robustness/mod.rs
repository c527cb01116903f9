//! Ranks that are killed or stopped, jobs that are killed and resumed, and hostile inputs.

mod faults;
mod fuzz;
mod injected;
mod inputs;
mod kills;
mod mutation;
pub(crate) mod ranks;
mod run_folder;
mod strangers;

use serde_json::Value;

use crate::measure::Context;
use crate::report::{Failure, Report};

/// Seconds until all ranks know that one was lost.
pub(crate) fn faults(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    faults::run(context, request, out)
}

/// Killed training jobs that are resumed to the same bytes.
pub(crate) fn kills(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    kills::run(context, request, out)
}

/// Damaged files.
pub(crate) fn inputs(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    inputs::run(context, request, out)
}

/// Calls of the system that fail.
pub(crate) fn injected(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    injected::run(context, request, out)
}

/// Connections of strangers.
pub(crate) fn strangers(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    strangers::run(context, request, out)
}

/// libFuzzer over every reader.
pub(crate) fn fuzz(context: &Context<'_>, request: Value, out: &mut Report) -> Result<(), Failure> {
    fuzz::run(context, request, out)
}
