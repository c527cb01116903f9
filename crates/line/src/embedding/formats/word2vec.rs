//! The two forms of the word2vec tool, which many programs read.

use std::io::{self, Write};

use super::{embedding, floats};
use crate::{Embedding, NodeLabels};

pub(super) fn write_text(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    writeln!(out, "{} {}", embedding.n_nodes(), embedding.dim())?;
    for (node, label) in (0u32..).zip(embedding.labels().iter()) {
        write!(out, "{label}")?;
        // The shortest digits that give the same number back.
        embedding
            .row(node)
            .iter()
            .try_for_each(|x| write!(out, " {x}"))?;
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn write_binary(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    writeln!(out, "{} {}", embedding.n_nodes(), embedding.dim())?;
    for (node, label) in (0u32..).zip(embedding.labels().iter()) {
        write!(out, "{label} ")?;
        embedding
            .row(node)
            .iter()
            .try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn read_text(bytes: &[u8]) -> Result<Embedding, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("no text: {e}"))?;
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (n_nodes, dim) = counts(first)?;
    let (mut labels, mut values) = (NodeLabels::default(), Vec::new());
    for (number, line) in (2..).zip(rest.lines()) {
        let mut fields = line.split_ascii_whitespace();
        let label = fields
            .next()
            .ok_or_else(|| format!("line {number}: expected a label, found nothing"))?;
        labels.push(label);
        let before = values.len();
        for field in fields {
            let x = field
                .parse()
                .map_err(|_| format!("line {number}: expected a number, found `{field}`"))?;
            values.push(x);
        }
        if values.len() - before != dim {
            return Err(format!(
                "line {number}: expected {dim} numbers, found {}",
                values.len() - before
            ));
        }
    }
    whole(n_nodes, dim, labels, values)
}

pub(super) fn read_binary(bytes: &[u8]) -> Result<Embedding, String> {
    let end = bytes
        .iter()
        .position(|&b| b == b'\n')
        .ok_or("expected a first line `n dim`")?;
    let (n_nodes, dim) = counts(&String::from_utf8_lossy(&bytes[..end]))?;
    let n_bytes = dim.checked_mul(4).ok_or("too many columns")?;
    let mut rest = &bytes[end + 1..];
    let (mut labels, mut values) = (NodeLabels::default(), Vec::new());
    while !rest.is_empty() {
        let row = labels.len();
        let short = || format!("row {row} (counted from 0) is cut short");
        let blank = rest.iter().position(|&b| b == b' ').ok_or_else(short)?;
        let label = std::str::from_utf8(&rest[..blank]);
        labels
            .push(label.map_err(|_| format!("row {row} (counted from 0): the label is no UTF-8"))?);
        let (numbers, behind) = rest[blank + 1..]
            .split_at_checked(n_bytes)
            .ok_or_else(short)?;
        values.extend(floats(numbers));
        // The tool itself ends rows with a newline; some writers leave it out.
        rest = behind.strip_prefix(b"\n").unwrap_or(behind);
    }
    whole(n_nodes, dim, labels, values)
}

fn counts(line: &str) -> Result<(usize, usize), String> {
    let wrong = || {
        format!(
            "expected a first line `n dim`, found `{}`",
            line.chars().take(40).collect::<String>()
        )
    };
    let (n_nodes, dim) = line.trim().split_once(' ').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let (n_nodes, dim) = (number(n_nodes)?, number(dim)?);
    match dim {
        0 => Err(wrong()),
        _ => Ok((n_nodes, dim)),
    }
}

fn whole(
    n_nodes: usize,
    dim: usize,
    labels: NodeLabels,
    values: Vec<f32>,
) -> Result<Embedding, String> {
    match labels.len() == n_nodes {
        true => embedding(dim, values, labels),
        false => Err(format!(
            "expected {n_nodes} rows by the first line, found {}",
            labels.len()
        )),
    }
}
