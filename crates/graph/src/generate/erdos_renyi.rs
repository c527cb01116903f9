//! Erdos-Renyi graphs by geometric skipping, a stream of random numbers for each row.

use shardgraph_random::KeyedRng;

use crate::{EdgeSink, Error};

pub(super) fn stream(n: u32, p: f64, seed: u64, sink: &mut dyn EdgeSink) -> Result<(), Error> {
    let skip = Skip::new(p);
    for u in 0..n {
        let mut random = KeyedRng::new(seed, "er", u64::from(u));
        skip.hits(u + 1..n, &mut random, |v| sink.edge(u, v, 1.0))?;
    }
    Ok(())
}

/// Independent trials over a range of nodes, all of one probability: only the hits cost time.
pub(super) enum Skip {
    Never,
    Always,
    /// Failures before a hit are geometric; holds 1 / ln(1 - p).
    Some(f64),
}

impl Skip {
    pub(super) fn new(p: f64) -> Skip {
        if p <= 0.0 {
            Skip::Never
        } else if p >= 1.0 {
            Skip::Always
        } else {
            Skip::Some(KeyedRng::inverse_ln_q(p))
        }
    }

    /// Calls `hit` for each node of `range` whose trial succeeds, ascending.
    pub(super) fn hits(
        &self,
        range: std::ops::Range<u32>,
        random: &mut KeyedRng,
        mut hit: impl FnMut(u32) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let end = u64::from(range.end);
        let mut v = u64::from(range.start);
        loop {
            match self {
                Skip::Never => return Ok(()),
                Skip::Always => {}
                Skip::Some(inverse_ln_q) => v = v.saturating_add(random.geometric(*inverse_ln_q)),
            }
            if v >= end {
                return Ok(());
            }
            hit(v as u32)?;
            v += 1;
        }
    }
}
