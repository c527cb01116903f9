//! Barabasi-Albert graphs: preferential attachment by drawing from all ends of edges.

use shardgraph_random::KeyedRng;

use crate::{EdgeSink, Error};

pub(super) fn stream(n: u32, m: u32, seed: u64, sink: &mut dyn EdgeSink) -> Result<(), Error> {
    // The older end of each edge. The newer one follows from the edge's number, so a list of all ends need not be kept: a node stands in it
    // once for each of its edges, and a uniform draw is one in proportion to degree.
    let mut older: Vec<u32> = Vec::new();
    let end = |older: &[u32], at: u64| {
        let edge = at / 2;
        match (at % 2, edge < u64::from(m)) {
            (0, _) => older[edge as usize],
            (_, true) => edge as u32 + 1,
            (_, false) => m + 1 + ((edge - u64::from(m)) / u64::from(m)) as u32,
        }
    };
    // The last node that chose each node, so that a repeated choice is seen at once.
    let mut chosen_by = vec![0; n as usize];
    for leaf in 1..=m {
        sink.edge(0, leaf, 1.0)?;
        older.push(0);
    }
    for v in m + 1..n {
        let mut random = KeyedRng::new(seed, "ba", u64::from(v));
        let n_older = older.len();
        while older.len() < n_older + m as usize {
            let u = end(&older, random.below(2 * n_older as u64));
            if chosen_by[u as usize] != v {
                chosen_by[u as usize] = v;
                sink.edge(u, v, 1.0)?;
                older.push(u);
            }
        }
    }
    Ok(())
}
