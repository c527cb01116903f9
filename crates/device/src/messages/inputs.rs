//! Rows `[h_source, h_target, h_edge]` for message networks that need them.

use super::{BLOCK, EdgeGraph, OP};
use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::{Arg, Buffer, Copy2d, Error, Launch};

/// Columns of the rows of nodes and of edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputWidths {
    /// Columns of a node's row.
    pub node: usize,
    /// Columns of an edge's row; may be 0.
    pub edge: usize,
}

impl InputWidths {
    /// Columns of an edge's input row.
    pub fn row(&self) -> usize {
        2 * self.node + self.edge
    }
}

impl EdgeGraph {
    /// `rows[e, :] = [nodes[source], nodes[target], edges[e]]`.
    ///
    /// # Shapes
    /// `nodes [n_nodes, node]`, `edges [n_edges, edge]`, `rows [n_edges, 2 * node + edge]`.
    /// # Errors
    /// [`crate::ErrorKind::Length`], [`crate::ErrorKind::OtherDevice`].
    pub fn edge_inputs(
        &self,
        widths: InputWidths,
        nodes: &Buffer,
        edges: &Buffer,
        rows: &mut Buffer,
    ) -> Result<(), Error> {
        check_widths(widths)?;
        check(OP, "nodes", elements(&[self.n_nodes, widths.node]), nodes)?;
        check(OP, "edges", elements(&[self.n_edges, widths.edge]), edges)?;
        check(OP, "rows", elements(&[self.n_edges, widths.row()]), rows)?;
        if let BackEnd::Host(_) = &self.device.back_end {
            let (sources, targets) = (on_host(OP, &self.sources)?, on_host(OP, &self.targets)?);
            let (nodes, edges) = (on_host(OP, nodes)?, on_host(OP, edges)?);
            let rows = on_host_mut(OP, rows)?;
            for (e, row) in rows.chunks_exact_mut(widths.row().max(1)).enumerate() {
                let node = |id: u32| &nodes[id as usize * widths.node..][..widths.node];
                row[..widths.node].copy_from_slice(node(sources[e]));
                row[widths.node..2 * widths.node].copy_from_slice(node(targets[e]));
                row[2 * widths.node..].copy_from_slice(&edges[e * widths.edge..][..widths.edge]);
            }
            return Ok(());
        }
        let args = [
            Arg::read(&self.sources),
            Arg::read(&self.targets),
            Arg::read(nodes),
            Arg::read(edges),
            Arg::u32(self.n_edges as u32),
            Arg::u32(widths.node as u32),
            Arg::u32(widths.edge as u32),
            Arg::write(rows),
        ];
        let launch = Launch::threads(self.n_edges * widths.row(), BLOCK);
        // SAFETY: one thread an element of `rows`; ends exist (checked at upload), lengths are checked above.
        unsafe { self.device.launch("edge_inputs_fwd", launch, &args) }
    }

    /// The gradients of [`EdgeGraph::edge_inputs`]: each node collects from the edges that leave and enter it.
    ///
    /// # Shapes
    /// `grad_rows` as `rows`, `grad_nodes` as `nodes`, `grad_edges` as `edges`.
    /// # Errors
    /// As [`EdgeGraph::edge_inputs`].
    /// # Determinism
    /// No atomics; a node adds the edges that leave it, then those that enter it, each in edge order.
    pub fn edge_inputs_grad(
        &self,
        widths: InputWidths,
        grad_rows: &Buffer,
        grad_nodes: &mut Buffer,
        grad_edges: &mut Buffer,
    ) -> Result<(), Error> {
        check_widths(widths)?;
        let operands = [
            ("grad_rows", [self.n_edges, widths.row()], grad_rows),
            ("grad_nodes", [self.n_nodes, widths.node], grad_nodes),
            ("grad_edges", [self.n_edges, widths.edge], grad_edges),
        ];
        for (operand, shape, buffer) in operands {
            check(OP, operand, elements(&shape), buffer)?;
        }
        let of_edges = Copy2d {
            rows: self.n_edges,
            width: widths.edge,
            source_first: 2 * widths.node,
            source_stride: widths.row(),
            target_first: 0,
            target_stride: widths.edge,
        };
        self.device.copy_2d(of_edges, grad_rows, grad_edges)?;
        if let BackEnd::Host(_) = &self.device.back_end {
            return self.host_node_inputs_grad(widths, grad_rows, grad_nodes);
        }
        let args = [
            Arg::read(self.outgoing.segments.offsets()),
            Arg::read(&self.outgoing.edges),
            Arg::read(self.incoming.segments.offsets()),
            Arg::read(&self.incoming.edges),
            Arg::read(grad_rows),
            Arg::u32(self.n_nodes as u32),
            Arg::u32(widths.node as u32),
            Arg::u32(widths.edge as u32),
            Arg::write(grad_nodes),
        ];
        let launch = Launch::threads(self.n_nodes * widths.node, BLOCK);
        // SAFETY: one thread an element of `grad_nodes`; the lists name edges that exist.
        unsafe { self.device.launch("edge_inputs_bwd", launch, &args) }
    }

    fn host_node_inputs_grad(
        &self,
        widths: InputWidths,
        grad_rows: &Buffer,
        grad_nodes: &mut Buffer,
    ) -> Result<(), Error> {
        let grad_rows = on_host(OP, grad_rows)?;
        let grad_nodes = on_host_mut(OP, grad_nodes)?;
        grad_nodes.fill(0.0);
        for (lists, first) in [(&self.outgoing, 0), (&self.incoming, widths.node)] {
            let (offsets, edges) = (
                on_host(OP, lists.segments.offsets())?,
                on_host(OP, &lists.edges)?,
            );
            for (range, sum) in offsets
                .windows(2)
                .zip(grad_nodes.chunks_exact_mut(widths.node.max(1)))
            {
                for &e in &edges[range[0] as usize..range[1] as usize] {
                    let g = &grad_rows[e as usize * widths.row() + first..][..widths.node];
                    sum.iter_mut().zip(g).for_each(|(s, &g)| *s += g);
                }
            }
        }
        Ok(())
    }
}

fn check_widths(widths: InputWidths) -> Result<(), Error> {
    if widths.node.max(widths.edge) > 1 << 24 {
        return Err(Error::invalid(
            OP,
            "node and edge widths must be at most 2^24",
        ));
    }
    Ok(())
}
