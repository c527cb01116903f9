//! Compiles the emulator with the project's kernels into one shared library, and the emulated library
//! of collectives and the CUDA driver for tests into two more, if there is a C++ compiler;
//! `SHARDGRAPH_EMULATED_BUILT`, `SHARDGRAPH_EMULATED_NCCL_BUILT` and `SHARDGRAPH_TEST_DRIVER_BUILT`
//! then name them.

use std::path::{Path, PathBuf};

#[path = "src/compile.rs"]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the library's module; the checking builds need more of it"
)]
mod compile;

use compile::{Build, Job};

fn main() {
    for watched in ["build.rs", "src", "../../cuda"] {
        println!("cargo:rerun-if-changed={watched}");
    }
    for watched in ["CXX", "SHARDGRAPH_EMULATED_ONLY"] {
        println!("cargo:rerun-if-env-changed={watched}");
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // The library runs in tests, on the machine that compiles it.
    if variable("TARGET") != variable("HOST") {
        return;
    }
    let Some(compiler) = compile::compiler() else {
        return;
    };
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    let job = Job {
        build: Build::Plain,
        emulator: here.join("src"),
        kernels: here
            .join("../../cuda")
            .canonicalize()
            .expect("the folder of kernels"),
        includes: Vec::new(),
        only: compile::wanted_files(),
        flags: Vec::new(),
        objects: out.join("objects"),
        library: out.join("libshardgraph_emulated.so"),
    };
    match compile::compile(&job, &compiler) {
        Ok(warnings) => report(&job.library, &warnings),
        Err(error) => panic!("the emulated kernels do not compile:\n{error}"),
    }
    for (source, library, variable) in [
        (
            "src/nccl.cpp",
            "libshardgraph_emulated_nccl.so",
            "SHARDGRAPH_EMULATED_NCCL_BUILT",
        ),
        (
            "src/driver.cpp",
            "driver/libcuda.so",
            "SHARDGRAPH_TEST_DRIVER_BUILT",
        ),
    ] {
        let library = out.join(library);
        let folder = library.parent().expect("it lies in the output's folder");
        std::fs::create_dir_all(folder).expect("a folder below the output's");
        match compile::compile_library(&here.join(source), &library, &compiler) {
            Ok(()) => println!("cargo:rustc-env={variable}={}", library.display()),
            Err(error) => panic!("{source} does not compile:\n{error}"),
        }
    }
}

fn report(library: &Path, warnings: &[String]) {
    for warning in warnings {
        println!("cargo:warning={warning}");
    }
    println!(
        "cargo:rustc-env=SHARDGRAPH_EMULATED_BUILT={}",
        library.display()
    );
}
