//! Reports of passes with tables on disk, after interruptions too.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::tests::{small, two_communities};
use super::tests_on_disk::{Folder, layout, room_for};
use super::*;
use crate::Order;
use shardgraph_job::Checkpoint;

/// Where a run is broken off, the passes that the next call reports are the last ones of a run that
/// nobody stopped, with the same losses; the folder tells how many came before them.
#[test]
fn passes_of_a_run_that_is_broken_off_have_the_losses_of_a_whole_one() {
    let store = two_communities(64, 4);
    let config = Config {
        epochs: 2,
        dim: 4,
        ..small(Order::Both)
    };
    let calm = room_for(4, &store, &config);
    assert!(layout(&store, &config, &calm).unwrap().n_groups > 1);
    let passes = |place: &Folder, disk: &DiskOptions, broken_at: usize| {
        let (mut passes, mut steps) = (Vec::new(), 0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            place.train(&store, &config, disk, &mut |progress| {
                steps += 1;
                assert!(steps < broken_at, "broken off");
                passes.extend(progress.pass);
            })
        }));
        (ended.is_ok(), passes, steps)
    };
    let whole_run = Folder::new();
    let (_, whole, n_steps) = passes(&whole_run, &calm, usize::MAX);
    assert_eq!(whole.len(), 4);
    assert!(whole.iter().all(|pass| pass.loss > Some(0.0)), "{whole:?}");
    let lines = whole_run.metrics();
    let lines: Vec<serde_json::Value> = (lines.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (line, pass) in lines.iter().zip(&whole) {
        assert_eq!(
            (&line["tables"], &line["epoch"], &line["loss"]),
            (&pass.table().into(), &pass.epoch.into(), &pass.loss.into())
        );
    }
    let step_of = |line: &serde_json::Value| line["step"].as_u64().unwrap();
    assert_eq!(lines.len(), 4);
    assert!(lines.is_sorted_by_key(step_of));
    assert_eq!(step_of(&lines[3]), n_steps as u64);
    // Each step of the broken run ends with a synced checkpoint: few of them.
    let each_step = DiskOptions {
        checkpoint_s: 0.0,
        ..calm.clone()
    };
    let mut n_within_a_pass = 0;
    for broken_at in [n_steps / 3, 5 * n_steps / 8] {
        let place = Folder::new();
        let (has_ended, _, _) = passes(&place, &each_step, broken_at);
        assert!(!has_ended);
        let step = check_work_folder(&place.work(), &config).unwrap();
        let n_earlier = lines.iter().filter(|line| Some(step_of(line)) <= step);
        let n_earlier = n_earlier.count();
        let newest = Checkpoint::newest(&place.work(), &[]).unwrap().unwrap();
        let state = String::from_utf8(newest.file("run.json").unwrap().to_vec()).unwrap();
        n_within_a_pass += usize::from(!state.contains("\"units\": 0,"));
        let (_, rest, _) = passes(&place, &calm, usize::MAX);
        assert_eq!(rest, whole[n_earlier..], "broken off at step {broken_at}");
        assert!((1..4).contains(&n_earlier), "{n_earlier}");
        assert_eq!(place.metrics(), whole_run.metrics());
    }
    assert_eq!(n_within_a_pass, 2);
}
