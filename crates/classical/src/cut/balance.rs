//! [`spanning_sides`]: the cut that a spanning forest settles, an optimum where no cycle contradicts it.

use crate::cut::instance::Instance;

/// Sides that cut each positive edge of a breadth-first forest and no negative one.
///
/// Where every other edge agrees, the cut has all positive weight and is an optimum: the graph is bipartite, or in general a balanced
/// signed graph.
///
/// # Source
/// Harary (1953), "On the notion of balance of a signed graph".
///
/// # Complexity
/// O(n + m)
pub(crate) fn spanning_sides(instance: &Instance) -> Vec<bool> {
    let n = instance.n_nodes();
    let mut sides = vec![false; n];
    let mut is_reached = vec![false; n];
    let mut queue = Vec::with_capacity(n);
    for root in 0..n {
        if is_reached[root] {
            continue;
        }
        is_reached[root] = true;
        queue.clear();
        queue.push(root);
        let mut head = 0;
        while head < queue.len() {
            let v = queue[head];
            head += 1;
            for (u, weight) in instance.row(v) {
                if weight != 0 && !is_reached[u] {
                    is_reached[u] = true;
                    sides[u] = sides[v] != (weight > 0);
                    queue.push(u);
                }
            }
        }
    }
    sides
}
