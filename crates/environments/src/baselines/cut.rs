//! Cuts by taking what gains most, and by letting each node flip until none gains.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardgraph_graph::Graph;

/// Longest search of [`one_flip_cut`]: with weights, a search by flips can be very long.
const MAX_PASSES: usize = 1000;

/// The second side of the cut of moving a node of largest gain over until none gains, none moving
/// back; ties go to the lowest index. In the order of moving.
///
/// # Complexity
/// O((n + m) log n)
///
/// ```
/// use shardgraph_environments::baselines::largest_gain_cut;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4)])?;
/// assert_eq!(largest_gain_cut(&path), [1, 3]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn largest_gain_cut(graph: &Graph) -> Vec<u32> {
    let mut gains: Vec<f64> = (0..graph.n_nodes())
        .map(|v| edges_of(graph, v).map(|edge| edge.1).sum())
        .collect();
    let mut moved = vec![false; gains.len()];
    // The bits of positive numbers are in their order. Entries of old gains stay and are told by
    // their bits.
    let mut queue = BinaryHeap::new();
    let put = |queue: &mut BinaryHeap<_>, v: u32, gain: f64| {
        if gain > 0.0 {
            queue.push((gain.to_bits(), Reverse(v)));
        }
    };
    for (v, &gain) in (0..).zip(&gains) {
        put(&mut queue, v, gain);
    }
    let mut side = Vec::new();
    while let Some((bits, Reverse(v))) = queue.pop() {
        if moved[v as usize] || gains[v as usize].to_bits() != bits {
            continue;
        }
        moved[v as usize] = true;
        side.push(v);
        for (u, weight) in edges_of(graph, v) {
            gains[u as usize] -= 2.0 * weight;
            if !moved[u as usize] {
                put(&mut queue, u, gains[u as usize]);
            }
        }
    }
    side
}

/// The second side, ascending, of the cut of letting each node in turn change its side if the cut
/// gains, over and over until none does: at least half of the weight of all edges lies in it, where
/// no weight is negative. A thousand passes at most.
///
/// # Complexity
/// O(n + m) a pass; without weights at most m flips in all.
pub fn one_flip_cut(graph: &Graph) -> Vec<u32> {
    let n_nodes = graph.n_nodes();
    let mut side = vec![false; n_nodes as usize];
    for _ in 0..MAX_PASSES {
        let mut flipped = false;
        for v in 0..n_nodes {
            let (mut gain, mut total) = (0.0, 0.0);
            for (u, weight) in edges_of(graph, v) {
                let is_cut = side[u as usize] != side[v as usize];
                gain += if is_cut { -weight } else { weight };
                total += weight.abs();
            }
            // What is less may be rounding, and flips that only round would not end.
            if gain > 1e-12 * total {
                side[v as usize] ^= true;
                flipped = true;
            }
        }
        if !flipped {
            break;
        }
    }
    (0..n_nodes).filter(|&v| side[v as usize]).collect()
}

/// The neighbours of `v`, each with the weight of its edge.
fn edges_of(graph: &Graph, v: u32) -> impl Iterator<Item = (u32, f64)> + '_ {
    let edges = graph.weighted_neighbors(v);
    edges.map(|(u, weight)| (u, f64::from(weight)))
}
