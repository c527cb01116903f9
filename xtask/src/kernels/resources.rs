//! What each kernel takes of a multiprocessor, as `ptxas -v` reports it.

use anyhow::{Context as _, Result, bail};

use super::assemble::ARCHITECTURES;
use super::record::{Counts, Quantity};
use super::scan::Declaration;

/// What one kernel takes on one architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    registers: u32,
    /// Local memory: arrays that are indexed by variables, and what calls put there.
    stack_bytes: u32,
}

/// A function of the log; device functions that were not inlined are in it too.
#[derive(Debug)]
struct Function<'l> {
    name: &'l str,
    architecture: &'l str,
    spill_bytes: u32,
    usage: Usage,
}

/// Reads the groups of lines that begin with `Function properties for`.
fn functions(log: &str) -> Result<Vec<Function<'_>>> {
    let mut architecture = "";
    let mut functions: Vec<Function<'_>> = Vec::new();
    for line in log.lines() {
        let line = line.trim().trim_start_matches("ptxas info    : ");
        if line.starts_with("Compiling entry function") {
            architecture = line.rsplit('\'').nth(1).unwrap_or_default();
        } else if let Some(name) = line.strip_prefix("Function properties for ") {
            functions.push(Function {
                name,
                architecture,
                spill_bytes: 0,
                usage: Usage::default(),
            });
        } else if let Some(function) = functions.last_mut() {
            if line.contains("bytes stack frame") {
                function.usage.stack_bytes = before(line, " bytes stack frame")?;
                function.spill_bytes =
                    before(line, " bytes spill stores")? + before(line, " bytes spill loads")?;
            } else if line.starts_with("Used ") {
                function.usage.registers = before(line, " registers")?;
            }
        }
    }
    Ok(functions)
}

/// The number that stands before `what`.
fn before(line: &str, what: &str) -> Result<u32> {
    let (head, _) = line
        .split_once(what)
        .with_context(|| format!("ptxas says no{what}: {line}"))?;
    let word = head.rsplit([' ', ',']).next().unwrap_or_default();
    word.parse().with_context(|| format!("ptxas: {line}"))
}

/// A finding for each function that spills registers to memory.
pub(crate) fn spills(source: &str, log: &str) -> Result<Vec<String>> {
    let functions = functions(log)?;
    let spilling = functions.iter().filter(|function| function.spill_bytes > 0);
    Ok(spilling
        .map(|function| {
            format!(
                "cuda/{source}:1: `{}` spills {} bytes on {}: keep fewer values alive, or raise its __launch_bounds__ limit",
                function.name, function.spill_bytes, function.architecture
            )
        })
        .collect())
}

/// Registers and stack of each declared kernel, on each architecture.
///
/// # Errors
/// The log lacks a kernel.
pub(crate) fn count(log: &str, kernels: &[Declaration], counts: &mut Counts) -> Result<()> {
    let functions = functions(log)?;
    for Declaration { name, .. } in kernels {
        let mut of_kernel = [Usage::default(); ARCHITECTURES.len()];
        for (usage, architecture) in of_kernel.iter_mut().zip(ARCHITECTURES) {
            let is_wanted = |f: &&Function<'_>| f.name == name && f.architecture == architecture;
            match functions.iter().find(is_wanted) {
                Some(function) if function.usage.registers > 0 => *usage = function.usage,
                _ => bail!("ptxas reports nothing about `{name}` on {architecture}"),
            }
        }
        counts.put(
            Quantity::Registers,
            name,
            of_kernel.map(|usage| usage.registers),
        );
        counts.put(
            Quantity::StackBytes,
            name,
            of_kernel.map(|usage| usage.stack_bytes),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ptxas 13.0.88 writes it, for one architecture.
    fn log(architecture: &str, registers: u32, stack: u32, spills: u32) -> String {
        format!(
            "ptxas info    : 0 bytes gmem\n\
             ptxas info    : Compiling entry function 'k_fwd' for '{architecture}'\n\
             ptxas info    : Function properties for k_fwd\n    \
             {stack} bytes stack frame, {spills} bytes spill stores, {spills} bytes spill loads\n\
             ptxas info    : Used {registers} registers, used 0 barriers, {stack} bytes cumulative stack size\n\
             ptxas info    : Compile time = 36.525 ms\n\
             ptxas info    : Function properties for _Z1gPfi\n    \
             0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        )
    }

    fn kernel() -> [Declaration; 1] {
        [Declaration {
            name: "k_fwd".to_owned(),
            line: 1,
            signature: String::new(),
        }]
    }

    #[test]
    fn a_spill_of_any_function_is_found() {
        assert!(spills("a.cu", &log("sm_80", 32, 0, 0)).unwrap().is_empty());
        let found = spills("a.cu", &log("sm_90", 32, 0, 4)).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("cuda/a.cu:1: `k_fwd` spills 8 bytes on sm_90"));
        let inner = log("sm_80", 32, 0, 0).replace(
            "frame, 0 bytes spill stores, 0 bytes spill loads\n",
            "frame, 0 bytes spill stores, 4 bytes spill loads\n",
        );
        let inner = spills("a.cu", &inner.replacen("4 bytes", "0 bytes", 1)).unwrap();
        assert!(inner[0].contains("`_Z1gPfi` spills 4 bytes"));
        assert!(
            spills(
                "a",
                "Function properties for k\n 8 bytes stack frame, many\n"
            )
            .is_err()
        );
    }

    #[test]
    fn every_kernel_is_reported_on_every_architecture() {
        let logs = ARCHITECTURES.iter().zip([39, 40, 41]).zip([0, 800, 0]);
        let text: String = logs.map(|((a, r), s)| log(a, r, s, 0)).collect();
        let mut counts = Counts::default();
        count(&text, &kernel(), &mut counts).unwrap();
        let mut expected = Counts::default();
        expected.put(Quantity::Registers, "k_fwd", [39, 40, 41]);
        expected.put(Quantity::StackBytes, "k_fwd", [0, 800, 0]);
        assert_eq!(counts, expected);
        let two = log("sm_80", 1, 0, 0) + &log("sm_90", 1, 0, 0);
        let error = count(&two, &kernel(), &mut counts).unwrap_err().to_string();
        assert!(error.contains("`k_fwd` on sm_100"), "{error}");
    }
}
