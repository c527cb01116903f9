//! Runs with their tables on disk: as good as in memory, and the same after interruptions.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use super::export::rows_of_a_piece;
use super::row_files::QUOTA;
use super::tests::{context, purity, run, small, two_communities};
use super::*;
use crate::formats;
use crate::schedule::Schedule;
use crate::{NodeLabels, Order, Precision};
use shardgraph_storage::direct::BounceBuffer;

/// A folder for the run, and a file for its answer.
pub(super) struct Folder {
    pub(super) folder: tempfile::TempDir,
}

impl Folder {
    pub(super) fn new() -> Folder {
        Folder {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn train(
        &self,
        store: &Store,
        config: &Config,
        options: &DiskOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TrainedOnDisk, Error> {
        self.train_on(&Device::host(), store, config, options, progress)
    }

    pub(super) fn train_on(
        &self,
        device: &Device,
        store: &Store,
        config: &Config,
        options: &DiskOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TrainedOnDisk, Error> {
        let npy = self.folder.path().join("e.npy");
        let disk = DiskRun {
            work: &self.work(),
            metrics: None,
            npy: &npy,
            options,
        };
        train_on_disk(store, config, device, disk, progress)
    }

    /// True if nothing of a run is in its folder but its metrics.
    pub(super) fn has_metrics_alone(&self) -> bool {
        let names = fs::read_dir(self.work()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_event_file = |name: &String| name.starts_with("events.out.tfevents.");
        let mut names: Vec<String> = names.collect();
        names.sort();
        names.len() == 2 && is_event_file(&names[0]) && names[1] == "metrics.jsonl"
    }

    /// Lines of the run's metrics.
    pub(super) fn metrics(&self) -> String {
        fs::read_to_string(self.work().join("metrics.jsonl")).unwrap()
    }

    pub(super) fn answer(&self) -> Embedding {
        formats::read(&self.folder.path().join("e.npy"), None).unwrap()
    }
}

/// The layout within a limit.
pub(super) fn layout(
    store: &Store,
    config: &Config,
    options: &DiskOptions,
) -> Result<Layout, Error> {
    let plan = PlannedRun { store, config }.within(options)?;
    Ok(plan.layout)
}

/// A limit that leaves room for so many of 8 groups.
pub(super) fn room_for(n_groups: u64, store: &Store, config: &Config) -> DiskOptions {
    let all = DiskOptions {
        memory: u64::MAX,
        ..DiskOptions::default()
    };
    assert_eq!(layout(store, config, &all).unwrap().n_groups, 1);
    // The least memory with which it works at all has three groups of a part each.
    let none = DiskOptions {
        memory: 0,
        ..all.clone()
    };
    let message = layout(store, config, &none).unwrap_err().to_string();
    let least: u64 = message
        .split("takes ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let group = u64::from(store.n_nodes()).div_ceil(8) * 4 * config.dim as u64;
    DiskOptions {
        memory: least + (n_groups - 3) * group,
        checkpoint_s: 1e9,
        ..all
    }
}

#[test]
fn with_room_for_all_the_bits_are_those_of_memory() {
    for (n_parts, precision) in [
        (4, Precision::Fp32),
        (4, Precision::Fp16),
        (32, Precision::Fp32),
    ] {
        let store = two_communities(130, n_parts);
        let config = Config {
            precision,
            threads: n_parts as usize / 8 + 1, // and one in memory
            ..small(Order::Both)
        };
        let one_thread = Config {
            threads: 1,
            ..config.clone()
        };
        let place = Folder::new();
        let disk = DiskOptions {
            checkpoint_s: 0.0,
            ..DiskOptions::default()
        };
        let trained = place.train(&store, &config, &disk, &mut |_| {}).unwrap();
        assert!(place.answer() == run(&store, &one_thread), "{config:?}");
        assert_eq!(trained.disk.read_bytes, 0);
        assert!(place.has_metrics_alone());
    }
}

#[test]
fn in_little_memory_communities_are_told_apart_and_threads_change_nothing() {
    let store = two_communities(200, 8);
    for order in [Order::First, Order::Second] {
        for n_groups in [3, 4, 5] {
            let config = Config {
                epochs: 40,
                learning_rate: Some(0.1),
                ..small(order)
            };
            let disk = room_for(n_groups, &store, &config);
            let layout = layout(&store, &config, &disk).unwrap();
            assert_eq!((layout.n_groups, layout.capacity), (8, n_groups as u32 - 1));
            let place = Folder::new();
            let trained = place.train(&store, &config, &disk, &mut |_| {}).unwrap();
            assert!(trained.disk.read_bytes > 0 && trained.disk.written_bytes > 0);
            let group = 200 / 8 * 16 * 4;
            let peak = trained.disk.peak_bytes;
            assert!(peak > 2 * group && peak <= n_groups * group, "{peak}");
            assert!(trained.disk.busy_s > 0.0 && trained.work.update_s > 0.0);
            let one = place.answer();
            let found = purity(&one, 200);
            assert!(found > 0.85, "{order:?}: {found}");
            let config = Config {
                threads: 3,
                ..config
            };
            let many = Folder::new();
            many.train(&store, &config, &disk, &mut |_| {}).unwrap();
            assert!(many.answer() == one);
        }
    }
}

#[test]
fn the_plan_with_few_loads_loads_less_than_row_by_row() {
    let store = two_communities(200, 8);
    for order in [Order::First, Order::Second] {
        let config = small(order);
        let loads = |schedule| {
            let disk = DiskOptions {
                schedule,
                ..room_for(5, &store, &config)
            };
            let place = Folder::new();
            place
                .train(&store, &config, &disk, &mut |_| {})
                .unwrap()
                .disk
                .loads
        };
        let (few, many) = (loads(Schedule::Auto), loads(Schedule::RowMajor));
        assert!(few < many, "{order:?}: {few}, {many}");
    }
}

#[test]
fn a_run_that_is_broken_off_anywhere_goes_on_to_the_same_bits() {
    for (precision, optimiser) in [
        (Precision::Fp32, Optimiser::Sgd),
        (Precision::Fp16, Optimiser::Adagrad),
    ] {
        let config = Config {
            epochs: 3,
            dim: 4,
            precision,
            optimiser,
            ..small(Order::Both)
        };
        let store = two_communities(64, 4);
        let disk = room_for(4, &store, &config);
        assert!(layout(&store, &config, &disk).unwrap().n_groups > 1);
        breaks_off_anywhere(&store, &config, disk);
        // Jobs of four vertex parts, in one group.
        let (store, disk) = (two_communities(64, 32), DiskOptions::default());
        assert_eq!(layout(&store, &config, &disk).unwrap(), Layout::WHOLE);
        breaks_off_anywhere(&store, &config, disk);
    }
}

fn breaks_off_anywhere(store: &Store, config: &Config, disk: DiskOptions) {
    // Only what is broken off syncs its steps: a resumed run needs no state but the one it finds.
    let disk = DiskOptions {
        checkpoint_s: 1e9,
        ..disk
    };
    let whole = Folder::new();
    let mut n_steps = 0_usize;
    whole
        .train(store, config, &disk, &mut |_| n_steps += 1)
        .unwrap();
    let expected = whole.answer();
    assert!(n_steps > 20, "{n_steps}");
    // Every step of the first kind is synced, so there are fewer of them.
    for (checkpoint_s, apart) in [(0.0, n_steps.div_ceil(5)), (1e9, 7)] {
        for broken_at in (1..n_steps).step_by(apart) {
            let broken_off = DiskOptions {
                checkpoint_s,
                ..disk.clone()
            };
            let place = Folder::new();
            let mut steps = 0;
            let broken = catch_unwind(AssertUnwindSafe(|| {
                place.train(store, config, &broken_off, &mut |_| {
                    steps += 1;
                    assert!(steps < broken_at, "broken off");
                })
            }));
            assert!(broken.is_err());
            let trained = place.train(store, config, &disk, &mut |_| {}).unwrap();
            assert!(place.answer() == expected, "broken off at step {broken_at}");
            if checkpoint_s <= 0.0 && broken_at > 2 {
                assert!(trained.resumed_samples > 0);
            }
        }
    }
}

/// The disk takes ever more bytes, until the run gets to its end: each time before, it says so, and
/// goes on from its last state.
#[test]
fn a_full_disk_is_told_and_earlier_states_stay() {
    let store = two_communities(64, 4);
    let config = Config {
        epochs: 1,
        dim: 4,
        optimiser: Optimiser::Adagrad,
        ..small(Order::Second)
    };
    let disk = DiskOptions {
        checkpoint_s: 0.0,
        ..room_for(4, &store, &config)
    };
    let calm = Folder::new();
    calm.train(&store, &config, &disk, &mut |_| {}).unwrap();
    let (mut n_full, mut n_resumed, mut room) = (0, 0, 0);
    loop {
        let place = Folder::new();
        QUOTA.set(Some(room));
        let ended = place.train(&store, &config, &disk, &mut |_| {});
        QUOTA.set(None);
        let Err(error) = ended else { break };
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains(".rows: cannot write"), "{error}");
        let resumed = place.train(&store, &config, &disk, &mut |_| {}).unwrap();
        assert!(place.answer() == calm.answer(), "after {room} bytes");
        n_full += 1;
        n_resumed += u32::from(resumed.resumed_samples > 0);
        room += 777;
    }
    assert!(n_full > 10 && n_resumed > 5, "{n_full}, {n_resumed}");
}

#[test]
fn files_that_are_not_the_runs_stay_and_only_one_run_has_a_folder() {
    let store = two_communities(64, 4);
    let config = small(Order::Second);
    let place = Folder::new();
    fs::create_dir(place.work()).unwrap();
    let strangers = ["mine.rows", "1.rows", "edges.store", "0000000a.rows"];
    for name in strangers {
        fs::write(place.work().join(name), "mine").unwrap();
    }
    let disk = DiskOptions::default();
    place.train(&store, &config, &disk, &mut |_| {}).unwrap();
    for name in strangers {
        assert_eq!(fs::read(place.work().join(name)).unwrap(), b"mine");
    }
    let refused = || {
        let error = place.train(&store, &config, &disk, &mut |_| {});
        let error = error.unwrap_err();
        assert_eq!(error.class(), shardgraph_error::Class::Input);
        error.to_string()
    };
    fs::write(place.work().join("00000001.rows"), "mine").unwrap();
    assert!(refused().contains("without a checkpoint"));
    let early = check_work_folder(&place.work(), &config).unwrap_err();
    assert!(early.to_string().contains("without a checkpoint"));
    assert!(place.work().join("00000001.rows").exists());
    fs::remove_file(place.work().join("00000001.rows")).unwrap();
    let device = Device::host();
    let held =
        TableCheckpoint::open(&place.work(), None, &context(&store, &config, &device)).unwrap();
    assert!(refused().contains("another process trains"));
    let early = check_work_folder(&place.work(), &config).unwrap_err();
    assert!(early.to_string().contains("another process trains"));
    let locked = lock_work_folder(&place.work()).unwrap_err();
    assert!(locked.to_string().contains("another process trains"));
    drop(held);
    let held = lock_work_folder(&place.work()).unwrap();
    assert!(refused().contains("another process trains"));
    drop(held);
    place.train(&store, &config, &disk, &mut |_| {}).unwrap();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    for (disk, reason) in [
        (
            DiskOptions {
                checkpoint_s: f64::NAN,
                ..DiskOptions::default()
            },
            "checkpoint_seconds = NaN",
        ),
        (
            DiskOptions {
                deadline: std::time::Duration::ZERO,
                ..DiskOptions::default()
            },
            "deadline = 0",
        ),
    ] {
        let place = Folder::new();
        let error = place.train(&store, &config, &disk, &mut |_| {});
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        assert!(error.to_string().starts_with(reason), "{error}");
        assert!(!place.work().exists());
    }
}

/// Bytes of a run in so many groups besides its rows.
fn beside_rows(store: &Store, config: &Config, n_groups: u32) -> u64 {
    let layout = Layout {
        n_groups,
        ..Layout::WHOLE
    };
    let n_jobs = store.n_parts() / n_groups;
    let planned = PlannedRun { store, config };
    let held = planned.dry_run(layout, Outputs::InFiles, n_jobs);
    let held = held.unwrap().peak();
    held.total() - held.rows
}

/// One table that fits is not cut, and groups are as many as move the fewest bytes.
#[test]
fn memory_is_cut_as_little_as_it_can_be() {
    let table = 4096 * 64 * 4;
    let config = |order| Config {
        dim: 64,
        ..small(order)
    };
    let of = |n_parts: u32, order: Order, (n_groups, room): (u32, u64)| {
        let store = two_communities(4096, n_parts);
        let disk = DiskOptions {
            memory: beside_rows(&store, &config(order), n_groups) + room,
            ..DiskOptions::default()
        };
        layout(&store, &config(order), &disk).unwrap()
    };
    assert_eq!(of(64, Order::First, (1, table)), Layout::WHOLE);
    assert_eq!(of(64, Order::Second, (1, 2 * table)), Layout::WHOLE);
    let cut = of(64, Order::Second, (16, table + table / 5));
    assert_eq!(
        (cut.n_groups, cut.capacity),
        (16, 18),
        "many small groups load less than few large"
    );
    // Groups of four parts where that fits, so that threads have work; else the largest that fit.
    assert_eq!(of(16, Order::Second, (4, table + table / 5)).n_groups, 4);
    assert_eq!(of(16, Order::Second, (8, table / 2)).n_groups, 8);
    let visits = cut.schedule.visits(2, 16, 18);
    let wanted: Vec<_> = visits.iter().map(|visit| visit.keys(2)).collect();
    let swaps = crate::schedule::swaps(&wanted, 18, &mut Vec::new());
    assert!(swaps.iter().map(|swap| swap.load.len()).sum::<usize>() <= 35);
}

/// A run that was broken off at its third step, with a state after each: a step is a pass here.
pub(super) fn broken_off(store: &Store, config: &Config) -> Folder {
    let disk = DiskOptions {
        checkpoint_s: 0.0,
        ..DiskOptions::default()
    };
    let place = Folder::new();
    let mut steps = 0;
    let broken = catch_unwind(AssertUnwindSafe(|| {
        place.train(store, config, &disk, &mut |_| {
            steps += 1;
            assert!(steps < 3, "broken off");
        })
    }));
    assert!(broken.is_err());
    place
}

#[test]
fn a_folder_with_another_run_is_refused() {
    let store = two_communities(64, 4);
    let config = small(Order::Second);
    let disk = DiskOptions {
        checkpoint_s: 0.0,
        ..DiskOptions::default()
    };
    let place = broken_off(&store, &config);
    let refused = |store: &Store, config: &Config, disk: &DiskOptions| {
        place.train(store, config, disk, &mut |_| {}).unwrap_err()
    };
    let other_graph = Store::from_edges(4, &[(0, 1)], 4, NodeLabels::numbers(4)).unwrap();
    let other_rate = Config {
        learning_rate: Some(0.5),
        ..config.clone()
    };
    let other_plan = DiskOptions {
        schedule: Schedule::RowMajor,
        ..disk.clone()
    };
    for (found, reason) in [
        (
            refused(&other_graph, &config, &disk),
            "a run on another graph",
        ),
        (
            refused(&store, &other_rate, &disk),
            "a run with other settings",
        ),
        (
            refused(&store, &config, &other_plan),
            "another memory limit or schedule",
        ),
    ] {
        assert!(matches!(found, Error::Checkpoint(_)), "{found}");
        assert!(found.to_string().contains(reason), "{found}");
    }
}

#[test]
fn a_folder_with_another_run_is_refused_before_the_graph_is_there() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let place = broken_off(&store, &config);
    check_work_folder(&place.work(), &config).unwrap();
    let threads = Config {
        threads: 7,
        ..config.clone()
    };
    check_work_folder(&place.work(), &threads).unwrap();
    let other_rate = Config {
        learning_rate: Some(0.5),
        ..config
    };
    let early = check_work_folder(&place.work(), &other_rate).unwrap_err();
    assert!(early.to_string().contains("a run with other settings"));
    check_work_folder(&place.work().join("none"), &threads).unwrap();
    assert!(!place.work().join("none").exists());
}

/// Saturated numbers of any table end the run at the next state, and none is written.
#[test]
fn a_run_that_diverges_ends_when_its_rows_are_written() {
    let store = two_communities(64, 2);
    for (precision, rate, epochs) in [(Precision::Fp32, 10.0, 400), (Precision::Fp16, 10.0, 4)] {
        let config = Config {
            learning_rate: Some(rate),
            epochs,
            precision,
            ..small(Order::Second)
        };
        let place = Folder::new();
        let disk = DiskOptions::default();
        let ended = place.train(&store, &config, &disk, &mut |_| {});
        let error = ended.unwrap_err();
        assert!(matches!(error, Error::Diverged(_)), "{error}");
        assert!(!place.folder.path().join("e.npy").exists());
    }
}

#[test]
fn a_piece_of_the_answer_fits_beside_a_part() {
    let store = two_communities(4096, 16);
    let config = Config {
        dim: 64,
        ..small(Order::First)
    };
    let device = Device::host();
    let run = context(&store, &config, &device);
    let (row, part) = (4 * 64, 4096 / 16 * 64 * 4);
    let held = store.held_bytes() + part + BounceBuffer::LEN as u64;
    let rows = |memory| u64::from(rows_of_a_piece::<f32>(&run, memory).unwrap());
    assert_eq!(rows(held + 1000 * row), 1000);
    assert_eq!(rows(held + row), (held + row) / 16 / row);
    let large = 4 * held;
    assert_eq!(rows(large), (large - held) / row);
    assert_eq!(rows(0), 1);
}

#[test]
fn too_little_memory_is_told_how_much_it_takes() {
    let (store, config) = (two_communities(64, 4), small(Order::Second));
    let disk = DiskOptions {
        memory: 100,
        ..DiskOptions::default()
    };
    let error = Folder::new()
        .train(&store, &config, &disk, &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error}");
    let message = error.to_string();
    assert!(
        message.starts_with("memory = 100: this graph in 4 parts takes "),
        "{message}"
    );
}
