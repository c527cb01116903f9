//! Budgets: what a dry run predicts is what a run holds, and layouts are as large as their limits allow.

use super::budget::Plan;
use super::tests::{small, two_communities};
use super::tests_on_disk::{Folder, room_for};
use super::*;
use crate::memory::Bytes;
use crate::schedule::Schedule;
use crate::{ImportOptions, Precision, import_file};

/// Edges with weights, in a file.
fn weighted_store(folder: &Folder, n_parts: u32) -> Store {
    let (text, path) = (folder.file("g.txt"), folder.file("g.store"));
    let lines = (0..900).map(|k| format!("{} {} {}\n", k % 40, (k * 7 + 1) % 40, 1 + k % 7));
    std::fs::write(&text, lines.collect::<String>()).unwrap();
    let options = ImportOptions {
        weighted: true,
        parts: Some(n_parts),
        ..ImportOptions::default()
    };
    import_file(&text, &path, &options).unwrap();
    Store::open(&path).unwrap()
}

/// The most of each kind that a run with tables on disk holds before its answer is written.
fn held_on_disk(run: PlannedRun<'_>, options: &DiskOptions) -> Bytes {
    let (folder, memory) = (Folder::new(), Memory::default());
    let disk = DiskRun {
        work: &folder.work(),
        metrics: None,
        npy: &folder.file("e.npy"),
        options,
    };
    train_on_disk_within(run, &Device::host(), disk, &memory, &mut |_| {}).unwrap();
    assert_eq!(memory.held(), Bytes::default(), "all is given back");
    Bytes {
        answer: 0,
        ..memory.highest()
    }
}

/// With a part in each group and one thread, one job works at a time.
#[test]
fn a_run_on_disk_holds_what_its_dry_run_predicts() {
    let folder = Folder::new();
    let (store, weighted) = (two_communities(203, 8), weighted_store(&folder, 8));
    for (store, order) in [
        (&store, Order::First),
        (&store, Order::Second),
        (&store, Order::Both),
        (&weighted, Order::Both),
    ] {
        for (precision, optimiser) in [
            (Precision::Fp32, Optimiser::Sgd),
            (Precision::Fp16, Optimiser::Sgd),
            (Precision::Fp32, Optimiser::Adagrad),
        ] {
            let config = &Config {
                precision,
                optimiser,
                ..small(order)
            };
            let run = PlannedRun { store, config };
            let whole = DiskOptions::default();
            for options in [
                whole,
                room_for(3, store, config),
                room_for(5, store, config),
            ] {
                let layout = run.within(&options).unwrap().layout;
                let mut predicted = run.dry_run(layout, Outputs::InFiles, 1).unwrap().highest();
                let held = held_on_disk(run, &options);
                if store.is_weighted() {
                    // A bucket has a sample more or less from pass to pass.
                    assert!(
                        (0..=8).contains(&(predicted.losses - held.losses)),
                        "{held:?}"
                    );
                    predicted.losses = held.losses;
                }
                // A quick disk takes a group before its successor comes.
                let group = 26 * config.row_bytes();
                assert!(
                    (0..=group).contains(&(predicted.rows - held.rows)),
                    "{held:?}"
                );
                predicted.rows = held.rows;
                assert_eq!(held, predicted, "{layout:?}, {config:?}");
            }
        }
    }
}

#[test]
fn a_run_in_memory_holds_what_its_dry_run_predicts() {
    let folder = Folder::new();
    let (store, weighted) = (two_communities(203, 8), weighted_store(&folder, 8));
    for (store, order) in [
        (&store, Order::First),
        (&store, Order::Both),
        (&weighted, Order::Second),
    ] {
        for (contexts, reports) in [(false, false), (order != Order::First, true)] {
            let config = &small(order);
            let (run, memory) = (PlannedRun { store, config }, Memory::default());
            let options = TrainOptions {
                contexts,
                reports,
                init: None,
            };
            train_within(run, options, &Device::host(), &memory, &mut |_| {}).unwrap();
            let outputs = Outputs::InMemory {
                contexts,
                losses: reports,
            };
            let dry = run.dry_run(Layout::WHOLE, outputs, 1).unwrap();
            let predicted = dry.highest();
            assert!(predicted.answer > 0 && predicted.edges > 0, "{predicted:?}");
            let held = memory.highest();
            let difference = predicted.losses - held.losses;
            assert!(difference <= if store.is_weighted() { 8 } else { 0 });
            let (losses, peak) = (held.losses, dry.peak());
            let peak = match peak.losses {
                0 => peak.total(), // when the answer is made
                _ => peak.total() - difference,
            };
            assert_eq!(
                held,
                Bytes {
                    losses,
                    ..predicted
                },
                "{order:?}, {contexts}"
            );
            assert_eq!(memory.peak().total(), peak);
        }
    }
}

/// Whatever the schedule, all places are taken at some time, and no more.
#[test]
fn a_dry_run_fills_all_places() {
    let store = &two_communities(256, 16);
    for order in [Order::First, Order::Second] {
        let config = &small(order);
        let run = PlannedRun { store, config };
        for schedule in [Schedule::Auto, Schedule::RowMajor] {
            for n_groups in [1, 2, 4, 8, 16] {
                for capacity in 2..=2 * n_groups.max(1) {
                    let layout = Layout {
                        schedule,
                        n_groups,
                        capacity,
                    };
                    let n_tables = if order == Order::First { 1 } else { 2 };
                    let places = (capacity + 1).min(n_tables * n_groups);
                    let group = 256 / u64::from(n_groups) * 16 * 4;
                    let held = run.dry_run(layout, Outputs::InFiles, 1).unwrap().peak();
                    assert_eq!(held.rows, u64::from(places) * group, "{layout:?}");
                }
            }
        }
    }
}

/// More memory never gives a layout that holds less, and none holds more than its limit.
#[test]
fn layouts_keep_to_their_limits() {
    let store = &two_communities(509, 16);
    for order in [Order::First, Order::Both] {
        let config = &small(order);
        let run = PlannedRun { store, config };
        let whole = run.within(&DiskOptions::default()).unwrap();
        let most = whole.bytes.total();
        let mut n_refused = 0;
        for memory in (1..=40).map(|k| most - whole.bytes.rows + whole.bytes.rows * k / 40) {
            let options = DiskOptions {
                memory,
                ..DiskOptions::default()
            };
            match run.within(&options) {
                Ok(Plan { layout, bytes }) => {
                    assert!(bytes.total() <= memory, "{layout:?}");
                    let n_jobs = store.n_parts() / layout.n_groups;
                    let more = Layout {
                        capacity: layout.capacity + 1,
                        ..layout
                    };
                    let more = run.dry_run(more, Outputs::InFiles, n_jobs).unwrap().peak();
                    let is_full = layout.capacity == 2 * layout.n_groups;
                    assert!(is_full || more.total() > memory, "{layout:?}");
                }
                Err(error) => {
                    assert!(matches!(error, Error::Memory(_)), "{error}");
                    n_refused += 1;
                }
            }
        }
        assert!(n_refused < 40);
    }
}

/// Threads are not more than jobs, so a run holds no more than is predicted.
#[test]
fn threads_hold_no_more_than_is_predicted() {
    let store = &two_communities(509, 16);
    for order in [Order::First, Order::Second] {
        let config = &Config {
            threads: 3,
            ..small(order)
        };
        let run = PlannedRun { store, config };
        let whole = run.within(&DiskOptions::default()).unwrap().bytes;
        let limit = whole.total() - whole.rows / 3;
        let options = DiskOptions {
            memory: limit,
            ..DiskOptions::default()
        };
        let Plan { layout, bytes } = run.within(&options).unwrap();
        assert!(layout.n_groups > 1, "{layout:?}");
        let held = held_on_disk(run, &options);
        assert!(
            held.total() <= limit && held.edges <= bytes.edges,
            "{held:?}"
        );
        assert!(held.rows <= bytes.rows && held.rows > bytes.rows / 2);
    }
}
