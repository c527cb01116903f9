//! The dominating set of the usual greedy.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardgraph_graph::Graph;

/// The dominating set of taking a node that dominates the most new nodes until all are dominated;
/// ties go to the lowest index. In the order of taking. It is at most 1 + ln(1 + largest degree)
/// times the smallest.
///
/// # Complexity
/// O((n + m) log n)
/// # Source
/// Set cover's greedy (Johnson, 1974), over closed neighbourhoods.
///
/// ```
/// use shardgraph_environments::baselines::most_new_dominating_set;
/// use shardgraph_graph::Graph;
///
/// let path = Graph::from_edges(6, &[(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])?;
/// assert_eq!(most_new_dominating_set(&path), [1, 4]);
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
pub fn most_new_dominating_set(graph: &Graph) -> Vec<u32> {
    let mut n_new: Vec<u32> = (0..graph.n_nodes()).map(|v| graph.degree(v) + 1).collect();
    let mut dominated = vec![false; n_new.len()];
    let mut queue: BinaryHeap<_> = (0..).zip(&n_new).map(|(v, &n)| (n, Reverse(v))).collect();
    let mut set = Vec::new();
    while let Some((n, Reverse(v))) = queue.pop() {
        let now = n_new[v as usize];
        if now < n {
            // Counts only fall: an old entry comes too early, never too late.
            if now > 0 {
                queue.push((now, Reverse(v)));
            }
            continue;
        }
        set.push(v);
        for w in closed_neighborhood(graph, v) {
            if std::mem::replace(&mut dominated[w as usize], true) {
                continue;
            }
            closed_neighborhood(graph, w).for_each(|x| n_new[x as usize] -= 1);
        }
    }
    set
}

fn closed_neighborhood(graph: &Graph, v: u32) -> impl Iterator<Item = u32> + '_ {
    std::iter::once(v).chain(graph.neighbors(v).iter().copied())
}
