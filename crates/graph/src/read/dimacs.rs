//! DIMACS clique, colouring and independent-set files: `c` comments, `p edge n m` or `p col n m`, then `e u v` from 1.
//!
//! Collections disagree on whether m counts an edge once or twice, and on whether both directions are listed; so exactly m,
//! 2m or m/2 lines are accepted, and the last two are reported. `n id weight` lines are counted and not used.

use super::{
    Streamed,
    fields::Fields,
    lines::{Line, Lines},
    tally::{Counts, Tally},
};
use crate::Error;
use shardgraph_storage::Source;

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let expected = format_args!("`p edge n m` or `p col n m`");
    let problem = problem(lines.require(b'c', expected)?, &tally)?;
    let most = problem.n_edges.saturating_mul(2);
    while let Some(line) = lines.next_filled_but_comments(b'c')? {
        let mut fields = line.fields();
        let expected = format_args!("a line of kind `e`, `n` or `c`");
        let kind = fields.require(expected)?;
        match kind.bytes {
            b"e" if tally.report.listed_edges == most => {
                let promised = problem.n_edges;
                let expected = format_args!("no more edges (the header counts {promised})");
                return Err(line.expected(kind.column, expected, Some(line.bytes)));
            }
            b"e" => edge(line, fields, problem.n, &mut tally)?,
            b"n" => node_value(fields, problem.n, &mut tally)?,
            other => return Err(line.expected(kind.column, expected, Some(other))),
        }
    }
    check_count(&lines, problem.n_edges, &mut tally)?;
    tally.check_nodes(source.name(), &problem)?;
    Ok(tally.finish_numbered(problem.n, false))
}

fn edge(
    line: Line<'_>,
    mut fields: Fields<'_>,
    n: u32,
    tally: &mut Tally<'_>,
) -> Result<(), Error> {
    let u = fields.node(n)?;
    let v = fields.node(n)?;
    fields.finish("the two nodes")?;
    tally.edge(line, u, v, 1.0)
}

fn node_value(mut fields: Fields<'_>, n: u32, tally: &mut Tally<'_>) -> Result<(), Error> {
    fields.node(n)?;
    fields.weight()?;
    fields.finish("the node's value")?;
    tally.report.node_values_ignored += 1;
    Ok(())
}

fn problem(line: Line<'_>, tally: &Tally<'_>) -> Result<Counts, Error> {
    let mut fields = line.fields();
    for (i, words) in [&["p"][..], &["edge", "col", "edges"]]
        .into_iter()
        .enumerate()
    {
        let expected = ["`p edge n m` or `p col n m`", "`edge` or `col`"][i];
        let field = fields.require(format_args!("{expected}"))?;
        if !words.iter().any(|word| field.bytes == word.as_bytes()) {
            return Err(line.expected(field.column, format_args!("{expected}"), Some(field.bytes)));
        }
    }
    tally.counts(fields)
}

fn check_count(lines: &Lines<'_>, promised: u64, tally: &mut Tally<'_>) -> Result<(), Error> {
    let listed = tally.report.listed_edges;
    if listed == promised {
        return Ok(());
    }
    if listed.checked_mul(2) == Some(promised) || promised.checked_mul(2) == Some(listed) {
        tally.report.header_edges_off_by_two = Some(promised);
        return Ok(());
    }
    Err(lines.expected_at_end(format_args!(
        "{promised} edges in all (or half or twice as many), {listed} came"
    )))
}
