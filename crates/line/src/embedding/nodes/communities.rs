//! Communities by k-means, and their mutual information with given classes.

use shardgraph_metrics::{kmeans, mutual_information};

use super::Classes;
use crate::Embedding;

/// Clusters of nodes beside their classes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Communities {
    /// Nodes of exactly one class; only these are clustered.
    pub n_nodes: usize,
    /// Clusters, at most as many as there are nodes.
    pub n_clusters: usize,
    /// Normalised mutual information of clusters and classes; absent without a node.
    pub mutual_information: Option<f64>,
}

/// k-means clusters of the listed nodes' rows, scaled to length 1, compared with the classes.
///
/// Only nodes of exactly one class count. `k` is the number of clusters, by default that of the
/// classes.
#[must_use]
pub fn communities(
    embedding: &Embedding,
    classes: &Classes,
    k: Option<usize>,
    seed: u64,
) -> Communities {
    let single = classes.of_nodes().iter().filter(|(_, own)| own.len() == 1);
    let (nodes, known): (Vec<u32>, Vec<u32>) = single.map(|(node, own)| (*node, own[0])).unzip();
    let mut rows = Vec::with_capacity(nodes.len() * embedding.dim());
    for &node in &nodes {
        let row = embedding.row(node);
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|x| if norm > 0.0 { x / norm } else { 0.0 }));
    }
    let n_clusters = k.unwrap_or(classes.names().len()).max(1).min(nodes.len());
    let shared = || {
        let clusters = kmeans(&rows, embedding.dim(), n_clusters, seed);
        mutual_information(&clusters, &known)
    };
    Communities {
        n_nodes: nodes.len(),
        n_clusters,
        mutual_information: (!nodes.is_empty()).then(shared),
    }
}
