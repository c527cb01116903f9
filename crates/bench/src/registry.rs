//! The table of measurements that definitions name.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::measure::{Context, parsed};
use crate::report::{Failure, Report};
use crate::{field, line, opengraphgym, python_package, regal, rgcn, rlgraph, robustness, suites};

/// Measures a request and reports its rows.
pub(crate) type Measurement = Box<dyn Fn(&Context<'_>, Value, &mut Report) -> Result<(), Failure>>;

/// A measurement whose request has a type of its own.
fn typed<R: DeserializeOwned + 'static>(
    run: fn(&Context<'_>, &R, &mut Report) -> Result<(), Failure>,
) -> Option<Measurement> {
    Some(Box::new(move |context, request, out| {
        run(context, &parsed(request)?, out)
    }))
}

/// A measurement that completes its request before it reads it.
fn of_value(
    run: fn(&Context<'_>, Value, &mut Report) -> Result<(), Failure>,
) -> Option<Measurement> {
    Some(Box::new(run))
}

/// The measurement of a name.
pub(crate) fn named(name: &str) -> Option<Measurement> {
    match name {
        "field/solve" => of_value(field::run),
        "line/bytes" => typed(line::times::bytes),
        "line/in-flight" => typed(line::quality::in_flight),
        "line/link-prediction" => of_value(line::link_prediction),
        "line/node-classes" => of_value(line::node_classes),
        "line/quality" => of_value(line::quality),
        "line/time" => of_value(line::time),
        "line/time-to-auc" => typed(line::quality::time_to_auc),
        "opengraphgym-mg/policies" => typed(opengraphgym::policies),
        "opengraphgym-mg/quality" => typed(opengraphgym::quality),
        "opengraphgym-mg/seeds" => typed(opengraphgym::seeds),
        "opengraphgym-mg/starts" => typed(opengraphgym::starts),
        "python/package" => typed(python_package::run),
        "regal/adversarial" => of_value(regal::adversarial),
        "regal/compare" => of_value(regal::compare),
        "regal/cp-sat" => typed(regal::cp_sat),
        "regal/datasets" => of_value(regal::datasets),
        "regal/engines" => of_value(regal::engines),
        "regal/experiment" => of_value(regal::experiment),
        "regal/learning" => typed(regal::learning::run),
        "regal/limits" => of_value(regal::limits),
        "regal/links" => of_value(regal::links),
        "regal/overlaps" => of_value(regal::overlaps),
        "regal/sizes" => typed(regal::timings::run),
        "regal/stg" => typed(regal::stg),
        "regal/tune" => of_value(regal::tune),
        "rgcn/accuracy" => typed(rgcn::accuracy),
        "rgcn/epochs" => typed(rgcn::epochs),
        "rgcn/links" => typed(rgcn::links),
        "rgcn/partitions" => typed(rgcn::partitions),
        "rlgraph/act" => typed(rlgraph::acting::run),
        "rlgraph/build" => typed(rlgraph::building::run),
        "rlgraph/games" => typed(rlgraph::games::run),
        "rlgraph/learn" => typed(rlgraph::learning::run),
        "rlgraph/replicas" => typed(rlgraph::replicas::run),
        "rlgraph/scale" => typed(rlgraph::scaling::run),
        "rlgraph/steps" => typed(rlgraph::stepping::run),
        "rlgraph/tasks" => typed(rlgraph::tasks::run),
        "rlgraph/topology" => typed(rlgraph::topologies::run),
        "robustness/faults" => typed(robustness::faults::run),
        "robustness/fuzz" => typed(robustness::fuzz::run),
        "robustness/injected" => typed(robustness::injected::run),
        "robustness/kills" => typed(robustness::kills::run),
        "robustness/strangers" => typed(robustness::strangers::run),
        "suites/collectives" => typed(suites::collectives),
        "suites/gpu" => of_value(suites::gpu),
        "suites/micro" => typed(suites::micro),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Figure, Kind};

    #[test]
    fn names_are_found() {
        assert!(named("line/time").is_some() && named("line").is_none());
    }

    #[test]
    fn every_definition_names_a_measurement() {
        for figure in Figure::load_all().unwrap() {
            for series in figure.series.iter().filter(|s| s.kind == Kind::Measure) {
                let path = figure.path();
                assert!(
                    named(&series.measure).is_some(),
                    "{path}: {}",
                    series.measure
                );
            }
        }
    }
}
