//! Stochastic block model: Erdos-Renyi within blocks and between them, with two probabilities.

use super::{erdos_renyi::Skip, n_pairs};
use shardgraph_random::KeyedRng;

use crate::{EdgeSink, Error};

pub(super) fn stream(
    n: u32,
    n_blocks: u32,
    [p_in, p_out]: [f64; 2],
    seed: u64,
    sink: &mut dyn EdgeSink,
) -> Result<(), Error> {
    let (inside, outside) = (Skip::new(p_in), Skip::new(p_out));
    for block in 0..n_blocks {
        let (start, end) = (
            block_start(n, n_blocks, block),
            block_start(n, n_blocks, block + 1),
        );
        for u in start..end {
            let mut random = KeyedRng::new(seed, "sbm", u64::from(u));
            inside.hits(u + 1..end, &mut random, |v| sink.edge(u, v, 1.0))?;
            outside.hits(end..n, &mut random, |v| sink.edge(u, v, 1.0))?;
        }
    }
    Ok(())
}

/// The first node of a block, when the first `n % n_blocks` blocks have one node more than the others.
fn block_start(n: u32, n_blocks: u32, block: u32) -> u32 {
    block * (n / n_blocks) + block.min(n % n_blocks)
}

pub(super) fn expected_edges(n: u32, n_blocks: u32, p_in: f64, p_out: f64) -> f64 {
    if n_blocks == 0 {
        return 0.0;
    }
    let (size, n_larger) = (n / n_blocks, n % n_blocks);
    let pairs_inside =
        f64::from(n_larger) * n_pairs(size + 1) + f64::from(n_blocks - n_larger) * n_pairs(size);
    pairs_inside * p_in + (n_pairs(n) - pairs_inside) * p_out
}
