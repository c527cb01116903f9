//! PACE challenge graphs: `c` comments, `p td n m`, `p vc n m` or a bare `n m`, then exactly m lines `u v`, from 1.

use super::{
    Streamed,
    lines::{Line, Lines},
    tally::Tally,
};
use crate::{Error, ErrorKind};
use shardgraph_storage::Source;

/// The problems whose files hold one undirected graph: tree decomposition, vertex cover, cluster editing, twin-width,
/// dominating set.
const PROBLEMS: [&str; 5] = ["td", "vc", "cep", "tww", "ds"];

struct Header {
    n: u32,
    n_edges: u64,
    line: u64,
}

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let header = header(&mut lines, &tally)?;
    while let Some(line) = lines.next_filled_but_comments(b'c')? {
        if tally.report.listed_edges == header.n_edges {
            let expected = format_args!("the end of the file after {} edges", header.n_edges);
            return Err(line.expected(1, expected, Some(line.bytes)));
        }
        let mut fields = line.fields();
        let u = fields.node(header.n)?;
        let v = fields.node(header.n)?;
        fields.finish("the two nodes")?;
        tally.edge(line, u, v, 1.0)?;
    }
    if tally.report.listed_edges < header.n_edges {
        let (promised, listed) = (header.n_edges, tally.report.listed_edges);
        return Err(lines.expected_at_end(format_args!("{promised} edges in all, {listed} came")));
    }
    tally.check_nodes(source.name(), header.line, header.n)?;
    Ok(tally.finish_numbered(header.n, false))
}

fn header(lines: &mut Lines<'_>, tally: &Tally<'_>) -> Result<Header, Error> {
    match lines.next_filled_but_comments(b'c')? {
        Some(line) => header_line(line, tally),
        None => {
            Err(lines.expected_at_end(format_args!("a header `p td n m`, `p vc n m` or `n m`")))
        }
    }
}

fn header_line(line: Line<'_>, tally: &Tally<'_>) -> Result<Header, Error> {
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
    let (n, field) = fields.whole(format_args!("the number of nodes"))?;
    let n = tally.header_nodes(line, field.column, n)?;
    let (n_edges, _) = fields.whole(format_args!("the number of edges"))?;
    fields.finish("the number of edges")?;
    Ok(Header {
        n,
        n_edges,
        line: line.number,
    })
}
