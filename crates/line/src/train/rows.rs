//! The rows of a part: where they begin, and how they lie in a file.

use std::io::{Read, Write};
use std::path::Path;

use shardgraph_device::{Buffer, Device, DeviceKind};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use crate::store::RowsFingerprint;
use crate::{Config, Error, ErrorKind, Optimiser, Store};

/// The rows of a part of a table, and with Adagrad the sum of squares of each.
#[derive(Debug)]
pub(crate) struct Rows<T: Cell> {
    pub(crate) cells: Buffer<T>,
    pub(crate) squares: Option<Buffer>,
}

/// How many rows of how many columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    n_rows: usize,
    dim: usize,
    has_squares: bool,
}

impl Shape {
    pub(crate) fn of(store: &Store, config: &Config, part: u32) -> Shape {
        Shape {
            n_rows: store.deal().n_rows(part) as usize,
            dim: config.dim,
            has_squares: config.optimiser == Optimiser::Adagrad,
        }
    }

    fn n_cells(self) -> usize {
        self.n_rows * self.dim
    }

    fn n_squares(self) -> Option<usize> {
        self.has_squares.then_some(self.n_rows)
    }

    pub(crate) fn bytes<T: Cell>(self) -> u64 {
        (self.n_cells() * size_of::<T>() + self.n_squares().unwrap_or(0) * size_of::<f32>()) as u64
    }
}

impl<T: Cell> Rows<T> {
    /// The rows before training: uniform within half a column's share for vertices, zeros for contexts.
    ///
    /// # Source
    /// LINE's and word2vec's own way.
    pub(crate) fn first(
        (store, config): (&Store, &Config),
        device: &Device,
        (order, table): (u32, u32),
        part: u32,
    ) -> Result<Rows<T>, Error> {
        let seed = super::seed_of(config, order);
        let mut stream = Stream::new(seed, "line rows", u64::from(part));
        let scale = 1.0 / config.dim as f32;
        let shape = Shape::of(store, config, part);
        let cells = filled(device, shape.n_cells(), |cells: &mut [T]| {
            if table == 0 {
                cells
                    .iter_mut()
                    .for_each(|cell| *cell = T::from_f32((stream.uniform_f32() - 0.5) * scale));
            }
            Ok(())
        })?;
        let squares = shape.n_squares().map(|n| device.zeros(n)).transpose()?;
        Ok(Rows { cells, squares })
    }

    /// Bytes in a file.
    pub(crate) fn bytes(&self) -> u64 {
        let squares = self.squares.as_ref().map_or(0, Buffer::len);
        (self.cells.len() * size_of::<T>() + squares * size_of::<f32>()) as u64
    }

    /// Refuses numbers that are not finite, or saturated.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Diverged`].
    pub(crate) fn check(&self, device: &Device) -> Result<(), Error> {
        let copy; // where they are not in host memory
        let cells = match self.cells.as_host() {
            Some(cells) => cells,
            None => {
                copy = device.download(&self.cells)?;
                &copy
            }
        };
        check_sound(cells)
    }

    /// Writes rows, then sums of squares.
    ///
    /// # Errors
    /// What the system refuses; [`ErrorKind::Diverged`] for a number that is not finite, or saturated.
    pub(crate) fn write(
        &self,
        device: &Device,
        (path, out): (&Path, &mut dyn Write),
        fingerprint: &mut RowsFingerprint,
    ) -> Result<(), Error> {
        write_cells(device, &self.cells, (path, out), fingerprint)?;
        match &self.squares {
            Some(squares) => write_cells(device, squares, (path, out), fingerprint),
            None => Ok(()),
        }
    }

    /// Reads what [`Rows::write`] wrote.
    pub(crate) fn read(
        device: &Device,
        shape: Shape,
        (path, input): (&Path, &mut dyn Read),
        fingerprint: &mut RowsFingerprint,
    ) -> Result<Rows<T>, Error> {
        let cells = filled(device, shape.n_cells(), |cells| {
            read_cells((path, input), cells, fingerprint)
        })?;
        let squares = shape.n_squares().map(|n| {
            filled(device, n, |squares| {
                read_cells((path, input), squares, fingerprint)
            })
        });
        Ok(Rows {
            cells,
            squares: squares.transpose()?,
        })
    }
}

fn check_sound<T: Cell>(cells: &[T]) -> Result<(), Error> {
    // Without a way out of the loop for each number, so that it becomes vector code.
    let is_sound = |cells: &[T]| cells.iter().fold(true, |all, cell| all & cell.is_sound());
    match cells.chunks(1 << 12).all(is_sound) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Diverged, DIVERGED)),
    }
}

const DIVERGED: &str =
    "training diverged: rows hold numbers beyond what their precision can hold: take a lower rate";

/// A buffer of so many numbers, filled in place where it lies in host memory.
fn filled<T: Cell>(
    device: &Device,
    len: usize,
    fill: impl FnOnce(&mut [T]) -> Result<(), Error>,
) -> Result<Buffer<T>, Error> {
    if device.kind() == DeviceKind::Host {
        let mut buffer = device.zeros_on_huge_pages(len)?;
        if let Some(cells) = buffer.as_host_mut() {
            fill(cells)?;
        }
        return Ok(buffer);
    }
    let mut cells = vec![T::default(); len];
    fill(&mut cells)?;
    Ok(device.upload(&cells)?)
}

/// Numbers that become bytes at a time.
const BLOCK: usize = 1 << 16;

fn write_cells<T: Cell>(
    device: &Device,
    cells: &Buffer<T>,
    (path, out): (&Path, &mut dyn Write),
    fingerprint: &mut RowsFingerprint,
) -> Result<(), Error> {
    let copy; // where they are not in host memory
    let cells = match cells.as_host() {
        Some(cells) => cells,
        None => {
            copy = device.download(cells)?;
            &copy
        }
    };
    let mut bytes = vec![0; BLOCK.min(cells.len()) * size_of::<T>()];
    for cells in cells.chunks(BLOCK) {
        check_sound(cells)?;
        let bytes = &mut bytes[..size_of_val(cells)];
        for (to, cell) in bytes.chunks_exact_mut(size_of::<T>()).zip(cells) {
            cell.put(to);
        }
        fingerprint.update(bytes);
        let written = out.write_all(bytes);
        written.map_err(|e| Error::io("write", path, &e))?;
    }
    Ok(())
}

fn read_cells<T: Cell>(
    (path, input): (&Path, &mut dyn Read),
    cells: &mut [T],
    fingerprint: &mut RowsFingerprint,
) -> Result<(), Error> {
    let mut bytes = vec![0; cells.len().min(BLOCK) * size_of::<T>()];
    for cells in cells.chunks_mut(BLOCK) {
        let bytes = &mut bytes[..size_of_val(cells)];
        let read = input.read_exact(bytes);
        read.map_err(|e| Error::io("read", path, &e))?;
        fingerprint.update(bytes);
        for (cell, bytes) in cells.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
            *cell = T::take(bytes);
        }
    }
    Ok(())
}
