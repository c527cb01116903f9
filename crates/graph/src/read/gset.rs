//! Gset and rudy files of maximum cut: `n m`, then exactly m lines `u v weight` or `u v`, ids from 1.

use super::{Streamed, lines::Lines, tally::Tally};
use crate::Error;
use shardgraph_storage::Source;

pub(crate) fn read(source: &Source<'_>, mut tally: Tally<'_>) -> Result<Streamed, Error> {
    let mut lines = Lines::open(source)?;
    let header = lines.require(b'#', format_args!("a header `n m`"))?;
    let counts = tally.counts(header.fields())?;
    let mut has_weights = false;
    let mut has_third_column = None;
    while let Some(line) = lines.next_filled_but_comments(b'#')? {
        tally.check_more(&counts, line, "edges")?;
        let mut fields = line.fields();
        let (u, v) = (fields.node(counts.n)?, fields.node(counts.n)?);
        // The first edge says whether there are weights.
        let weight = match *has_third_column.get_or_insert(!fields.is_done()) {
            false => 1.0,
            true => fields.weight()?,
        };
        fields.finish("the weight")?;
        has_weights |= weight.to_bits() != 1f32.to_bits();
        tally.edge(line, u, v, weight)?;
    }
    tally.check_all(&counts, &lines, "edges")?;
    // A graph whose weights are all 1 is one without weights.
    let weighted = tally.weighted(has_weights);
    Ok(tally.finish_numbered(counts.n, weighted))
}
