//! Barabasi-Albert graphs: preferential attachment by drawing from the list of all edge ends.

use crate::{EdgeSink, Error, random::Stream};

pub(super) fn stream(n: u32, m: u32, seed: u64, sink: &mut dyn EdgeSink) -> Result<(), Error> {
    // A node stands here once for each of its edges, so a uniform draw is one in proportion to degree.
    let mut ends: Vec<u32> = Vec::new();
    // The last node that chose each node, so that a repeated choice is seen at once.
    let mut chosen_by = vec![0; n as usize];
    for leaf in 1..=m {
        sink.edge(0, leaf, 1.0)?;
        ends.extend([0, leaf]);
    }
    for v in m + 1..n {
        let mut random = Stream::new(seed, "ba", u64::from(v));
        let n_ends = ends.len();
        while ends.len() < n_ends + 2 * m as usize {
            let u = ends[random.below(n_ends as u64) as usize];
            if chosen_by[u as usize] != v {
                chosen_by[u as usize] = v;
                sink.edge(u, v, 1.0)?;
                ends.extend([u, v]);
            }
        }
    }
    Ok(())
}
