//! Message passing on the processor.

use super::{Message, NOBODY, OP, Reduce, Reduced, Upstream};
use crate::Error;
use crate::memory::on_host;

/// For each node its edges and their other ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostLists<'a> {
    pub(super) offsets: &'a [u64],
    pub(super) others: &'a [u32],
    pub(super) edges: &'a [u32],
}

impl<'a> HostLists<'a> {
    /// (other end, edge) of a node's edges.
    fn of(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let items = self.offsets[node] as usize..self.offsets[node + 1] as usize;
        let edges = self.edges[items.clone()].iter();
        self.others[items]
            .iter()
            .zip(edges)
            .map(|(&other, &edge)| (other as usize, edge as usize))
    }

    fn degree(&self, node: usize) -> u64 {
        self.offsets[node + 1] - self.offsets[node]
    }
}

/// The parts of a message, in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostMessage<'a> {
    neighbour: Option<&'a [f32]>,
    own: Option<&'a [f32]>,
    edge: Option<&'a [f32]>,
    relu: bool,
    width: usize,
}

impl<'a> HostMessage<'a> {
    pub(super) fn new(message: &Message<'a>, width: usize) -> Result<Self, Error> {
        let part = |buffer: Option<&'a crate::Buffer>| {
            let values: Option<&'a [f32]> = match buffer {
                Some(buffer) => Some(on_host(OP, buffer)?),
                None => None,
            };
            Ok::<_, Error>(values)
        };
        Ok(Self {
            neighbour: part(message.neighbour)?,
            own: part(message.own)?,
            edge: part(message.edge)?,
            relu: message.relu,
            width,
        })
    }

    /// Writes `z` of an edge.
    fn z(&self, centre: usize, other: usize, edge: usize, z: &mut [f32]) {
        z.fill(0.0);
        for (part, row) in [
            (self.neighbour, other),
            (self.own, centre),
            (self.edge, edge),
        ] {
            if let Some(part) = part {
                let row = &part[row * self.width..][..self.width];
                z.iter_mut().zip(row).for_each(|(z, &v)| *z += v);
            }
        }
    }

    /// Writes the message of an edge.
    fn make(&self, centre: usize, other: usize, edge: usize, message: &mut [f32]) {
        self.z(centre, other, edge, message);
        if self.relu {
            for z in message {
                *z = if *z <= 0.0 { 0.0 } else { *z }; // NaN stays
            }
        }
    }
}

pub(super) fn reduce(lists: HostLists<'_>, mean: bool, message: HostMessage<'_>, out: &mut [f32]) {
    out.fill(0.0);
    let mut made = vec![0.0f32; message.width];
    for (node, out) in out.chunks_exact_mut(message.width.max(1)).enumerate() {
        for (other, edge) in lists.of(node) {
            message.make(node, other, edge, &mut made);
            out.iter_mut().zip(&made).for_each(|(o, &m)| *o += m);
        }
        let degree = lists.degree(node);
        if mean && degree > 1 {
            out.iter_mut().for_each(|o| *o *= 1.0 / degree as f32);
        }
    }
}

pub(super) fn maximum(
    lists: HostLists<'_>,
    message: HostMessage<'_>,
    out: &mut [f32],
    winners: &mut [u32],
) {
    out.fill(0.0);
    winners.fill(NOBODY);
    let width = message.width.max(1);
    let mut made = vec![0.0f32; message.width];
    let rows = out
        .chunks_exact_mut(width)
        .zip(winners.chunks_exact_mut(width));
    for (node, (out, winners)) in rows.enumerate() {
        for (other, edge) in lists.of(node) {
            message.make(node, other, edge, &mut made);
            for ((best, winner), &value) in out.iter_mut().zip(&mut *winners).zip(&made) {
                let nan_first = value.is_nan() && !best.is_nan();
                if *winner == NOBODY || value > *best || nan_first {
                    (*best, *winner) = (value, edge as u32);
                }
            }
        }
    }
}

/// What a backward pass reads, in host memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backward<'a> {
    message: HostMessage<'a>,
    reduced: HostLists<'a>,
    mean: bool,
    winners: Option<&'a [u32]>,
    gradient: &'a [f32],
}

impl<'a> Backward<'a> {
    pub(super) fn new(
        message: &Message<'a>,
        upstream: &Upstream<'a>,
        reduced: &'a super::Lists,
        width: usize,
    ) -> Result<Self, Error> {
        let (mean, winners) = match upstream.kind {
            Reduced::By(reduce) => (reduce == Reduce::Mean, None),
            Reduced::Max(winners) => (false, Some(on_host(OP, winners)?)),
        };
        Ok(Self {
            message: HostMessage::new(message, width)?,
            reduced: reduced.on_host()?,
            mean,
            winners,
            gradient: on_host(OP, upstream.gradient)?,
        })
    }

    /// Writes the gradient by `z` of an edge.
    fn by_z(&self, centre: usize, other: usize, edge: usize, (g, z): (&mut [f32], &mut [f32])) {
        let row = centre * self.message.width..(centre + 1) * self.message.width;
        g.copy_from_slice(&self.gradient[row.clone()]);
        if self.mean {
            let factor = 1.0 / self.reduced.degree(centre) as f32;
            g.iter_mut().for_each(|g| *g *= factor);
        }
        if let Some(winners) = self.winners {
            for (g, &winner) in g.iter_mut().zip(&winners[row]) {
                *g = if winner as usize == edge { *g } else { 0.0 };
            }
        }
        if self.message.relu {
            self.message.z(centre, other, edge, z);
            for (g, &z) in g.iter_mut().zip(&*z) {
                *g = if z <= 0.0 { 0.0 } else { *g };
            }
        }
    }
}

pub(super) fn node_gradient(
    backward: Backward<'_>,
    lists: HostLists<'_>,
    of_own: bool,
    out: &mut [f32],
) {
    out.fill(0.0);
    let width = backward.message.width;
    let (mut g, mut z) = (vec![0.0f32; width], vec![0.0f32; width]);
    for (node, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
        for (other, edge) in lists.of(node) {
            let (centre, sender) = if of_own { (node, other) } else { (other, node) };
            backward.by_z(centre, sender, edge, (&mut g, &mut z));
            out.iter_mut().zip(&g).for_each(|(o, &g)| *o += g);
        }
    }
}

pub(super) fn edge_gradient(
    backward: Backward<'_>,
    (centres, others): (&[u32], &[u32]),
    accumulate: bool,
    out: &mut [f32],
) {
    let width = backward.message.width;
    let (mut g, mut z) = (vec![0.0f32; width], vec![0.0f32; width]);
    for (edge, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
        let (centre, other) = (centres[edge] as usize, others[edge] as usize);
        backward.by_z(centre, other, edge, (&mut g, &mut z));
        for (out, &g) in out.iter_mut().zip(&g) {
            *out = if accumulate { *out + g } else { g };
        }
    }
}
