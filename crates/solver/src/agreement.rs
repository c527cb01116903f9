//! Hashes of the inputs, which processes compare before they work on one problem together.

use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;
use shardgraph_storage::Hasher;

use crate::{SolveOptions, TrainedPolicy};

/// Hash of the inputs of a job, built from words and texts: it tells inputs apart, and does not resist an adversary.
#[derive(Clone)]
pub(crate) struct Fingerprint(Hasher);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        Self(Hasher::new())
    }

    pub(crate) fn words(mut self, words: impl IntoIterator<Item = u64>) -> Self {
        self.0.numbers(words);
        self
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.update(text.as_bytes());
        self.words([text.len() as u64])
    }

    pub(crate) fn value(self) -> u64 {
        self.0.finish()
    }
}

/// The graph, whatever its form.
pub(crate) fn graph_fingerprint(adjacency: &Adjacency) -> u64 {
    match adjacency {
        Adjacency::Bits(bits) => {
            let sizes = [u64::from(adjacency.n_nodes()), adjacency.n_edges()];
            let words = bits.words().iter().copied();
            Fingerprint::new().words(sizes).words(words).value()
        }
        Adjacency::Csr(graph) => lists_fingerprint(graph),
    }
}

pub(crate) fn lists_fingerprint(graph: &Graph) -> u64 {
    let weights = graph.weights().unwrap_or_default();
    Fingerprint::new()
        .words([u64::from(graph.n_nodes()), graph.n_edges()])
        .words(graph.offsets().iter().copied())
        .words(graph.columns().iter().map(|&v| u64::from(v)))
        .words(weights.iter().map(|x| u64::from(x.to_bits())))
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
        starts,
        path,
        keep_isolated,
        reduce_inside,
        communication,
        deadline: _,
        cancelled: _,
        device,
    } = options;
    let text = format!(
        "{n_ranks} {select} {starts} {path:?} {keep_isolated} {reduce_inside} {communication:?} {:?}",
        device.kind()
    );
    Fingerprint::new().text(&text).value()
}

#[cfg(test)]
mod tests {
    use shardgraph_collectives::{Comm, CommErrorKind, Op, Timeout, threads};
    use shardgraph_job::Ranks;
    use shardgraph_layers::autodiff::{leave_group, rank_device};

    use crate::Error;
    use shardgraph_error::Class;

    fn or_tell<R>(
        comm: &mut Comm,
        part: impl FnOnce(&mut Comm) -> Result<R, Error>,
    ) -> Result<R, Error> {
        Ranks::new(comm, Timeout::default()).fail_together(|ranks| part(ranks.comm))
    }

    fn meet(comm: &mut Comm) -> Result<(), Error> {
        Ok(comm.run(Op::Barrier, Timeout::default())?)
    }

    /// A rank that fails for a reason of its own: the others wait no longer, know the reason, and have the same fault.
    #[test]
    fn the_others_are_told_why_a_rank_stops() {
        for (error, fault) in [
            (Error::input("no such file"), Class::Input),
            (Error::no_answer("it diverged"), Class::NoAnswer),
            (Error::internal("1 is 2"), Class::NoAnswer),
        ] {
            let (text, error) = (error.to_string(), std::sync::Mutex::new(Some(error)));
            let results = threads::run(3, |mut comm| {
                or_tell(&mut comm, |comm| match comm.rank() {
                    1 => Err(error.lock().unwrap().take().unwrap()),
                    _ => meet(comm),
                })
                .unwrap_err()
            });
            for (rank, told) in results.into_iter().map(Result::unwrap).enumerate() {
                assert!(told.to_string().contains(&text), "{told}");
                assert_eq!(told.class(), fault, "rank {rank}: {told}");
                let by = told.comm_error().map(|error| match error.kind() {
                    CommErrorKind::Aborted { by, .. } => *by,
                    kind => panic!("{kind:?}"),
                });
                assert_eq!(by, (rank != 1).then_some(Some(1)));
            }
        }
    }

    /// The same where the others wait on their devices, in a group: they have the fault of the rank that failed, not of a lost one.
    #[test]
    fn ranks_that_wait_on_their_devices_are_told_too() {
        let Some(device) = shardgraph_cuemu::device_of_a_group("faults of ranks") else {
            return;
        };
        let results = threads::run(3, |mut comm| {
            or_tell(&mut comm, |comm| {
                let device = rank_device(&device, comm, Timeout::default())?;
                if comm.rank() == 1 {
                    return Err(Error::input("no such file"));
                }
                Ok(leave_group(&device, Timeout::default())?)
            })
            .unwrap_err()
        });
        for (rank, told) in results.into_iter().map(Result::unwrap).enumerate() {
            assert_eq!(told.class(), Class::Input, "rank {rank}: {told}");
            assert!(told.to_string().contains("no such file"), "{told}");
            assert_eq!(told.comm_error().is_some(), rank != 1, "{told}");
        }
    }

    /// What a rank has lost is no reason of its own.
    #[test]
    fn a_lost_rank_stays_a_lost_rank() {
        let results = threads::run(3, |mut comm| match comm.rank() {
            1 => Ok(()),
            _ => or_tell(&mut comm, meet),
        });
        for result in [0, 2].map(|rank| results[rank].as_ref().unwrap()) {
            let error = result.as_ref().unwrap_err();
            assert_eq!(error.class(), Class::LostRank, "{error}");
            assert!(error.to_string().contains("rank 1 was lost"), "{error}");
        }
    }
}
