//! Rows of finished orders by node: into memory, or into a .npy file piece by piece.

use std::ops::Range;
use std::path::Path;

use shardgraph_device::zeros_vec_on_huge_pages;
use shardgraph_job::Bytes as _;
use shardgraph_storage::direct::BounceBuffer;

use super::checkpoint::TableCheckpoint;
use super::context::RunContext;
use super::row_files::{RowReader, TableKey};
use super::rows::{PartRows, PartShape, RowPlace};
use super::scalar::Scalar;
use crate::embedding::formats;
use crate::memory::{Held, Memory, Purpose};
use crate::{Error, Precision};

/// Columns of an order among those of the whole embedding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// Columns of all orders.
    pub(super) n_columns: usize,
    pub(super) first: usize,
}

/// Refuses numbers of any table that are not finite, or saturated.
///
/// # Errors
/// [`Error::Diverged`].
pub(super) fn check_tables<T: Scalar>(
    run: &RunContext<'_>,
    tables: &[Vec<PartRows<T>>],
) -> Result<(), Error> {
    let rows: Vec<&PartRows<T>> = tables.iter().flatten().collect();
    run.row_pool().map(&rows, |rows| rows.check())?;
    Ok(())
}

/// Rows by node in memory, as the orders have filled them so far.
#[derive(Debug, Default)]
pub(super) struct RowsByNode {
    pub(super) values: Vec<f32>,
    /// Those of a dry run too.
    n_values: usize,
    held: Held,
}

impl RowsByNode {
    /// Makes room for all columns, unless an earlier order did.
    ///
    /// # Errors
    /// [`Error::Memory`] without so much memory.
    pub(super) fn make_room(
        &mut self,
        run: &RunContext<'_>,
        n_columns: usize,
    ) -> Result<(), Error> {
        let n_values = run.store.n_nodes() as usize * n_columns;
        if self.n_values < n_values {
            self.n_values = n_values;
            self.held = run.memory.hold(Purpose::Answer, 4 * n_values as u64);
            if !run.memory.is_dry() {
                self.values = zeros(n_values)?;
            }
        }
        Ok(())
    }
}

/// Writes the rows of a table in memory to `rows` by node.
///
/// # Errors
/// As [`RowsByNode::make_room`].
pub(super) fn rows_to_values<T: Scalar>(
    run: &RunContext<'_>,
    table: &[PartRows<T>],
    columns: Columns,
    rows: &mut RowsByNode,
) -> Result<(), Error> {
    let pool = run.row_pool();
    let Columns { n_columns, first } = columns;
    rows.make_room(run, n_columns)?;
    let values = &mut rows.values;
    let n_nodes = run.store.n_nodes() as usize;
    let n_nodes = n_nodes.div_ceil(pool.n_threads).max(1);
    for (part, rows) in (0u32..).zip(table) {
        let pieces = values.chunks_mut(n_nodes * n_columns).enumerate();
        let pieces = pieces.map(|(at, values)| Piece {
            first_node: at * n_nodes,
            values,
        });
        pool.for_each(pieces.collect(), |piece| {
            rows.for_each_row(run, part, |node, row| {
                let node = (node as usize).wrapping_sub(piece.first_node);
                if node < piece.values.len() / n_columns {
                    let to = &mut piece.values[node * n_columns + first..][..row.len()];
                    for (to, value) in to.iter_mut().zip(row) {
                        *to = value.to_f32();
                    }
                }
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// Values of consecutive nodes.
struct Piece<'v> {
    first_node: usize,
    values: &'v mut [f32],
}

/// Zeros, or an error where there is no room for them.
fn zeros(n: usize) -> Result<Vec<f32>, Error> {
    zeros_vec_on_huge_pages(n).map_err(|_| {
        let n_bytes = 4 * n as u64;
        Error::memory(format!("no memory for an embedding of {n_bytes} bytes"))
    })
}

/// Writes the columns of all orders: as many nodes at a time as `memory` holds beside a part.
///
/// # Complexity
/// Reads all rows once for each piece of the file, and writes it from front to back: rows lie by
/// degree, the file's by node, and a file that is larger than memory takes no writes at random
/// places.
pub(super) fn export(
    run: &RunContext<'_>,
    checkpoint: &TableCheckpoint,
    npy: &Path,
    memory: u64,
) -> Result<(), Error> {
    let config = run.config;
    let columns = config.columns();
    let n_rows = match config.precision {
        Precision::Fp32 => rows_of_a_piece::<f32>(run, memory),
        Precision::Fp16 => rows_of_a_piece::<u16>(run, memory),
    }?;
    let _transfer = transfer(run.memory);
    let n_bytes = 4 * u64::from(n_rows.min(run.store.n_nodes())) * columns as u64;
    let _piece = run.memory.hold(Purpose::Answer, n_bytes);
    let mut bounce = BounceBuffer::default();
    let fill = |nodes: Range<u32>, values: &mut [f32]| -> Result<(), Error> {
        for (at, &order) in config.order.each().iter().enumerate() {
            let mut take = |node: u32, row: &[f32]| {
                if nodes.contains(&node) {
                    let start = (node - nodes.start) as usize * columns + at * config.dim;
                    values[start..][..row.len()].copy_from_slice(row);
                }
            };
            let rows = FinishedRows {
                run,
                checkpoint,
                order,
            };
            match config.precision {
                Precision::Fp32 => rows.for_each::<f32>(&mut bounce, &mut take)?,
                Precision::Fp16 => rows.for_each::<u16>(&mut bounce, &mut take)?,
            }
        }
        Ok(())
    };
    formats::write_npy_rows(npy, run.store, columns, n_rows, fill)
}

/// The transfer buffer that all files are read through.
fn transfer(memory: &Memory) -> Held {
    memory.hold(Purpose::Transfer, BounceBuffer::LEN as u64)
}

/// Rows of the embedding that fit in memory beside what a dry run of the reading holds: the store, the transfer
/// buffer and a part of a table; at least what a 16th of the memory holds.
pub(super) fn rows_of_a_piece<T: Scalar>(run: &RunContext<'_>, memory: u64) -> Result<u32, Error> {
    let dry = Memory::dry();
    let _graph = dry.hold(Purpose::Graph, run.store.held_bytes());
    let _transfer = transfer(&dry);
    for part in 0..run.store.n_parts() {
        PartRows::<T>::dry(run.device, PartShape::new(run, part), &dry)?;
    }
    let held = dry.peak().total();
    let left = memory.saturating_sub(held).max(memory / 16);
    let n_rows = left / (4 * run.config.columns() as u64);
    Ok(n_rows.clamp(1, u64::from(u32::MAX)) as u32)
}

/// Rows of a finished order in its files.
struct FinishedRows<'f> {
    run: &'f RunContext<'f>,
    checkpoint: &'f TableCheckpoint,
    order: u32,
}

impl FinishedRows<'_> {
    /// Gives each row with its node, one part in memory at a time.
    fn for_each<T: Scalar>(
        &self,
        bounce: &mut BounceBuffer,
        take: &mut dyn FnMut(u32, &[f32]),
    ) -> Result<(), Error> {
        let run = self.run;
        let mut values = Vec::new();
        let mut take_part = |part: u32, rows: PartRows<T>| {
            rows.for_each_row(run, part, |node, row| {
                values.clear();
                values.extend(row.iter().map(|value| value.to_f32()));
                take(node, &values);
                Ok(())
            })
        };
        for group in 0..run.layout.n_groups {
            let key = TableKey {
                order: self.order,
                table: 0,
                group,
            };
            let Some(file) = self.checkpoint.file(key) else {
                for part in run.parts(group) {
                    take_part(part, PartRows::initial(run, key, part)?)?;
                }
                continue;
            };
            let mut input = RowReader::open(&file, bounce)?;
            for part in run.parts(group) {
                let (device, memory) = (run.device, run.memory);
                let shape = PartShape::new(run, part);
                let place = RowPlace { device, memory };
                take_part(part, PartRows::read(place, shape, &mut input, None)?)?;
            }
            input.finish()?;
        }
        Ok(())
    }
}
