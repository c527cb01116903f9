//! Failures of one rank: all ranks end with its class.

use shardgraph_collectives::Op;
use shardgraph_job::World;

use super::*;

/// The folder of rank 0 goes away in the run, which that rank alone can see.
#[test]
fn a_rank_that_cannot_write_ends_the_others_with_its_class() {
    let (graph, labels) = sorted_graph(1, 300);
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("run");
    let options = RunOptions {
        folder: Some(folder.clone()),
        checkpoint_epochs: 1,
        ..RunOptions::default()
    };
    let config = Config {
        epochs: 50,
        ..variants().remove(0)
    };
    let errors = threads::run(3, |mut comm| {
        let mut progress = |_: &EpochReport| {
            if folder.exists() {
                std::fs::remove_dir_all(&folder).unwrap();
            }
        };
        let outcome = train_as_rank(&mut comm, &graph, &labels, &config, &options, &mut progress);
        outcome.unwrap_err()
    });
    for (rank, error) in errors.into_iter().map(Result::unwrap).enumerate() {
        assert_eq!(error.class(), Class::Input, "rank {rank}: {error}");
        let text = error.to_string();
        assert_eq!(text.contains("aborted by rank 0"), rank != 0, "{text}");
    }
}

/// The first reason is the answer, and not that of the ranks which it ended.
#[test]
fn threads_end_with_the_reason_of_the_rank_that_failed() {
    let outcome = World::Threads(3).run(Timeout::default(), |ranks| match ranks.rank() {
        2 => Err(Error::Io("the disk is full".to_owned())),
        _ => Ok(ranks.comm.run(Op::Barrier, Timeout::default())?),
    });
    assert_eq!(outcome.unwrap_err().to_string(), "the disk is full");
}
