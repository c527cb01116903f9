//! The report of an import.

use std::fmt;

use serde::Serialize;

use super::format::TripleFormat;
use super::options::Literals;
use crate::RelationalGraph;

/// The most bad lines that are kept with their reasons; all are counted.
const MAX_LISTED: usize = 20;

/// A line that is no triple.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadLine {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// The byte in the line, counted from 1; 0 where none is meant.
    pub column: u64,
    /// The reason.
    pub reason: String,
}

/// Everything that an import dropped, assumed and found; its text is one line a fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// The formats, file by file.
    pub formats: Vec<TripleFormat>,
    /// The files of archives that were chosen.
    pub members: Vec<String>,
    /// The treatment of literals.
    pub literals: Literals,
    /// Files whose first line names their columns: it is no triple.
    pub header_lines: u64,
    /// Columns of theirs that are no part of a triple.
    pub columns_left_out: Vec<String>,
    /// Triples that were read, dropped ones too.
    pub triples: u64,
    /// Triples whose object is a literal.
    pub literal_triples: u64,
    /// Triples that their file had before.
    pub duplicates_dropped: u64,
    /// Edges from a node to itself, which are kept.
    pub self_loops: u64,
    /// Nodes without an edge, which only files of numbers can have.
    pub isolated_nodes: u64,
    /// Lines that are no triple.
    pub bad_lines: u64,
    /// The first of them.
    pub bad: Vec<BadLine>,
    /// Relations that were dropped for having too few edges, or by name.
    pub relations_dropped: u64,
    /// Edges that went with dropped relations.
    pub relation_edges_dropped: u64,
    /// Nodes that were pruned for lying too far from every labelled node.
    pub nodes_pruned: u64,
    /// Edges that went with pruned nodes.
    pub edges_pruned: u64,
}

impl ImportReport {
    pub(super) fn new(literals: Literals) -> ImportReport {
        ImportReport {
            literals,
            ..ImportReport::default()
        }
    }

    pub(super) fn add_file(&mut self, format: TripleFormat) {
        self.formats.push(format);
    }

    pub(super) fn add_header(&mut self, left_out: Vec<String>) {
        self.header_lines += 1;
        self.columns_left_out.extend(left_out);
    }

    pub(super) fn add_bad_line(&mut self, bad: BadLine) {
        self.bad_lines += 1;
        if self.bad.len() < MAX_LISTED {
            self.bad.push(bad);
        }
    }

    /// Counts the facts of the graph itself.
    pub(super) fn count(&mut self, graph: &RelationalGraph) {
        let is_loop = |edge: &crate::Edge| edge.source == edge.target;
        self.self_loops = graph.edges().filter(is_loop).count() as u64;
        let mut has_edge = vec![false; graph.n_nodes() as usize];
        for edge in graph.edges() {
            has_edge[edge.source as usize] = true;
            has_edge[edge.target as usize] = true;
        }
        self.isolated_nodes = has_edge.iter().filter(|&&has_edge| !has_edge).count() as u64;
    }
}

impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let formats: Vec<&str> = self.formats.iter().map(|format| format.name()).collect();
        writeln!(f, "read as {}", formats.join(", "))?;
        for member in &self.members {
            writeln!(f, "archive's file {member}")?;
        }
        if self.header_lines > 0 {
            writeln!(f, "header lines {}", self.header_lines)?;
        }
        for column in &self.columns_left_out {
            writeln!(f, "column left out {column}")?;
        }
        writeln!(f, "triples {}", self.triples)?;
        if self.literal_triples > 0 {
            let fate = match self.literals {
                Literals::Keep => "literals are nodes",
                Literals::Drop => "dropped",
            };
            writeln!(
                f,
                "triples with a literal {} ({fate})",
                self.literal_triples
            )?;
        }
        let facts = [
            ("duplicates dropped", self.duplicates_dropped),
            ("self loops kept", self.self_loops),
            ("isolated nodes", self.isolated_nodes),
            ("relations dropped", self.relations_dropped),
            ("edges dropped with them", self.relation_edges_dropped),
            ("nodes pruned", self.nodes_pruned),
            ("edges pruned with them", self.edges_pruned),
            ("bad lines left out", self.bad_lines),
        ];
        for (what, count) in facts.into_iter().filter(|&(_, count)| count > 0) {
            writeln!(f, "{what} {count}")?;
        }
        for bad in &self.bad {
            writeln!(f, "bad line {}:{}: {}", bad.file, bad.line, bad.reason)?;
        }
        Ok(())
    }
}
