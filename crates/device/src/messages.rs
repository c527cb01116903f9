//! Message passing over a directed multigraph: gather, add, relu and reduce in one pass, without a row for each edge.
//!
//! The first linear map of a message network acts on the concatenation of two nodes' and the edge's features, so it is a
//! sum of three products. Made once for each node (and once for each edge, for all rounds), they leave
//! `z_e = neighbour[u] + own[v] + edge[e]` for the edge `e` between `v` and its neighbour `u`, and the message `relu(z_e)`
//! or `z_e`; [`EdgeGraph::reduce`] adds, averages or maximises the messages of each node's incoming or outgoing edges.
//! A linear last map commutes with the sum and the mean: apply it to the result, once a node (times the number of edges
//! for the bias). Networks that need the concatenated rows, or a maximum behind another map, make them with
//! [`EdgeGraph::edge_inputs`] and reduce rows of edges ([`Message::edge`] alone).
//!
//! ```
//! use shardgraph_device::Device;
//! use shardgraph_device::messages::{Direction, EdgeGraph, Message, Reduce};
//!
//! let device = Device::host();
//! let graph = EdgeGraph::upload(&device, 3, &[0, 1], &[2, 2])?; // 0 -> 2, 1 -> 2
//! let (neighbour, own) = (device.upload(&[1.0, -5.0, 9.0])?, device.upload(&[0.0, 0.0, 3.0])?);
//! let message = Message { neighbour: Some(&neighbour), own: Some(&own), edge: None, relu: true };
//! let mut out = device.zeros(3)?;
//! graph.reduce((Direction::Incoming, Reduce::Sum), 1, &message, &mut out)?;
//! assert_eq!(device.download(&out)?, [0.0, 0.0, 4.0]);
//! # Ok::<(), shardgraph_device::Error>(())
//! ```

mod host;
mod inputs;
#[cfg(test)]
mod tests;

use crate::device::{BackEnd, check, elements};
use crate::memory::{on_host, on_host_mut};
use crate::segments::{GatherLists, Segments, check_len, check_rows};
use crate::{Arg, Buffer, Device, Error, Launch};

pub use inputs::InputWidths;

/// Threads of a block: what the kernels declare.
const BLOCK: u32 = 256;

const OP: &str = "messages";

/// The winner of a node without edges.
pub const NOBODY: u32 = u32::MAX;

/// A directed multigraph in device memory, with the edges that enter and that leave each node.
#[derive(Debug)]
pub struct EdgeGraph {
    device: Device,
    n_nodes: usize,
    n_edges: usize,
    sources: Buffer<u32>,
    targets: Buffer<u32>,
    incoming: Lists,
    outgoing: Lists,
    /// What kernels are given for a part that is absent.
    nothing: Buffer,
}

/// For each node some of its edges, in edge order, and their other ends.
#[derive(Debug)]
struct Lists {
    segments: Segments,
    others: Buffer<u32>,
    edges: Buffer<u32>,
}

/// Which edges of a node bring it messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Those that enter it: the neighbour is the source.
    Incoming,
    /// Those that leave it: the neighbour is the target.
    Outgoing,
}

/// How the messages of a node become one row; no messages become zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
}

/// The parts of a message; what is absent counts 0.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// `[n_nodes, width]`, read at the node that sends.
    pub neighbour: Option<&'a Buffer>,
    /// `[n_nodes, width]`, read at the node that collects.
    pub own: Option<&'a Buffer>,
    /// `[n_edges, width]`.
    pub edge: Option<&'a Buffer>,
    /// Whether the sum goes through a relu.
    pub relu: bool,
}

/// How messages were reduced, and the gradient of the result: what the backward passes start from.
#[derive(Debug, Clone, Copy)]
pub struct Upstream<'a> {
    /// The edges that were reduced.
    pub direction: Direction,
    /// How they were reduced.
    pub kind: Reduced<'a>,
    /// `[n_nodes, width]`.
    pub gradient: &'a Buffer,
}

/// A finished reduction, as its backward pass needs it.
#[derive(Debug, Clone, Copy)]
pub enum Reduced<'a> {
    /// By [`EdgeGraph::reduce`].
    By(Reduce),
    /// By [`EdgeGraph::maximum`], with the winners that it found.
    Max(&'a Buffer<u32>),
}

impl EdgeGraph {
    /// The graph with the edges `sources[e] -> targets[e]`; loops and parallel edges are edges like others.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Length`] unless both ends have one length, [`crate::ErrorKind::Index`] for a node that does
    /// not exist, [`crate::ErrorKind::Invalid`] for 2^32 - 1 nodes or edges or more; what uploads fail with.
    pub fn upload(
        device: &Device,
        n_nodes: usize,
        sources: &[u32],
        targets: &[u32],
    ) -> Result<Self, Error> {
        check_len(OP, "targets", sources.len(), targets.len())?;
        check_rows(OP, sources, n_nodes)?;
        check_rows(OP, targets, n_nodes)?;
        if n_nodes.max(sources.len()) >= u32::MAX as usize {
            return Err(Error::invalid(OP, "fewer than 2^32 - 1 nodes and edges"));
        }
        Ok(Self {
            device: device.clone(),
            n_nodes,
            n_edges: sources.len(),
            sources: device.upload(sources)?,
            targets: device.upload(targets)?,
            incoming: Lists::upload(device, n_nodes, targets, sources)?,
            outgoing: Lists::upload(device, n_nodes, sources, targets)?,
            nothing: device.zeros(0)?,
        })
    }

    /// The number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.n_nodes
    }

    /// The number of edges.
    pub fn n_edges(&self) -> usize {
        self.n_edges
    }

    /// `out[v, :]` = the sum or mean of the messages of the edges of `v`.
    ///
    /// # Shapes
    /// `out [n_nodes, width]`; the parts as in [`Message`].
    /// # Errors
    /// [`crate::ErrorKind::Length`], [`crate::ErrorKind::OtherDevice`].
    /// # Complexity
    /// For each edge, reads `4 * width` B of each of `neighbour` and `edge` that is present and 8 B of lists; writes
    /// `4 * width` B a node. Nothing of the size edges times width is written.
    /// # Determinism
    /// No atomics; a node's bits depend on its own edges only, taken in edge order.
    /// # Source
    /// Paliwal et al., "Reinforced genetic algorithm learning for optimizing computation graphs" (2020), equation 1.
    pub fn reduce(
        &self,
        (direction, reduce): (Direction, Reduce),
        width: usize,
        message: &Message<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_message(message, width)?;
        check(OP, "out", elements(&[self.n_nodes, width]), out)?;
        let lists = self.lists(direction);
        if let BackEnd::Host(_) = &self.device.back_end {
            let message = host::HostMessage::new(message, width)?;
            let lists = lists.on_host()?;
            host::reduce(
                lists,
                reduce == Reduce::Mean,
                message,
                on_host_mut(OP, out)?,
            );
            return Ok(());
        }
        let mut args = self.operands(lists, message);
        args.extend([
            Arg::u32((reduce == Reduce::Mean).into()),
            Arg::u32(self.n_nodes as u32),
            Arg::u32(width as u32),
            Arg::write(out),
        ]);
        // SAFETY: the lists name nodes and edges that exist; the parts and the result have their lengths (checked).
        unsafe {
            self.device
                .launch("message_sum_fwd", self.warps(width), &args)
        }
    }

    /// `out[v, :]` = the largest message of the edges of `v`, column by column, and the edge that it came from (the
    /// first among equals, [`NOBODY`] for a node without edges, whose row is 0). A NaN wins.
    ///
    /// # Shapes
    /// `out` and `winners` `[n_nodes, width]`.
    /// # Errors
    /// As [`EdgeGraph::reduce`], whose work and determinism it shares.
    pub fn maximum(
        &self,
        direction: Direction,
        width: usize,
        message: &Message<'_>,
        out: &mut Buffer,
        winners: &mut Buffer<u32>,
    ) -> Result<(), Error> {
        self.check_message(message, width)?;
        check(OP, "out", elements(&[self.n_nodes, width]), out)?;
        check(OP, "winners", elements(&[self.n_nodes, width]), winners)?;
        let lists = self.lists(direction);
        if let BackEnd::Host(_) = &self.device.back_end {
            let message = host::HostMessage::new(message, width)?;
            let (out, winners) = (on_host_mut(OP, out)?, on_host_mut(OP, winners)?);
            host::maximum(lists.on_host()?, message, out, winners);
            return Ok(());
        }
        let mut args = self.operands(lists, message);
        args.extend([
            Arg::u32(self.n_nodes as u32),
            Arg::u32(width as u32),
            Arg::write(out),
            Arg::write(winners),
        ]);
        // SAFETY: as in `reduce`; winners have a place for each element of the result.
        unsafe {
            self.device
                .launch("message_max_fwd", self.warps(width), &args)
        }
    }

    /// The gradient of a reduction by [`Message::own`].
    ///
    /// # Shapes
    /// `grad [n_nodes, width]`; `message` as the reduction had it.
    /// # Errors
    /// As [`EdgeGraph::reduce`].
    /// # Determinism
    /// As [`EdgeGraph::reduce`]; messages are made again, not stored.
    pub fn own_grad(
        &self,
        upstream: &Upstream<'_>,
        width: usize,
        message: &Message<'_>,
        grad: &mut Buffer,
    ) -> Result<(), Error> {
        let lists = self.lists(upstream.direction);
        self.node_grad(lists, true, upstream, width, message, grad)
    }

    /// The gradient of a reduction by [`Message::neighbour`].
    ///
    /// # Errors
    /// As [`EdgeGraph::own_grad`], whose shapes and determinism it shares.
    pub fn neighbour_grad(
        &self,
        upstream: &Upstream<'_>,
        width: usize,
        message: &Message<'_>,
        grad: &mut Buffer,
    ) -> Result<(), Error> {
        let lists = self.lists(upstream.direction.opposite());
        self.node_grad(lists, false, upstream, width, message, grad)
    }

    /// The gradient of a reduction by [`Message::edge`]; with `accumulate` it is added to what stands in `grad`, as rounds
    /// that share their edge features need it.
    ///
    /// # Shapes
    /// `grad [n_edges, width]`.
    /// # Errors
    /// As [`EdgeGraph::own_grad`], whose determinism it shares.
    pub fn edge_grad(
        &self,
        upstream: &Upstream<'_>,
        width: usize,
        message: &Message<'_>,
        accumulate: bool,
        grad: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_upstream(upstream, width, message)?;
        check(OP, "grad", elements(&[self.n_edges, width]), grad)?;
        let (centres, others) = match upstream.direction {
            Direction::Incoming => (&self.targets, &self.sources),
            Direction::Outgoing => (&self.sources, &self.targets),
        };
        let reduced = self.lists(upstream.direction);
        if let BackEnd::Host(_) = &self.device.back_end {
            let backward = host::Backward::new(message, upstream, reduced, width)?;
            let ends = (on_host(OP, centres)?, on_host(OP, others)?);
            host::edge_gradient(backward, ends, accumulate, on_host_mut(OP, grad)?);
            return Ok(());
        }
        let mut args = vec![Arg::read(centres), Arg::read(others)];
        args.push(Arg::read(reduced.segments.offsets()));
        args.extend(self.parts(message));
        args.extend(upstream.args(&self.sources));
        args.extend([
            Arg::u32(self.n_edges as u32),
            Arg::u32(width as u32),
            Arg::u32(accumulate.into()),
            Arg::write(grad),
        ]);
        let launch = Launch::threads(self.n_edges * width, BLOCK);
        // SAFETY: as in `reduce`; one thread an element of the gradient.
        unsafe { self.device.launch("message_edge_bwd", launch, &args) }
    }

    /// Over the reduced lists the gradient by `own`, over those of the other direction the gradient by `neighbour`.
    fn node_grad(
        &self,
        lists: &Lists,
        of_own: bool,
        upstream: &Upstream<'_>,
        width: usize,
        message: &Message<'_>,
        grad: &mut Buffer,
    ) -> Result<(), Error> {
        self.check_upstream(upstream, width, message)?;
        check(OP, "grad", elements(&[self.n_nodes, width]), grad)?;
        let reduced = self.lists(upstream.direction);
        if let BackEnd::Host(_) = &self.device.back_end {
            let backward = host::Backward::new(message, upstream, reduced, width)?;
            host::node_gradient(backward, lists.on_host()?, of_own, on_host_mut(OP, grad)?);
            return Ok(());
        }
        let mut args = lists.args();
        args.push(Arg::read(reduced.segments.offsets()));
        args.extend(self.parts(message));
        args.extend(upstream.args(&self.sources));
        args.extend([
            Arg::u32(of_own.into()),
            Arg::u32(self.n_nodes as u32),
            Arg::u32(width as u32),
            Arg::write(grad),
        ]);
        // SAFETY: as in `reduce`.
        unsafe {
            self.device
                .launch("message_node_bwd", self.warps(width), &args)
        }
    }

    fn lists(&self, direction: Direction) -> &Lists {
        match direction {
            Direction::Incoming => &self.incoming,
            Direction::Outgoing => &self.outgoing,
        }
    }

    fn check_message(&self, message: &Message<'_>, width: usize) -> Result<(), Error> {
        if width > u32::MAX as usize {
            return Err(Error::invalid(OP, "width must be below 2^32"));
        }
        let (of_nodes, of_edges) = (self.n_nodes * width, self.n_edges * width);
        for (part, name, len) in [
            (message.neighbour, "neighbour", of_nodes),
            (message.own, "own", of_nodes),
            (message.edge, "edge", of_edges),
        ] {
            part.map_or(Ok(()), |buffer| check(OP, name, len, buffer))?;
        }
        Ok(())
    }

    fn check_upstream(
        &self,
        upstream: &Upstream<'_>,
        width: usize,
        message: &Message<'_>,
    ) -> Result<(), Error> {
        self.check_message(message, width)?;
        check(
            OP,
            "gradient",
            elements(&[self.n_nodes, width]),
            upstream.gradient,
        )?;
        match upstream.kind {
            Reduced::By(_) => Ok(()),
            Reduced::Max(winners) => {
                check(OP, "winners", elements(&[self.n_nodes, width]), winners)
            }
        }
    }

    fn operands<'a>(&'a self, lists: &'a Lists, message: &Message<'a>) -> Vec<Arg<'a>> {
        let mut args = lists.args();
        args.extend(self.parts(message));
        args
    }

    /// Three pointers and which of them are there.
    fn parts<'a>(&'a self, message: &Message<'a>) -> [Arg<'a>; 4] {
        let Message {
            neighbour,
            own,
            edge,
            relu,
        } = *message;
        let flags = [neighbour.is_some(), own.is_some(), edge.is_some(), relu];
        let flags = flags
            .iter()
            .rev()
            .fold(0, |sum, &flag| 2 * sum + u32::from(flag));
        let [neighbour, own, edge] =
            [neighbour, own, edge].map(|part| Arg::read(part.unwrap_or(&self.nothing)));
        [neighbour, own, edge, Arg::u32(flags)]
    }

    /// A warp for each node; nothing for rows without columns.
    fn warps(&self, width: usize) -> Launch {
        let n_warps = if width > 0 { self.n_nodes } else { 0 };
        Launch::blocks(n_warps.div_ceil(BLOCK as usize / 32), BLOCK)
    }
}

impl Lists {
    /// For each of `n_nodes` the edges whose end in `centres` it is.
    fn upload(
        device: &Device,
        n_nodes: usize,
        centres: &[u32],
        others: &[u32],
    ) -> Result<Self, Error> {
        let of_edges = GatherLists {
            offsets: (0..=centres.len() as u64).collect(),
            index: centres.to_vec(),
            weights: None,
        };
        let of_nodes = of_edges.transpose(n_nodes);
        let ends: Vec<u32> = of_nodes.index.iter().map(|&e| others[e as usize]).collect();
        Ok(Self {
            segments: Segments::upload(device, &of_nodes.offsets)?,
            others: device.upload(&ends)?,
            edges: device.upload(&of_nodes.index)?,
        })
    }

    fn args(&self) -> Vec<Arg<'_>> {
        let offsets = Arg::read(self.segments.offsets());
        vec![offsets, Arg::read(&self.others), Arg::read(&self.edges)]
    }

    fn on_host(&self) -> Result<host::HostLists<'_>, Error> {
        Ok(host::HostLists {
            offsets: on_host(OP, self.segments.offsets())?,
            others: on_host(OP, &self.others)?,
            edges: on_host(OP, &self.edges)?,
        })
    }
}

impl Direction {
    /// The other direction.
    pub fn opposite(self) -> Self {
        match self {
            Self::Incoming => Self::Outgoing,
            Self::Outgoing => Self::Incoming,
        }
    }
}

impl<'a> Upstream<'a> {
    /// Kind, winners (`unread` where there are none) and gradient.
    fn args(&self, unread: &'a Buffer<u32>) -> [Arg<'a>; 3] {
        let (kind, winners) = match self.kind {
            Reduced::By(Reduce::Sum) => (0, unread),
            Reduced::By(Reduce::Mean) => (1, unread),
            Reduced::Max(winners) => (2, winners),
        };
        [Arg::u32(kind), Arg::read(winners), Arg::read(self.gradient)]
    }
}
