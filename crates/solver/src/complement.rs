//! Vertex covers by policies for maximum independent set: what a largest independent set leaves is a smallest cover.

use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;

use crate::problem::{MAXIMUM_INDEPENDENT_SET, Objective};
use crate::{Error, Solution, SolveOptions, TrainedPolicy, solve_problem};

/// Finds a vertex cover with a policy for maximum independent set, and checks it: the nodes with an edge that the set leaves.
///
/// The nodes of the cover come in the order in which the set's picks put them there: the neighbours of the first pick first. So
/// [`solve_reduced`](crate::solve_reduced) keeps the picks that the policy made first.
///
/// # Errors
/// As [`solve_problem`].
/// # Complexity
/// That of [`solve_problem`], a copy of the graph as lists, and one pass over the edges.
/// # Determinism
/// The same cover for every number of ranks.
///
/// ```
/// use shardgraph_graph::builtin;
/// use shardgraph_shard::Adjacency;
/// use shardgraph_solver::problem::MAXIMUM_INDEPENDENT_SET;
/// use shardgraph_solver::{SolveOptions, TrainedPolicy, cover_by_independent_set};
///
/// let petersen = Adjacency::from_graph(builtin::by_name("petersen").unwrap());
/// let policy = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET)?;
/// let options = SolveOptions::default();
/// let found = cover_by_independent_set(&petersen, &policy, &options, &mut |_, _| ())?;
/// assert_eq!(found.nodes.len(), 6);
/// # Ok::<(), shardgraph_solver::Error>(())
/// ```
pub fn cover_by_independent_set(
    adjacency: &Adjacency,
    policy: &TrainedPolicy,
    options: &SolveOptions,
    progress: &mut (dyn FnMut(u32, usize) + Send),
) -> Result<Solution, Error> {
    let graph = adjacency.to_lists();
    let graph = graph.map_err(|error| Error::input(error.to_string()))?;
    let set = solve_problem(&MAXIMUM_INDEPENDENT_SET, &graph, policy, options, progress)?;
    let nodes = cover_of_set(&graph, &set.nodes)?;
    Ok(Solution {
        objective: Objective::Count(nodes.len() as u64),
        nodes,
        ..set
    })
}

/// The neighbours of a maximal independent set, in the order in which its nodes bring them.
///
/// # Errors
/// Where an edge has no end among them: the set is not maximal.
pub(crate) fn cover_of_set(graph: &Graph, set: &[u32]) -> Result<Vec<u32>, Error> {
    let mut in_cover = vec![false; graph.n_nodes() as usize];
    let mut cover = Vec::new();
    for &v in set {
        for &u in graph.neighbors(v) {
            if !std::mem::replace(&mut in_cover[u as usize], true) {
                cover.push(u);
            }
        }
    }
    // That every edge has an end outside of an independent set does not say that this end was met above.
    let uncovered = |&(u, v): &(u32, u32)| !in_cover[u as usize] && !in_cover[v as usize];
    match graph.edges().find(uncovered) {
        None => Ok(cover),
        Some((u, v)) => Err(Error::internal(format!(
            "the independent set is not maximal: nothing covers the edge of nodes {u} and {v}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::solve_reduced;

    fn generated(spec: &str, seed: u64) -> Arc<Graph> {
        let spec: shardgraph_graph::generate::GeneratorSpec = spec.parse().unwrap();
        Arc::new(spec.graph(seed).unwrap())
    }

    #[test]
    fn covers_are_the_complements_of_sets_less_nodes_without_an_edge() {
        let policy = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET).unwrap();
        for (spec, seed) in [
            ("er:80:0.1", 1),
            ("er:40:0.02", 2),
            ("er:5:0", 3),
            ("er:0:0.5", 4),
        ] {
            let graph = generated(spec, seed);
            let adjacency = Adjacency::from_graph((*graph).clone());
            for n_ranks in [1, 3] {
                let options = SolveOptions {
                    n_ranks,
                    ..SolveOptions::default()
                };
                let answer = solve_problem(
                    &MAXIMUM_INDEPENDENT_SET,
                    &graph,
                    &policy,
                    &options,
                    &mut |_, _| (),
                );
                let set = answer.unwrap().nodes;
                let found = cover_by_independent_set(&adjacency, &policy, &options, &mut |_, _| ())
                    .unwrap();
                let mut both: Vec<u32> = found.nodes.iter().chain(&set).copied().collect();
                both.sort_unstable();
                assert_eq!(both, (0..graph.n_nodes()).collect::<Vec<_>>(), "{spec}");
                // The first nodes of the cover are those that the first pick forces.
                if let Some(&first) = set.first() {
                    let forced = graph.neighbors(first);
                    assert_eq!(found.nodes[..forced.len()], *forced, "{spec}");
                }
            }
        }
    }

    #[test]
    fn it_takes_turns_with_reductions() {
        let policy = TrainedPolicy::shipped_for(&MAXIMUM_INDEPENDENT_SET).unwrap();
        let options = SolveOptions::default();
        let graph = generated("er:150:0.05", 7);
        let adjacency = Adjacency::from_graph((*graph).clone());
        let found = solve_reduced(&graph, &mut |part: &Adjacency| {
            cover_by_independent_set(part, &policy, &options, &mut |_, _| ())
        });
        let found = found.unwrap();
        crate::check_cover(&adjacency, &found.cover).unwrap();
        // The kernel of this graph is not empty, so the policy had its turns.
        assert!(found.n_rounds > 1 && found.n_steps > 0);
    }
}
