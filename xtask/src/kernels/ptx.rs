//! Compares the kernels of compiled PTX with their declarations: names, and number and width of the parameters.
//!
//! A launch hands over its arguments by the declaration as the build script reads it; this check is what makes sure that
//! the compiler reads the same.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::scan::{Declaration, SCALARS};

/// Where declarations and the PTX of some architecture differ.
pub(crate) fn findings(
    source: &str,
    kernels: &[Declaration],
    architectures: &[String],
) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for text in architectures {
        let place = format!("cuda/{source}");
        let entries = entries(text).with_context(|| place.clone())?;
        for Declaration {
            name,
            line,
            signature,
        } in kernels
        {
            let declared = widths(signature);
            match entries.get(name.as_str()) {
                None => findings.push(format!("{place}:{line}: `{name}` is not in the PTX")),
                Some(compiled) if *compiled != declared => findings.push(format!(
                    "{place}:{line}: `{name}`: parameters of {compiled:?} bytes compiled, of {declared:?} declared"
                )),
                Some(_) => {}
            }
        }
        let is_declared = |name: &str| kernels.iter().any(|kernel| kernel.name == name);
        let undeclared = entries.keys().filter(|name| !is_declared(name));
        findings.extend(
            undeclared.map(|name| format!("{place}:1: `{name}` is compiled and not declared")),
        );
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// Every `.entry name(...)` of a PTX text with the bytes of its parameters; one without parameters may lack the brackets.
fn entries(text: &str) -> Result<BTreeMap<&str, Vec<u32>>> {
    let mut entries = BTreeMap::new();
    for part in text.split(".entry ").skip(1) {
        let (head, _) = part.split_once('{').context("an .entry has no body")?;
        let (name, list) = head.split_once('(').unwrap_or((head, ""));
        let (list, _) = list.split_once(')').unwrap_or_default();
        let parameters = list.split(',').filter(|item| !item.trim().is_empty());
        let name = name.split_whitespace().next().unwrap_or_default();
        entries.insert(name, parameters.map(width).collect::<Result<_>>()?);
    }
    Ok(entries)
}

/// The bytes of `.param .u64 .ptr .align 1 name`.
fn width(parameter: &str) -> Result<u32> {
    let kind = parameter.split_whitespace().nth(1).unwrap_or_default();
    let bits: u32 = kind
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .with_context(|| format!("PTX parameter `{}`", parameter.trim()))?;
    Ok(bits / 8)
}

/// The bytes that each item of a signature takes as an argument.
fn widths(signature: &str) -> Vec<u32> {
    let mut widths = Vec::new();
    let mut is_pointer = false;
    for c in signature.chars() {
        if c == '*' || c == '&' {
            is_pointer = true;
            continue;
        }
        let scalar = SCALARS.iter().find(|(_, letter, _)| *letter == c);
        let n_bytes = scalar.map_or(0, |(_, _, n_bytes)| *n_bytes);
        widths.push(if is_pointer { 8 } else { n_bytes });
        is_pointer = false;
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nvcc 13.0.88 writes it.
    const PTX: &str = ".version 9.0\n.target sm_90\n\t// .globl\ta_fwd\n\n.visible .entry a_fwd(\n\
        \t.param .u64 .ptr .align 1 a_fwd_param_0,\n\t.param .f32 a_fwd_param_1,\n\t.param .u16 a_fwd_param_2,\n\
        \t.param .u8 a_fwd_param_3,\n\t.param .b32 a_fwd_param_4\n)\n.maxntid 256, 1, 1\n{\n ret;\n}\n\
        .visible .entry b_fwd()\n{\n}\n.visible .entry c_fwd\n.maxntid 32\n{\n}\n";

    fn declared(list: &[(&str, &str)]) -> Vec<Declaration> {
        let declaration = |(name, signature): &(&str, &str)| Declaration {
            name: (*name).to_owned(),
            line: 7,
            signature: (*signature).to_owned(),
        };
        list.iter().map(declaration).collect()
    }

    fn against(list: &[(&str, &str)]) -> Vec<String> {
        let texts = [PTX.to_owned(), PTX.to_owned()];
        findings("a.cu", &declared(list), &texts).unwrap()
    }

    #[test]
    fn agreement_is_quiet() {
        let found = against(&[("a_fwd", "&hfhbu"), ("b_fwd", ""), ("c_fwd", "")]);
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(widths("*b&Uf*fUuihb"), [8, 8, 4, 8, 8, 4, 4, 2, 1]);
    }

    #[test]
    fn every_difference_is_found_once() {
        let base = [("a_fwd", "&hfhbu"), ("b_fwd", ""), ("c_fwd", "")];
        for signature in ["fffff", "&hfhb", "&hfhbuu", "&hfhbU", "&hffbu", ""] {
            let mut list = base;
            list[0].1 = signature;
            let found = against(&list);
            assert_eq!(found.len(), 1, "{signature}: {found:?}");
            assert!(found[0].starts_with("cuda/a.cu:7: `a_fwd`: "));
        }
        assert!(against(&base[..2])[0].contains("`c_fwd` is compiled and not declared"));
        let more = [base[0], base[1], base[2], ("d_fwd", "")];
        assert!(against(&more)[0].contains("`d_fwd` is not in the PTX"));
    }

    #[test]
    fn a_parameter_that_is_no_number_is_an_error() {
        let text = ".entry k(\n.param .align 8 .b8 k_param_0[16]\n)\n{".to_owned();
        assert!(findings("a.cu", &[], &[text]).is_err());
        assert!(findings("a.cu", &[], &[".entry k(".to_owned()]).is_err());
    }
}
