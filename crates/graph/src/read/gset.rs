//! Gset and rudy files of maximum cut: `n m`, then exactly m lines `u v weight` or `u v`, ids from 1.

use super::{Streamed, lines::Lines, tally::Tally};
use crate::Error;
use shardgraph_storage::Source;

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let Some(line) = lines.next_filled_but_comments(b'#')? else {
        return Err(lines.expected_at_end(format_args!("a header `n m`")));
    };
    let mut fields = line.fields();
    let (n, field) = fields.whole(format_args!("the number of nodes"))?;
    let n = tally.header_nodes(line, field.column, n)?;
    let (n_edges, _) = fields.whole(format_args!("the number of edges"))?;
    fields.finish("the number of edges")?;
    let header = line.number;
    let mut has_weights = false;
    let mut has_third_column = None;
    while let Some(line) = lines.next_filled_but_comments(b'#')? {
        if tally.report.listed_edges == n_edges {
            let expected = format_args!("the end of the file after {n_edges} edges");
            return Err(line.expected(1, expected, Some(line.bytes)));
        }
        let mut fields = line.fields();
        let (u, v) = (fields.node(n)?, fields.node(n)?);
        // The first edge says whether there are weights.
        let weight = match *has_third_column.get_or_insert(!fields.is_done()) {
            false => 1.0,
            true => fields.weight()?,
        };
        fields.finish("the weight")?;
        has_weights |= weight.to_bits() != 1f32.to_bits();
        tally.edge(line, u, v, weight)?;
    }
    let listed = tally.report.listed_edges;
    if listed < n_edges {
        return Err(lines.expected_at_end(format_args!("{n_edges} edges in all, {listed} came")));
    }
    tally.check_nodes(source.name(), header, n)?;
    // A graph whose weights are all 1 is one without weights.
    tally.report.weights_ignored = has_weights && !tally.keeps_weights();
    let weighted = has_weights && tally.keeps_weights();
    Ok(tally.finish_numbered(n, weighted))
}
