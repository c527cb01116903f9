//! Finds nvcc: the one that is asked for, `CUDA_HOME`, `PATH`, or five wheels of PyPI that are
//! unpacked below `target/`; ptxas of CUDA 12, cuobjdump (beside nvcc, or two more wheels) and clang-format, which are wheels, too.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use super::lock;
use crate::absent::{absent, or_skip};
use crate::process;
use crate::project;

/// The release that the kernels are compiled with.
const RELEASE: &str = "13.0";

/// Wheels that together hold a program.
struct Wheels {
    /// Their folder below `target/cuda-toolchain`; another choice of wheels takes another name.
    folder: &'static str,
    names: &'static [&'static str],
    program: &'static str,
}

/// The compiler. nvcc's requirements would bring in newer compilers, whose PTX this ptxas refuses;
/// so each wheel is pinned and `--no-deps` given.
const COMPILER: Wheels = Wheels {
    folder: "cuda-13.0.88",
    names: &[
        "nvidia-cuda-nvcc==13.0.88",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-cuda-cccl==13.0.85",
    ],
    program: "nvidia/cu13/bin/nvcc",
};

/// The assembler: its code runs on drivers from 525 on, that of 13.0 from 580 on. Of CUDA 12 there is no wheel with the whole compiler.
const ASSEMBLER: Wheels = Wheels {
    folder: "ptxas-12.9.86",
    names: &["nvidia-cuda-nvcc-cu12==12.9.86"],
    program: "nvidia/cuda_nvcc/bin/ptxas",
};

/// The disassembler. Its first release as a wheel is 13.2, which reads the code of older compilers.
const DISASSEMBLER: Wheels = Wheels {
    folder: "sass-13.2.78",
    names: &[
        "nvidia-cuda-cuobjdump==13.2.78",
        "nvidia-cuda-nvdisasm==13.2.78",
    ],
    program: "nvidia/cu13/bin/cuobjdump",
};

/// The formatter; other versions lay out some lines otherwise.
const FORMATTER: Wheels = Wheels {
    folder: "clang-format-23.1.5",
    names: &["clang-format==23.1.5"],
    program: "clang_format/data/bin/clang-format",
};

/// A compiler that runs.
#[derive(Debug, PartialEq)]
pub(crate) struct Toolchain {
    pub(crate) nvcc: PathBuf,
    /// The assembler: of CUDA 12, or the one beside nvcc.
    pub(crate) ptxas: PathBuf,
    /// `13.0.88`, and what the assembler is where it is another's: `13.0.88 with ptxas 12.9.86`.
    pub(crate) version: String,
}

impl Toolchain {
    /// With the compiler's own assembler.
    fn whole(nvcc: PathBuf, version: String) -> Self {
        Self {
            ptxas: nvcc.with_file_name("ptxas"),
            nvcc,
            version,
        }
    }

    /// Whether the assembler is older than the compiler and takes its PTX under an older version alone.
    pub(super) fn lowers_ptx(&self) -> bool {
        self.ptxas.parent() != self.nvcc.parent()
    }

    fn assembled_by(self, ptxas: PathBuf) -> Result<Self> {
        let version = format!("{} with ptxas {}", self.version, version(&ptxas)?);
        Ok(Self {
            ptxas,
            version,
            ..self
        })
    }
}

/// Looks for nvcc and installs the wheels if there is none; absent where they cannot be had. An nvcc that is asked for assembles by
/// itself, as does any where pip does not give the assembler, after a line in `skips`.
///
/// # Errors
/// `wanted` does not run, or the folder for the wheels cannot be written.
pub(crate) fn find(wanted: Option<&Path>, skips: &mut Vec<String>) -> Result<Toolchain> {
    if let Some(nvcc) = wanted {
        // Commands run in the workspace root, the path is meant from here.
        let nvcc = std::path::absolute(nvcc)?;
        let version = version(&nvcc).with_context(|| format!("--nvcc {}", nvcc.display()))?;
        return Ok(Toolchain::whole(nvcc, version));
    }
    let found = find_compiler()?;
    let ptxas = ASSEMBLER.program("");
    match or_skip(ptxas, "kernels: code for drivers below 580", skips)? {
        Some(ptxas) => found.assembled_by(ptxas),
        None => Ok(found),
    }
}

fn find_compiler() -> Result<Toolchain> {
    if !runs("g++", &["--version"]) {
        return Err(absent(
            "nvcc needs the host compiler g++, which is not on PATH",
        ));
    }
    let home = std::env::var_os("CUDA_HOME");
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(found) = first_of_release(&candidates(home.as_deref(), &path)) {
        return Ok(found);
    }
    let elsewhere = format!("no nvcc {RELEASE} in CUDA_HOME or on PATH, and ");
    let nvcc = COMPILER.program(&elsewhere)?;
    let version = version(&nvcc)?;
    ensure!(
        is_of_release(&version),
        "{} is {version}: delete its folder",
        nvcc.display()
    );
    Ok(Toolchain::whole(nvcc, version))
}

/// cuobjdump, with the nvdisasm that it calls beside it.
pub(crate) fn disassembler(toolchain: &Toolchain) -> Result<PathBuf> {
    let name = |stem: &str| format!("{stem}{}", std::env::consts::EXE_SUFFIX);
    let beside = |stem: &str| toolchain.nvcc.with_file_name(name(stem));
    if ["cuobjdump", "nvdisasm"]
        .map(beside)
        .iter()
        .all(|path| path.is_file())
    {
        return Ok(beside("cuobjdump"));
    }
    DISASSEMBLER.program("no cuobjdump beside nvcc, and ")
}

/// clang-format.
pub(super) fn formatter() -> Result<PathBuf> {
    FORMATTER.program("")
}

/// Where an installed nvcc may be.
fn candidates(home: Option<&OsStr>, path: &OsStr) -> Vec<PathBuf> {
    let home = home.map(|home| Path::new(home).join("bin"));
    let folders = home.into_iter().chain(std::env::split_paths(path));
    let name = format!("nvcc{}", std::env::consts::EXE_SUFFIX);
    let candidates = folders.map(|folder| folder.join(&name));
    candidates.filter(|nvcc| nvcc.is_file()).collect()
}

/// The first that is of the right release; the others are named.
fn first_of_release(candidates: &[PathBuf]) -> Option<Toolchain> {
    for nvcc in candidates {
        match version(nvcc) {
            Ok(version) if is_of_release(&version) => {
                return Some(Toolchain::whole(nvcc.clone(), version));
            }
            Ok(version) => println!(
                "kernels: passed over {}: it is {version}, not {RELEASE} (--nvcc PATH takes it all the same)",
                nvcc.display()
            ),
            Err(error) => println!("kernels: passed over {}: {error:#}", nvcc.display()),
        }
    }
    None
}

fn is_of_release(version: &str) -> bool {
    version
        .strip_prefix(RELEASE)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// What `nvcc --version`, or that of ptxas, says after `V`.
fn version(nvcc: &Path) -> Result<String> {
    let text = process::stdout_of(process::command(nvcc).arg("--version"))?;
    let word = text.split_whitespace().find_map(|word| {
        let version = word.strip_prefix('V')?;
        version
            .starts_with(|c: char| c.is_ascii_digit())
            .then_some(version)
    });
    Ok(word.context("`--version` names no version")?.to_owned())
}

pub(crate) fn runs(program: &str, args: &[&str]) -> bool {
    let output = process::command(program).args(args).output();
    output.is_ok_and(|output| output.status.success())
}

impl Wheels {
    /// The program of the wheels, which are installed once; absent where pip does not give them. `elsewhere` says where else it was
    /// not found.
    fn program(&self, elsewhere: &str) -> Result<PathBuf> {
        let folder = project::root().join("target/cuda-toolchain");
        let _lock = lock(&folder)?;
        let installed = folder.join(self.folder);
        let program = installed.join(self.program);
        if !program.exists() {
            // Below another name until it is whole: a killed installation must not look finished.
            let partial = folder.join("partial");
            self.install(&partial)
                .map_err(|error| absent(format!("{elsewhere}pip gave no wheels: {error:#}")))?;
            fs::rename(&partial, &installed).with_context(|| installed.display().to_string())?;
        }
        Ok(program)
    }

    fn install(&self, target: &Path) -> Result<()> {
        let python = python_with_pip()?;
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        let mut pip = process::command(python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--only-binary",
            ":all:",
        ]);
        pip.args(["--quiet", "--no-input", "--disable-pip-version-check"]);
        pip.args(["--retries", "1", "--timeout", "20", "--target"]);
        pip.arg(target).args(self.names);
        println!("$ {}", process::shown(&pip));
        last_words(&mut pip)
    }
}

pub(crate) fn python_with_pip() -> Result<&'static str> {
    let mut names = ["python3", "python"].into_iter();
    let found = names.find(|python| runs(python, &["-m", "pip", "--version"]));
    found.context("there is no python3 with pip")
}

/// Runs to the end; the error is the last line of standard error.
pub(crate) fn last_words(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {}", process::shown(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| line.starts_with("ERROR"));
    let last = last.or_else(|| text.lines().last());
    bail!("{}", last.unwrap_or("it says nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides() {
        assert!(is_of_release("13.0.88") && is_of_release("13.0.48"));
        assert!(!is_of_release("13.1.0") && !is_of_release("12.13.0") && !is_of_release("13.01.1"));
    }

    #[cfg(unix)]
    #[test]
    fn other_releases_are_passed_over() {
        use crate::tests::{fresh_folder, script};

        let folder = fresh_folder("toolchain");
        let says = |version: &str| format!("echo 'Cuda compilation tools, release x, V{version}'");
        let old = script(&folder.join("old/bin"), "nvcc", &says("12.8.93"));
        let broken = script(&folder.join("broken"), "nvcc", "exit 1");
        let mute = script(&folder.join("mute"), "nvcc", "echo Version");
        let good = script(&folder.join("good"), "nvcc", &says("13.0.48"));
        let path = ["empty", "broken", "mute", "good"].map(|name| folder.join(name));
        let path = std::env::join_paths(path).unwrap();
        let found = candidates(Some(folder.join("old").as_os_str()), &path);
        assert_eq!(found, [old.clone(), broken, mute, good.clone()]);
        let toolchain = first_of_release(&found).unwrap();
        assert_eq!(
            (toolchain.nvcc, toolchain.version.as_str()),
            (good, "13.0.48")
        );
        assert_eq!(first_of_release(&found[..3]), None);

        let mut skips = Vec::new();
        let own = find(Some(&old), &mut skips).unwrap();
        assert_eq!(own.version, "12.8.93");
        assert!(!own.lowers_ptx() && skips.is_empty());
        let ptxas = script(&folder.join("other"), "ptxas", &says("12.9.86"));
        let both = own.assembled_by(ptxas).unwrap();
        assert_eq!(both.version, "12.8.93 with ptxas 12.9.86");
        assert!(both.lowers_ptx());
        assert!(find(Some(&folder.join("broken/nvcc")), &mut skips).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_failing_installer_gives_its_reason() {
        let mut pip = process::command("sh");
        pip.args(["-c", "echo 'ERROR: no network' >&2; echo hint >&2; exit 1"]);
        assert_eq!(
            last_words(&mut pip).unwrap_err().to_string(),
            "ERROR: no network"
        );
    }
}
