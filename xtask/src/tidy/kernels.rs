//! Check on CUDA kernels: the table `cuda/kernels.toml` and the symbols of `cuda/*.cu` name the same.
//!
//! The table is `[kernels]` with one line a kernel, `spmm_fwd = "spmm.cu"`. There is nothing to check
//! while the project has no `cuda/` folder.

use std::collections::BTreeMap;

use anyhow::{Context as _, Error, Result};

use super::Finding;
use crate::kernels::scan;
use crate::project::Project;

const TABLE_FILE: &str = "cuda/kernels.toml";

/// Table and symbols agree, and names are snake_case: `<op>_fwd` and `<op>_bwd` for an op that is differentiated, plain
/// words for others (`adam_step`).
pub(crate) fn names(project: &Project) -> Result<Vec<Finding>> {
    let listed = listed(project)?;
    let declared = declared(project)?;
    let mut findings = Vec::new();
    for (kernel, file) in &declared {
        if listed.get(kernel) != Some(file) {
            findings.push(format!("{TABLE_FILE}:1: add `{kernel} = \"{file}\"`"));
        }
        if !is_snake_case(kernel) {
            findings.push(format!(
                "cuda/{file}:1: `{kernel}`: a kernel's name is snake_case, with _fwd or _bwd where an op has both"
            ));
        }
    }
    for (kernel, file) in listed
        .iter()
        .filter(|(kernel, _)| !declared.contains_key(*kernel))
    {
        findings.push(format!(
            "{TABLE_FILE}:1: `{kernel}` is not a kernel of cuda/{file}"
        ));
    }
    Ok(findings)
}

fn is_snake_case(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .split('_')
            .all(|word| !word.is_empty() && word.chars().all(is_plain))
}

fn listed(project: &Project) -> Result<BTreeMap<String, String>> {
    let table = toml::from_str::<toml::Table>(project.text(TABLE_FILE)).context(TABLE_FILE)?;
    let kernels = table.get("kernels").and_then(toml::Value::as_table);
    let entries = kernels.into_iter().flatten();
    Ok(entries
        .map(|(kernel, file)| (kernel.clone(), file.as_str().unwrap_or_default().to_owned()))
        .collect())
}

/// The kernels that the sources declare: name to file.
fn declared(project: &Project) -> Result<BTreeMap<String, String>> {
    let mut declared = BTreeMap::new();
    for (path, text) in project.with_extension("cu") {
        let Some(file) = path.strip_prefix("cuda/") else {
            continue;
        };
        for kernel in scan::declarations(path, text).map_err(Error::msg)? {
            declared.insert(kernel.name, file.to_owned());
        }
    }
    Ok(declared)
}

#[cfg(test)]
mod tests {
    use super::super::planted;
    use super::*;

    const SOURCE: &str = "extern \"C\" __global__ void __launch_bounds__(256)\nrelu_fwd(float* x) {}\n\
        extern \"C\" __global__ void relu_bwd(float* x) {}\n// __global__ void gone()\n";

    #[test]
    fn agreement_is_quiet() {
        let table = "[kernels]\nrelu_fwd = \"relu.cu\"\nrelu_bwd = \"relu.cu\"\n";
        let project = planted(&[("cuda/relu.cu", SOURCE), (TABLE_FILE, table)]);
        assert_eq!(names(&project).unwrap(), Vec::<Finding>::new());
        assert_eq!(names(&planted(&[])).unwrap(), Vec::<Finding>::new());
    }

    #[test]
    fn disagreement_is_found_both_ways() {
        let table = "[kernels]\nrelu_fwd = \"relu.cu\"\nlost_fwd = \"relu.cu\"\n";
        let project = planted(&[("cuda/relu.cu", SOURCE), (TABLE_FILE, table)]);
        let findings = names(&project).unwrap();
        assert_eq!(findings.len(), 2);
        assert!(findings[0].contains("relu_bwd") && findings[1].contains("lost_fwd"));
    }

    #[test]
    fn names_are_snake_case() {
        let with_name = |name: &str| {
            let source = format!("extern \"C\" __global__ void {name}(int n) {{}}");
            let table = format!("[kernels]\n{name} = \"a.cu\"");
            names(&planted(&[("cuda/a.cu", &source), (TABLE_FILE, &table)])).unwrap()
        };
        for good in ["adam_step", "spmm_k32_fwd", "argmax"] {
            assert!(with_name(good).is_empty(), "{good}");
        }
        for bad in ["adamStep", "Adam", "adam__step", "_adam", "adam_", "2d"] {
            assert_eq!(with_name(bad).len(), 1, "{bad}");
        }
    }
}
