//! Machine code out of PTX, for each architecture, and one fat binary of all.
//!
//! The assembler is not the compiler's own but one of CUDA 12: drivers from 525 on load its code, those of CUDA 13 too. It takes the
//! compiler's PTX, whose head names a version that it does not know, under the version of what the kernels use.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::toolchain::Toolchain;
use crate::process;

/// The architectures that get machine code.
pub(crate) const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// The PTX of each: that of CUDA 12.0, that of sm_90's vector atomics, and the first that knows sm_100.
const PTX_VERSIONS: [&str; 3] = ["8.0", "8.1", "8.6"];

/// The PTX that the fat binary keeps, for architectures that are newer than the compiler.
const KEPT: &str = "sm_90";

pub(super) const PTXAS_FLAGS: [&str; 4] = [
    "-m64",
    "-v",
    // Where in the source a kernel is: costs nothing at run time, and compute-sanitizer names the line.
    "--generate-line-info",
    "--warning-as-error",
];

/// Assembles `FOLDER/STEM.compute_*.ptx` into `FOLDER/fatbin`; what the assembler said.
pub(super) fn assemble(stem: &str, toolchain: &Toolchain, folder: &Path) -> Result<String> {
    let mut pack = process::command(toolchain.nvcc.with_file_name("fatbinary"));
    pack.args(["-64", "--compress-all"]);
    // Compilers of CUDA 13 compress in a way that drivers of CUDA 12 do not know, unless asked for this one.
    if !toolchain.version.starts_with("12.") {
        pack.arg("--compress-mode=speed");
    }
    pack.arg(format!("--create={}", folder.join("fatbin").display()));
    let mut log = String::new();
    for (architecture, version) in ARCHITECTURES.iter().zip(PTX_VERSIONS) {
        let number = architecture.trim_start_matches("sm_");
        let ptx = folder.join(format!("{stem}.compute_{number}.ptx"));
        if toolchain.lowers_ptx() {
            lower(&ptx, version)?;
        }
        let cubin = ptx.with_extension("cubin");
        let mut ptxas = process::command(&toolchain.ptxas);
        ptxas.args(PTXAS_FLAGS).arg(format!("-arch={architecture}"));
        log += &said(ptxas.arg(&ptx).arg("-o").arg(&cubin))?;
        let image = |kind: &str, file: &Path| {
            format!("--image3=kind={kind},sm={number},file={}", file.display())
        };
        pack.arg(image("elf", &cubin));
        if *architecture == KEPT {
            pack.arg(image("ptx", &ptx));
        }
    }
    said(&mut pack)?;
    Ok(log)
}

/// Writes another version into the head of a PTX file.
fn lower(ptx: &Path, version: &str) -> Result<()> {
    let text = fs::read_to_string(ptx).with_context(|| ptx.display().to_string())?;
    let is_version = |line: &&str| line.starts_with(".version ");
    let line = text.lines().find(is_version);
    let line = line.with_context(|| format!("{}: no line `.version`", ptx.display()))?;
    let lowered = text.replacen(line, &format!(".version {version}"), 1);
    fs::write(ptx, lowered).with_context(|| ptx.display().to_string())
}

/// What a program writes to standard error; an error with it where the program fails.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", process::shown(command)))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        bail!("{}\n{text}", process::shown(command));
    }
    Ok(text)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{fresh_folder, script};

    /// The assembler gets each PTX with its own version, and the fat binary's parts are named by architecture.
    #[test]
    fn ptx_is_lowered_for_another_assembler() {
        let folder = fresh_folder("assemble");
        let calls = folder.join("calls");
        let writes =
            |what: &str| format!("echo {what} \"$@\" >> {}; echo said >&2", calls.display());
        let mut toolchain = Toolchain {
            nvcc: folder.join("nvcc"),
            ptxas: script(&folder.join("other"), "ptxas", &writes("ptxas")),
            version: "13.0.88".to_owned(),
        };
        script(&folder, "fatbinary", &writes("fatbinary"));
        let ptx = |number: &str| folder.join(format!("a.compute_{number}.ptx"));
        let plain = "//\n.version 9.0\n.target x\n// .version 9.0\n";
        let write = || ["80", "90", "100"].map(|number| fs::write(ptx(number), plain).unwrap());
        write();
        assert_eq!(
            assemble("a", &toolchain, &folder).unwrap(),
            "said\nsaid\nsaid\n"
        );
        for (number, version) in [("80", "8.0"), ("90", "8.1"), ("100", "8.6")] {
            let text = fs::read_to_string(ptx(number)).unwrap();
            assert_eq!(text, plain.replacen("9.0", version, 1));
        }
        let called = fs::read_to_string(&calls).unwrap();
        let pack = called.lines().last().unwrap();
        assert!(called.contains("-arch=sm_100") && pack.contains("--compress-mode=speed"));
        assert_eq!(pack.matches("kind=elf").count(), 3);
        assert!(pack.contains("kind=ptx,sm=90"), "{pack}");

        // A compiler's own assembler knows its PTX.
        write();
        toolchain.ptxas = script(&folder, "ptxas", &writes("ptxas"));
        "12.9.86".clone_into(&mut toolchain.version);
        assemble("a", &toolchain, &folder).unwrap();
        assert_eq!(fs::read_to_string(ptx("80")).unwrap(), plain);
        let called = fs::read_to_string(&calls).unwrap();
        assert!(!called.lines().last().unwrap().contains("--compress-mode"));

        fs::write(ptx("90"), "empty").unwrap();
        toolchain.ptxas = script(
            &folder.join("third"),
            "ptxas",
            "echo 'bad line' >&2; exit 1",
        );
        let error = assemble("a", &toolchain, &folder).unwrap_err();
        assert!(error.to_string().contains("bad line"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
