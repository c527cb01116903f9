//! Between every reader and its sink: applies the policies, counts, and gives the sink's errors a place.

use super::{Policy, ReadOptions, Streamed, WeightPolicy, lines::Line};
use crate::{EdgeSink, Error, ErrorKind, ImportReport, Labels, MAX_NODES};

/// Nodes that a header may promise without showing an edge.
const FREE_NODES: u64 = 1 << 22;
/// Further nodes that a header may promise for each listed edge.
const NODES_PER_EDGE: u64 = 64;

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

    /// True if a header's node count is plausible for the edges that came after it.
    pub(crate) fn check_nodes(&self, file: &str, line: u64, n: u32) -> Result<(), Error> {
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
