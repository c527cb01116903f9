//! PACE challenge graphs: `c` comments, `p td n m`, `p vc n m` or a bare `n m`, then exactly m lines `u v`, from 1.

use super::{
    Streamed,
    lines::{Line, Lines},
    tally::{Counts, Tally},
};
use crate::{Error, ErrorKind};
use shardgraph_storage::Source;

/// The problems whose files hold one undirected graph: tree decomposition, vertex cover, cluster editing, twin-width,
/// dominating set.
const PROBLEMS: [&str; 5] = ["td", "vc", "cep", "tww", "ds"];

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let expected = format_args!("a header `p td n m`, `p vc n m` or `n m`");
    let counts = header(lines.require(b'c', expected)?, &tally)?;
    while let Some(line) = lines.next_filled_but_comments(b'c')? {
        tally.check_more(&counts, line, "edges")?;
        let mut fields = line.fields();
        let (u, v) = (fields.node(counts.n)?, fields.node(counts.n)?);
        fields.finish("the two nodes")?;
        tally.edge(line, u, v, 1.0)?;
    }
    tally.check_all(&counts, &lines, "edges")?;
    Ok(tally.finish_numbered(counts.n, false))
}

fn header(line: Line<'_>, tally: &Tally<'_>) -> Result<Counts, Error> {
    let mut fields = line.fields();
    if line.first() == Some(b'p') {
        let expected = format_args!("a header `p td n m` or `p vc n m`");
        let tag = fields.require(expected)?;
        if tag.bytes != b"p" {
            return Err(line.expected(tag.column, expected, Some(tag.bytes)));
        }
        let problem = fields.require(expected)?;
        if !PROBLEMS.iter().any(|name| problem.bytes == name.as_bytes()) {
            let message = line.expected(problem.column, expected, Some(problem.bytes));
            let message = format!(
                "{}: other problems' files are no plain undirected graphs",
                message.message()
            );
            return Err(line.error(ErrorKind::Unsupported, problem.column, message));
        }
    }
    tally.counts(fields)
}
