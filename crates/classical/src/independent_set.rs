//! Maximum independent set: the nodes that a minimum vertex cover leaves out.

use shardgraph_graph::Graph;

use crate::solution::{Options, Solution, Stage};
use crate::{Budget, Error, ErrorKind, vertex_cover, weighted};

/// An independent set with as many nodes as the budget allows, by [`vertex_cover::solve`] on the same graph.
///
/// # Errors
/// `NoNode`, `Twice` or `Joined` for starts that are no independent sets; else as [`vertex_cover::solve`].
///
/// # Determinism
/// As [`vertex_cover::solve`].
///
/// ```
/// use shardgraph_classical::{Budget, Options, independent_set};
/// use shardgraph_graph::builtin;
///
/// let petersen = builtin::by_name("petersen").unwrap();
/// let solution = independent_set::solve(&petersen, &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.objective, solution.bound), (4.0, Some(4.0)));
/// # Ok::<(), shardgraph_classical::Error>(())
/// ```
pub fn solve(graph: &Graph, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
    Search::new(graph).run(options, budget)
}

/// The search of [`solve`], which can be continued, as that of [`vertex_cover::Search`].
#[derive(Clone, Debug)]
pub struct Search<'g> {
    graph: &'g Graph,
    covers: vertex_cover::Search<'g>,
}

impl<'g> Search<'g> {
    /// A search before its first call.
    #[must_use]
    pub fn new(graph: &'g Graph) -> Self {
        let covers = vertex_cover::Search::new(graph);
        Search { graph, covers }
    }

    /// Goes on within a budget of this call alone; the first call reduces the graph.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn run(&mut self, options: &Options<'_>, budget: &Budget<'_>) -> Result<Solution, Error> {
        let n_nodes = self.graph.n_nodes();
        let mut covers = Vec::with_capacity(options.starts.len());
        for start in options.starts {
            check_independent_set(self.graph, start)?;
            covers.push(complement(n_nodes, start));
        }
        let starts: Vec<&[u32]> = covers.iter().map(Vec::as_slice).collect();
        let options = Options {
            starts: &starts,
            ..*options
        };
        let solution = self.covers.run(&options, budget)?;
        let nodes = complement(n_nodes, &solution.nodes);
        check_independent_set(self.graph, &nodes)?;
        let total = f64::from(n_nodes);
        let stages = solution.stages.into_iter().map(|stage| Stage {
            objective: total - stage.objective,
            ..stage
        });
        Ok(Solution {
            objective: nodes.len() as f64,
            bound: solution.bound.map(|bound| total - bound),
            is_optimal: solution.is_optimal,
            stages: stages.collect(),
            nodes,
        })
    }
}

/// An independent set that weighs as much as the budget allows: reductions that hold with weights, iterated local search, and branch and
/// bound on components of up to 400 nodes. `weights` has one for each node; the objective and the bound are sums of these.
///
/// # Errors
/// `Weights` for a list of another length; `NoNode`, `Twice` or `Joined` for starts that are no independent sets; `Option` and `Thread`
/// as [`vertex_cover::solve`].
///
/// # Determinism
/// As [`vertex_cover::solve`]; a step is a perturbation of the local search, and each component has as many.
///
/// # Source
/// Lamm, Schulz, Strash, Williger and Zhang (2019), reductions and the exact search; Nogueira, Pinheiro and Subramanian (2018), the
/// local search.
///
/// ```
/// use shardgraph_classical::{Budget, Options, independent_set};
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// let solution = independent_set::solve_weighted(&path, &[2, 5, 2], &Options::default(), &Budget::unlimited())?;
/// assert_eq!((solution.nodes, solution.objective, solution.is_optimal), (vec![1], 5.0, true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn solve_weighted(
    graph: &Graph,
    weights: &[u32],
    options: &Options<'_>,
    budget: &Budget<'_>,
) -> Result<Solution, Error> {
    weighted::solve(graph, weights, options, budget)
}

/// Checks that no node is listed twice and that no two are joined.
///
/// # Errors
/// `NoNode`, `Twice` or `Joined`, for the first that is found.
///
/// # Complexity
/// O(n + m)
///
/// ```
/// use shardgraph_classical::independent_set::check_independent_set;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(3, &[(0, 1), (1, 2)])?;
/// assert!(check_independent_set(&path, &[0, 2]).is_ok());
/// assert_eq!(check_independent_set(&path, &[0, 1]).unwrap_err().to_string(), "nodes 0 and 1 are joined");
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn check_independent_set(graph: &Graph, nodes: &[u32]) -> Result<(), Error> {
    let is_in = vertex_cover::indicator(graph.n_nodes(), nodes)?;
    let joined = |&(u, v): &(u32, u32)| is_in[u as usize] && is_in[v as usize];
    match graph.edges().find(joined) {
        None => Ok(()),
        Some((u, v)) => Err(ErrorKind::Joined { u, v }.into()),
    }
}

/// The nodes that a list leaves out, ascending.
pub(crate) fn complement(n_nodes: u32, nodes: &[u32]) -> Vec<u32> {
    let mut is_in = vec![false; n_nodes as usize];
    for &v in nodes {
        is_in[v as usize] = true;
    }
    (0..n_nodes).filter(|&v| !is_in[v as usize]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vertex_cover::naive;
    use crate::vertex_cover::tests::small_graph;

    proptest! {
        #[test]
        fn small_graphs_are_solved(graph in small_graph(12)) {
            let options = Options { starts: &[&[]], ..Options::default() };
            let solution = solve(&graph, &options, &Budget::unlimited()).unwrap();
            check_independent_set(&graph, &solution.nodes).unwrap();
            let optimum = graph.n_nodes() as usize - naive::cover_size(&graph);
            prop_assert_eq!(solution.nodes.len(), optimum);
            prop_assert_eq!(solution.bound, Some(optimum as f64));
            prop_assert!(solution.is_optimal);
        }
    }

    #[test]
    fn starts_that_are_no_sets_are_refused() {
        let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        for start in [&[0u32, 1][..], &[0, 0], &[3]] {
            let options = Options {
                starts: &[start],
                ..Options::default()
            };
            assert!(solve(&path, &options, &Budget::unlimited()).is_err());
        }
    }
}
