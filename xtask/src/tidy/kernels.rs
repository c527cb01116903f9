//! Check on CUDA kernels: the table `cuda/kernels.toml` and the symbols of `cuda/*.cu` name the same.
//!
//! The table is `[kernels]` with one line a kernel, `spmm_fwd = "spmm.cu"`. There is nothing to check
//! while the project has no `cuda/` folder.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::Finding;
use super::code::{find_word, is_word, without_literals};
use crate::project::Project;
use crate::toml;

const TABLE_FILE: &str = "cuda/kernels.toml";

/// Table and symbols agree, and names end in the direction.
pub(crate) fn names(project: &Project) -> Result<Vec<Finding>> {
    let listed = listed(project)?;
    let defined = defined(project);
    let mut findings = Vec::new();
    for (kernel, file) in &defined {
        if listed.get(kernel) != Some(file) {
            findings.push(format!("{TABLE_FILE}:1: add `{kernel} = \"{file}\"`"));
        }
        if !kernel.ends_with("_fwd") && !kernel.ends_with("_bwd") {
            findings.push(format!(
                "cuda/{file}:1: `{kernel}`: a kernel's name ends in _fwd or _bwd"
            ));
        }
    }
    for (kernel, file) in listed
        .iter()
        .filter(|(kernel, _)| !defined.contains_key(*kernel))
    {
        findings.push(format!(
            "{TABLE_FILE}:1: `{kernel}` is not a kernel of cuda/{file}"
        ));
    }
    Ok(findings)
}

fn listed(project: &Project) -> Result<BTreeMap<String, String>> {
    let table = toml::parse(project.text(TABLE_FILE)).context(TABLE_FILE)?;
    let kernels = table.get("kernels").and_then(toml::Value::as_table);
    let entries = kernels.into_iter().flatten();
    Ok(entries
        .map(|(kernel, file)| (kernel.clone(), file.as_str().unwrap_or_default().to_owned()))
        .collect())
}

/// Every `__global__` function of the sources: name to file.
fn defined(project: &Project) -> BTreeMap<String, String> {
    let mut defined = BTreeMap::new();
    for (path, text) in project.with_extension("cu") {
        let Some(file) = path.strip_prefix("cuda/") else {
            continue;
        };
        let code = without_literals(text);
        for at in find_word(&code, "__global__") {
            defined.insert(function_name(&code[at..]), file.to_owned());
        }
    }
    defined
}

/// The last word before the parameters, skipping `__launch_bounds__(...)`.
fn function_name(declaration: &str) -> String {
    let after_bounds = match declaration.split_once("__launch_bounds__") {
        Some((before, after)) if !before.contains('{') => {
            after.split_once(')').map_or("", |(_, rest)| rest)
        }
        _ => declaration,
    };
    let head = after_bounds
        .split('(')
        .next()
        .unwrap_or_default()
        .trim_end();
    head.rsplit(|c| !is_word(c))
        .next()
        .unwrap_or_default()
        .to_owned()
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
    fn a_name_without_direction_is_found() {
        let project = planted(&[
            ("cuda/a.cu", "__global__ void a(int n) {}"),
            (TABLE_FILE, "[kernels]\na = \"a.cu\""),
        ]);
        assert_eq!(names(&project).unwrap().len(), 1);
    }
}
