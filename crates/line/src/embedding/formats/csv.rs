//! A table with commas, for spreadsheets and data frames: a header `node,x0,x1,...`, then each node with its numbers.
//!
//! # Source
//! RFC 4180: a name with a comma or a quote stands in quotes, and its quotes are doubled.

use std::io::{self, Write};

use super::embedding;
use crate::{Embedding, NodeLabels};

pub(super) fn write(out: &mut dyn Write, embedding: &Embedding) -> io::Result<()> {
    write!(out, "node")?;
    (0..embedding.dim()).try_for_each(|column| write!(out, ",x{column}"))?;
    writeln!(out)?;
    for (node, label) in (0u32..).zip(embedding.labels().iter()) {
        match label.contains([',', '"']) {
            true => write!(out, "\"{}\"", label.replace('"', "\"\""))?,
            false => write!(out, "{label}")?,
        }
        // The shortest digits that give the same number back.
        let row = embedding.row(node);
        row.iter().try_for_each(|x| write!(out, ",{x}"))?;
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn read(bytes: &[u8]) -> Result<Embedding, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("no text: {e}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut labels, mut values) = (NodeLabels::default(), Vec::new());
    let mut dim = None;
    for (number, line) in (1..).zip(text.lines()) {
        let (label, numbers) = label(line).ok_or_else(|| {
            format!("line {number}: expected a node and its numbers with commas between")
        })?;
        let is_number = |field: &str| field.trim().parse::<f32>().is_ok();
        if number == 1 && !numbers.split(',').any(is_number) {
            dim = Some(numbers.split(',').count());
            continue;
        }
        let before = values.len();
        for field in numbers.split(',') {
            let x = field.trim().parse::<f32>();
            values.push(x.map_err(|_| {
                format!("line {number}: expected a number, found `{}`", field.trim())
            })?);
        }
        let found = values.len() - before;
        let dim = *dim.get_or_insert(found);
        if found != dim {
            return Err(format!(
                "line {number}: expected {dim} numbers, found {found}"
            ));
        }
        labels.push(&label);
    }
    let dim = dim.ok_or("expected lines of a node and its numbers, found none")?;
    embedding(dim, values, labels)
}

/// The name that begins a line, and what stands behind its comma.
fn label(line: &str) -> Option<(String, &str)> {
    let Some(quoted) = line.strip_prefix('"') else {
        let (label, numbers) = line.split_once(',')?;
        return Some((label.to_owned(), numbers));
    };
    let mut label = String::new();
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('"')?;
        label.push_str(part);
        match behind.strip_prefix('"') {
            Some(behind) => {
                label.push('"');
                rest = behind;
            }
            None => return Some((label, behind.strip_prefix(',')?)),
        }
    }
}
