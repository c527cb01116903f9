//! Neighbour sums of a batch where ranks have blocks with columns of their own ([`BlockShard`]): rows out and in, the product, parts of sums
//! to their owners.
//!
//! Rows travel by row numbers that are found once a batch. A masked node's row becomes zeros where it is read, and a sum is
//! multiplied by its mask and scale where it arrives, as the product over whole rows has it.
//!
//! [`BlockShard`]: shardgraph_shard::BlockShard

use std::sync::Arc;

use shardgraph_device::{Binary, Buffer, Copy2d, Device, ResidentIndex, SparseProduct};
use shardgraph_shard::{Communication, Wiring};

use crate::ranks::Ranks;
use crate::{BatchLayout, Error, Propagation};

/// What a batch exchanges for a neighbour sum, as row numbers on a device.
#[derive(Debug)]
pub(crate) struct BatchWires {
    /// Own rows that other ranks read.
    read: Exchange,
    /// For each group the row of each column and state, among own rows and then those that came.
    columns: Vec<ResidentIndex>,
    /// Where in the rows of all blocks each group's begin, and their number.
    first_rows: Vec<usize>,
    /// How parts of sums come to their owners.
    sums: Sums,
    /// For each own row its mask times its state's scale.
    factors: Vec<f32>,
}

/// Rows that go to other ranks, rank by rank, and how many come from each.
#[derive(Debug)]
struct Exchange {
    rows: ResidentIndex,
    n_sent: Vec<usize>,
    n_received: Vec<usize>,
}

#[derive(Debug)]
enum Sums {
    /// They are whole, and the own ones.
    Whole,
    /// Parts of all sums: reduced over all ranks, of which the own rows are taken.
    OfAllRanks(ResidentIndex),
    /// Parts of some ranks' sums: each rank gets its rows' parts and adds them in rank order.
    OfSomeRanks(Exchange, ResidentIndex),
}

impl BatchWires {
    pub(crate) fn new(device: &Device, graphs: &Propagation) -> Result<Self, Error> {
        let (layout, wirings) = (graphs.layout(), graphs.wirings());
        let batch = Batch {
            layout,
            wirings: &wirings,
            graphs,
        };
        let mut first_rows = vec![0];
        for (wiring, group) in wirings.iter().zip(layout.groups()) {
            let n_rows = wiring.rows().len() * group.n_states;
            first_rows.push(first_rows.last().copied().unwrap_or(0) + n_rows);
        }
        let read = batch.rows_to_read(device)?;
        let columns = batch.columns(device, &read.n_received)?;
        let sums = match wirings.first().map(|wiring| wiring.communication()) {
            Some(Communication::Paper) => Sums::OfAllRanks(batch.own_sums(device, &first_rows)?),
            Some(Communication::Grid) => batch.parts_of_sums(device, &first_rows)?,
            _ => Sums::Whole,
        };
        Ok(Self {
            factors: batch.factors(),
            read,
            columns,
            first_rows,
            sums,
        })
    }

    /// The neighbour sums of the own rows of `x`.
    pub(crate) fn apply(
        &self,
        graphs: &Propagation,
        ranks: &mut Ranks<'_>,
        x: &Arc<Buffer>,
        width: usize,
    ) -> Result<Buffer, Error> {
        let device = ranks.device;
        let rows = match self.read.run(ranks, x, width)? {
            None => Arc::clone(x),
            Some(came) => Arc::new(below(device, x, &came)?),
        };
        let n_all = self.first_rows.last().copied().unwrap_or(0);
        let mut parts = device.zeros(n_all * width)?;
        for (group, columns) in self.columns.iter().enumerate() {
            let sums = self.product(graphs, group, (device, columns), &rows, width)?;
            if let Some(sums) = sums {
                let first = self.first_rows[group] * width;
                device.copy_2d(run(sums.len(), first), &sums, &mut parts)?;
            }
        }
        drop(rows);
        let sums = self.sums.run(ranks, parts, width)?;
        let repeat = |&factor: &f32| std::iter::repeat_n(factor, width);
        let factors: Vec<f32> = self.factors.iter().flat_map(repeat).collect();
        let mut out = device.zeros(factors.len())?;
        let factors = device.upload(&factors)?;
        device.binary(Binary::Mul, &sums, &factors, &mut out)?;
        Ok(out)
    }

    /// The product of a group's block; none where it has no row or no column.
    fn product(
        &self,
        graphs: &Propagation,
        group: usize,
        (device, columns): (&Device, &ResidentIndex),
        rows: &Buffer,
        width: usize,
    ) -> Result<Option<Buffer>, Error> {
        let n_states = graphs.layout().groups()[group].n_states;
        let n_rows = self.first_rows[group + 1] - self.first_rows[group];
        let (n_rows, n_columns) = (n_rows / n_states.max(1), columns.len() / n_states.max(1));
        if n_rows == 0 || n_columns == 0 {
            return Ok(None);
        }
        let mut x = device.zeros(columns.len() * width)?;
        device.gather_rows_by(columns, width, rows, &mut x)?;
        let product = SparseProduct {
            adjacency: graphs.adjacency(group),
            n_rows,
            n_columns,
            width: n_states * width,
        };
        let mut sums = device.zeros(n_rows * n_states * width)?;
        device.sparse_product(product, &x, &mut sums)?;
        Ok(Some(sums))
    }
}

impl Exchange {
    fn new(
        device: &Device,
        n_rows: usize,
        rows: &[u32],
        (n_sent, n_received): (Vec<usize>, Vec<usize>),
    ) -> Result<Self, Error> {
        Ok(Self {
            rows: device.resident_index(n_rows, rows)?,
            n_sent,
            n_received,
        })
    }

    /// The rows that came, rank by rank; none where no row of the batch ever travels.
    fn run(
        &self,
        ranks: &mut Ranks<'_>,
        x: &Buffer,
        width: usize,
    ) -> Result<Option<Buffer>, Error> {
        if self.n_sent.is_empty() {
            return Ok(None);
        }
        let mut sent = ranks.device.zeros(self.rows.len() * width)?;
        ranks
            .device
            .gather_rows_by(&self.rows, width, x, &mut sent)?;
        let elements = |rows: &[usize]| rows.iter().map(|n| n * width).collect::<Vec<usize>>();
        let counts = (&elements(&self.n_sent)[..], &elements(&self.n_received)[..]);
        ranks.all_to_all(&sent, counts).map(Some)
    }
}

impl Sums {
    fn run(&self, ranks: &mut Ranks<'_>, parts: Buffer, width: usize) -> Result<Buffer, Error> {
        match self {
            Self::Whole => Ok(parts),
            Self::OfAllRanks(own) => {
                let all = ranks.all_reduce(Arc::new(parts))?;
                let mut sums = ranks.device.zeros(own.len() * width)?;
                ranks.device.gather_rows_by(own, width, &all, &mut sums)?;
                Ok(sums)
            }
            Self::OfSomeRanks(exchange, places) => {
                let came = exchange.run(ranks, &parts, width)?.unwrap_or(parts);
                let mut sums = ranks.device.zeros(places.n_rows() * width)?;
                ranks
                    .device
                    .scatter_rows_by(places, width, &came, &mut sums)?;
                Ok(sums)
            }
        }
    }
}

/// What row numbers are made from.
struct Batch<'b> {
    layout: &'b BatchLayout,
    wirings: &'b [&'b Wiring],
    graphs: &'b Propagation,
}

impl Batch<'_> {
    fn n_ranks(&self) -> u32 {
        let first = self.layout.groups().first();
        first.map_or(1, |group| group.partition.n_ranks())
    }

    /// Each group's wiring, partition and number of states, by its number.
    fn groups(&self) -> impl Iterator<Item = (usize, &Wiring, &crate::Group)> {
        let groups = self.wirings.iter().zip(self.layout.groups());
        groups
            .enumerate()
            .map(|(i, (wiring, group))| (i, *wiring, group))
    }

    /// The row of a node that is this rank's.
    fn own_row(&self, group: usize, node: u32, state: usize) -> u32 {
        self.layout
            .row(group, node, state)
            .map_or(u32::MAX, |row| row as u32)
    }

    /// Own rows that other ranks have among their columns, and how many columns here are theirs.
    fn rows_to_read(&self, device: &Device) -> Result<Exchange, Error> {
        let (mut rows, mut n_sent, mut n_received) = (Vec::new(), Vec::new(), Vec::new());
        let is_paper = |wiring: &&Wiring| wiring.communication() == Communication::Paper;
        let n_ranks = match self.wirings.iter().any(is_paper) {
            true => 0, // no row is read by others
            false => self.n_ranks(),
        };
        for other in 0..n_ranks {
            let (before, mut coming) = (rows.len(), 0);
            for (i, wiring, group) in self.groups() {
                for &node in wiring.sent_to(other) {
                    rows.extend((0..group.n_states).map(|state| self.own_row(i, node, state)));
                }
                if other != self.layout.rank() {
                    coming += columns_of(wiring, group, other).len() * group.n_states;
                }
            }
            n_sent.push(rows.len() - before);
            n_received.push(coming);
        }
        Exchange::new(device, self.layout.n_rows(), &rows, (n_sent, n_received))
    }

    /// Where each column's rows are, among own rows and then those that came.
    fn columns(&self, device: &Device, n_received: &[usize]) -> Result<Vec<ResidentIndex>, Error> {
        let n_own = self.layout.n_rows();
        let n_rows = n_own + n_received.iter().sum::<usize>();
        let mut first = n_own;
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.wirings.len()];
        for other in 0..self.n_ranks() {
            for (i, wiring, group) in self.groups() {
                let is_own = other == self.layout.rank();
                for &node in columns_of(wiring, group, other) {
                    for state in 0..group.n_states {
                        let row = match is_own {
                            true => self.own_row(i, node, state),
                            false => (first + state) as u32,
                        };
                        let is_kept = self.graphs.keeps(i, node, state);
                        rows[i].push(if is_kept { row } else { u32::MAX });
                    }
                    first += if is_own { 0 } else { group.n_states };
                }
            }
        }
        let index = |rows: &Vec<u32>| Ok(device.resident_index(n_rows, rows)?);
        rows.iter().map(index).collect()
    }

    /// The own rows among those of all blocks.
    fn own_sums(&self, device: &Device, first_rows: &[usize]) -> Result<ResidentIndex, Error> {
        let mut rows = Vec::with_capacity(self.layout.n_rows());
        for (i, wiring, group) in self.groups() {
            rows.extend(rows_of(wiring, group, wiring.own_rows(), first_rows[i]));
        }
        let n_rows = first_rows.last().copied().unwrap_or(0);
        Ok(device.resident_index(n_rows, &rows)?)
    }

    /// The parts for each rank beside this one, itself among them, and where theirs are added.
    fn parts_of_sums(&self, device: &Device, first_rows: &[usize]) -> Result<Sums, Error> {
        let (mut rows, mut n_sent, mut n_received) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = Vec::new();
        for other in 0..self.n_ranks() {
            let before = (rows.len(), places.len());
            for (i, wiring, group) in self.groups() {
                if !wiring.shares_rows_with().contains(&other) || wiring.rows().is_empty() {
                    continue;
                }
                let theirs = group.partition.range(other);
                rows.extend(rows_of(wiring, group, theirs, first_rows[i]));
                places.extend(self.layout.group_rows(i).map(|row| row as u32));
            }
            n_sent.push(rows.len() - before.0);
            n_received.push(places.len() - before.1);
        }
        let n_rows = first_rows.last().copied().unwrap_or(0);
        let exchange = Exchange::new(device, n_rows, &rows, (n_sent, n_received))?;
        let places = device.resident_index(self.layout.n_rows(), &places)?;
        Ok(Sums::OfSomeRanks(exchange, places))
    }

    fn factors(&self) -> Vec<f32> {
        let mut factors = Vec::with_capacity(self.layout.n_rows());
        for (i, wiring, group) in self.groups() {
            for node in wiring.own_rows() {
                for state in 0..group.n_states {
                    factors.push(self.graphs.factor(i, node, state));
                }
            }
        }
        factors
    }
}

/// The columns of a block that are another rank's nodes; columns ascend, and so do the ranks' nodes.
fn columns_of<'w>(wiring: &'w Wiring, group: &crate::Group, rank: u32) -> &'w [u32] {
    let (range, columns) = (group.partition.range(rank), wiring.columns());
    let first = columns.partition_point(|&node| node < range.start);
    let end = columns.partition_point(|&node| node < range.end);
    &columns[first.min(end)..end]
}

/// The rows of some nodes among those of a block that begins at `first`.
fn rows_of(
    wiring: &Wiring,
    group: &crate::Group,
    nodes: std::ops::Range<u32>,
    first: usize,
) -> impl Iterator<Item = u32> {
    let row = |node: u32| first + (node - wiring.rows().start) as usize * group.n_states;
    let rows = match nodes.is_empty() {
        true => 0..0,
        false => row(nodes.start)..row(nodes.end),
    };
    rows.map(|row| row as u32)
}

/// `b` below `a`.
fn below(device: &Device, a: &Buffer, b: &Buffer) -> Result<Buffer, Error> {
    let mut both = device.zeros(a.len() + b.len())?;
    device.copy_2d(run(a.len(), 0), a, &mut both)?;
    device.copy_2d(run(b.len(), a.len()), b, &mut both)?;
    Ok(both)
}

/// A copy of a whole buffer.
fn run(len: usize, target_first: usize) -> Copy2d {
    Copy2d {
        rows: 1,
        width: len,
        source_first: 0,
        source_stride: len,
        target_first,
        target_stride: len,
    }
}
