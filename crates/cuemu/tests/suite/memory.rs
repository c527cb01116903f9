//! The build with AddressSanitizer and UndefinedBehaviorSanitizer, which end the process: each
//! planted bug runs in a child process, this test binary with the sanitizers in it from the start.

use std::process::{Command, Output};

use shardgraph_cuemu::compile::{self, Build};

use crate::arguments;
use crate::emulator::{Emulator, Shape, library, line};

/// Runs the tests of this binary whose names begin with `filter` in a child process that uses the
/// build's library. `None`, and a line that says so, where a compiler or sanitizer is missing.
fn child(build: Build, filter: &str, planted: &str) -> Option<Output> {
    let (Some(library), Some(compiler)) = (library(build), compile::compiler()) else {
        println!("SKIPPED: {}", shardgraph_cuemu::SKIP_REASON);
        return None;
    };
    let variables = match compile::environment(build, &library, &compiler) {
        Ok(variables) => variables,
        Err(missing) => {
            println!("SKIPPED: {missing}");
            return None;
        }
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([filter, "--test-threads=1", "--nocapture"]);
    command.envs(variables).env("PLANTED", planted);
    Some(command.output().unwrap())
}

/// What the child does: nothing in the parent's own run of the tests, where no bug is named.
#[test]
fn planted_in_a_child() {
    let Ok(planted) = std::env::var("PLANTED") else {
        return;
    };
    let emulator = Emulator::open(Build::Address).unwrap();
    let shape = Shape::line(1, 32);
    let (x, out) = (
        emulator.memory(&[1.0_f32; 32]),
        emulator.memory(&[0.0_f32; 32]),
    );
    let short = emulator.memory(&[1.0_f32; 20]);
    let done = match planted.as_str() {
        "global_overrun" => {
            emulator.launch("global_overrun", shape, arguments![&short, 20_u32, &out])
        }
        "shared_overrun" => emulator.launch("shared_overrun", shape, arguments![8_u32, &out]),
        "shared_overrun_by_pointer" => {
            emulator.launch("shared_overrun_by_pointer", shape, arguments![8_u32, &out])
        }
        "dynamic_overrun" => {
            let shape = shape.shared_bytes(128);
            emulator.launch("dynamic_overrun", shape, arguments![32_u32, &out])
        }
        "int_overflow" => emulator.launch("int_overflow", shape, arguments![i32::MAX - 7, &out]),
        "misaligned" => emulator.launch("misaligned", shape, arguments![&x, &out]),
        other => panic!("no planted bug {other}"),
    };
    panic!("ran to its end: {done:?}");
}

fn assert_caught(planted: &str, parts: &[&str]) {
    let Some(output) = child(Build::Address, "memory::planted_in_a_child", planted) else {
        return;
    };
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("ran to its end"), "{said}");
    for part in parts {
        assert!(said.contains(part), "{said}\ndoes not say: {part}");
    }
}

#[test]
fn out_of_bounds_of_a_buffer() {
    let here = line("planted.cu", "// wants i < n");
    assert_caught(
        "global_overrun",
        &[
            "heap-buffer-overflow",
            "0 bytes to the right of 80-byte",
            &here,
        ],
    );
}

#[test]
fn out_of_bounds_of_a_shared_array() {
    let here = line("planted.cu", "first[threadIdx.x + index] + second");
    assert_caught(
        "shared_overrun",
        &["out of bounds for type 'float [32]'", &here],
    );
    let here = line("planted.cu", "row[threadIdx.x + index] + second");
    assert_caught(
        "shared_overrun_by_pointer",
        &["global-buffer-overflow", &here],
    );
}

#[test]
fn out_of_bounds_of_dynamic_shared_memory() {
    let here = line("planted.cu", "// wants n - 1 - threadIdx.x");
    assert_caught("dynamic_overrun", &["heap-buffer-overflow", &here]);
}

#[test]
fn overflow_of_an_int() {
    let here = line("planted.cu", "out[threadIdx.x] = x + static_cast");
    assert_caught("int_overflow", &["signed integer overflow", &here]);
}

#[test]
fn a_vector_load_that_is_not_aligned() {
    let here = line("planted.cu", "reinterpret_cast<const float4*>(x + 1)");
    assert_caught("misaligned", &["misaligned address", &here]);
}

/// Locals that nothing wrote hold one large negative number, not by chance what would be right.
#[test]
fn unwritten_locals_in_a_child() {
    if std::env::var("PLANTED").as_deref() != Ok("unwritten_local") {
        return;
    }
    let emulator = Emulator::open(Build::Address).unwrap();
    assert_eq!(emulator.build(), "address");
    let out = emulator.memory(&[0.0_f32; 32]);
    let shape = Shape::line(1, 32);
    emulator
        .launch("unwritten_local", shape, arguments![&out])
        .unwrap();
    let pattern = f32::from_bits(0xfefe_fefe);
    assert_eq!(out.to_vec(), vec![pattern + 1.0; 32]);
}

#[test]
fn unwritten_locals_are_not_plausible() {
    let filter = "memory::unwritten_locals_in_a_child";
    if let Some(output) = child(Build::Address, filter, "unwritten_local") {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}

/// All other tests of this binary that name no build of their own, in a process with that library.
fn assert_all_pass_with(build: Build) {
    for (module, at_least) in [("results::", 14), ("errors::", 6), ("halves::", 8)] {
        let Some(output) = child(build, module, "") else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{errors}");
        let passed = said.lines().filter(|line| line.ends_with("... ok")).count();
        assert!(passed >= at_least, "{said}");
    }
}

#[test]
fn right_programs_pass_under_the_sanitizers() {
    assert_all_pass_with(Build::Address);
}

#[test]
fn right_programs_pass_the_race_build() {
    assert_all_pass_with(Build::Race);
}

/// The plain build has no detector: the sum shows that a barrier is missing.
#[test]
fn a_missing_barrier_gives_nan() {
    let Some(emulator) = Emulator::open(Build::Plain) else {
        return;
    };
    assert_eq!(emulator.build(), "plain");
    let (x, out) = (
        emulator.memory(&[1.0_f32; 1024]),
        emulator.memory(&[0.0_f32; 4]),
    );
    let mut n_right = 0;
    for seed in 0..20 {
        let shape = Shape::line(4, 256).seed(seed);
        emulator
            .launch("no_first_barrier", shape, arguments![&x, &out])
            .unwrap();
        let n_nan = out.to_vec().iter().filter(|sum| sum.is_nan()).count();
        assert!(seed != 0 || n_nan == 4);
        n_right += 4 - n_nan;
    }
    // An order that happens to run every reader late hides it; that is why there are seeds.
    assert!(n_right < 40, "{n_right} of 80 blocks saw nothing");
}
