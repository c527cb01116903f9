//! Programs of `cuda/`: files with a `main` that include a file of kernels for each case, as `harness.cu`. Each case is compiled,
//! so that it works where only an nvcc is, and nothing of it is kept but the word that it compiled.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::compile;
use super::sources::Source;
use super::toolchain::Toolchain;
use crate::process;

const FLAGS: [&str; 6] = [
    "-std=c++17",
    "-Icuda",
    "-O3",
    "-arch=sm_90",
    "--Werror=all-warnings",
    "--compile",
];

/// The case that is no file of kernels: the program for the emulator.
const EMULATED: &str = "HARNESS_EMULATED";

/// Compiles every case of every program that has not been compiled yet; gives the folders that say so.
pub(super) fn check(
    sources: &[Source],
    toolchain: &Toolchain,
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    let mut checked = Vec::new();
    for source in sources.iter().filter(|source| source.is_program()) {
        for case in cases(&String::from_utf8_lossy(&source.bytes)) {
            let key = compile::key_with(&FLAGS, source, sources, toolchain);
            let done = folder.join(format!("{}-{case}-{key}", source.stem()));
            if !done.exists() {
                call_nvcc(source, &case, toolchain)?;
                fs::create_dir_all(&done).with_context(|| done.display().to_string())?;
            }
            checked.push(done);
        }
    }
    Ok(checked)
}

/// The words of `#if defined(WORD)` lines, each once.
fn cases(text: &str) -> Vec<String> {
    let mut cases: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("#elif")) {
        let word = line
            .split_once("defined(")
            .and_then(|(_, rest)| rest.split_once(')'));
        if let Some((word, _)) = word
            && word != EMULATED
            && !cases.iter().any(|case| case == word)
        {
            cases.push(word.to_owned());
        }
    }
    cases
}

fn call_nvcc(source: &Source, case: &str, toolchain: &Toolchain) -> Result<()> {
    let object = std::env::temp_dir().join(format!("{case}-{}.o", std::process::id()));
    let mut nvcc = process::command(&toolchain.nvcc);
    nvcc.args(FLAGS).arg(format!("-D{case}"));
    nvcc.arg("--output-file").arg(&object);
    nvcc.arg(format!("cuda/{}", source.name));
    let output = nvcc
        .output()
        .with_context(|| format!("cannot start {}", process::shown(&nvcc)))?;
    let _ = fs::remove_file(&object); // not there after an error
    match output.status.success() {
        true => Ok(()),
        false => bail!(
            "{}\n{}",
            process::shown(&nvcc),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_the_program() {
        let text = include_str!("../../../cuda/harness.cu");
        assert_eq!(
            cases(text),
            ["HARNESS_OPTIMISER", "HARNESS_SPARSE", "HARNESS_SGNS"]
        );
    }
}
