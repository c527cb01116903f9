//! [`Peeling`]: rules that only remove nodes, between the picks of somebody else.

use shardgraph_graph::Graph;

use crate::budget::{Budget, Stopwatch};
use crate::vertex_cover::reduce::Reducer;
use crate::vertex_cover::rules::{RuleCounts, Rules};

/// A graph under a mask that the caller's picks and the rules make larger in turn. The rules are those of [`Rules::removing`], so that what
/// is left is a part of the graph.
///
/// # Complexity
/// Memory as [`crate::vertex_cover::reduce`]. The first [`Peeling::settle`] takes the time of [`crate::vertex_cover::reduce`]; later ones look at nodes near what has changed, without the
/// linear program.
///
/// # Determinism
/// The same for the same graph and picks, without a time limit.
///
/// ```
/// use shardgraph_graph::Graph;
/// use shardgraph_classical::Budget;
/// use shardgraph_classical::vertex_cover::Peeling;
///
/// let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)])?;
/// let mut peeling = Peeling::new(&path);
/// peeling.take(&[2]);
/// let mut forced = peeling.settle(&Budget::unlimited());
/// forced.sort_unstable();
/// assert_eq!(forced.len(), 2); // an end of each edge that is left
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub struct Peeling {
    reducer: Reducer,
    is_settled: bool,
}

impl Peeling {
    /// A graph before its first pick; no rule has been applied yet.
    #[must_use]
    pub fn new(graph: &Graph) -> Peeling {
        Peeling {
            reducer: Reducer::logged(graph, &Rules::removing()),
            is_settled: false,
        }
    }

    /// Puts nodes into the cover; those that are gone are left out.
    ///
    /// # Panics
    /// When the graph has no such node.
    pub fn take(&mut self, picks: &[u32]) {
        for &v in picks {
            self.reducer.give(v);
        }
        self.reducer.take_log();
    }

    /// Applies the rules until none of them applies, or the time is over, and gives the nodes that they put into the cover, in their order. Each
    /// has an edge that no node before it covers.
    pub fn settle(&mut self, budget: &Budget<'_>) -> Vec<u32> {
        self.reducer.run(&Stopwatch::begin(budget));
        if !self.is_settled {
            self.is_settled = true;
            self.reducer.stay_near();
        }
        self.reducer.take_log()
    }

    /// How many nodes each rule removed so far.
    #[must_use]
    pub fn counts(&self) -> &RuleCounts {
        self.reducer.counts()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shardgraph_random::KeyedRng;

    use super::*;
    use crate::vertex_cover::tests::small_graph;
    use crate::vertex_cover::{check_cover, naive};

    proptest! {
        /// Whatever is picked, the rules add what a smallest cover with these picks has.
        #[test]
        fn picks_and_rules_make_a_cover(graph in small_graph(11), seed in any::<u64>()) {
            let mut random = KeyedRng::new(seed, "test", 0);
            let mut peeling = Peeling::new(&graph);
            let mut cover = peeling.settle(&Budget::unlimited());
            let mut n_given = 0;
            loop {
                let is_open = |&v: &u32| {
                    let is_covered = |u: &u32| cover.contains(u);
                    !cover.contains(&v) && !graph.neighbors(v).iter().all(is_covered)
                };
                let open: Vec<u32> = (0..graph.n_nodes()).filter(is_open).collect();
                if open.is_empty() {
                    break;
                }
                let pick = open[random.below(open.len() as u64) as usize];
                cover.push(pick);
                n_given += 1;
                peeling.take(&[pick]);
                cover.extend(peeling.settle(&Budget::unlimited()));
            }
            check_cover(&graph, &cover).unwrap();
            prop_assert_eq!(peeling.counts().given, n_given);
            // Each pick costs a node at most.
            prop_assert!(cover.len() as u64 <= naive::cover_size(&graph) as u64 + n_given);
            if n_given == 0 {
                prop_assert_eq!(cover.len(), naive::cover_size(&graph));
            }
        }
    }

    #[test]
    fn a_pick_that_is_gone_counts_for_nothing() {
        let path = Graph::from_edges(3, &[(0, 1), (1, 2)]).unwrap();
        let mut peeling = Peeling::new(&path);
        assert_eq!(peeling.settle(&Budget::unlimited()), [1]);
        peeling.take(&[0, 1, 2]);
        assert!(peeling.settle(&Budget::unlimited()).is_empty());
        assert_eq!(peeling.counts().given, 0);
    }
}
