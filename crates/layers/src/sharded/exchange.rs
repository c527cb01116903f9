//! Neighbour sums of a batch where ranks have blocks with columns of their own ([`BlockShard`]): rows out and in, the
//! product, parts of sums to their owners.
//!
//! Rows travel by row numbers that are found once a batch. A masked node's row becomes zeros where it is read, and a sum
//! is multiplied by its mask and scale where it arrives, as the product over whole rows has it.
//!
//! [`BlockShard`]: shardgraph_shard::BlockShard

use std::sync::Arc;

use shardgraph_autodiff::device::{Buffer, Device};
use shardgraph_autodiff::ops;
use shardgraph_autodiff::ops::{Copy2d, RowIndex, Rows, SparseProduct};
use shardgraph_autodiff::{DeviceComm, Error, Operand, PartLengths};
use shardgraph_shard::{Communication, ExchangePlan};

use super::{BatchLayout, Group, Propagation};

/// The rows that a batch exchanges for a neighbour sum, as row numbers on a device.
#[derive(Debug)]
pub(super) struct BatchExchange {
    /// Own rows that other ranks read.
    read: Exchange,
    /// For each group the row of each column and state, among own rows and then those that came.
    columns: Vec<RowIndex>,
    /// The first of each group's rows among those of all blocks, and their number.
    first_rows: Vec<usize>,
    /// The way of parts of sums to their owners.
    sums: Sums,
    /// For each own row its mask times its state's scale.
    factors: Buffer,
}

/// Rows that go to other ranks, rank by rank, and the number that comes from each.
#[derive(Debug)]
struct Exchange {
    rows: RowIndex,
    n_sent: Vec<usize>,
    n_received: Vec<usize>,
}

#[derive(Debug)]
enum Sums {
    /// They are whole, and the own ones.
    Whole,
    /// Parts of all sums: reduced over all ranks, of which the own rows are taken.
    OfAllRanks(RowIndex),
    /// Parts of some ranks' sums: each rank gets its rows' parts and adds them in rank order.
    OfSomeRanks(Exchange, RowIndex),
}

impl BatchExchange {
    pub(super) fn new(device: &Device, graphs: &Propagation) -> Result<Self, Error> {
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
            Some(Communication::ColumnAllReduce) => {
                Sums::OfAllRanks(batch.own_sums(device, &first_rows)?)
            }
            Some(Communication::Grid) => batch.parts_of_sums(device, &first_rows)?,
            _ => Sums::Whole,
        };
        Ok(Self {
            factors: device.upload(&batch.factors())?,
            read,
            columns,
            first_rows,
            sums,
        })
    }

    /// The neighbour sums of the own rows of `x`.
    pub(super) fn apply(
        &self,
        graphs: &Propagation,
        ranks: &mut DeviceComm<'_>,
        x: Operand<'_>,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let (device, width) = (ranks.device(), x.shape.cols);
        let rows = match self.read.run(ranks, x.values, width)? {
            None => Arc::clone(x.values),
            Some(received) => Arc::new(below(device, x.values, &received)?),
        };
        let n_all = self.first_rows.last().copied().unwrap_or(0);
        let mut parts = device.zeros(n_all * width)?;
        for group in 0..self.columns.len() {
            let sums = self.product(graphs, group, device, RowsOf { rows: &rows, width })?;
            if let Some(sums) = sums {
                let first = self.first_rows[group] * width;
                ops::copy_2d(device, run(sums.len(), first), &sums, &mut parts)?;
            }
        }
        drop(rows);
        self.sums.run(ranks, parts, width, out)?;
        let n_rows = self.factors.len();
        Ok(ops::scale_rows(
            device,
            Rows { n_rows, width },
            &self.factors,
            out,
        )?)
    }

    /// The product of a group's block; none where it has no row or no column.
    fn product(
        &self,
        graphs: &Propagation,
        group: usize,
        device: &Device,
        table: RowsOf<'_>,
    ) -> Result<Option<Buffer>, Error> {
        let (columns, width) = (&self.columns[group], table.width);
        let n_states = graphs.layout().groups()[group].n_states;
        let n_rows = self.first_rows[group + 1] - self.first_rows[group];
        let (n_rows, n_columns) = (n_rows / n_states.max(1), columns.len() / n_states.max(1));
        if n_rows == 0 || n_columns == 0 {
            return Ok(None);
        }
        let mut x = device.zeros(columns.len() * width)?;
        ops::gather_rows(device, columns, width, table.rows, &mut x)?;
        let product = SparseProduct {
            adjacency: graphs.adjacency(group),
            n_rows,
            n_columns,
            width: n_states * width,
        };
        let mut sums = device.zeros(n_rows * n_states * width)?;
        ops::sparse_product(device, product, &x, &mut sums)?;
        Ok(Some(sums))
    }
}

/// Own rows, and those that came below them.
#[derive(Clone, Copy)]
struct RowsOf<'b> {
    rows: &'b Buffer,
    width: usize,
}

impl Exchange {
    /// The received rows, rank by rank; none where no row of the batch ever travels.
    fn run(
        &self,
        ranks: &mut DeviceComm<'_>,
        x: &Buffer,
        width: usize,
    ) -> Result<Option<Buffer>, Error> {
        if self.n_sent.is_empty() {
            return Ok(None);
        }
        let device = ranks.device();
        let mut own = device.zeros(self.rows.len() * width)?;
        ops::gather_rows(device, &self.rows, width, x, &mut own)?;
        let elements = |rows: &[usize]| rows.iter().map(|n| n * width).collect::<Vec<usize>>();
        let (sent, received) = (elements(&self.n_sent), elements(&self.n_received));
        let mut out = device.zeros(received.iter().sum())?;
        let parts = PartLengths {
            sent: &sent,
            received: &received,
        };
        ranks.all_to_all(&Arc::new(own), parts, &mut out)?;
        Ok(Some(out))
    }
}

impl Sums {
    fn run(
        &self,
        ranks: &mut DeviceComm<'_>,
        parts: Buffer,
        width: usize,
        out: &mut Buffer,
    ) -> Result<(), Error> {
        let device = ranks.device();
        match self {
            Self::Whole => Ok(device.copy(&parts, out)?),
            Self::OfAllRanks(own) => {
                let mut all = device.zeros(parts.len())?;
                ranks.all_reduce(&Arc::new(parts), &mut all)?;
                Ok(ops::gather_rows(device, own, width, &all, out)?)
            }
            Self::OfSomeRanks(exchange, slots) => {
                let received = exchange.run(ranks, &parts, width)?.unwrap_or(parts);
                Ok(ops::scatter_rows(device, slots, width, &received, out)?)
            }
        }
    }
}

/// The layout, plans and graphs that row numbers are made from.
struct Batch<'b> {
    layout: &'b BatchLayout,
    wirings: &'b [&'b ExchangePlan],
    graphs: &'b Propagation,
}

impl Batch<'_> {
    fn n_ranks(&self) -> u32 {
        let first = self.layout.groups().first();
        first.map_or(1, |group| group.partition.n_ranks())
    }

    /// Each group's wiring, partition and number of states, by its number.
    fn groups(&self) -> impl Iterator<Item = (usize, &ExchangePlan, &Group)> {
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

    /// Own rows that other ranks have among their columns, and the number of columns here that are theirs.
    fn rows_to_read(&self, device: &Device) -> Result<Exchange, Error> {
        let (mut rows, mut n_sent, mut n_received) = (Vec::new(), Vec::new(), Vec::new());
        let is_paper =
            |wiring: &&ExchangePlan| wiring.communication() == Communication::ColumnAllReduce;
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
        Ok(Exchange {
            rows: RowIndex::upload(device, self.layout.n_rows(), &rows[..])?,
            n_sent,
            n_received,
        })
    }

    /// The row of each column, among own rows and then those that came.
    fn columns(&self, device: &Device, n_received: &[usize]) -> Result<Vec<RowIndex>, Error> {
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
        let index = |rows: &Vec<u32>| Ok(RowIndex::upload(device, n_rows, rows.as_slice())?);
        rows.iter().map(index).collect()
    }

    /// The own rows among those of all blocks.
    fn own_sums(&self, device: &Device, first_rows: &[usize]) -> Result<RowIndex, Error> {
        let mut rows = Vec::with_capacity(self.layout.n_rows());
        for (i, wiring, group) in self.groups() {
            rows.extend(rows_of(wiring, group, wiring.own_rows(), first_rows[i]));
        }
        let n_rows = first_rows.last().copied().unwrap_or(0);
        Ok(RowIndex::upload(device, n_rows, &rows[..])?)
    }

    /// The parts for each rank of its row group, itself among them, and the rows that theirs are added to.
    fn parts_of_sums(&self, device: &Device, first_rows: &[usize]) -> Result<Sums, Error> {
        let (mut rows, mut n_sent, mut n_received) = (Vec::new(), Vec::new(), Vec::new());
        let mut slots = Vec::new();
        for other in 0..self.n_ranks() {
            let before = (rows.len(), slots.len());
            for (i, wiring, group) in self.groups() {
                if !wiring.row_group().contains(&other) || wiring.rows().is_empty() {
                    continue;
                }
                let theirs = group.partition.range(other);
                rows.extend(rows_of(wiring, group, theirs, first_rows[i]));
                slots.extend(self.layout.group_rows(i).map(|row| row as u32));
            }
            n_sent.push(rows.len() - before.0);
            n_received.push(slots.len() - before.1);
        }
        let n_rows = first_rows.last().copied().unwrap_or(0);
        let exchange = Exchange {
            rows: RowIndex::upload(device, n_rows, &rows[..])?,
            n_sent,
            n_received,
        };
        let slots = RowIndex::upload(device, self.layout.n_rows(), slots)?;
        Ok(Sums::OfSomeRanks(exchange, slots))
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
fn columns_of<'w>(wiring: &'w ExchangePlan, group: &Group, rank: u32) -> &'w [u32] {
    let (range, columns) = (group.partition.range(rank), wiring.columns());
    let first = columns.partition_point(|&node| node < range.start);
    let end = columns.partition_point(|&node| node < range.end);
    &columns[first.min(end)..end]
}

/// The rows of some nodes among those of a block that begins at `first`.
fn rows_of(
    wiring: &ExchangePlan,
    group: &Group,
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
    ops::copy_2d(device, run(a.len(), 0), a, &mut both)?;
    ops::copy_2d(device, run(b.len(), a.len()), b, &mut both)?;
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
