//! How libraries are made: from any folder, anew only where something changed, with the compiler's
//! own words where it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use shardgraph_cuemu::compile::{self, Build, Job};

use crate::arguments;
use crate::emulator::{Emulator, Shape, job};

const ADD_ONE: &str = "#include \"kernel.cuh\"\n#include \"one.cuh\"\n\
    extern \"C\" __global__ void add_one(float* x) { x[threadIdx.x] += ONE; }\n";

/// A new folder of kernels, and its job.
fn new_job(name: &str, files: &[(&str, &str)]) -> Job {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("kernels")).unwrap();
    for (file, text) in files {
        fs::write(folder.join("kernels").join(file), text).unwrap();
    }
    Job {
        kernels: folder.join("kernels"),
        ..job(Build::Plain, name)
    }
}

fn compiler() -> Option<Vec<String>> {
    let compiler = compile::compiler();
    if compiler.is_none() {
        println!("SKIPPED: {}", shardgraph_cuemu::SKIP_REASON);
    }
    compiler
}

#[test]
fn a_folder_without_kernels_makes_an_empty_library() {
    let Some(compiler) = compiler() else {
        return;
    };
    for build in [Build::Plain, Build::Race] {
        let job = Job {
            build,
            ..new_job(&format!("empty-{build:?}"), &[])
        };
        compile::compile(&job, &compiler).unwrap();
        let emulator = Emulator::at(&job.library);
        assert_eq!(emulator.table(), []);
        assert!(emulator.launch("any", Shape::line(1, 1), &[]).is_err());
    }
}

#[test]
fn a_source_that_does_not_compile_is_named_with_its_line() {
    let Some(compiler) = compiler() else {
        return;
    };
    let broken = "#include \"kernel.cuh\"\nextern \"C\" __global__ void broken(float* x) {\n  x[0] = y;\n}\n";
    let job = new_job("broken", &[("broken.cu", broken)]);
    let error = compile::compile(&job, &compiler).unwrap_err().to_string();
    assert!(
        error.contains("broken.cu:3:") && error.contains("error:"),
        "{error}"
    );
    assert!(!job.library.exists());
}

#[test]
fn a_type_that_no_launch_can_pass_is_refused() {
    let Some(compiler) = compiler() else {
        return;
    };
    let wide = "#include \"kernel.cuh\"\nextern \"C\" __global__ void wide(double* x) {}\n";
    let job = new_job("wide", &[("wide.cu", wide)]);
    let error = compile::compile(&job, &compiler).unwrap_err().to_string();
    assert!(error.contains("a kernel's parameters are float"), "{error}");
}

#[test]
fn two_kernels_of_one_name_are_refused() {
    let Some(compiler) = compiler() else {
        return;
    };
    let source = "#include \"kernel.cuh\"\nextern \"C\" __global__ void same(float* x) {}\n";
    let job = new_job("twice", &[("one.cu", source), ("two.cu", source)]);
    let error = compile::compile(&job, &compiler).unwrap_err().to_string();
    assert!(error.contains("same"), "{error}");
}

#[test]
fn only_the_wanted_files_are_compiled() {
    let Some(compiler) = compiler() else {
        return;
    };
    let files = [
        (
            "good.cu",
            "#include \"kernel.cuh\"\nextern \"C\" __global__ void good(float* x) {}\n",
        ),
        ("broken.cu", "no C++"),
    ];
    let mut job = new_job("only", &files);
    job.only = Some(vec!["good.cu".to_owned()]);
    compile::compile(&job, &compiler).unwrap();
    let table = Emulator::at(&job.library).table();
    assert_eq!(table, [("good".to_owned(), "*f".to_owned())]);
    job.only = Some(vec!["absent.cu".to_owned()]);
    let error = compile::compile(&job, &compiler).unwrap_err().to_string();
    assert!(error.contains("there is no absent.cu"), "{error}");
}

fn add_one(library: &Path) -> Vec<f32> {
    let emulator = Emulator::at(library);
    let x = emulator.memory(&[0.0_f32; 2]);
    emulator
        .launch("add_one", Shape::line(1, 2), arguments![&x])
        .unwrap();
    x.to_vec()
}

fn times(job: &Job) -> Vec<SystemTime> {
    let made: [PathBuf; 3] = [
        job.objects.join("add_one.kernels.o"),
        job.objects.join("cuemu.o"),
        job.library.clone(),
    ];
    made.iter()
        .map(|path| fs::metadata(path).unwrap().modified().unwrap())
        .collect()
}

/// A header that changes remakes what includes it, a flag everything, nothing nothing.
#[test]
fn objects_are_remade_when_something_changed() {
    let Some(compiler) = compiler() else {
        return;
    };
    let header = "constexpr float ONE = 1.0f;\n";
    let mut job = new_job("stale", &[("add_one.cu", ADD_ONE), ("one.cuh", header)]);
    compile::compile(&job, &compiler).unwrap();
    let first = times(&job);
    compile::compile(&job, &compiler).unwrap();
    assert_eq!(times(&job), first);

    fs::write(job.kernels.join("one.cuh"), "constexpr float ONE = 1.5f;\n").unwrap();
    compile::compile(&job, &compiler).unwrap();
    let second = times(&job);
    assert!(second[0] > first[0] && second[1] == first[1] && second[2] > first[2]);
    assert_eq!(add_one(&job.library), [1.5, 1.5]);

    job.flags.push("-DUNUSED".to_owned());
    compile::compile(&job, &compiler).unwrap();
    assert!(times(&job).iter().zip(&second).all(|(new, old)| new > old));
}

/// The switch that other processors use gives the same results and the same order.
#[test]
fn the_portable_switch_does_the_same() {
    let Some(compiler) = compiler() else {
        return;
    };
    let mut portable = job(Build::Plain, "portable");
    portable.flags.push("-DCUEMU_UCONTEXT".to_owned());
    compile::compile(&portable, &compiler).unwrap();
    let own = job(Build::Plain, "own");
    compile::compile(&own, &compiler).unwrap();
    let emulators = [Emulator::at(&portable.library), Emulator::at(&own.library)];
    let x: Vec<f32> = (0..1024).map(|i| 1.0 / (i as f32 + 1.0)).collect();
    for seed in 0..8 {
        let [portable, own] = emulators.each_ref().map(|emulator| {
            let (x, out) = (emulator.memory(&x), emulator.unwritten::<f32>(4));
            let (next, order) = (emulator.memory(&[0_u32]), emulator.unwritten::<u32>(1000));
            let shape = Shape::line(4, 256).seed(seed);
            emulator
                .launch("tree_sum", shape, arguments![&x, &out])
                .unwrap();
            let shape = Shape::line(10, 100).seed(seed);
            emulator
                .launch("order", shape, arguments![&next, &order])
                .unwrap();
            emulator
                .launch("lane_never_comes", Shape::line(1, 32), arguments![&order])
                .unwrap_err();
            (
                out.to_vec()
                    .iter()
                    .map(|x| x.to_bits())
                    .collect::<Vec<u32>>(),
                order.to_vec(),
            )
        });
        assert_eq!(portable, own);
    }
}
