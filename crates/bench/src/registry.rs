//! The table of measurements that definitions name.

use serde_json::Value;

use crate::measure::Context;
use crate::report::{Failure, Report};
use crate::{field, line, opengraphgym, python_package, regal, rgcn, rlgraph, robustness, suites};

/// Measures a request and reports its rows.
pub(crate) type Measurement = fn(&Context<'_>, Value, &mut Report) -> Result<(), Failure>;

const TABLE: &[(&str, Measurement)] = &[
    ("field/solve", field::run),
    ("line/bytes", line::bytes),
    ("line/in-flight", line::in_flight),
    ("line/link-prediction", line::link_prediction),
    ("line/node-classes", line::node_classes),
    ("line/quality", line::quality),
    ("line/time", line::time),
    ("line/time-to-auc", line::time_to_auc),
    ("opengraphgym-mg/policies", opengraphgym::policies),
    ("opengraphgym-mg/quality", opengraphgym::quality),
    ("opengraphgym-mg/seeds", opengraphgym::seeds),
    ("opengraphgym-mg/starts", opengraphgym::starts),
    ("python/package", python_package::run),
    ("regal/adversarial", regal::adversarial),
    ("regal/compare", regal::compare),
    ("regal/cp-sat", regal::cp_sat),
    ("regal/datasets", regal::datasets),
    ("regal/direct", regal::direct),
    ("regal/engines", regal::engines),
    ("regal/experiment", regal::experiment),
    ("regal/learning", regal::learning),
    ("regal/limits", regal::limits),
    ("regal/links", regal::links),
    ("regal/overlaps", regal::overlaps),
    ("regal/sizes", regal::sizes),
    ("regal/stg", regal::stg),
    ("regal/tune", regal::tune),
    ("rgcn/accuracy", rgcn::accuracy),
    ("rgcn/epochs", rgcn::epochs),
    ("rgcn/links", rgcn::links),
    ("rgcn/partitions", rgcn::partitions),
    ("rlgraph/act", rlgraph::act),
    ("rlgraph/build", rlgraph::build),
    ("rlgraph/games", rlgraph::games),
    ("rlgraph/learn", rlgraph::learn),
    ("rlgraph/replicas", rlgraph::replicas),
    ("rlgraph/scale", rlgraph::scale),
    ("rlgraph/steps", rlgraph::steps),
    ("rlgraph/tasks", rlgraph::tasks),
    ("rlgraph/topology", rlgraph::topology),
    ("robustness/faults", robustness::faults),
    ("robustness/fuzz", robustness::fuzz),
    ("robustness/injected", robustness::injected),
    ("robustness/inputs", robustness::inputs),
    ("robustness/kills", robustness::kills),
    ("robustness/strangers", robustness::strangers),
    ("suites/collectives", suites::collectives),
    ("suites/gpu", suites::gpu),
    ("suites/micro", suites::micro),
];

/// The measurement of a name.
pub(crate) fn named(name: &str) -> Option<Measurement> {
    let found = TABLE.iter().find(|(known, _)| *known == name);
    found.map(|(_, measurement)| *measurement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Figure, Kind};

    #[test]
    fn names_are_sorted_and_found() {
        assert!(TABLE.is_sorted_by_key(|(name, _)| *name));
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
