//! The divisor of an edge's message: the number of edges into its target, all or those of its
//! relation, in the whole graph.

use super::csr::Csr;
use crate::RelationalGraph;
use crate::config::Normaliser;

/// 1 / c of each edge; 0 for those that are left out, which count for nothing.
///
/// # Complexity
/// Two passes over the edges, 8 bytes an edge and 8 a node for as long as it runs.
/// # Source
/// Schlichtkrull et al., "Modeling relational data with graph convolutional networks", equation 2
/// with c = |N_i^r|; section 5.2 with their sum.
pub(crate) fn normalisers(
    graph: &RelationalGraph,
    normaliser: Normaliser,
    is_kept: impl Fn(usize) -> bool,
) -> Vec<f32> {
    let (_, relations, targets) = graph.columns();
    let by_target = Csr::group(graph.n_nodes() as usize, targets);
    // All relations count as one where their edges are counted together.
    let counted = |edge: usize| match normaliser {
        Normaliser::Relation => relations[edge] as usize,
        Normaliser::Node => 0,
    };
    let mut counts = vec![0u32; graph.n_relations().max(1) as usize];
    let mut normalisers = vec![0.0; graph.n_edges()];
    for node in 0..by_target.n_groups() {
        let edges = by_target.members(node).iter().map(|&edge| edge as usize);
        let edges = edges.filter(|&edge| is_kept(edge));
        edges.clone().for_each(|edge| counts[counted(edge)] += 1);
        for edge in edges.clone() {
            normalisers[edge] = 1.0 / counts[counted(edge)] as f32;
        }
        edges.for_each(|edge| counts[counted(edge)] = 0);
    }
    normalisers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_relation_to_one_node_share_a_weight_of_one() {
        let (sources, relations) = (vec![0, 1, 2, 2, 0], vec![0, 0, 0, 1, 0]);
        let graph = RelationalGraph::new(3, 2, sources, relations, vec![1, 1, 1, 1, 0]).unwrap();
        assert_eq!(
            normalisers(&graph, Normaliser::Relation, |_| true),
            [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0, 1.0]
        );
        assert_eq!(
            normalisers(&graph, Normaliser::Node, |_| true),
            [0.25, 0.25, 0.25, 0.25, 1.0]
        );
    }

    #[test]
    fn edges_that_are_left_out_count_for_nothing() {
        let graph = RelationalGraph::new(3, 2, vec![0, 1, 2], vec![0, 0, 1], vec![1; 3]).unwrap();
        let without_first = |normaliser| normalisers(&graph, normaliser, |edge| edge > 0);
        assert_eq!(without_first(Normaliser::Relation), [0.0, 1.0, 1.0]);
        assert_eq!(without_first(Normaliser::Node), [0.0, 0.5, 0.5]);
    }
}
