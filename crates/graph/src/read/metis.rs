//! METIS adjacency files: a header `n m [fmt [ncon]]`, then one line for each node with its neighbours, from 1.
//!
//! `%` lines are comments; an empty line is an isolated node. The digits of `fmt` say, from the right, whether edges have
//! weights, whether nodes have `ncon` of them, and whether nodes have a size in front. Every edge stands in both rows: a row
//! is compared, by count and hash, with the earlier rows that name its node, and only when they differ is the file read
//! again to name the neighbour. Lines are counted first, so that no array is longer than the file.

use super::{
    NodeWeights, Streamed,
    fields::Fields,
    lines::{Line, Lines},
    tally::Tally,
};
use shardgraph_random::mix;
use shardgraph_storage::Source;

use crate::{Error, ErrorKind};

struct Header {
    n: u32,
    n_edges: u64,
    edges_column: u64,
    line: u64,
    has_sizes: bool,
    n_node_weights: u32,
    has_edge_weights: bool,
}

/// Parts of a METIS file beside its edges, until it joins the tally's result.
pub(crate) struct Rows {
    n: u32,
    weighted: bool,
    node_weights: Option<NodeWeights>,
}

impl Rows {
    pub(crate) fn attach(self, tally: Tally<'_>) -> Streamed {
        Streamed {
            node_weights: self.node_weights,
            ..tally.finish_numbered(self.n, self.weighted)
        }
    }
}

/// Count and hash of the rows that named a node so far: equal for both sides of a symmetric file.
#[derive(Clone, Copy, Default, PartialEq)]
struct Mentions {
    n: u32,
    hash: u64,
}

impl Mentions {
    fn add(&mut self, v: u32, weight: f32) {
        self.n = self.n.wrapping_add(1);
        let key = u64::from(v) | u64::from(weight.to_bits()) << 32;
        self.hash = self.hash.wrapping_add(mix(key));
    }
}

pub(crate) fn read(source: &Source<'_>, tally: &mut Tally<'_>) -> Result<Rows, Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    let expected = format_args!("a header `n m [fmt [ncon]]`");
    let header = header(lines.require(b'%', expected)?, tally)?;
    count_rows(source, &header)?;
    let mut mentions = vec![Mentions::default(); header.n as usize];
    let mut node_weights = Vec::new();
    for u in 0..header.n {
        let Some(line) = next_row(&mut lines)? else {
            return Err(missing_row(&lines, u, header.n));
        };
        let mut fields = line.fields();
        node_values(&mut fields, &header, &mut node_weights, tally)?;
        let earlier = row(line, fields, u, &header, &mut mentions, tally)?;
        if earlier != mentions[u as usize] {
            return Err(name_one_sided_edge(source, &header, u)?);
        }
    }
    check_end(&mut lines, &header, tally)?;
    Ok(Rows {
        n: header.n,
        weighted: tally.weighted(header.has_edge_weights),
        node_weights: (header.n_node_weights > 0).then_some(NodeWeights {
            n_per_node: header.n_node_weights,
            values: node_weights,
        }),
    })
}

/// Reads row `u`: passes on the edges to later nodes and returns the mentions of earlier ones.
fn row(
    line: Line<'_>,
    mut fields: Fields<'_>,
    u: u32,
    header: &Header,
    mentions: &mut [Mentions],
    tally: &mut Tally<'_>,
) -> Result<Mentions, Error> {
    let mut earlier = Mentions::default();
    while !fields.is_done() {
        let (v, weight) = neighbour(&mut fields, header)?;
        if v < u {
            earlier.add(v, weight);
            continue;
        }
        if v > u {
            mentions[v as usize].add(u, weight);
        }
        let weight = if tally.keeps_weights() { weight } else { 1.0 };
        tally.edge(line, u, v, weight)?;
    }
    Ok(earlier)
}

fn neighbour(fields: &mut Fields<'_>, header: &Header) -> Result<(u32, f32), Error> {
    let v = fields.node(header.n)?;
    let weight = if header.has_edge_weights {
        fields.weight()?
    } else {
        1.0
    };
    Ok((v, weight))
}

fn node_values(
    fields: &mut Fields<'_>,
    header: &Header,
    node_weights: &mut Vec<f32>,
    tally: &mut Tally<'_>,
) -> Result<(), Error> {
    if header.has_sizes {
        fields.weight()?;
        tally.report.node_values_ignored += 1;
    }
    for _ in 0..header.n_node_weights {
        node_weights.push(fields.weight()?);
    }
    Ok(())
}

/// The next line that is no comment; blank lines are rows.
fn next_row<'l>(lines: &'l mut Lines<'_>) -> Result<Option<Line<'l>>, Error> {
    lines.next_but_comments(b'%')
}

fn missing_row(lines: &Lines<'_>, n_read: u32, n: u32) -> Error {
    lines.expected_at_end(format_args!("{n} rows, one for each node, {n_read} came"))
}

/// Nothing but blank lines may follow the rows, and they must hold as many edges as the header says.
fn check_end(lines: &mut Lines<'_>, header: &Header, tally: &Tally<'_>) -> Result<(), Error> {
    while let Some(line) = next_row(lines)? {
        if !line.is_blank() {
            let expected = format_args!("the end of the file after {} rows", header.n);
            return Err(line.expected(1, expected, Some(line.bytes)));
        }
    }
    let n_edges = tally.report.listed_edges - tally.report.self_loops_dropped;
    if n_edges != header.n_edges {
        let message = format!(
            "expected {n_edges} edges as the rows have (each counted once), found `{}`",
            header.n_edges
        );
        return Err(lines.error_at(
            header.line,
            header.edges_column,
            ErrorKind::OutOfRange,
            message,
        ));
    }
    Ok(())
}

/// A first look that the rows are there, before anything of their number is allocated.
fn count_rows(source: &Source<'_>, header: &Header) -> Result<(), Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    lines.next_filled_but_comments(b'%')?;
    for n_rows in 0..header.n {
        if next_row(&mut lines)?.is_none() {
            return Err(missing_row(&lines, n_rows, header.n));
        }
    }
    Ok(())
}

fn header(line: Line<'_>, tally: &Tally<'_>) -> Result<Header, Error> {
    let mut fields = line.fields();
    let (n, field) = fields.whole(format_args!("the number of nodes"))?;
    let n = tally.header_nodes(line, field.column, n)?;
    let (n_edges, field) = fields.whole(format_args!("the number of edges"))?;
    let fmt = fmt_digits(line, &mut fields)?;
    let mut n_node_weights = u32::from(fmt[1]);
    if !fields.is_done() {
        n_node_weights = node_weight_count(line, &mut fields, fmt[1])?;
    }
    fields.finish("the header")?;
    Ok(Header {
        n,
        n_edges,
        edges_column: field.column,
        line: line.number,
        has_sizes: fmt[0],
        n_node_weights,
        has_edge_weights: fmt[2],
    })
}

/// `fmt` as three switches: node sizes, node weights, edge weights.
fn fmt_digits(line: Line<'_>, fields: &mut Fields<'_>) -> Result<[bool; 3], Error> {
    let mut switches = [false; 3];
    let Some(field) = fields.next() else {
        return Ok(switches);
    };
    let is_fmt = field.bytes.len() <= 3 && field.bytes.iter().all(|digit| b"01".contains(digit));
    if !is_fmt {
        let expected =
            format_args!("up to three digits 0 or 1 (node sizes, node weights, edge weights)");
        return Err(line.expected(field.column, expected, Some(field.bytes)));
    }
    for (switch, &digit) in switches.iter_mut().rev().zip(field.bytes.iter().rev()) {
        *switch = digit == b'1';
    }
    Ok(switches)
}

fn node_weight_count(line: Line<'_>, fields: &mut Fields<'_>, used: bool) -> Result<u32, Error> {
    const MOST: u64 = 1024;
    let (count, field) = fields.whole(format_args!("the number of weights per node"))?;
    match (used, count) {
        (true, 1..=MOST) => Ok(count as u32),
        (false, 0 | 1) => Ok(0),
        _ => {
            let expected = match used {
                true => format_args!("from 1 to {MOST} weights per node"),
                false => format_args!("no weights per node (the second digit of fmt is 0)"),
            };
            Err(line.expected(field.column, expected, Some(field.bytes)))
        }
    }
}

/// Reads again up to row `u`, whose earlier neighbours differ from the rows that name it, and says which.
fn name_one_sided_edge(source: &Source<'_>, header: &Header, u: u32) -> Result<Error, Error> {
    let mut lines = Lines::open(source)?.with_long_rows();
    lines.next_filled_but_comments(b'%')?;
    let mut named_by = Vec::new();
    for v in 0..header.n {
        let Some(line) = next_row(&mut lines)? else {
            break;
        };
        let mut fields = line.fields();
        skip_node_values(&mut fields, header)?;
        let mut row = Vec::new();
        while !fields.is_done() {
            let column = fields.next_column();
            let (w, weight) = neighbour(&mut fields, header)?;
            if v < u && w == u {
                named_by.push((v, weight.to_bits(), line.number));
            } else if v == u && w < u {
                row.push((w, weight.to_bits(), column));
            }
        }
        if v == u {
            return Ok(one_sided(line, u, named_by, row));
        }
    }
    Ok(missing_row(&lines, u, header.n))
}

fn skip_node_values(fields: &mut Fields<'_>, header: &Header) -> Result<(), Error> {
    for _ in 0..u32::from(header.has_sizes) + header.n_node_weights {
        fields.weight()?;
    }
    Ok(())
}

/// The first neighbour that only one of the two rows has; `named_by` holds lines, `row` columns.
fn one_sided(
    line: Line<'_>,
    u: u32,
    mut named_by: Vec<(u32, u32, u64)>,
    mut row: Vec<(u32, u32, u64)>,
) -> Error {
    row.sort_unstable();
    named_by.sort_unstable();
    let mut common = 0;
    let key = |entry: &(u32, u32, u64)| (entry.0, entry.1);
    while common < row.len()
        && common < named_by.len()
        && key(&row[common]) == key(&named_by[common])
    {
        common += 1;
    }
    let in_row = row.get(common);
    let in_other = named_by.get(common);
    let lacks_it = in_row.is_none_or(|a| in_other.is_some_and(|b| key(b) < key(a)));
    let id = u + 1;
    if let (true, Some(&(v, _, named_at))) = (lacks_it, in_other) {
        let message = format!(
            "expected neighbour {} in the row of node {id} (line {named_at} lists the edge, with its weight if any): each edge stands in both rows",
            v + 1
        );
        return line.error(ErrorKind::Syntax, 1, message);
    }
    let (v, _, column) = in_row.copied().unwrap_or_default();
    let message = format!(
        "expected no neighbour {} (or not so often, or with another weight), as its own row does not list node {id} so: each edge stands in both rows",
        v + 1
    );
    line.error(ErrorKind::Syntax, column, message)
}
