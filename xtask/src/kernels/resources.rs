//! What each kernel takes of a multiprocessor, as `ptxas -v` reports it, and the record that it must not exceed.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::compile::ARCHITECTURES;
use super::scan::Declaration;

/// What one kernel takes on one architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) registers: u32,
    /// Local memory: arrays that are indexed by variables, and what calls put there.
    pub(crate) stack_bytes: u32,
}

/// Kernel to its usage on each of [`ARCHITECTURES`].
pub(crate) type Usages = BTreeMap<String, [Usage; ARCHITECTURES.len()]>;

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

/// What each kernel takes.
pub(crate) fn usages(log: &str, kernels: &[Declaration]) -> Result<Usages> {
    let functions = functions(log)?;
    let mut usages = Usages::new();
    for Declaration { name, .. } in kernels {
        let mut of_kernel = [Usage::default(); ARCHITECTURES.len()];
        for (usage, architecture) in of_kernel.iter_mut().zip(ARCHITECTURES) {
            let is_wanted = |f: &&Function<'_>| f.name == name && f.architecture == architecture;
            match functions.iter().find(is_wanted) {
                Some(function) if function.usage.registers > 0 => *usage = function.usage,
                _ => bail!("ptxas reports nothing about `{name}` on {architecture}"),
            }
        }
        usages.insert(name.clone(), of_kernel);
    }
    Ok(usages)
}

/// The record in `cuda/resources.toml`.
#[derive(Debug, PartialEq)]
pub(crate) struct Record {
    /// The compiler's version; another one allots registers differently.
    pub(crate) nvcc: String,
    usages: Usages,
}

/// The file itself; a kernel without a line under `stack_bytes` takes none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nvcc: String,
    architectures: Vec<String>,
    registers: BTreeMap<String, [u32; ARCHITECTURES.len()]>,
    stack_bytes: BTreeMap<String, [u32; ARCHITECTURES.len()]>,
}

impl Record {
    pub(crate) fn new(usages: &Usages, nvcc: &str) -> Record {
        Record {
            nvcc: nvcc.to_owned(),
            usages: usages.clone(),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Record> {
        let file: File = toml::from_str(text)?;
        ensure!(
            file.architectures == ARCHITECTURES,
            "expected `architectures = {ARCHITECTURES:?}`: run `cargo xtask kernels --record`"
        );
        let mut usages = Usages::new();
        for (kernel, registers) in file.registers {
            let usage = usages.entry(kernel).or_default();
            for (usage, count) in usage.iter_mut().zip(registers) {
                usage.registers = count;
            }
        }
        for (kernel, stack) in file.stack_bytes {
            let usage = usages.entry(kernel).or_default();
            for (usage, count) in usage.iter_mut().zip(stack) {
                usage.stack_bytes = count;
            }
        }
        Ok(Record {
            nvcc: file.nvcc,
            usages,
        })
    }

    /// Kernels that take more than is recorded, have no line, or are gone.
    pub(crate) fn findings(&self, usages: &Usages) -> Vec<String> {
        const HOW: &str = "run `cargo xtask kernels --record` if that is meant";
        let mut findings = Vec::new();
        for (kernel, found) in usages {
            let Some(recorded) = self.usages.get(kernel) else {
                findings.push(format!(
                    "`{kernel}` has no line: run `cargo xtask kernels --record`"
                ));
                continue;
            };
            for ((found, recorded), architecture) in found.iter().zip(recorded).zip(ARCHITECTURES) {
                if found.registers > recorded.registers {
                    findings.push(format!(
                        "`{kernel}` takes {} registers on {architecture}, {} recorded: {HOW}",
                        found.registers, recorded.registers
                    ));
                }
                if found.stack_bytes > recorded.stack_bytes {
                    findings.push(format!(
                        "`{kernel}` takes {} bytes of stack on {architecture}, {} recorded: {HOW}",
                        found.stack_bytes, recorded.stack_bytes
                    ));
                }
            }
        }
        let gone = self
            .usages
            .keys()
            .filter(|kernel| !usages.contains_key(*kernel));
        findings.extend(
            gone.map(|kernel| {
                format!("`{kernel}` is no kernel: run `cargo xtask kernels --record`")
            }),
        );
        findings
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# What a thread of each kernel takes, by ptxas. `cargo xtask kernels` fails when a kernel takes more than its\n\
             # line here; `cargo xtask kernels --record` writes the file.\n\
             nvcc = \"{}\"\narchitectures = {ARCHITECTURES:?}\n\n[registers]",
            self.nvcc
        )?;
        for (kernel, usage) in &self.usages {
            writeln!(f, "{kernel} = {:?}", usage.map(|usage| usage.registers))?;
        }
        writeln!(
            f,
            "\n# Local memory; a kernel without a line takes none.\n[stack_bytes]"
        )?;
        for (kernel, usage) in &self.usages {
            let stack = usage.map(|usage| usage.stack_bytes);
            if stack != [0; ARCHITECTURES.len()] {
                writeln!(f, "{kernel} = {stack:?}")?;
            }
        }
        Ok(())
    }
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

    fn usage(registers: [u32; 3], stack: [u32; 3]) -> Usages {
        let logs = ARCHITECTURES.iter().zip(registers).zip(stack);
        let text: String = logs.map(|((a, r), s)| log(a, r, s, 0)).collect();
        usages(&text, &kernel()).unwrap()
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
        let all = usage([39, 40, 41], [0, 800, 0]);
        assert_eq!(
            all["k_fwd"][1],
            Usage {
                registers: 40,
                stack_bytes: 800
            }
        );
        let two = log("sm_80", 1, 0, 0) + &log("sm_90", 1, 0, 0);
        let error = usages(&two, &kernel()).unwrap_err().to_string();
        assert!(error.contains("`k_fwd` on sm_100"), "{error}");
    }

    #[test]
    fn the_record_reads_back() {
        let record = Record::new(&usage([39, 40, 41], [0, 800, 0]), "13.0.88");
        assert_eq!(Record::parse(&record.to_string()).unwrap(), record);
        let plain = Record::new(&usage([1, 2, 3], [0; 3]), "13.0.88");
        assert_eq!(Record::parse(&plain.to_string()).unwrap(), plain);
        let text = plain.to_string();
        for (from, to) in [
            ("sm_90", "sm_91"),
            ("[1, 2, 3]", "[1, 2]"),
            ("nvcc =", "nvc ="),
            ("[1,", "[-1,"),
        ] {
            assert!(Record::parse(&text.replace(from, to)).is_err(), "{from}");
        }
    }

    #[test]
    fn more_than_recorded_is_found_and_less_is_not() {
        let record = Record::new(&usage([40, 40, 40], [0, 8, 0]), "13.0.88");
        assert!(record.findings(&usage([40, 39, 1], [0, 8, 0])).is_empty());
        let more = record.findings(&usage([40, 41, 40], [0, 8, 4]));
        assert_eq!(more.len(), 2);
        assert!(more[0].starts_with("`k_fwd` takes 41 registers on sm_90, 40 recorded"));
        assert!(more[1].starts_with("`k_fwd` takes 4 bytes of stack on sm_100, 0 recorded"));
        assert_eq!(record.findings(&Usages::new()).len(), 1);
        let empty = Record::new(&Usages::new(), "13.0.88");
        assert!(empty.findings(&usage([1; 3], [0; 3]))[0].contains("has no line"));
    }
}
