//! ML4CO text: a graph a line, `u v u v ... label l l l ...`, ids from 0 and a label of an answer for each node.

use super::{
    Streamed,
    fields::{Fields, whole},
    lines::{Line, Lines},
    tally::Tally,
};
use crate::{Error, Labels};
use shardgraph_storage::Source;

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    let wanted = tally.options.index.unwrap_or(0);
    let (mut n_graphs, mut n_nodes) = (0, None);
    while let Some(line) = lines.next_filled()? {
        if n_graphs == wanted {
            n_nodes = Some(graph(line, &mut tally)?);
        }
        n_graphs += 1;
    }
    let Some(n_nodes) = n_nodes else {
        let expected = format_args!("graph {wanted}, counted from 0; {n_graphs} came");
        return Err(lines.expected_at_end(expected));
    };
    tally.report.instance = (n_graphs > 1).then_some((wanted, n_graphs));
    Ok(tally.finish(n_nodes, false, Labels::offset(0, n_nodes)))
}

/// Gives the edges of one line to the sink; the number of its labels is that of its nodes.
fn graph(line: Line<'_>, tally: &mut Tally<'_>) -> Result<u32, Error> {
    let n_nodes = n_labels(line, tally)?;
    let mut fields = line.fields();
    while !is_label(&mut fields)? {
        let u = id(&mut fields, n_nodes)?;
        let v = id(&mut fields, n_nodes)?;
        tally.edge(line, u, v, 1.0)?;
    }
    Ok(n_nodes)
}

/// Whether the next field is the word `label`, which is left where it is.
fn is_label(fields: &mut Fields<'_>) -> Result<bool, Error> {
    let line = fields.line();
    let at = fields.next_column() as usize - 1;
    match line.bytes[at..].starts_with(b"label") {
        true => Ok(true),
        false if at == line.bytes.len() => {
            let expected = format_args!("`label` and a number for each node");
            Err(line.expected(at as u64 + 1, expected, None))
        }
        false => Ok(false),
    }
}

fn n_labels(line: Line<'_>, tally: &Tally<'_>) -> Result<u32, Error> {
    let mut fields = line.fields();
    loop {
        let expected = format_args!("`label` and a number for each node");
        let field = fields.require(expected)?;
        if field.bytes == b"label" {
            break;
        }
        if whole(field.bytes).is_none() {
            let expected = format_args!("a node id or `label`");
            return Err(line.expected(field.column, expected, Some(field.bytes)));
        }
    }
    let column = fields.next_column();
    let mut count = 0u64;
    while !fields.is_done() {
        fields.whole(format_args!("a label, which is a whole number"))?;
        count += 1;
    }
    tally.header_nodes(line, column, count)
}

/// An id from 0.
fn id(fields: &mut Fields<'_>, n_nodes: u32) -> Result<u32, Error> {
    let expected = format_args!("a node id below {n_nodes}, the number of labels");
    let (value, field) = fields.whole(expected)?;
    match value < u64::from(n_nodes) {
        true => Ok(value as u32),
        false => Err(fields.line().out_of_range(field, expected)),
    }
}
