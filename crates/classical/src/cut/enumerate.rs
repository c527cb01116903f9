//! [`SmallComponents`]: components of few nodes, cut exactly by trying all sides.

use crate::cut::instance::Instance;

/// Most nodes of a component that is enumerated.
const MAX_NODES: usize = 20;
/// Changes of sides in all components together.
const MAX_FLIPS: u64 = 1 << 22;

/// Best sides of the components that were enumerated.
pub(crate) struct SmallComponents {
    /// Side of each node, `None` in a component that is left.
    pub(crate) sides: Vec<Option<bool>>,
    /// Weight of these cuts.
    pub(crate) cut: i64,
}

impl SmallComponents {
    /// # Complexity
    /// O(n + m), and at most `MAX_FLIPS` times `MAX_NODES`.
    pub(crate) fn new(instance: &Instance) -> SmallComponents {
        let n = instance.n_nodes();
        let mut small = SmallComponents {
            sides: vec![None; n],
            cut: 0,
        };
        let mut is_reached = vec![false; n];
        let mut position = vec![0; n];
        let mut flips_left = MAX_FLIPS;
        let mut nodes = Vec::new();
        for root in 0..n {
            if is_reached[root] {
                continue;
            }
            nodes.clear();
            nodes.push(root);
            is_reached[root] = true;
            let mut head = 0;
            while head < nodes.len() {
                for (u, _) in instance.row(nodes[head]) {
                    if !std::mem::replace(&mut is_reached[u], true) {
                        nodes.push(u);
                    }
                }
                head += 1;
            }
            if nodes.len() > MAX_NODES || 1 << (nodes.len() - 1) > flips_left {
                continue;
            }
            flips_left -= 1 << (nodes.len() - 1);
            for (at, &v) in nodes.iter().enumerate() {
                position[v] = at;
            }
            let (cut, code) = best_code(instance, &nodes, &position);
            small.cut += cut;
            for (at, &v) in nodes.iter().enumerate() {
                small.sides[v] = Some(code >> at & 1 == 1);
            }
        }
        small
    }
}

/// The largest cut of a component and its sides as bits, by a Gray code: each step changes one side.
fn best_code(instance: &Instance, nodes: &[usize], position: &[usize]) -> (i64, u32) {
    let n = nodes.len();
    let mut gains = vec![0i64; n];
    let mut rows = vec![Vec::new(); n];
    for (at, &v) in nodes.iter().enumerate() {
        gains[at] = instance.row(v).map(|(_, weight)| weight).sum();
        rows[at].extend(instance.row(v).map(|(u, weight)| (position[u], weight)));
    }
    let (mut cut, mut code) = (0, 0u32);
    let mut best = (0, 0);
    // The last node keeps its side.
    for step in 1u32..1 << (n - 1) {
        let v = step.trailing_zeros() as usize;
        cut += gains[v];
        gains[v] = -gains[v];
        code ^= 1 << v;
        for &(u, weight) in &rows[v] {
            let is_same = (code >> u ^ code >> v) & 1 == 0;
            gains[u] += if is_same { 2 * weight } else { -2 * weight };
        }
        if cut > best.0 {
            best = (cut, code);
        }
    }
    best
}
