//! [`greedy`]: a set cover by the set of most uncovered elements, without redundant sets.

use crate::dominating_set::rows::SetCover;

/// Sets that cover every element, given some that are taken first: the set of most uncovered elements joins, the first of equal ones; then
/// sets that the others make redundant leave, the smallest first.
///
/// # Source
/// Chvátal (1979), "A greedy heuristic for the set-covering problem".
///
/// # Complexity
/// O(entries)
pub(crate) fn greedy(instance: &SetCover, given: &[u32]) -> Vec<u32> {
    let n = instance.n_sets();
    let mut gains: Vec<usize> = (0..n).map(|s| instance.sets.row(s).len()).collect();
    let mut covered = vec![0u32; instance.n_elements()];
    let mut chosen: Vec<u32> = Vec::new();
    let mut take = |s: u32, gains: &mut [usize]| {
        for &e in instance.sets.row(s as usize) {
            covered[e as usize] += 1;
            if covered[e as usize] == 1 {
                for &t in instance.elements.row(e as usize) {
                    gains[t as usize] -= 1;
                }
            }
        }
        chosen.push(s);
    };
    for &s in given {
        take(s, &mut gains);
    }
    // Gains only fall: each set waits in the bucket of a gain that it has had.
    let most = gains.iter().copied().max().unwrap_or(0);
    let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); most + 1];
    for s in (0..n as u32).rev() {
        buckets[gains[s as usize]].push(s);
    }
    for gain in (1..=most).rev() {
        while let Some(s) = buckets[gain].pop() {
            match gains[s as usize] {
                now if now == gain => take(s, &mut gains),
                0 => {}
                now => buckets[now].push(s),
            }
        }
    }
    drop_redundant(instance, &mut covered, chosen)
}

fn drop_redundant(instance: &SetCover, covered: &mut [u32], mut chosen: Vec<u32>) -> Vec<u32> {
    chosen.sort_by_key(|&s| (instance.sets.row(s as usize).len(), s));
    chosen.retain(|&s| {
        let row = instance.sets.row(s as usize);
        let is_needed = row.iter().any(|&e| covered[e as usize] == 1);
        if !is_needed {
            for &e in row {
                covered[e as usize] -= 1;
            }
        }
        is_needed
    });
    chosen.sort_unstable();
    chosen
}
