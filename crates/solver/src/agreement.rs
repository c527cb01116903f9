//! What processes compare before they work on one problem together.

use shardgraph_collectives::{Comm, Deadline, Op};
use shardgraph_shard::Adjacency;

use crate::{Error, SolveOptions, TrainedPolicy};

/// A running hash of words: for telling inputs apart, not against an adversary. (SplitMix64's mixing.)
#[derive(Clone, Copy)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn words(self, words: impl IntoIterator<Item = u64>) -> Self {
        words.into_iter().fold(self, |Self(hash), word| {
            let x = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            Self(x ^ (x >> 29))
        })
    }

    pub(crate) fn text(self, text: &str) -> Self {
        let bytes = text.bytes().map(u64::from);
        self.words(bytes).words([text.len() as u64])
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

/// Refuses to go on where a rank has another value than rank 0 for something that all must share.
///
/// # Errors
/// [`ErrorKind::Input`](crate::ErrorKind::Input) naming the first such rank and what it is, on all ranks alike.
pub(crate) fn check_same(
    comm: &mut Comm,
    facts: &[(&str, u64)],
    deadline: Deadline,
) -> Result<(), Error> {
    let own: Vec<u64> = facts.iter().map(|(_, value)| *value).collect();
    let mut all = vec![0u64; own.len() * comm.size() as usize];
    let op = Op::AllGather {
        send: (&own).into(),
        recv: (&mut all).into(),
    };
    comm.run(op, deadline)?;
    for (rank, theirs) in all.chunks_exact(own.len().max(1)).enumerate() {
        for (fact_idx, (name, _)) in facts.iter().enumerate() {
            if theirs[fact_idx] != all[fact_idx] {
                return Err(Error::input(format!(
                    "rank {rank} has another {name} than rank 0: start all ranks with the same arguments and files"
                )));
            }
        }
    }
    Ok(())
}

/// The graph, whatever its form.
pub(crate) fn graph_fingerprint(adjacency: &Adjacency) -> u64 {
    let sizes = [u64::from(adjacency.n_nodes()), adjacency.n_edges()];
    let hash = Fingerprint::new().words(sizes);
    match adjacency {
        Adjacency::Bits(bits) => hash.words(bits.words().iter().copied()),
        Adjacency::Csr(graph) => {
            let weights = graph.weights().unwrap_or_default();
            hash.words(graph.offsets().iter().copied())
                .words(graph.columns().iter().map(|&v| u64::from(v)))
                .words(weights.iter().map(|x| u64::from(x.to_bits())))
        }
    }
    .value()
}

pub(crate) fn policy_fingerprint(policy: &TrainedPolicy) -> u64 {
    let weights = policy.params.flat();
    Fingerprint::new()
        .text(&format!("{:?}", policy.config))
        .words(weights.iter().map(|x| u64::from(x.to_bits())))
        .value()
}

/// All that decides the answer; ranks may differ in how long they wait.
pub(crate) fn options_fingerprint(options: &SolveOptions) -> u64 {
    let SolveOptions {
        n_ranks,
        select,
        path,
        keep_isolated,
        deadline: _,
        device,
    } = options;
    let text = format!(
        "{n_ranks} {select} {path:?} {keep_isolated} {:?}",
        device.kind()
    );
    Fingerprint::new().text(&text).value()
}
