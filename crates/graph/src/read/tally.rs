//! Between every reader and its sink: applies the policies, counts, and gives the sink's errors a place.

use super::{
    Policy, ReadOptions, Streamed, WeightPolicy,
    fields::Fields,
    lines::{Line, Lines},
};
use crate::{EdgeSink, Error, ErrorKind, ImportReport, Labels, MAX_NODES};

/// Nodes that a header may promise without showing an edge.
const FREE_NODES: u64 = 1 << 22;
/// Further nodes that a header may promise for each listed edge.
const NODES_PER_EDGE: u64 = 64;

/// Counts that a header promises.
pub(crate) struct Counts {
    pub(crate) n: u32,
    pub(crate) n_edges: u64,
    /// Line of the header.
    line: u64,
}

pub(crate) struct Tally<'a> {
    sink: &'a mut dyn EdgeSink,
    pub(crate) options: &'a ReadOptions,
    pub(crate) report: ImportReport,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(
        sink: &'a mut dyn EdgeSink,
        options: &'a ReadOptions,
        report: ImportReport,
    ) -> Tally<'a> {
        Tally {
            sink,
            options,
            report,
        }
    }

    pub(crate) fn keeps_weights(&self) -> bool {
        self.options.weights != WeightPolicy::Ignore
    }

    /// Whether weights that the file has are kept; the report says so where they are not.
    pub(crate) fn weighted(&mut self, has_weights: bool) -> bool {
        let weighted = has_weights && self.keeps_weights();
        self.report.weights_ignored = has_weights && !weighted;
        weighted
    }

    /// Passes one listed edge on, unless it is a self-loop.
    pub(crate) fn edge(
        &mut self,
        line: Line<'_>,
        u: u32,
        v: u32,
        weight: f32,
    ) -> Result<(), Error> {
        self.report.listed_edges += 1;
        if u == v {
            return self.self_loop(line);
        }
        self.report.zero_weights += u64::from(weight.to_bits() << 1 == 0);
        self.sink
            .edge(u, v, weight)
            .map_err(|error| error.or_at(line.file, line.number, 0))
    }

    /// Counts one listed edge that goes past this to its sink.
    pub(crate) fn named(
        &mut self,
        line: Line<'_>,
        is_loop: bool,
        weight: f32,
    ) -> Result<(), Error> {
        self.report.listed_edges += 1;
        if is_loop {
            return self.self_loop(line);
        }
        self.report.zero_weights += u64::from(weight.to_bits() << 1 == 0);
        Ok(())
    }

    #[cold]
    fn self_loop(&mut self, line: Line<'_>) -> Result<(), Error> {
        self.report.self_loops_dropped += 1;
        match self.options.self_loops {
            Policy::Report => Ok(()),
            Policy::Refuse => {
                let message =
                    "expected two different nodes, found a self-loop, and those are to be refused";
                Err(line.error(ErrorKind::Policy, 1, message))
            }
        }
    }

    /// Checks a header's node count as far as it can be before the edges are read.
    pub(crate) fn header_nodes(&self, line: Line<'_>, column: u64, n: u64) -> Result<u32, Error> {
        let limit = self.options.max_nodes.unwrap_or(MAX_NODES).min(MAX_NODES);
        if n > u64::from(limit) {
            let message = format!("expected a node count of at most {limit}, found `{n}`");
            return Err(line.error(ErrorKind::TooLarge, column, message));
        }
        Ok(n as u32)
    }

    /// The rest of a header: `n m`.
    pub(crate) fn counts(&self, mut fields: Fields<'_>) -> Result<Counts, Error> {
        let line = fields.line();
        let (n, field) = fields.whole(format_args!("the number of nodes"))?;
        let n = self.header_nodes(line, field.column, n)?;
        self.edge_count(fields, n, "edges")
    }

    /// The end of a header of `n` nodes: the number of edges, which the file calls so.
    pub(crate) fn edge_count(
        &self,
        mut fields: Fields<'_>,
        n: u32,
        edges: &str,
    ) -> Result<Counts, Error> {
        let (n_edges, _) = fields.whole(format_args!("the number of {edges}"))?;
        let line = fields.line().number;
        fields.finish(&format!("the number of {edges}"))?;
        Ok(Counts { n, n_edges, line })
    }

    /// Refuses a line behind the last edge that the header counts.
    pub(crate) fn check_more(
        &self,
        counts: &Counts,
        line: Line<'_>,
        edges: &str,
    ) -> Result<(), Error> {
        if self.report.listed_edges < counts.n_edges {
            return Ok(());
        }
        let expected = format_args!("the end of the file after {} {edges}", counts.n_edges);
        Err(line.expected(1, expected, Some(line.bytes)))
    }

    /// All edges that the header counts have come, and its nodes are plausible for them.
    pub(crate) fn check_all(
        &self,
        counts: &Counts,
        lines: &Lines<'_>,
        edges: &str,
    ) -> Result<(), Error> {
        let (promised, listed) = (counts.n_edges, self.report.listed_edges);
        if listed < promised {
            let expected = format_args!("{promised} {edges} in all, {listed} came");
            return Err(lines.expected_at_end(expected));
        }
        self.check_nodes(lines.file(), counts)
    }

    /// True if a header's node count is plausible for the edges that came after it.
    pub(crate) fn check_nodes(&self, file: &str, counts: &Counts) -> Result<(), Error> {
        let Counts { n, line, .. } = *counts;
        let n_edges = self.report.listed_edges;
        let plausible = FREE_NODES.saturating_add(n_edges.saturating_mul(NODES_PER_EDGE));
        if self.options.max_nodes.is_some() || u64::from(n) <= plausible {
            return Ok(());
        }
        let message = format!(
            "the header promises {n} nodes, but only {n_edges} edges follow: if that is right, allow so many (`max_nodes`; --max-nodes of the program)"
        );
        Err(Error::new(ErrorKind::TooLarge, message).or_at(file, line, 1))
    }

    /// The end of a stream whose file numbers its nodes from 1.
    pub(crate) fn finish_numbered(self, n_nodes: u32, weighted: bool) -> Streamed {
        self.finish(n_nodes, weighted, Labels::offset(1, n_nodes))
    }

    pub(crate) fn finish(mut self, n_nodes: u32, weighted: bool, labels: Labels) -> Streamed {
        self.report.n_nodes = n_nodes;
        Streamed {
            n_nodes,
            weighted,
            labels,
            report: self.report,
            node_weights: None,
        }
    }
}
