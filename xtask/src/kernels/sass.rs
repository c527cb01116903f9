//! Machine code of the kernels, as `cuobjdump --dump-sass` lists it, and the counts of the record.

mod flow;

use std::path::Path;

use anyhow::{Context as _, Result};

use super::assemble::ARCHITECTURES;
use super::record::{Counts, PerArchitecture, Quantity};
use super::scan::Declaration;
use crate::process;

/// An instruction of a listing: `/*0570*/ @P0 BRA 0x4b0 ;`.
#[derive(Debug, PartialEq)]
pub(crate) struct Instruction<'l> {
    address: u32,
    is_predicated: bool,
    /// With its suffixes: `LDG.E.128.CONSTANT`.
    opcode: &'l str,
    operands: &'l str,
}

impl Instruction<'_> {
    fn has_suffix(&self, suffix: &str) -> bool {
        self.opcode.split('.').skip(1).any(|part| part == suffix)
    }

    fn stem(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// 32 bits and 64 bits alike: the estimate of the reciprocal begins with a conversion that is
    /// rounded up.
    fn is_division(&self) -> bool {
        self.stem().ends_with("I2F") && self.has_suffix("RP")
    }

    fn is_local(&self) -> bool {
        matches!(self.stem(), "LDL" | "STL")
    }

    fn is_wide_load(&self) -> bool {
        matches!(self.stem(), "LDG" | "LD") && self.has_suffix("128")
    }
}

/// A function of a listing.
#[derive(Debug)]
struct Function<'l> {
    name: &'l str,
    architecture: &'l str,
    instructions: Vec<Instruction<'l>>,
}

/// The listing of a fat binary.
pub(crate) fn disassemble(cuobjdump: &Path, fatbin: &Path) -> Result<String> {
    let mut command = process::command(cuobjdump);
    command.arg("--dump-sass").arg(fatbin);
    process::stdout_of(&mut command)
}

/// What the machine code of each declared kernel has, on each architecture.
///
/// # Errors
/// The listing lacks a kernel.
pub(crate) fn count(listing: &str, kernels: &[Declaration], counts: &mut Counts) -> Result<()> {
    let functions = functions(listing);
    for Declaration { name, .. } in kernels {
        let mut of_kernel = [Found::default(); ARCHITECTURES.len()];
        for (found, architecture) in of_kernel.iter_mut().zip(ARCHITECTURES) {
            let is_wanted = |f: &&Function<'_>| f.name == name && f.architecture == architecture;
            let function = functions.iter().find(is_wanted);
            let function = function
                .with_context(|| format!("the listing has no `{name}` on {architecture}"))?;
            *found = Found::new(&function.instructions);
        }
        let mut put = |quantity, number: fn(&Found) -> usize| {
            let numbers: PerArchitecture = of_kernel.each_ref().map(|found| number(found) as u32);
            counts.put(quantity, name, numbers);
        };
        put(Quantity::Instructions, |found| found.instructions);
        put(Quantity::HotLoop, |found| found.hot_loop);
        put(Quantity::Divisions, |found| found.divisions);
        put(Quantity::DivisionsInLoops, |found| found.divisions_in_loops);
        put(Quantity::Calls, |found| found.calls);
        put(Quantity::LocalAccesses, |found| found.local_accesses);
        put(Quantity::WideLoads, |found| found.wide_loads);
    }
    Ok(())
}

/// The counts of one kernel on one architecture; [`Quantity`] says what each is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Found {
    instructions: usize,
    hot_loop: usize,
    divisions: usize,
    divisions_in_loops: usize,
    calls: usize,
    local_accesses: usize,
    wide_loads: usize,
}

impl Found {
    fn new(code: &[Instruction<'_>]) -> Found {
        let flow::ControlFlow { is_reached, loops } = flow::analyse(code);
        let mut is_in_loop = vec![false; code.len()];
        for &idx in loops.iter().flat_map(|l| &l.instructions) {
            is_in_loop[idx] = true;
        }
        let innermost = loops.iter().filter(|l| l.is_innermost);
        let hot_loop = innermost.map(|l| l.instructions.len()).max();
        let in_loops = code.iter().zip(is_in_loop).filter(|(_, is_in)| *is_in);
        let reached = code
            .iter()
            .zip(is_reached)
            .filter(|(_, is_reached)| *is_reached);
        Found {
            instructions: code.len(),
            hot_loop: hot_loop.unwrap_or(code.len()),
            divisions: code.iter().filter(|i| i.is_division()).count(),
            divisions_in_loops: in_loops.filter(|(i, _)| i.is_division()).count(),
            calls: reached.filter(|(i, _)| i.stem() == "CALL").count(),
            local_accesses: code.iter().filter(|i| i.is_local()).count(),
            wide_loads: code.iter().filter(|i| i.is_wide_load()).count(),
        }
    }
}

/// Reads what follows each line `Function : name`, up to the branch to itself that ends the code.
fn functions(listing: &str) -> Vec<Function<'_>> {
    let mut architecture = "";
    let mut functions: Vec<Function<'_>> = Vec::new();
    for line in listing.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("arch = ") {
            architecture = name;
        } else if let Some(name) = line.strip_prefix("Function : ") {
            functions.push(Function {
                name,
                architecture,
                instructions: Vec::new(),
            });
        } else if let (Some(function), Some(read)) = (functions.last_mut(), instruction(line)) {
            function.instructions.push(read);
        }
    }
    for function in &mut functions {
        let is_end = |i: &Instruction<'_>| i.opcode == "BRA" && flow::target(i) == Some(i.address);
        if let Some(end) = function.instructions.iter().position(is_end) {
            function.instructions.truncate(end);
        }
    }
    functions
}

/// Reads `/*0570*/ @P0 BRA 0x4b0 ; /* 0xffffff3000000947 */`; a line with an encoding alone is none.
fn instruction(line: &str) -> Option<Instruction<'_>> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let address = u32::from_str_radix(address, 16).ok()?;
    let (text, _) = rest.split_once(';')?;
    let text = text.trim();
    let (predicate, text) = match text.strip_prefix('@') {
        Some(rest) => rest.split_once(' ')?,
        None => ("", text),
    };
    let (opcode, operands) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    Some(Instruction {
        address,
        is_predicated: !predicate.is_empty(),
        opcode,
        operands: operands.trim(),
    })
}

#[cfg(test)]
mod tests;
