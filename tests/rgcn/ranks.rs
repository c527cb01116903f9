//! `shardgraph rgcn train` on ranks that are threads or processes, by every partition: one result.

use std::fs;

use serde_json::Value;

use crate::program::{Run, run};
use crate::ranks::processes::{World, finish_all, run_all};

const SMALL: &str = "rgcn train ba-rel:1500:2.5:6:zipf --preset paper --epochs 4 --format json";
const SAME: [&str; 3] = ["final_loss", "params_hash", "evaluation"];

/// The answer of rank 0; the others print nothing.
fn answer(runs: Vec<Run>) -> Value {
    let mut runs = runs.into_iter();
    let first = runs.next().unwrap().json();
    for other in runs {
        assert_eq!(other.ok().stdout, "");
    }
    first
}

#[test]
fn every_partition_on_threads_and_processes_has_one_result() {
    let whole = run(SMALL, &[]).json();
    for partition in ["m1", "m2", "source"] {
        let words = format!("{SMALL} --partition {partition}");
        let threads = run(&format!("{words} --ranks 3"), &[]).json();
        assert_eq!(threads["partition"], partition);
        for key in SAME {
            assert_eq!(whole[key], threads[key], "{key} by {partition}");
        }
    }
    for (n_ranks, partition) in [(2, "m2"), (3, "source")] {
        let words = format!("{SMALL} --partition {partition}");
        let processes = answer(run_all(n_ranks, &words, &[]));
        assert_eq!(processes["ranks"], n_ranks);
        let bytes = processes["bytes_per_rank"].as_array().unwrap();
        assert_eq!(bytes.len(), n_ranks as usize);
        assert!(bytes.iter().all(|bytes| bytes.as_u64() > Some(0)));
        for key in SAME {
            assert_eq!(whole[key], processes[key], "{key}, {n_ranks} processes");
        }
    }
}

#[test]
fn processes_write_one_folder_and_go_on_from_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (whole, parts) = (scratch.path().join("whole"), scratch.path().join("parts"));
    let expected = run(&format!("{SMALL} --run {{}}"), &[&whole]).json();
    let begin =
        "rgcn train ba-rel:1500:2.5:6:zipf --preset paper --epochs 2 --format json --run {}";
    answer(run_all(2, begin, &[&parts]));
    let again = "rgcn train ba-rel:1500:2.5:6:zipf --epochs 4 --format json --partition m1 --run {} --resume";
    let resumed = answer(run_all(3, again, &[&parts]));
    for key in SAME {
        assert_eq!(expected[key], resumed[key], "{key}");
    }
    let metrics = |name: &str| fs::read(scratch.path().join(name).join("metrics.jsonl")).unwrap();
    assert_eq!(metrics("whole"), metrics("parts"));
    // What rank 0 alone can see ends all.
    for run in run_all(2, begin, &[&parts]) {
        assert_eq!(run.code, Some(2), "{run:?}");
    }
}

#[test]
fn ranks_without_work_are_named() {
    let answer = run("rgcn train ba-rel:100:2:3 --epochs 1 --ranks 4", &[]).ok();
    assert_eq!(
        (answer.line("idle ranks"), answer.line("ranks")),
        ("3", "4")
    );
}

/// MiB that a process holds beside what its ranks were predicted to: the program, what the allocator keeps, 2 MiB a thread.
const BESIDE_MIB: f64 = 12.0;

/// The nodes of an epoch, the way in which messages are summed, and the partition.
const HELD: [&str; 4] = [
    "--mode full --sums float --partition source",
    "--mode full --sums float --partition m1",
    "--mode full --sums float --partition m2",
    "--mode full --sums exact --partition source",
];

/// Rows and gradients are handed around in pieces, so that the predicted bytes are what the process holds, to 5 %; beside them the graph, as a run of the
/// smallest model on it has it, and [`BESIDE_MIB`].
#[test]
fn predicted_bytes_are_what_a_process_holds() {
    let words = "rgcn train ba-rel:20000:2.5:20 --preset paper --epochs 2 --ranks 4 --format json";
    let held = |flags: &str| {
        let answer = run(&format!("{words} {flags}"), &[]).json();
        let devices = answer["devices"].as_array().unwrap().iter();
        let predicted: u64 = devices
            .map(|device| device["predicted_bytes"].as_u64().unwrap())
            .sum();
        let predicted = predicted as f64 / f64::from(1 << 20);
        (predicted, answer["peak_mib"].as_f64().unwrap())
    };
    for how in HELD {
        let (of_small, small_peak) = held(&format!("{how} --hidden 2 --bases 1"));
        let graph = small_peak - of_small;
        let (predicted, peak) = held(&format!("{how} --hidden 64"));
        let case = format!("{how}: predicted {predicted:.1} MiB beside {graph:.1}, held {peak:.1}");
        println!("{case}");
        assert!(peak - graph < 1.05 * predicted + BESIDE_MIB, "{case}");
        assert!(peak - graph > 0.95 * predicted - BESIDE_MIB, "{case}");
    }
}

/// Ranks that were given other settings than rank 0 are told so, before anything begins.
#[test]
fn ranks_with_other_settings_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    for flags in ["--checkpoint-epochs 2 --run {}", "--repeats 2"] {
        let paths: &[&std::path::Path] = if flags.ends_with("{}") { &[&out] } else { &[] };
        let same = flags
            .replace("--checkpoint-epochs 2", "")
            .replace("--repeats 2", "");
        let world = World::new(2);
        let begun = vec![
            world.rank(0, &format!("{SMALL} {flags}"), paths),
            world.rank(1, &format!("{SMALL} {same}"), paths),
        ];
        for run in finish_all(begun) {
            let error = run.error(2);
            assert!(error.contains("rank 1 has another"), "{flags}: {error}");
        }
        assert!(!out.exists(), "{flags}");
    }
}

/// The paper's case of one device that does not hold the model.
#[test]
fn a_budget_is_kept_with_the_whole_result() {
    let words = format!("{SMALL} --mode full");
    let whole = run(&words, &[]).json();
    let device = &whole["devices"][0];
    assert_eq!(device["tiles"], 1);
    let needed = device["peak_bytes"].as_u64().unwrap();
    for n_ranks in [1, 2] {
        let budget = needed / 2 / n_ranks;
        let words = format!("{words} --ranks {n_ranks} --device-memory {budget}");
        let tiled = run(&words, &[]).json();
        for key in SAME {
            assert_eq!(whole[key], tiled[key], "{key}");
        }
        for device in tiled["devices"].as_array().unwrap() {
            assert!(device["tiles"].as_u64() > Some(1), "{device}");
            assert!(device["moved_bytes"].as_u64() > Some(0), "{device}");
            let (peak, predicted) = (&device["peak_bytes"], &device["predicted_bytes"]);
            assert!(peak.as_u64() <= Some(budget), "{device} of {budget}");
            assert_eq!(predicted, peak, "{device}");
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("run");
    for (flags, expected) in [
        (
            "--device-memory 2KiB",
            "which is the least budget for 1 ranks",
        ),
        (
            "--ranks 2 --partition m1 --device-memory 2KiB",
            "--partition source",
        ),
        ("--memory-limit 2KiB", "--memory-limit allows 2.00 KiB"),
        (
            "--bases 4096 --hidden 4096 --memory-limit 4GiB",
            "training needs",
        ),
    ] {
        let message = run(&format!("{SMALL} {flags} --run {{}}"), &[&out]).error(2);
        assert!(message.contains(expected), "{flags}: {message}");
        assert!(!out.exists(), "{flags}");
    }
}
