//! What the emulator refuses, in words that name the kernel, the thread and the line.

use shardgraph_cuemu::compile::Build;

use crate::arguments;
use crate::emulator::{Emulator, Shape, line};

/// Launches a planted kernel that takes one array of 64 numbers.
fn error_of(emulator: &Emulator, kernel: &str, n_threads: u32, seed: u64) -> String {
    let out = emulator.memory(&[0_u32; 64]);
    let shape = Shape::line(1, n_threads).seed(seed);
    emulator
        .launch(kernel, shape, arguments![&out])
        .unwrap_err()
}

fn assert_names(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{error}\ndoes not say: {part}");
    }
}

/// What an error of each wrong collective says, beside the thread's place.
fn wrong_collectives() -> Vec<(&'static str, Vec<String>)> {
    let case = |kernel, source: &str, parts: &[&str]| {
        let mut parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
        parts.push(line("planted.cu", source));
        (kernel, parts)
    };
    vec![
        case(
            "own_lane_not_in_mask",
            "__shfl_sync(0x0000ffffu, threadIdx.x, 0)",
            &["kernel own_lane_not_in_mask", "lacks its own lane"],
        ),
        case(
            "masks_overlap",
            "__ballot_sync(0x0001ffffu, 1)",
            &["0x0001ffff", "0xffff0000", "same mask"],
        ),
        case(
            "lane_never_comes",
            "if (threadIdx.x != 5) out",
            &[
                "deadlock",
                "__ballot_sync",
                "thread (5, 0, 0) waits at the barrier",
            ],
        ),
        case(
            "different_collectives",
            "threadIdx.x == 0 ? __ballot_sync",
            &["__ballot_sync", "__shfl_sync", "same function"],
        ),
        case(
            "bad_width",
            "__shfl_sync(0xffffffffu, 1u, 0, 12)",
            &["width 12"],
        ),
        case("trapped", "__trap()", &["thread (3, 0, 0): __trap at"]),
    ]
}

#[test]
fn collectives_that_cannot_meet() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for (kernel, parts) in wrong_collectives() {
        for seed in 0..10 {
            let error = error_of(emulator, kernel, 32, seed);
            assert_names(&error, &["block (0, 0, 0), thread ("]);
            for part in &parts {
                assert_names(&error, &[part]);
            }
        }
    }
}

#[test]
fn barriers_at_different_lines() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let first = line("planted.cu", "if (threadIdx.x < 32) {");
    let (file, number) = first.split_once(':').unwrap();
    let number: u32 = number.parse().unwrap();
    let lines = [1, 3].map(|below| format!("{file}:{}", number + below));
    for seed in 0..10 {
        let error = error_of(emulator, "different_barriers", 64, seed);
        assert_names(
            &error,
            &["kernel different_barriers, block (0, 0, 0), thread ("],
        );
        assert_names(&error, &[&lines[0], &lines[1]]);
    }
}

#[test]
fn waiting_for_what_cannot_come() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let flag = emulator.memory(&[0_u32]);
    let shape = Shape::line(2, 1);
    let error = emulator
        .launch("waits_for_a_later_block", shape, arguments![&flag])
        .unwrap_err();
    assert_names(&error, &["block (0, 0, 0), thread (0, 0, 0): spins"]);
}

/// An error leaves fibers where they wait; the next launch knows nothing of them.
#[test]
fn launches_after_an_error_are_right() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let x = emulator.memory(&[1.0_f32; 256]);
    for turn in 0..2000 {
        error_of(emulator, "lane_never_comes", 32, turn);
        if turn % 100 == 0 {
            let out = emulator.unwritten::<f32>(1);
            let shape = Shape::line(1, 256).seed(turn);
            emulator
                .launch("tree_sum", shape, arguments![&x, &out])
                .unwrap();
            assert_eq!(out.to_vec(), [256.0]);
        }
    }
}

/// The frames that an error leaves on the stacks are no part of the next ones (under AddressSanitizer
/// they would be: arrays have red zones, and these fibers never removed them).
#[test]
fn stacks_after_an_error_are_clean() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    for seed in 0..5 {
        error_of(emulator, "stopped_with_arrays", 64, seed);
        let out = emulator.memory(&[0_u32; 64]);
        let shape = Shape::line(1, 64).seed(seed);
        emulator
            .launch("runs_with_arrays", shape, arguments![&out])
            .unwrap();
        assert_eq!(out.to_vec(), [780; 64]);
    }
}

#[test]
fn shapes_that_no_gpu_runs() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let out = emulator.memory(&[0_u32; 4096]);
    let error = |grid: [u32; 3], block: [u32; 3], shared_bytes: u32| {
        let shape = Shape {
            grid,
            block,
            shared_bytes,
            seed: 0,
        };
        emulator
            .launch("places", shape, arguments![&out])
            .unwrap_err()
    };
    assert_names(
        &error([1, 1, 1], [1025, 1, 1], 0),
        &["kernel places", "1025", "1024"],
    );
    assert_names(&error([1, 1, 1], [32, 33, 1], 0), &["1056 threads", "1024"]);
    assert_names(&error([1, 1, 1], [1, 1, 65], 0), &["1 x 1 x 65", "64"]);
    assert_names(&error([0, 1, 1], [1, 1, 1], 0), &["0 x 1 x 1"]);
    assert_names(&error([1, 65536, 1], [1, 1, 1], 0), &["65536", "65535"]);
    assert_names(
        &error([1, 1, 1], [1, 1, 1], 227 * 1024 + 1),
        &["232449", "232448"],
    );
    let (x, out) = (
        emulator.memory(&[0.0_f32; 512]),
        emulator.memory(&[0.0_f32]),
    );
    let too_wide = emulator.launch("tree_sum", Shape::line(1, 512), arguments![&x, &out]);
    assert_names(
        &too_wide.unwrap_err(),
        &["tree_sum", "512", "__launch_bounds__ are 256"],
    );
}

#[test]
fn calls_that_match_no_kernel() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let out = emulator.memory(&[0_u32]);
    let shape = Shape::line(1, 1);
    let unknown = emulator.launch("no_such_kernel", shape, arguments![&out]);
    assert_names(
        &unknown.unwrap_err(),
        &["no kernel is named no_such_kernel"],
    );
    let too_few = emulator.launch("order", shape, arguments![&out]);
    assert_names(
        &too_few.unwrap_err(),
        &["order takes 2 arguments (*u*u), was given 1"],
    );
    let too_many = emulator.launch("places", shape, arguments![&out, 1_u32]);
    assert_names(
        &too_many.unwrap_err(),
        &["places takes 1 arguments (*u), was given 2"],
    );
}

#[test]
fn errors_fit_the_buffer_they_are_given() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    let out = emulator.memory(&[0_u32; 64]);
    let shape = Shape::line(1, 32);
    let full = error_of(emulator, "lane_never_comes", 32, 0);
    for error_bytes in 1..=full.len() + 2 {
        let error = emulator
            .launch_with("lane_never_comes", shape, arguments![&out], error_bytes)
            .unwrap_err();
        assert_eq!(error, full[..full.len().min(error_bytes - 1)]);
    }
}
