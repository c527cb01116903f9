//! Trainers that go on from their checkpoints.

use shardgraph_collectives::Comm;
use shardgraph_job::Ranks;

use super::{assert_same_files, metrics, new, ranks, run, small};
use crate::config::AgentConfig;
use crate::rank_trainer::{Place, StartTrainer};
use crate::run::Start;
use crate::run_options::RunOptions;

/// A trainer that goes on from any of its first checkpoints ends with the bits of one that never stopped.
pub(crate) fn resume_from_every_checkpoint<T: StartTrainer>(
    config: &AgentConfig,
    n_advances: usize,
) {
    let (mut comm, options) = (Comm::solo(), RunOptions::default());
    let mut ranks = Ranks::new(&mut comm, options.deadline);
    let mut advance = |trainer: &mut T| {
        let before = trainer.to_checkpoint(&mut ranks).unwrap().unwrap();
        trainer.advance(ranks.comm, ranks.timeout).unwrap();
        before
    };
    let mut whole = T::new(config, &options, Place::ALONE).unwrap();
    let checkpoints: Vec<_> = (0..=n_advances).map(|_| advance(&mut whole)).collect();
    for (n_done, checkpoint) in checkpoints.iter().enumerate() {
        let mut resumed = T::of_checkpoint(checkpoint, &options, Place::ALONE).unwrap();
        for _ in n_done..n_advances {
            advance(&mut resumed);
        }
        let is_same = advance(&mut resumed).to_bytes() == checkpoints[n_advances].to_bytes();
        assert!(is_same, "cut after {n_done}");
    }
}

#[test]
fn a_run_that_stopped_and_went_on_leaves_the_same_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let (whole, parts) = (scratch.path().join("whole"), scratch.path().join("parts"));
    let config = small();
    let expected = run(&new(&config, Some(&whole)), &ranks(1)).unwrap();
    let until = |stop_at| RunOptions {
        stop_at: Some(stop_at),
        ..ranks(2)
    };
    run(&new(&config, Some(&parts)), &until(301)).unwrap();
    let resumed = Start::Resumed {
        folder: parts.clone(),
    };
    let message = run(&resumed, &until(100)).unwrap_err().to_string();
    assert!(message.contains("at step 302 already"), "{message}");
    let outcome = run(&resumed, &ranks(2)).unwrap();
    assert_eq!(outcome.n_steps, 900 - 302);
    assert_eq!(outcome.agent.weights(), expected.agent.weights());
    assert_eq!(outcome.mean_return, expected.mean_return);
    assert_eq!(metrics(&parts), metrics(&whole));
    assert_same_files(&parts, &whole);
    let message = run(&new(&config, Some(&whole)), &ranks(1))
        .unwrap_err()
        .to_string();
    assert!(message.contains("has a run already"), "{message}");
}
