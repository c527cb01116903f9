//! The race build: what nothing orders is an error that names both lines, and right programs pass.

use shardgraph_cuemu::compile::Build;

use crate::arguments;
use crate::emulator::{Emulator, Memory, Shape, Value, line};

const SEEDS: std::ops::Range<u64> = 0..6;

/// One launch of a planted kernel with an array of 64 zeros for each of its arguments.
fn launch(emulator: &Emulator, kernel: &str, shape: Shape, n_arrays: usize) -> Result<(), String> {
    let arrays: Vec<Memory<'_, u32>> = (0..n_arrays).map(|_| emulator.memory(&[0; 64])).collect();
    let values: Vec<Value> = arrays.iter().map(Value::from).collect();
    emulator.launch(kernel, shape, &values)
}

/// Every seed's launch must fail with a race between the two lines, in either order.
fn assert_race(kernel: &str, shape: Shape, n_arrays: usize, lines: [&str; 2]) {
    let Some(emulator) = Emulator::open(Build::Race) else {
        return;
    };
    for seed in SEEDS {
        let error = launch(emulator, kernel, shape.seed(seed), n_arrays).unwrap_err();
        assert!(
            error.contains("race: ") && error.contains(kernel),
            "{error}"
        );
        for line in lines {
            assert!(error.contains(line), "{error}\ndoes not name {line}");
        }
    }
}

fn assert_quiet(kernel: &str, shape: Shape, n_arrays: usize) {
    let Some(emulator) = Emulator::open(Build::Race) else {
        return;
    };
    for seed in SEEDS {
        assert_eq!(launch(emulator, kernel, shape.seed(seed), n_arrays), Ok(()));
    }
}

/// The lines after the one that declares `kernel`.
fn below(kernel: &str, n_lines: u32) -> String {
    let declared = line("planted.cu", &format!(" {kernel}("));
    let (file, number) = declared.split_once(':').unwrap();
    format!("{file}:{}", number.parse::<u32>().unwrap() + n_lines)
}

#[test]
fn a_missing_barrier() {
    let Some(emulator) = Emulator::open(Build::Race) else {
        return;
    };
    let (x, out) = (
        emulator.memory(&[1.0_f32; 512]),
        emulator.memory(&[0.0_f32; 2]),
    );
    for seed in SEEDS {
        let shape = Shape::line(2, 256).seed(seed);
        let error = emulator
            .launch("no_first_barrier", shape, arguments![&x, &out])
            .unwrap_err();
        let lines = [below("no_first_barrier", 2), below("no_first_barrier", 4)];
        assert!(lines.iter().all(|line| error.contains(line)), "{error}");
        emulator
            .launch("tree_sum", shape, arguments![&x, &out])
            .unwrap();
        assert_eq!(out.to_vec(), [256.0, 256.0]);
    }
}

#[test]
fn a_missing_barrier_at_the_end_of_a_loop() {
    let shape = Shape::line(1, 64);
    let lines = [
        below("no_barrier_at_the_end", 4),
        below("no_barrier_at_the_end", 6),
    ];
    assert_race("no_barrier_at_the_end", shape, 1, [&lines[0], &lines[1]]);
}

#[test]
fn sums_between_blocks() {
    let shape = Shape::line(4, 32);
    let here = below("sum_between_blocks", 1);
    assert_race("sum_between_blocks", shape, 1, [&here, &here]);
    assert_quiet("sum_between_blocks_right", shape, 1);
}

#[test]
fn atomic_beside_plain_accesses() {
    let shape = Shape::line(2, 32);
    let lines = [below("atomic_and_plain", 1), below("atomic_and_plain", 2)];
    assert_race("atomic_and_plain", shape, 2, [&lines[0], &lines[1]]);
    assert_quiet("atomic_and_relaxed", shape, 2);
}

#[test]
fn only_syncwarp_orders_lanes() {
    let shape = Shape::line(1, 32);
    for kernel in ["neighbour_by_shuffle", "syncwarp_of_others"] {
        assert_race(kernel, shape, 1, [&below(kernel, 2), &below(kernel, 4)]);
    }
    let lines = [below("syncwarp_once", 4), below("syncwarp_once", 5)];
    assert_race("syncwarp_once", shape, 1, [&lines[0], &lines[1]]);
    assert_quiet("neighbour_by_syncwarp", shape, 1);
}

#[test]
fn syncwarp_does_not_order_warps() {
    let lines = [below("warps_of_a_block", 2), below("warps_of_a_block", 4)];
    assert_race(
        "warps_of_a_block",
        Shape::line(1, 64),
        1,
        [&lines[0], &lines[1]],
    );
}

#[test]
fn neighbours_in_one_word_are_no_race() {
    assert_quiet("neighbouring_halves", Shape::line(1, 64), 1);
}

#[test]
fn fences_order_blocks_that_meet_in_an_atomic() {
    let shape = Shape::line(2, 32);
    assert_quiet("last_block", shape, 4);
    assert_quiet("last_block_all_fence", shape, 4);
    let lines = [
        line(
            "planted.cu",
            "partial[blockIdx.x * blockDim.x + threadIdx.x] = 2.0f",
        ),
        line("planted.cu", "sum += partial[i]"),
    ];
    for kernel in ["last_block_no_release", "last_block_no_acquire"] {
        assert_race(kernel, shape, 4, [&lines[0], &lines[1]]);
    }
}

/// Launches are ordered: what one writes the next may read.
#[test]
fn launches_do_not_race_with_each_other() {
    let Some(emulator) = Emulator::open(Build::Race) else {
        return;
    };
    let y = emulator.memory(&[0.0_f32; 64]);
    for _ in 0..3 {
        let shape = Shape::line(1, 32);
        emulator
            .launch("sum_between_blocks", shape, arguments![&y])
            .unwrap();
    }
    assert_eq!(y.to_vec()[0].to_bits(), 3.0_f32.to_bits());
}

/// What stops a launch of 32 threads.
fn error_of(emulator: &Emulator, kernel: &str, values: &[Value]) -> String {
    let shape = Shape::line(1, 32).shared_bytes(128);
    emulator.launch(kernel, shape, values).unwrap_err()
}

#[test]
fn accesses_outside_every_buffer() {
    let Some(emulator) = Emulator::open(Build::Race) else {
        return;
    };
    let (even, odd) = (
        emulator.memory(&[1.0_f32; 20]),
        emulator.memory(&[1.0_f32; 19]),
    );
    let (out, null) = (emulator.memory(&[0.0_f32; 32]), 0_u64);
    let error = error_of(emulator, "global_overrun", arguments![&even, 20_u32, &out]);
    let here = below("global_overrun", 2);
    let parts = [
        "thread (20, 0, 0)",
        "reads 4 bytes",
        "byte 80 of a buffer of 80 bytes",
        &here,
    ];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    let error = error_of(emulator, "global_overrun", arguments![null, 20_u32, &out]);
    assert!(
        error.contains("out of bounds: reads 4 bytes at (nil)"),
        "{error}"
    );
    let error = error_of(emulator, "straddling_load", arguments![&odd, 19_u32, &out]);
    assert!(error.contains("byte 72 of a buffer of 76 bytes"), "{error}");
    let error = error_of(emulator, "dynamic_overrun", arguments![32_u32, &out]);
    assert!(
        error.contains("block's shared memory of 128 bytes"),
        "{error}"
    );
    let error = error_of(emulator, "local_of_another", arguments![&out]);
    assert!(error.contains("another thread's local variable"), "{error}");
}
