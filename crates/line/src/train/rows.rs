//! The rows of a part: where they begin, and how they lie in a file.

use shardgraph_device::{Buffer, Device, DeviceKind, bytes_of, bytes_of_mut};
use shardgraph_graph::random::Stream;

use super::cell::Cell;
use super::disk::{Input, Output};
use crate::{Config, Error, ErrorKind, Optimiser, Store};

/// The rows of a part of a table, and with Adagrad the sum of squares of each.
#[derive(Debug)]
pub(crate) struct Rows<T: Cell> {
    pub(crate) cells: Buffer<T>,
    pub(crate) squares: Option<Buffer>,
}

/// Bytes of the smallest pages of memory.
const SMALL_PAGE: usize = 4096;

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
            match table {
                0 => cells
                    .iter_mut()
                    .for_each(|cell| *cell = T::from_f32((stream.uniform_f32() - 0.5) * scale)),
                // They are zeros; but the first touch of a page is dear, and belongs here rather than to training.
                _ => cells
                    .iter_mut()
                    .step_by(SMALL_PAGE / size_of::<T>())
                    .for_each(|cell| *cell = T::default()),
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
    pub(crate) fn write(&self, device: &Device, out: &mut Output<'_>) -> Result<(), Error> {
        write_cells(device, &self.cells, out)?;
        match &self.squares {
            Some(squares) => write_cells(device, squares, out),
            None => Ok(()),
        }
    }

    /// Reads what [`Rows::write`] wrote, to `spare` where it has this shape.
    pub(crate) fn read(
        device: &Device,
        shape: Shape,
        input: &mut Input<'_>,
        spare: Option<Rows<T>>,
    ) -> Result<Rows<T>, Error> {
        let spare = spare.filter(|spare| spare.shape_is(shape));
        let (cells, squares) =
            spare.map_or((None, None), |spare| (Some(spare.cells), spare.squares));
        let cells = read_cells((device, shape.n_cells()), input, cells)?;
        let squares = shape
            .n_squares()
            .map(|n| read_cells((device, n), input, squares));
        Ok(Rows {
            cells,
            squares: squares.transpose()?,
        })
    }

    /// Whether rows of this shape can be read to where these are: they are in host memory, and as many.
    pub(crate) fn shape_is(&self, shape: Shape) -> bool {
        let n_squares = self.squares.as_ref().map(Buffer::len);
        self.cells.as_host().is_some()
            && self.cells.len() == shape.n_cells()
            && n_squares == shape.n_squares()
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

// Rows are written as they lie in memory, and files have the least byte first.
const _: () = assert!(cfg!(target_endian = "little"));

fn write_cells<T: Cell>(
    device: &Device,
    cells: &Buffer<T>,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    let copy; // where they are not in host memory
    let cells = match cells.as_host() {
        Some(cells) => cells,
        None => {
            copy = device.download(cells)?;
            &copy
        }
    };
    for cells in cells.chunks(out.piece() / size_of::<T>()) {
        check_sound(cells)?;
        out.write(bytes_of(cells))?;
    }
    Ok(())
}

/// Reads so many numbers, to a buffer of host memory that is at hand or a new one.
fn read_cells<T: Cell>(
    (device, len): (&Device, usize),
    input: &mut Input<'_>,
    spare: Option<Buffer<T>>,
) -> Result<Buffer<T>, Error> {
    let mut fill = |cells: &mut [T]| {
        let piece = input.piece() / size_of::<T>();
        cells
            .chunks_mut(piece)
            .try_for_each(|cells| input.read(bytes_of_mut(cells)))
    };
    if let Some(mut buffer) = spare
        && let Some(cells) = buffer.as_host_mut()
    {
        fill(cells)?;
        return Ok(buffer);
    }
    filled(device, len, fill)
}
