//! Matrix Market coordinate files, read as the adjacency matrix of an undirected graph.
//!
//! Banner `%%MatrixMarket matrix coordinate <field> <symmetry>` (one percent sign is accepted, as some collections write
//! it), comments, the size line `rows columns entries`, then exactly that many entries `row column [value]`, from 1.

use super::{
    Policy, Streamed,
    fields::{Field, Fields},
    lines::{Line, Lines},
    tally::{Counts, Tally},
};
use crate::{Error, ErrorKind};
use shardgraph_storage::Source;

struct Header {
    has_values: bool,
    symmetric: bool,
}

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let header = banner(&mut lines, &mut tally)?;
    let expected = format_args!("the size line `rows columns entries`");
    let size = size(lines.require(b'%', expected)?, &tally)?;
    while let Some(line) = lines.next_filled_but_comments(b'%')? {
        tally.check_more(&size, line, "entries")?;
        entry(line, &header, size.n, &mut tally)?;
    }
    tally.check_all(&size, &lines, "entries")?;
    let weighted = tally.weighted(header.has_values);
    Ok(tally.finish_numbered(size.n, weighted))
}

fn entry(line: Line<'_>, header: &Header, n: u32, tally: &mut Tally<'_>) -> Result<(), Error> {
    let mut fields = line.fields();
    let row = fields.node(n)?;
    let column = fields.node(n)?;
    let value = if header.has_values {
        fields.weight()?
    } else {
        1.0
    };
    fields.finish(if header.has_values {
        "the value"
    } else {
        "the column"
    })?;
    if header.symmetric && row < column {
        upper_entry(line, tally)?;
    }
    let weight = if tally.keeps_weights() { value } else { 1.0 };
    tally.edge(line, row, column, weight)
}

#[cold]
fn upper_entry(line: Line<'_>, tally: &mut Tally<'_>) -> Result<(), Error> {
    tally.report.upper_triangle_entries += 1;
    match tally.options.both_triangles {
        Policy::Report => Ok(()),
        Policy::Refuse => {
            let message = "expected a row not above its column (the matrix is symmetric), found an entry above the diagonal, and those are to be refused";
            Err(line.error(ErrorKind::Policy, 1, message))
        }
    }
}

fn banner(lines: &mut Lines<'_>, tally: &mut Tally<'_>) -> Result<Header, Error> {
    let what = format_args!("the banner `%%MatrixMarket matrix coordinate ...`");
    let Some(line) = lines.next()? else {
        return Err(lines.expected_at_end(what));
    };
    let mut fields = line.fields();
    let tag = fields.require(what)?;
    if !is_word(tag, "%%MatrixMarket") && !is_word(tag, "%MatrixMarket") {
        return Err(line.expected(tag.column, what, Some(tag.bytes)));
    }
    word(&mut fields, &["matrix"], &["vector"])?;
    word(&mut fields, &["coordinate"], &["array"])?;
    let field = word(
        &mut fields,
        &["pattern", "real", "integer", "double"],
        &["complex"],
    )?;
    let symmetries = (&["symmetric", "general"], &["skew-symmetric", "hermitian"]);
    let symmetry = word(&mut fields, symmetries.0, symmetries.1)?;
    fields.finish("the symmetry")?;
    directed(line, symmetry == "general", tally)?;
    Ok(Header {
        has_values: field != "pattern",
        symmetric: symmetry == "symmetric",
    })
}

fn directed(line: Line<'_>, is_directed: bool, tally: &mut Tally<'_>) -> Result<(), Error> {
    tally.report.directed_merged = is_directed;
    if is_directed && tally.options.directed == Policy::Refuse {
        let message =
            "expected a symmetric matrix, found `general`, and directed input is to be refused";
        return Err(line.error(ErrorKind::Policy, 1, message));
    }
    Ok(())
}

/// The next banner word, which must be one of `taken`; one of `known` gets the answer that it is not a graph.
fn word<'w>(
    fields: &mut Fields<'_>,
    taken: &[&'w str],
    known: &[&'w str],
) -> Result<&'w str, Error> {
    let one_of = taken.join("` or `");
    let field = fields.require(format_args!("`{one_of}`"))?;
    if let Some(word) = taken.iter().find(|word| is_word(field, word)) {
        return Ok(word);
    }
    let line = fields.line();
    let error = line.expected(field.column, format_args!("`{one_of}`"), Some(field.bytes));
    if known.iter().any(|word| is_word(field, word)) {
        let message = format!(
            "{}: such a matrix is not the adjacency matrix of an undirected graph",
            error.message()
        );
        return Err(line.error(ErrorKind::Unsupported, field.column, message));
    }
    Err(error)
}

fn is_word(field: Field<'_>, word: &str) -> bool {
    field.bytes.eq_ignore_ascii_case(word.as_bytes())
}

fn size(line: Line<'_>, tally: &Tally<'_>) -> Result<Counts, Error> {
    let mut fields = line.fields();
    let (n_rows, field) = fields.whole(format_args!("the number of rows"))?;
    let n = tally.header_nodes(line, field.column, n_rows)?;
    let (n_columns, field) = fields.whole(format_args!("the number of columns"))?;
    if n_columns != n_rows {
        let message = format!(
            "expected {n_rows} columns as rows, found `{n_columns}`: only a square matrix is the adjacency matrix of a graph"
        );
        return Err(line.error(ErrorKind::Unsupported, field.column, message));
    }
    tally.edge_count(fields, n, "entries")
}
