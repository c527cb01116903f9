//! Rows of a part: their first values, and their form in a file.

use shardgraph_device::{Buffer, Device, DeviceKind, bytes_of, bytes_of_mut};
use shardgraph_random::KeyedRng;

use super::context::RunContext;
use super::row_files::{RowReader, RowWriter, TableKey};
use super::scalar::Scalar;
use crate::memory::{Held, Memory, Purpose};
use crate::{Error, Optimiser};

/// Rows of a part of a table, and with Adagrad the sum of squares of each.
#[derive(Debug)]
pub(super) struct PartRows<T: Scalar> {
    /// The stream that has them.
    pub(super) device: Device,
    pub(super) values: Buffer<T>,
    pub(super) adagrad_sums: Option<Buffer>,
    /// Counts them, wherever they are. In a dry run there is nothing else.
    held: Held,
}

/// Bytes of the smallest pages of memory.
const SMALL_PAGE: usize = 4096;

/// Where rows are read to, and the account that counts them.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPlace<'p> {
    pub(super) device: &'p Device,
    pub(super) memory: &'p Memory,
}

/// Number of rows and columns of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartShape {
    n_rows: usize,
    dim: usize,
    has_sums: bool,
}

impl PartShape {
    pub(super) fn new(run: &RunContext<'_>, part: u32) -> PartShape {
        PartShape {
            n_rows: run.store.partition().n_rows(part) as usize,
            dim: run.config.dim,
            has_sums: run.config.optimiser == Optimiser::Adagrad,
        }
    }

    fn n_values(self) -> usize {
        self.n_rows * self.dim
    }

    fn n_sums(self) -> Option<usize> {
        self.has_sums.then_some(self.n_rows)
    }

    pub(super) fn bytes<T: Scalar>(self) -> u64 {
        let sums = self.n_sums().unwrap_or(0) * size_of::<f32>();
        (self.n_values() * size_of::<T>() + sums) as u64
    }
}

impl<T: Scalar> PartRows<T> {
    /// Rows of a stream that has them, counted from now on.
    pub(super) fn new(
        device: Device,
        values: Buffer<T>,
        adagrad_sums: Option<Buffer>,
        memory: &Memory,
    ) -> PartRows<T> {
        let mut rows = PartRows {
            device,
            values,
            adagrad_sums,
            held: memory.hold(Purpose::Rows, 0),
        };
        let n_bytes = rows.bytes();
        rows.held.set(n_bytes);
        rows
    }

    /// Rows of a dry run: a shape without numbers.
    pub(super) fn dry(
        device: &Device,
        shape: PartShape,
        memory: &Memory,
    ) -> Result<PartRows<T>, Error> {
        let mut rows = PartRows::new(device.clone(), device.zeros(0)?, None, memory);
        rows.held.set(shape.bytes::<T>());
        Ok(rows)
    }

    /// Rows before training: uniform within half a column's share for vertices, zeros for contexts.
    ///
    /// # Source
    /// LINE's and word2vec's own initialisation.
    pub(super) fn initial(
        run: &RunContext<'_>,
        key: TableKey,
        part: u32,
    ) -> Result<PartRows<T>, Error> {
        let mut rng = KeyedRng::new(run.seed(key.order), "line rows", u64::from(part));
        let scale = 1.0 / run.config.dim as f32;
        let shape = PartShape::new(run, part);
        if run.memory.is_dry() {
            return PartRows::dry(run.device, shape, run.memory);
        }
        let values = filled(run.device, shape.n_values(), |values: &mut [T]| {
            match key.table {
                0 => {
                    values
                        .iter_mut()
                        .for_each(|value| *value = T::from_f32((rng.uniform_f32() - 0.5) * scale));
                    start_from(run, key.order, part, values);
                }
                // They are zeros; but the first touch of a page is dear, and belongs here rather
                // than to training.
                _ => values
                    .iter_mut()
                    .step_by(SMALL_PAGE / size_of::<T>())
                    .for_each(|value| *value = T::default()),
            }
            Ok(())
        })?;
        let sums = shape.n_sums().map(|n| run.device.zeros(n));
        let device = run.device.clone();
        Ok(PartRows::new(device, values, sums.transpose()?, run.memory))
    }

    /// Hands the rows to another stream, by a copy where it is another device's; gives the bytes of that.
    ///
    /// # Errors
    /// The devices'.
    pub(super) fn move_to(&mut self, stream: &Device) -> Result<u64, Error> {
        let mut copied = 0;
        match stream.is_beside(&self.device) {
            true => stream.adopt(&mut self.values)?,
            false => {
                self.values = stream.copy_from(&self.device, &self.values)?;
                copied = (self.values.len() * size_of::<T>()) as u64;
            }
        }
        self.device = stream.clone();
        Ok(copied)
    }

    /// Bytes in a file.
    pub(super) fn bytes(&self) -> u64 {
        let sums = self.adagrad_sums.as_ref().map_or(0, Buffer::len);
        (self.values.len() * size_of::<T>() + sums * size_of::<f32>()) as u64
    }

    /// Refuses numbers that are not finite, or saturated.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.device.download_to(&self.values, check_sound)
    }

    /// Writes rows, then sums of squares; refuses numbers that are not finite, or saturated.
    pub(super) fn write(&self, out: &mut RowWriter<'_>) -> Result<(), Error> {
        write_values(&self.device, &self.values, out)?;
        match &self.adagrad_sums {
            Some(sums) => write_values(&self.device, sums, out),
            None => Ok(()),
        }
    }

    /// Reads what [`PartRows::write`] wrote, into `spare` where it has this shape.
    pub(super) fn read(
        place: RowPlace<'_>,
        shape: PartShape,
        input: &mut RowReader<'_>,
        spare: Option<PartRows<T>>,
    ) -> Result<PartRows<T>, Error> {
        let RowPlace { device, memory } = place;
        let spare = spare.filter(|spare| spare.has_shape(shape));
        let (values, sums) = match spare {
            Some(spare) => (Some(spare.values), spare.adagrad_sums),
            None => (None, None),
        };
        let values = read_values(device, shape.n_values(), input, values)?;
        let sums = shape.n_sums().map(|n| read_values(device, n, input, sums));
        Ok(PartRows::new(
            device.clone(),
            values,
            sums.transpose()?,
            memory,
        ))
    }

    /// The sum of the squares of all values.
    pub(super) fn sum_of_squares(&self) -> Result<f64, Error> {
        let mut sum = 0.0;
        self.device.download_to(&self.values, |values| {
            sum += values
                .iter()
                .map(|x| f64::from(x.to_f32()).powi(2))
                .sum::<f64>();
            Ok::<(), Error>(())
        })?;
        Ok(sum)
    }

    /// Rows of this shape can be read into these: they are in host memory, and as many.
    pub(super) fn has_shape(&self, shape: PartShape) -> bool {
        let n_sums = self.adagrad_sums.as_ref().map(Buffer::len);
        self.values.as_host().is_some()
            && self.values.len() == shape.n_values()
            && n_sums == shape.n_sums()
    }

    /// The values of each row with its node.
    pub(super) fn for_each_row(
        &self,
        run: &RunContext<'_>,
        part: u32,
        mut take: impl FnMut(u32, &[T]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let n_rows = run.store.partition().n_rows(part);
        with_host(&self.device, &self.values, |values| {
            let dim = values.len() / n_rows.max(1) as usize;
            (0..n_rows)
                .zip(values.chunks_exact(dim.max(1)))
                .try_for_each(|(row, values)| take(run.store.node(part, row), values))
        })
    }
}

/// Overwrites the rows of nodes that start from an earlier embedding.
fn start_from<T: Scalar>(run: &RunContext<'_>, order: u32, part: u32, values: &mut [T]) {
    if run.warm_start.is_none() {
        return;
    }
    for (row, values) in (0u32..).zip(values.chunks_exact_mut(run.config.dim)) {
        if let Some(start) = run.start_row(order, run.store.node(part, row)) {
            let pairs = values.iter_mut().zip(start);
            pairs.for_each(|(value, &start)| *value = T::from_f32(start));
        }
    }
}

/// Gives values in host memory, from a copy where they are on a device.
pub(super) fn with_host<T: Scalar>(
    device: &Device,
    values: &Buffer<T>,
    take: impl FnOnce(&[T]) -> Result<(), Error>,
) -> Result<(), Error> {
    match values.as_host() {
        Some(values) => take(values),
        None => take(&device.download(values)?),
    }
}

fn check_sound<T: Scalar>(values: &[T]) -> Result<(), Error> {
    // Without a way out of the loop for each number, so that it becomes vector code.
    let is_sound = |values: &[T]| {
        values
            .iter()
            .fold(true, |all, value| all & value.is_sound())
    };
    match values.chunks(1 << 12).all(is_sound) {
        true => Ok(()),
        false => Err(Error::Diverged(DIVERGED.to_owned())),
    }
}

const DIVERGED: &str = "training diverged: rows hold numbers beyond what their precision can hold: \
                        take a lower rate";

/// A buffer of `len` numbers, filled in place where it lies in host memory.
fn filled<T: Scalar>(
    device: &Device,
    len: usize,
    fill: impl FnOnce(&mut [T]) -> Result<(), Error>,
) -> Result<Buffer<T>, Error> {
    if device.kind() == DeviceKind::Host {
        let mut buffer = device.zeros_on_huge_pages(len)?;
        if let Some(values) = buffer.as_host_mut() {
            fill(values)?;
        }
        return Ok(buffer);
    }
    let mut values = vec![T::default(); len];
    fill(&mut values)?;
    Ok(device.upload(&values)?)
}

// Rows are written as they lie in memory, and files have the least byte first.
const _: () = assert!(cfg!(target_endian = "little"));

fn write_values<T: Scalar>(
    device: &Device,
    values: &Buffer<T>,
    out: &mut RowWriter<'_>,
) -> Result<(), Error> {
    device.download_to(values, |values| {
        for values in values.chunks(out.piece() / size_of::<T>()) {
            check_sound(values)?;
            out.write(bytes_of(values))?;
        }
        Ok(())
    })
}

/// Reads `len` numbers into a spare buffer of host memory, or a new one.
fn read_values<T: Scalar>(
    device: &Device,
    len: usize,
    input: &mut RowReader<'_>,
    spare: Option<Buffer<T>>,
) -> Result<Buffer<T>, Error> {
    let mut fill = |values: &mut [T]| {
        let piece = input.piece() / size_of::<T>();
        values
            .chunks_mut(piece)
            .try_for_each(|values| input.read(bytes_of_mut(values)))
    };
    if let Some(mut buffer) = spare
        && let Some(values) = buffer.as_host_mut()
    {
        fill(values)?;
        return Ok(buffer);
    }
    match device.kind() {
        DeviceKind::Host => filled(device, len, fill),
        // Straight into the memory that a GPU copies from.
        _ => device.upload_from(len, fill),
    }
}
