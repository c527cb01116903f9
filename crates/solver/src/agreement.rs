//! What processes compare before they work on one problem together.

use shardgraph_collectives::{Comm, Deadline, Op};
use shardgraph_graph::Graph;
use shardgraph_shard::Adjacency;

use crate::{Error, Fault, SolveOptions, TrainedPolicy};

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

/// The version of this crate, for [`check_same`]: MPI compares nothing of its own.
pub(crate) fn version_fact() -> (&'static str, u64) {
    let hash = Fingerprint::new().text(env!("CARGO_PKG_VERSION"));
    ("version of the program", hash.value())
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

/// Does this rank's part of a job. Where it fails for a reason of its own, the others end too, with that reason, instead of waiting.
pub(crate) fn or_tell<R>(
    comm: &mut Comm,
    part: impl FnOnce(&mut Comm) -> Result<R, Error>,
) -> Result<R, Error> {
    part(comm).map_err(|error| {
        if error.comm_error().is_some() {
            return error;
        }
        // Devices that exchange among themselves lose a rank as well; where and why that began, the communicator knows.
        let is_lost_rank = error.fault() == Fault::LostRank;
        if let Some(cause) = comm.failure().filter(|_| is_lost_rank) {
            return cause.into();
        }
        comm.abort(&error.reason());
        error
    })
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
        path,
        keep_isolated,
        reduce_inside,
        communication,
        deadline: _,
        device,
    } = options;
    let text = format!(
        "{n_ranks} {select} {path:?} {keep_isolated} {reduce_inside} {communication:?} {:?}",
        device.kind()
    );
    Fingerprint::new().text(&text).value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardgraph_collectives::{CommErrorKind, threads};
    use shardgraph_device::Device;
    use shardgraph_device::nccl::Library;
    use shardgraph_layers::autodiff::{leave_group, rank_device};

    fn meet(comm: &mut Comm) -> Result<(), Error> {
        Ok(comm.run(Op::Barrier, Deadline::default())?)
    }

    /// A rank that fails for a reason of its own: the others wait no longer, know the reason, and have the same fault.
    #[test]
    fn the_others_are_told_why_a_rank_stops() {
        for (error, fault) in [
            (Error::input("no such file"), Fault::Input),
            (Error::no_answer("it diverged"), Fault::NoAnswer),
            (Error::internal("1 is 2"), Fault::NoAnswer),
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
                assert_eq!(told.fault(), fault, "rank {rank}: {told}");
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
        let (emulator, library) = (shardgraph_cuemu::library(), shardgraph_cuemu::collectives());
        let Some((emulator, library)) = emulator.zip(library) else {
            println!(
                "SKIPPED: faults of ranks in a group ({})",
                shardgraph_cuemu::SKIP_REASON
            );
            return;
        };
        let library = Library::open(Some(&library)).unwrap();
        let device = Device::emulated(&emulator).unwrap().using_nccl(&library);
        let results = threads::run(3, |mut comm| {
            or_tell(&mut comm, |comm| {
                let device = rank_device(&device, comm, Deadline::default())?;
                if comm.rank() == 1 {
                    return Err(Error::input("no such file"));
                }
                Ok(leave_group(&device, Deadline::default())?)
            })
            .unwrap_err()
        });
        for (rank, told) in results.into_iter().map(Result::unwrap).enumerate() {
            assert_eq!(told.fault(), Fault::Input, "rank {rank}: {told}");
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
            assert_eq!(error.fault(), Fault::LostRank, "{error}");
            assert!(error.to_string().contains("rank 1 was lost"), "{error}");
        }
    }

    #[test]
    fn the_first_difference_is_named_on_all_ranks() {
        let results = threads::run(4, |mut comm| {
            let facts = [("graph", 7), ("policy", u64::from(comm.rank() / 2))];
            check_same(&mut comm, &facts, Deadline::default())
        });
        for result in results {
            let error = result.unwrap().unwrap_err().to_string();
            assert!(
                error.starts_with("rank 2 has another policy than rank 0"),
                "{error}"
            );
        }
    }
}
