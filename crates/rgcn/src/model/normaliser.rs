//! The divisor of an edge's message: the number of edges into its target, all or those of its
//! relation, in the whole graph.

use super::csr::Csr;
use crate::RelationalGraph;
use crate::config::Normaliser;

/// 1 / c of each edge.
///
/// # Complexity
/// Two passes over the edges, 8 bytes an edge and 8 a node for as long as it runs.
/// # Source
/// Schlichtkrull et al., "Modeling relational data with graph convolutional networks", equation 2
/// with c = |N_i^r|; section 5.2 with their sum.
pub(crate) fn normalisers(graph: &RelationalGraph, normaliser: Normaliser) -> Vec<f32> {
    let (_, relations, targets) = graph.columns();
    let by_target = Csr::group(graph.n_nodes() as usize, targets);
    let mut counts = vec![0u32; graph.n_relations() as usize];
    let mut normalisers = vec![0.0; graph.n_edges()];
    for node in 0..by_target.n_groups() {
        let edges = by_target.members(node);
        if normaliser == Normaliser::Node {
            let weight = 1.0 / edges.len() as f32;
            edges
                .iter()
                .for_each(|&edge| normalisers[edge as usize] = weight);
            continue;
        }
        for &edge in edges {
            counts[relations[edge as usize] as usize] += 1;
        }
        for &edge in edges {
            let count = counts[relations[edge as usize] as usize];
            normalisers[edge as usize] = 1.0 / count as f32;
        }
        for &edge in edges {
            counts[relations[edge as usize] as usize] = 0;
        }
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
            normalisers(&graph, Normaliser::Relation),
            [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 1.0, 1.0]
        );
        assert_eq!(
            normalisers(&graph, Normaliser::Node),
            [0.25, 0.25, 0.25, 0.25, 1.0]
        );
    }
}
