//! Which graphs that are reported have the topology of one that a policy was trained on.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;
use shardgraph_costgraph::generate::{Synthetic, synthetic};
use shardgraph_costgraph::topology;

use super::sets::Source;
use crate::report::{Failure, Report};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The name of the policy, for the answer.
    policy: String,
    /// The sets that it was trained on, with what is kept back of them.
    trained_on: Vec<Source>,
    /// So many synthetic graphs of a seed came on top.
    n_synthetic: u64,
    seed: u64,
    /// The sets that are reported.
    reported: Vec<Source>,
}

/// A line for each reported set. Topologies are in-degree sequences, as the paper splits its graphs.
pub(super) fn run(request: &Request, out: &mut Report) -> Result<(), Failure> {
    let mut trained_on = BTreeSet::new();
    for index in 0..request.n_synthetic {
        let graph = synthetic(&Synthetic::default(), request.seed, index)?;
        trained_on.insert(topology::in_degree_hash(&graph));
    }
    let whole = |source: &Source| [source.clone(), source.complement()];
    for source in request.trained_on.iter().flat_map(whole) {
        let Some(set) = source.load(out)? else {
            return Ok(());
        };
        trained_on.extend(set.graphs.iter().map(topology::in_degree_hash));
    }
    for source in &request.reported {
        let Some(set) = source.load(out)? else {
            continue;
        };
        let is_known = |graph: &&_| trained_on.contains(&topology::in_degree_hash(graph));
        let known = set.graphs.iter().filter(is_known);
        let known: Vec<&str> = known.map(|graph| graph.name()).collect();
        out.row(json!({
            "policy": request.policy, "trained_on": trained_on.len(), "set": source.set,
            "graphs": set.graphs.len(), "overlaps": known.len(), "note": known.join(" "),
        }));
    }
    Ok(())
}
