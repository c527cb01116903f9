//! The loop of a run: what is written when, and what ends it.

use std::fs;
use std::path::Path;

use crate::{
    Checkpoint, CheckpointSchedule, Error, LoopOptions, Ranks, RunPlace, RunRecorder, Trainer,
    World, run,
};

/// Counts steps, and leaves its step in a file behind each checkpoint.
struct Counter {
    step: u64,
    stops_after: u64,
}

impl Trainer for Counter {
    type Report = u64;
    type Error = Error;

    fn step(&self) -> u64 {
        self.step
    }

    fn is_over(&self, until: u64) -> bool {
        self.step >= until.min(self.stops_after)
    }

    fn advance(&mut self, _: &mut Ranks<'_>) -> Result<u64, Error> {
        self.step += 1;
        Ok(self.step)
    }

    fn record(&mut self, step: &u64, recorder: &mut RunRecorder) -> Result<(), Error> {
        recorder.append(&super::report(*step), &[])
    }

    fn checkpoint(&mut self, ranks: &mut Ranks<'_>) -> Result<Option<Checkpoint>, Error> {
        Ok(ranks.is_first().then(|| super::checkpoint(self.step)))
    }

    fn checkpoint_written(&self, folder: &Path) -> Result<(), Error> {
        let has_checkpoint = Checkpoint::newest(folder, super::FILES)?.map(|of| of.step());
        assert_eq!(has_checkpoint, Some(self.step));
        fs::write(folder.join("kept"), self.step.to_string()).unwrap();
        Ok(())
    }
}

/// Steps reported, the last checkpoint, and what was left behind it.
fn go(n_ranks: u32, stops_after: u64, every: u64) -> (Vec<u64>, Option<u64>, String) {
    let scratch = tempfile::tempdir().unwrap();
    let place = RunPlace {
        folder: Some(scratch.path().join("run")),
        files: super::FILES,
        ..RunPlace::default()
    };
    let steps = World::Threads(n_ranks).run(Default::default(), |ranks| {
        let new = |_: &mut Ranks<'_>| {
            Ok(Counter {
                step: 0,
                stops_after,
            })
        };
        let (mut counter, taken) = place.load(ranks, new, |_, _| Err(Error::Torn))?;
        let mut recorder = place.open(ranks, taken)?;
        let options = LoopOptions {
            until: 10,
            schedule: Some(CheckpointSchedule::every_steps(every)),
        };
        let mut steps = Vec::new();
        run(
            &mut counter,
            ranks,
            recorder.as_mut(),
            options,
            &mut |step| {
                steps.push(*step);
            },
        )?;
        Ok::<_, Error>(steps)
    });
    let folder = scratch.path().join("run");
    let newest = Checkpoint::newest(&folder, super::FILES).unwrap();
    let kept = fs::read_to_string(folder.join("kept")).unwrap();
    (steps.unwrap(), newest.map(|newest| newest.step()), kept)
}

#[test]
fn a_trainer_that_stops_early_ends_with_a_checkpoint() {
    for n_ranks in [1, 3] {
        assert_eq!(go(n_ranks, 3, 4), (vec![1, 2, 3], Some(3), "3".to_owned()));
        let all = (1..=10).collect::<Vec<_>>();
        assert_eq!(go(n_ranks, u64::MAX, 4), (all, Some(10), "10".to_owned()));
    }
}
