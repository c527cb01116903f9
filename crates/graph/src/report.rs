//! Changes that a reader or writer made to the data, as numbers and as printable lines.

use crate::{Compression, Format};
use std::fmt;

/// Why a format was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatSource {
    /// The caller said so.
    Option,
    /// The file's extension.
    Extension,
    /// The file's first lines (and, for a bare `n m` header, the number of lines after it).
    #[default]
    Content,
}

/// Counts of what an import found, merged and dropped; its `Display` is the lines to print.
///
/// ```
/// use shardgraph_graph::{ReadOptions, read_bytes};
///
/// let import = read_bytes("t.el", b"1 1\n1 2\n2 1\n", &ReadOptions::default())?;
/// let printed = import.report.to_string();
/// assert!(printed.contains("self-loops dropped: 1\n"));
/// assert!(printed.contains("duplicates merged: 1\n"));
/// # Ok::<(), shardgraph_graph::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// The format that was read.
    pub format: Format,
    /// Why that one.
    pub format_source: FormatSource,
    /// Compression of the file.
    pub compression: Compression,
    /// Nodes, isolated ones included where the format can name them.
    pub n_nodes: u32,
    /// Edges as listed, self-loops and duplicates included; a METIS edge, listed in two rows, counts once.
    pub listed_edges: u64,
    /// Edges from a node to itself, dropped.
    pub self_loops_dropped: u64,
    /// Listed edges beyond the first for the same pair of nodes, in either direction. Streaming leaves this 0 for the
    /// receiver to fill.
    pub duplicates_merged: u64,
    /// Duplicates whose weight was not that of the first, which was kept. Streaming leaves this 0, as above.
    pub weight_conflicts: u64,
    /// The file declares a directed graph (a `general` matrix): directions were merged.
    pub directed_merged: bool,
    /// Entries above the diagonal of a symmetric matrix, where the format wants only those below.
    pub upper_triangle_entries: u64,
    /// Edges with weight 0, kept as edges.
    pub zero_weights: u64,
    /// True if a weight column was there and not used.
    pub weights_ignored: bool,
    /// Edge-list lines with more columns than were wanted; the rest of those lines was ignored.
    pub extra_column_lines: u64,
    /// DIMACS node-weight lines (`n id weight`) and METIS node sizes, read and not used.
    pub node_values_ignored: u64,
    /// The header's edge count, where it was twice or half of the lines (each edge counted, or listed, twice).
    pub header_edges_off_by_two: Option<u64>,
    /// The first id that is no plain integer, and its line: the reason why all ids of the file are text.
    pub first_text_id: Option<(u64, String)>,
    /// The line of an edge list that names its columns, with its text.
    pub header_line: Option<(u64, String)>,
    /// The line of an edge list that was read as an edge and looks like a header of nodes and edges, with its text.
    pub header_as_edge: Option<(u64, String)>,
    /// Columns of the first line of an edge list of integers; 0 for other files.
    pub n_columns: u64,
    /// The first line of such a list that has another number of columns, and that number.
    pub ragged_line: Option<(u64, u64)>,
    /// Which graph of the file this is, counted from 0, and how many there are; absent where a file has one.
    pub instance: Option<(usize, usize)>,
}

impl ImportReport {
    pub(crate) fn new(
        format: Format,
        format_source: FormatSource,
        compression: Compression,
    ) -> ImportReport {
        ImportReport {
            format,
            format_source,
            compression,
            ..ImportReport::default()
        }
    }

    fn format_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.format_source {
            FormatSource::Option => "as asked",
            FormatSource::Extension => "by extension",
            FormatSource::Content => "by content",
        };
        writeln!(f, "format: {} ({why}), {}", self.format, self.compression)
    }

    /// A sentence on what may have been read otherwise than it was meant.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if let Some((line, text)) = &self.header_as_edge {
            return Some(format!(
                "line {line}, `{text}`, was read as an edge and looks like a header of nodes and edges: if it is one, put `#` before it"
            ));
        }
        let n = self.n_columns;
        if let Some((line, other)) = self.ragged_line {
            return Some(format!(
                "the first line has {n} columns and line {line} has {other}, and an edge is the first two: write adjacency lists as one edge a line"
            ));
        }
        (n > 3 && n == self.listed_edges).then(|| {
            format!(
                "{n} lines of {n} columns look like an adjacency matrix, and an edge is the first two columns: write one edge a line"
            )
        })
    }

    fn id_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first_text_id {
            Some((line, id)) => writeln!(
                f,
                "node ids: text, in order of first sight (line {line} has `{id}`)"
            ),
            None => Ok(()),
        }
    }

    fn policy_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (
                "duplicates with another weight (first kept)",
                self.weight_conflicts,
            ),
            (
                "entries above the diagonal of a symmetric matrix",
                self.upper_triangle_entries,
            ),
            ("zero weights (kept as edges)", self.zero_weights),
            ("lines with ignored extra columns", self.extra_column_lines),
            ("node values ignored", self.node_values_ignored),
        ];
        for (what, count) in counts.into_iter().filter(|&(_, count)| count > 0) {
            writeln!(f, "{what}: {count}")?;
        }
        if self.directed_merged {
            writeln!(f, "directed input: merged to undirected")?;
        }
        if self.weights_ignored {
            writeln!(f, "weights: ignored")?;
        }
        if let Some(promised) = self.header_edges_off_by_two {
            let listed = self.listed_edges;
            writeln!(
                f,
                "header counts {promised} edges, {listed} lines listed: edges counted or listed twice"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.format_line(f)?;
        if let Some((index, count)) = self.instance {
            writeln!(f, "graph {index} of {count}, counted from 0")?;
        }
        if let Some((line, text)) = &self.header_line {
            writeln!(f, "header: line {line}, `{text}`, names the columns")?;
        }
        writeln!(f, "nodes: {}", self.n_nodes)?;
        writeln!(f, "edges listed: {}", self.listed_edges)?;
        writeln!(f, "self-loops dropped: {}", self.self_loops_dropped)?;
        writeln!(f, "duplicates merged: {}", self.duplicates_merged)?;
        self.policy_lines(f)?;
        self.id_line(f)
    }
}

/// Parts of a graph that a written file could not hold; its `Display` is the lines to print, none when nothing was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReport {
    /// The format that was written.
    pub format: Format,
    /// Compression of the file.
    pub compression: Compression,
    /// Nodes without edges, which an edge list cannot name.
    pub isolated_nodes_left_out: u64,
    /// True if the graph has weights that the format cannot hold.
    pub weights_left_out: bool,
    /// True if the nodes have labels other than the numbering that the format prescribes (1 to n).
    pub labels_left_out: bool,
}

impl fmt::Display for WriteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = self.format;
        if self.isolated_nodes_left_out > 0 {
            let n = self.isolated_nodes_left_out;
            writeln!(
                f,
                "isolated nodes left out ({format} cannot name them): {n}"
            )?;
        }
        if self.weights_left_out {
            writeln!(f, "weights left out ({format} has none)")?;
        }
        if self.labels_left_out {
            writeln!(f, "labels left out ({format} numbers nodes from 1)")?;
        }
        Ok(())
    }
}
