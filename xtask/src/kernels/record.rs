//! The record of what the kernels cost, `cuda/resources.toml`, and the comparison with it.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::assemble::ARCHITECTURES;

/// One number for each of [`ARCHITECTURES`].
pub(crate) type PerArchitecture = [u32; ARCHITECTURES.len()];

/// A number that the record has for each kernel and architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    Registers,
    StackBytes,
    Instructions,
    HotLoop,
    Divisions,
    DivisionsInLoops,
    Calls,
    LocalAccesses,
    WideLoads,
}

impl Quantity {
    const ALL: [Quantity; 9] = [
        Quantity::Registers,
        Quantity::StackBytes,
        Quantity::Instructions,
        Quantity::HotLoop,
        Quantity::Divisions,
        Quantity::DivisionsInLoops,
        Quantity::Calls,
        Quantity::LocalAccesses,
        Quantity::WideLoads,
    ];

    /// What is counted, in a finding.
    fn unit(self) -> &'static str {
        match self {
            Quantity::Registers => "registers",
            Quantity::StackBytes => "bytes of stack",
            Quantity::Instructions => "instructions",
            Quantity::HotLoop => "instructions in its hot loop",
            Quantity::Divisions => "integer divisions",
            Quantity::DivisionsInLoops => "integer divisions in loops",
            Quantity::Calls => "calls",
            Quantity::LocalAccesses => "accesses to local memory",
            Quantity::WideLoads => "loads of 16 bytes",
        }
    }

    /// What is counted, as the comment above the table.
    fn comment(self) -> &'static str {
        match self {
            Quantity::Registers => "Registers of a thread, by ptxas.",
            Quantity::StackBytes => "Local memory of a thread in bytes, by ptxas.",
            Quantity::Instructions => "Instructions of the whole kernel.",
            Quantity::HotLoop => {
                "Instructions of the innermost loop that has the most, of a kernel without loops \
                 all of them;\n# blocks that only a diverged warp enters (BRA.DIV) are left out."
            }
            Quantity::Divisions => {
                "Integer divisions whose divisor is not a constant: I2F rounded up, one for each."
            }
            Quantity::DivisionsInLoops => "Those of them that are inside a loop.",
            Quantity::Calls => {
                "CALL: 64-bit divisions, slow paths of division and root; on sm_80 ends of loops too."
            }
            Quantity::LocalAccesses => "LDL and STL.",
            Quantity::WideLoads => "Loads of 16 bytes from global memory; fewer are a finding.",
        }
    }

    /// Whether a kernel should have at least the recorded number, not at most.
    fn is_lower_bound(self) -> bool {
        self == Quantity::WideLoads
    }
}

/// What was counted: of each quantity the numbers of each kernel. A kernel without a line in a table has zeros there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Counts(BTreeMap<Quantity, BTreeMap<String, PerArchitecture>>);

impl Counts {
    pub(crate) fn put(&mut self, quantity: Quantity, kernel: &str, numbers: PerArchitecture) {
        let table = self.0.entry(quantity).or_default();
        table.insert(kernel.to_owned(), numbers);
    }

    pub(crate) fn n_kernels(&self) -> usize {
        let registers = self.0.get(&Quantity::Registers);
        registers.map_or(0, BTreeMap::len)
    }

    fn get(&self, quantity: Quantity, kernel: &str) -> PerArchitecture {
        let table = self.0.get(&quantity);
        table
            .and_then(|t| t.get(kernel))
            .copied()
            .unwrap_or_default()
    }

    fn has_kernel(&self, kernel: &str) -> bool {
        let registers = self.0.get(&Quantity::Registers);
        registers.is_some_and(|table| table.contains_key(kernel))
    }
}

/// The record.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct Record {
    /// The compiler's version; another one allots registers differently.
    pub(crate) nvcc: String,
    architectures: Vec<String>,
    #[serde(flatten)]
    counts: Counts,
}

impl Record {
    pub(crate) fn new(counts: &Counts, nvcc: &str) -> Record {
        Record {
            nvcc: nvcc.to_owned(),
            architectures: ARCHITECTURES.map(str::to_owned).to_vec(),
            counts: counts.clone(),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Record> {
        const HOW: &str = "run `cargo xtask kernels --record`";
        let record: Record = toml::from_str(text).context(HOW)?;
        ensure!(
            record.architectures == ARCHITECTURES,
            "expected `architectures = {ARCHITECTURES:?}`: {HOW}"
        );
        for quantity in Quantity::ALL {
            let is_there = record.counts.0.contains_key(&quantity);
            ensure!(is_there, "no table of {}: {HOW}", quantity.unit());
        }
        Ok(record)
    }

    /// Kernels that cost more than is recorded, have no line, or are gone. Only quantities that
    /// `counts` has are compared.
    pub(crate) fn findings(&self, counts: &Counts) -> Vec<String> {
        const HOW: &str = "run `cargo xtask kernels --record`";
        let mut findings = Vec::new();
        for (&quantity, table) in &counts.0 {
            for (kernel, &found) in table {
                if self.counts.has_kernel(kernel) {
                    let recorded = self.counts.get(quantity, kernel);
                    findings.extend(worse(quantity, kernel, found, recorded));
                } else if quantity == Quantity::Registers {
                    findings.push(format!("`{kernel}` has no line: {HOW}"));
                }
            }
        }
        let recorded = self.counts.0.get(&Quantity::Registers);
        let names = recorded.into_iter().flat_map(BTreeMap::keys);
        let gone = names.filter(|kernel| !counts.has_kernel(kernel));
        findings.extend(gone.map(|kernel| format!("`{kernel}` is no kernel: {HOW}")));
        findings
    }
}

/// A finding for each architecture on which a kernel is worse than recorded.
fn worse(
    quantity: Quantity,
    kernel: &str,
    found: PerArchitecture,
    recorded: PerArchitecture,
) -> Vec<String> {
    let numbers = found.iter().zip(recorded).zip(ARCHITECTURES);
    let is_worse = |found: u32, recorded: u32| match quantity.is_lower_bound() {
        true => found < recorded,
        false => found > recorded,
    };
    let worse = numbers.filter(|((found, recorded), _)| is_worse(**found, *recorded));
    let findings = worse.map(|((found, recorded), architecture)| {
        format!(
            "`{kernel}` has {found} {} on {architecture}, {recorded} recorded: run `cargo xtask \
             kernels --record` if that is meant",
            quantity.unit()
        )
    });
    findings.collect()
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "# What each kernel costs. `cargo xtask kernels` fails when a kernel costs more than its\n\
             # lines here; `cargo xtask kernels --record` writes the file. A kernel without a line in\n\
             # a table has zeros there.\nnvcc = \"{}\"\narchitectures = {ARCHITECTURES:?}\n",
            self.nvcc
        )?;
        for quantity in Quantity::ALL {
            let name = serde_json::to_value(quantity).map_err(|_| fmt::Error)?;
            let name = name.as_str().unwrap_or_default();
            write!(f, "\n# {}\n[{name}]\n", quantity.comment())?;
            let table = self.counts.0.get(&quantity);
            for (kernel, numbers) in table.into_iter().flatten() {
                if quantity == Quantity::Registers || *numbers != PerArchitecture::default() {
                    writeln!(f, "{kernel} = {numbers:?}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One kernel with these registers and this number of another quantity on each architecture.
    fn counts(registers: PerArchitecture, quantity: Quantity, numbers: PerArchitecture) -> Counts {
        let mut counts = Counts::default();
        counts.put(Quantity::Registers, "k_fwd", registers);
        counts.put(quantity, "k_fwd", numbers);
        counts
    }

    fn record(quantity: Quantity, numbers: PerArchitecture) -> Record {
        Record::new(&counts([40; 3], quantity, numbers), "13.0.88")
    }

    #[test]
    fn the_record_reads_back() {
        for quantity in Quantity::ALL {
            let written = record(quantity, [39, 40, 41]);
            let again = Record::parse(&written.to_string()).unwrap();
            assert_eq!(again.counts.get(quantity, "k_fwd"), [39, 40, 41]);
            assert_eq!(again.to_string(), written.to_string());
        }
        let text = record(Quantity::Registers, [1, 2, 3]).to_string();
        for (from, to) in [
            ("sm_90", "sm_91"),
            ("[1, 2, 3]", "[1, 2]"),
            ("nvcc =", "nvc ="),
            ("[1,", "[-1,"),
            ("[calls]", "[call]"),
            ("[calls]", "[call]\n[calls]"),
        ] {
            assert!(Record::parse(&text.replace(from, to)).is_err(), "{from}");
        }
    }

    #[test]
    fn more_than_recorded_is_found_and_less_is_not() {
        let quantity = Quantity::HotLoop;
        let record = record(quantity, [0, 8, 0]);
        let found = |r, n| record.findings(&counts(r, quantity, n));
        assert!(found([40, 39, 1], [0, 7, 0]).is_empty());
        let more = found([40, 41, 40], [0, 8, 4]);
        assert_eq!(more.len(), 2);
        assert!(more[0].starts_with("`k_fwd` has 41 registers on sm_90, 40 recorded"));
        let text = "`k_fwd` has 4 instructions in its hot loop on sm_100, 0 recorded";
        assert!(more[1].starts_with(text), "{more:?}");
        assert_eq!(record.findings(&Counts::default()).len(), 1);
        let empty = Record::new(&Counts::default(), "13.0.88");
        let unknown = empty.findings(&counts([1; 3], quantity, [1; 3]));
        assert!(
            unknown.len() == 1 && unknown[0].contains("has no line"),
            "{unknown:?}"
        );
    }

    #[test]
    fn fewer_wide_loads_are_found_and_more_are_not() {
        let record = record(Quantity::WideLoads, [4, 4, 4]);
        let found = record.findings(&counts([40; 3], Quantity::WideLoads, [3, 4, 5]));
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("3 loads of 16 bytes on sm_80"),
            "{found:?}"
        );
    }
}
