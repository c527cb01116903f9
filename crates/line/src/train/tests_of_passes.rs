//! Reports of passes with tables on disk, after interruptions too.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::tests::{small, two_communities};
use super::tests_on_disk::{Folder, room_for};
use super::*;
use crate::Order;

/// Where a run is broken off, the passes that the next call reports are the last ones of a run that
/// nobody stopped, with the same losses; the folder tells how many came before them.
#[test]
fn passes_of_a_run_that_is_broken_off_have_the_losses_of_a_whole_one() {
    let store = two_communities(64, 8);
    let config = Config {
        epochs: 3,
        dim: 4,
        ..small(Order::Both)
    };
    let disk = DiskOptions {
        reports: true,
        checkpoint_s: 0.0,
        ..room_for(4, &store, &config)
    };
    let passes = |place: &Folder, broken_at: usize| {
        let (mut passes, mut steps) = (Vec::new(), 0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            place.train(&store, &config, &disk, &mut |progress| {
                steps += 1;
                assert!(steps < broken_at, "broken off");
                passes.extend(progress.pass);
            })
        }));
        (ended.is_ok(), passes, steps)
    };
    let calm = Folder::new();
    let (_, whole, n_steps) = passes(&calm, usize::MAX);
    assert_eq!(whole.len(), 6);
    assert!(whole.iter().all(|pass| pass.loss > Some(0.0)), "{whole:?}");
    let silent = Folder::new();
    let without = DiskOptions {
        reports: false,
        ..disk.clone()
    };
    silent
        .train(&store, &config, &without, &mut |now| {
            assert_eq!(now.pass, None)
        })
        .unwrap();
    assert!(silent.answer() == calm.answer());
    let mut n_within_a_pass = 0;
    for broken_at in (2..n_steps).step_by(n_steps / 4) {
        let place = Folder::new();
        let (has_ended, _, _) = passes(&place, broken_at);
        assert!(!has_ended);
        let n_earlier = check_work_folder(&place.work(), &config).unwrap() as usize;
        let position = fs::read_to_string(place.work().join("MANIFEST.json")).unwrap();
        n_within_a_pass += usize::from(!position.contains("\"losses\":{\"units\":0,"));
        let (_, rest, _) = passes(&place, usize::MAX);
        assert_eq!(rest, whole[n_earlier..], "broken off at step {broken_at}");
    }
    assert!(n_within_a_pass > 0, "{n_within_a_pass}");
}
