//! What the algorithms are compared with: every pair of sides is tried.

use crate::cut::instance::Instance;

/// The largest cut of an instance.
pub(crate) fn largest_cut(instance: &Instance) -> i64 {
    let n = instance.n_nodes();
    assert!(n < 24);
    let sides = |code: u32| (0..n).map(|v| code >> v & 1 == 1).collect::<Vec<bool>>();
    let cuts = (0..1u32 << n).map(|code| instance.cut(&sides(code)));
    cuts.max().unwrap_or(0)
}
