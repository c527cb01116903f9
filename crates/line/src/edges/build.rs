//! A store in memory, from a list of edges.

use std::io;
use std::sync::OnceLock;

use super::{Edges, Head, NodeLabels, Store, check_edge, check_parts};
use crate::Error;
use crate::edges::partition::{DegreePartition, by_falling_degree, ranks_of};

pub(super) fn in_memory(
    n_nodes: u32,
    edges: &[(u32, u32)],
    n_parts: u32,
    labels: NodeLabels,
) -> Result<Store, Error> {
    check_parts(n_parts)?;
    if labels.len() != n_nodes as usize {
        let message = format!(
            "{} labels: expected one for each of {n_nodes} nodes",
            labels.len()
        );
        return Err(Error::graph(message));
    }
    let mut by_node = vec![0.0f64; n_nodes as usize];
    for &(u, v) in edges {
        check_edge(n_nodes, u, v)?;
        by_node[u as usize] += 1.0;
        by_node[v as usize] += 1.0;
    }
    let order = by_falling_degree(&by_node);
    let ranks = ranks_of(&order);
    let mut head = new_head(
        DegreePartition { n_nodes, n_parts },
        &by_node,
        order,
        labels.bytes(),
    );
    let placed: Vec<(usize, u32, u32)> = (0u64..)
        .zip(edges)
        .map(|(number, &(u, v))| {
            let (u, v) = oriented(number, u, v);
            let [from, to] = [u, v].map(|node| head.partition.place(ranks[node as usize]));
            (head.bucket(from.0, to.0), from.1, to.1)
        })
        .collect();
    for &(bucket, _, _) in &placed {
        head.counts[bucket] += 1;
    }
    let bytes = bucketed(&mut head, &placed);
    // For its fingerprint alone.
    head.write(&mut io::sink(), &|out| labels.write(out))
        .map_err(|e| Error::graph(e.to_string()))?;
    Ok(Store {
        head,
        labels: OnceLock::from(labels),
        edges: Edges::Memory(bytes),
    })
}

/// The records in the order of their buckets; fills in what the head says of each besides its
/// count.
fn bucketed(head: &mut Head, placed: &[(usize, u32, u32)]) -> Vec<u8> {
    let n_buckets = head.counts.len();
    head.weights = head.counts.iter().map(|&count| count as f64).collect();
    head.sum_up();
    let starts: Vec<usize> = (0..n_buckets).map(|b| head.offset(b) as usize).collect();
    let mut next = starts.clone();
    let mut bytes = vec![0; 8 * placed.len()];
    for &(bucket, row, to) in placed {
        let record = &mut bytes[next[bucket]..][..8];
        record[..4].copy_from_slice(&row.to_le_bytes());
        record[4..].copy_from_slice(&to.to_le_bytes());
        next[bucket] += 8;
    }
    for bucket in 0..n_buckets {
        head.hashes[bucket] = shardgraph_storage::hash(&bytes[starts[bucket]..next[bucket]]);
    }
    bytes
}

/// A head without edges; degrees come by node, and are kept by rank.
pub(super) fn new_head(
    partition: DegreePartition,
    by_node: &[f64],
    order: Vec<u32>,
    label_bytes: u64,
) -> Head {
    let n_buckets = (partition.n_parts * partition.n_parts) as usize;
    Head {
        partition,
        is_directed: false,
        is_weighted: false,
        counts: vec![0; n_buckets],
        hashes: vec![shardgraph_storage::hash(&[]); n_buckets],
        weights: vec![0.0; n_buckets],
        degrees: order.iter().map(|&v| by_node[v as usize] as f32).collect(),
        order,
        label_bytes,
        hash: 0,
        starts: Vec::new(),
    }
}

/// Direction of an undirected edge in the store, by a coin keyed by its number.
///
/// Files tend to list the smaller node first, and order 2 has a table for each end.
///
/// # Source
/// The finaliser of splitmix64 (Steele et al., 2014).
pub(super) fn oriented(index: u64, u: u32, v: u32) -> (u32, u32) {
    let mut coin = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    coin = (coin ^ (coin >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    coin = (coin ^ (coin >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    match (coin >> 63) & 1 {
        0 => (u, v),
        _ => (v, u),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither more of one side than chance gives, nor a pattern: with n coins a sum lies within 5
    /// sqrt(n).
    #[test]
    fn directions_are_those_of_a_coin() {
        let n = 1 << 16;
        let coin = |index| f64::from(i32::from(oriented(index, 0, 1).0 == 0) * 2 - 1);
        for lag in 0..40 {
            let product = |index| {
                if lag == 0 {
                    coin(index)
                } else {
                    coin(index) * coin(index + lag)
                }
            };
            let sum: f64 = (0..n).map(product).sum();
            assert!(sum.abs() < 5.0 * (n as f64).sqrt(), "lag {lag}: {sum}");
        }
    }
}
