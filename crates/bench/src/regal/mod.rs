//! Figures and tables of the REGAL paper, on graphs that are at hand.
//!
//! `experiment` and `tables` measure; `points` makes their requests out of a series of a
//! definition; `sets` has the graphs. Requests are in `benches/regal/`.

mod adversarial;
mod cp_sat;
mod datasets;
mod default_plans;
mod engines;
mod experiment;
mod graph_statistics;
pub(crate) mod learning;
mod overlaps;
mod points;
mod problems;
mod sets;
mod statistics;
mod tables;
pub(crate) mod timings;
mod tuning;

use serde_json::{Value, json};

use crate::measure::{Context, parsed};
use crate::options::Options;
use crate::report::{Failure, Report};

pub(crate) use adversarial::run as adversarial;
pub(crate) use cp_sat::run as cp_sat;
pub(crate) use default_plans::{limits, links, stg};
pub(crate) use engines::run as engines;

/// Sizes of a test.
const TEST_GRAPHS: u32 = 2;
const TEST_STEPS: u64 = 3;
const TEST_SECONDS: f64 = 2.0;
/// More than the 400 that the features of a policy take.
const TEST_EVALUATIONS: u64 = 450;

/// Seconds after which nobody waits.
const NO_LIMIT: f64 = 1e9;

/// Tables 1 and 3: methods on the graphs of a set, two devices.
pub(crate) fn compare(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    let is_other = |wanted: &Option<String>, key: &str| {
        wanted
            .as_deref()
            .is_some_and(|wanted| request[key] != wanted)
    };
    let set = &request["source"];
    let is_other_set = options
        .set
        .as_deref()
        .is_some_and(|wanted| set["set"] != wanted);
    if is_other_set || is_other(&options.objective, "objective") {
        return Ok(());
    }
    complete_source(context, &mut request);
    complete_search(options, &mut request);
    request["seconds"] = json!(seconds(options, request["seconds"].as_f64()));
    if options.no_learning
        && let Some(keys) = request.as_object_mut()
    {
        keys.remove("policy");
    }
    tables::run(&parsed(request)?, out)
}

/// Figures 5 and 6 and table 2: a set's graphs and its generator.
pub(crate) fn datasets(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    complete_source(context, &mut request);
    datasets::run(&parsed(request)?, out)
}

/// What policies improve, by evaluations, topology, rounds of messages and more.
pub(crate) fn experiment(
    context: &Context<'_>,
    request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    points::run(context, &parsed(request)?, out)
}

/// Topologies of the reported sets that a policy was trained on.
pub(crate) fn overlaps(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    for key in ["trained_on", "reported"] {
        let sources = request[key].as_array_mut().into_iter().flatten();
        for source in sources {
            if key == "reported" {
                limit(context.options, source);
            }
        }
    }
    overlaps::run(&parsed(request)?, out)
}

/// The grid search of "Tuned BRKGA".
pub(crate) fn tune(
    context: &Context<'_>,
    mut request: Value,
    out: &mut Report,
) -> Result<(), Failure> {
    let options = context.options;
    let is_other = |wanted: &String| request["series"] != wanted.as_str();
    if options.set.as_ref().is_some_and(is_other) {
        return Ok(());
    }
    for source in request["sources"].as_array_mut().into_iter().flatten() {
        limit(options, source);
    }
    complete_search(options, &mut request);
    tuning::run(&parsed(request)?, out)
}

/// Limits of the flags or the test on the number of graphs.
fn limit(options: &Options, source: &mut Value) {
    let of_test = options.test.then_some(TEST_GRAPHS);
    if let Some(graphs) = options.graphs.or(of_test) {
        source["max_graphs"] = json!(graphs);
    }
    if options.test {
        source["min_gain"] = json!(0.0);
    }
}

/// Adds what every source of graphs has to a request.
fn complete_source(context: &Context<'_>, request: &mut Value) {
    let source = &mut request["source"];
    limit(context.options, source);
    source["kept"] = json!(context.scratch);
}

/// Adds threads, and the evaluations of a test, to the options of a search.
fn complete_search(options: &Options, request: &mut Value) {
    let search = &mut request["options"];
    search["threads"] = json!(options.threads.unwrap_or(1));
    if options.test {
        search["evaluations"] = json!(TEST_EVALUATIONS);
    }
}

/// The time limit of a set or a problem.
fn seconds(options: &Options, defined: Option<f64>) -> f64 {
    let of_test = options.test.then_some(TEST_SECONDS);
    let without = options.quality.then_some(NO_LIMIT);
    let given = options.seconds.or(of_test).or(without);
    given.or(defined).unwrap_or(NO_LIMIT)
}
