//! `cuemu-build plain|address|race LIBRARY`: compiles the project's kernels into one library, and
//! prints the environment variables under which a test binary uses it, one `NAME=value` a line:
//!
//! ```text
//! env $(cuemu-build address target/emulated/address.so) target/debug/deps/some_test
//! ```
//!
//! `SHARDGRAPH_EMULATED_ONLY` is read as by the build script. Objects go to a folder beside the library and are reused. Exit codes: 0 done, 1 a source does
//! not compile, 2 wrong usage, 3 there is no compiler or no sanitizer library.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use shardgraph_cuemu::SKIP_REASON;
use shardgraph_cuemu::compile::{self, Build, Job};

const USAGE: &str = "usage: cuemu-build plain|address|race LIBRARY";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [build, library] => make(build, Path::new(library)),
        _ => Err((2, USAGE.to_owned())),
    };
    let (code, mut text) = match done {
        Ok(variables) => (0, variables),
        Err(failure) => failure,
    };
    text.push('\n');
    // A reader that has gone away is no reason to fail.
    let _ = match code {
        0 => std::io::stdout().write_all(text.as_bytes()),
        _ => std::io::stderr().write_all(text.as_bytes()),
    };
    ExitCode::from(code)
}

/// The variables' lines, or the exit code and what to say.
fn make(build: &str, library: &Path) -> Result<String, (u8, String)> {
    let build = match build {
        "plain" => Build::Plain,
        "address" => Build::Address,
        "race" => Build::Race,
        other => return Err((2, format!("{USAGE}; there is no build {other}"))),
    };
    let compiler = compile::compiler().ok_or_else(|| (3, SKIP_REASON.to_owned()))?;
    let library = std::path::absolute(library).map_err(|error| (2, error.to_string()))?;
    let variables = compile::environment(build, &library, &compiler)
        .map_err(|missing| (3, missing.to_string()))?;
    let job = job(build, library);
    let warnings = compile::compile(&job, &compiler).map_err(|error| (1, error.to_string()))?;
    for warning in warnings {
        let _ = writeln!(std::io::stderr(), "{warning}");
    }
    let lines: Vec<String> = variables
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Ok(lines.join("\n"))
}

fn job(build: Build, library: PathBuf) -> Job {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Job {
        build,
        emulator: here.join("src"),
        kernels: here.join("../../cuda"),
        includes: Vec::new(),
        only: compile::wanted_files(),
        flags: Vec::new(),
        objects: library.with_extension("objects"),
        library,
    }
}
