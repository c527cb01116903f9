//! Rows as bytes, for messages, and uniform and prioritised memories as bytes, for checkpoints: a
//! versioned header, the layout, the columns in the order of the rows or slots, and the priorities;
//! little-endian. Bytes are read into rows or a memory that were made like those that wrote them,
//! so another configuration is found, and no length out of a file decides how much memory is taken.

use crate::ElementKind;
use crate::codec::Reader;
use crate::error::Error;
use crate::layout::ColumnLayout;
use crate::prioritized_memory::{PrioritizedMemory, new_tree};
use crate::ring::Ring;
use crate::rows::{Elements, Rows};
use crate::uniform_memory::UniformMemory;

const ROWS: [u8; 8] = *b"SGROW\0\0\x01";
const UNIFORM: [u8; 8] = *b"SGUNM\0\0\x01";
const PRIORITIZED: [u8; 8] = *b"SGPRM\0\0\x01";

impl Rows {
    /// The rows as bytes, as a block of them is sent; [`Rows::restore`] makes equal ones.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = ROWS.to_vec();
        put_layout(&mut out, self.layout());
        out.extend((self.len() as u64).to_le_bytes());
        put_columns(&mut out, self);
        out
    }

    /// Takes the rows that [`Rows::to_bytes`] wrote, in the place of its own.
    ///
    /// # Errors
    /// When the bytes are damaged, or of another layout; the rows stay as they were.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader { rest: bytes };
        check_magic(&mut reader, ROWS)?;
        read_layout("Rows::restore", &mut reader, self.layout())?;
        let n_rows = reader.u64()?;
        let n_rows =
            usize::try_from(n_rows).map_err(|_| Error::malformed("the bytes end early"))?;
        let rows = read_columns(&mut reader, self.layout(), n_rows)?;
        check_end(&reader)?;
        *self = rows;
        Ok(())
    }
}

impl UniformMemory {
    /// The memory as bytes; [`UniformMemory::restore`] makes an equal one, which samples alike.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = UNIFORM.to_vec();
        put_ring(&mut out, &self.ring);
        out
    }

    /// Takes the state that [`UniformMemory::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged, or of a memory of another layout or capacity; the memory stays
    /// as it was.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader { rest: bytes };
        check_magic(&mut reader, UNIFORM)?;
        let ring = read_ring("UniformMemory::restore", &mut reader, &self.ring)?;
        check_end(&reader)?;
        self.ring = ring;
        Ok(())
    }
}

impl PrioritizedMemory {
    /// The memory as bytes; [`PrioritizedMemory::restore`] makes an equal one, which samples alike,
    /// bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = PRIORITIZED.to_vec();
        out.extend(self.prioritization.alpha.to_le_bytes());
        out.extend(self.prioritization.epsilon.to_le_bytes());
        put_ring(&mut out, &self.ring);
        out.extend(self.n_stale_updates.to_le_bytes());
        out.extend(self.largest.to_le_bytes());
        let leaves = (0..self.len() as u32).map(|slot| self.tree.leaf(slot));
        out.extend(leaves.flat_map(f32::to_le_bytes));
        out
    }

    /// Takes the state that [`PrioritizedMemory::to_bytes`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged, or of a memory of another layout, capacity or prioritization;
    /// the memory stays as it was.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let method = "PrioritizedMemory::restore";
        let mut reader = Reader { rest: bytes };
        check_magic(&mut reader, PRIORITIZED)?;
        let (alpha, epsilon) = (reader.f32()?, reader.f32()?);
        let own = self.prioritization;
        if (alpha.to_bits(), epsilon.to_bits()) != (own.alpha.to_bits(), own.epsilon.to_bits()) {
            let expected = format!("alpha {} and epsilon {}", own.alpha, own.epsilon);
            let given = format!("alpha {alpha} and epsilon {epsilon}");
            return Err(other(method, "the prioritization", expected, given));
        }
        let ring = read_ring(method, &mut reader, &self.ring)?;
        let n_stale_updates = reader.u64()?;
        let largest = reader.f32()?;
        let mut tree = new_tree(method, ring.capacity)?;
        for slot in 0..ring.len() as u32 {
            let leaf = reader.f32()?;
            if !(leaf > 0.0 && leaf <= largest) {
                return Err(Error::malformed(
                    "a priority is not between 0 and the largest",
                ));
            }
            tree.set_leaf(slot, leaf);
        }
        if !largest.is_finite() || largest < 1.0 {
            return Err(Error::malformed(
                "the largest priority is below 1 or not finite",
            ));
        }
        check_end(&reader)?;
        tree.refresh_range(0, ring.len());
        self.replace(ring, tree, largest, n_stale_updates);
        Ok(())
    }
}

/// The error of a checkpoint of another memory than this one.
fn other(method: &'static str, what: &str, expected: String, given: String) -> Error {
    Error::mismatch(method, format!("{what} of the bytes"), expected, given)
}

fn check_magic(reader: &mut Reader<'_>, magic: [u8; 8]) -> Result<(), Error> {
    if reader.array()? == magic {
        return Ok(());
    }
    Err(Error::malformed(
        "the first 8 bytes are not this form and version",
    ))
}

fn check_end(reader: &Reader<'_>) -> Result<(), Error> {
    if reader.rest.is_empty() {
        return Ok(());
    }
    Err(Error::malformed("the bytes do not end with the last row"))
}

fn put_ring(out: &mut Vec<u8>, ring: &Ring) {
    put_layout(out, ring.rows.layout());
    out.extend((ring.capacity as u64).to_le_bytes());
    out.extend(ring.n_inserted.to_le_bytes());
    put_columns(out, &ring.rows);
}

fn put_layout(out: &mut Vec<u8>, layout: &ColumnLayout) {
    let columns = layout.columns();
    out.extend((columns.len() as u32).to_le_bytes());
    for column in columns {
        out.extend((column.name.len() as u32).to_le_bytes());
        out.extend(column.name.as_bytes());
        let kind: u32 = match column.kind {
            ElementKind::F32 => 0,
            ElementKind::U32 => 1,
            ElementKind::U8 => 2,
        };
        out.extend(kind.to_le_bytes());
        out.extend((column.width as u32).to_le_bytes());
    }
}

fn put_columns(out: &mut Vec<u8>, rows: &Rows) {
    for elements in rows.columns() {
        match elements {
            Elements::F32(list) => out.extend(list.iter().flat_map(|x| x.to_le_bytes())),
            Elements::U32(list) => out.extend(list.iter().flat_map(|x| x.to_le_bytes())),
            Elements::U8(list) => out.extend(list),
        }
    }
}

fn read_ring(method: &'static str, reader: &mut Reader<'_>, own: &Ring) -> Result<Ring, Error> {
    let layout = own.rows.layout();
    read_layout(method, reader, layout)?;
    let (capacity, n_inserted) = (reader.u64()?, reader.u64()?);
    if capacity != own.capacity as u64 {
        let (expected, given) = (own.capacity.to_string(), capacity.to_string());
        return Err(other(method, "the capacity", expected, given));
    }
    if n_inserted > u64::MAX / 2 {
        return Err(Error::malformed("the number of insertions is without end"));
    }
    Ok(Ring {
        rows: read_columns(reader, layout, n_inserted.min(capacity) as usize)?,
        capacity: own.capacity,
        n_inserted,
        head: (n_inserted % capacity) as usize,
    })
}

/// Reads a layout, which has to be `own`.
fn read_layout(
    method: &'static str,
    reader: &mut Reader<'_>,
    own: &ColumnLayout,
) -> Result<(), Error> {
    let mut columns = Vec::new();
    for _ in 0..reader.u32()? {
        let n_bytes = reader.u32()?;
        let name = reader.bytes(n_bytes as usize)?;
        let name = std::str::from_utf8(name)
            .map_err(|_| Error::malformed("a column's name is not UTF-8"))?;
        let kind = match reader.u32()? {
            0 => ElementKind::F32,
            1 => ElementKind::U32,
            2 => ElementKind::U8,
            _ => return Err(Error::malformed("a column's kind is none of 0, 1 and 2")),
        };
        columns.push((name, kind, reader.u32()? as usize));
    }
    let layout =
        ColumnLayout::new(&columns).map_err(|_| Error::malformed("the columns make no layout"))?;
    if layout == *own {
        return Ok(());
    }
    let (expected, given) = (own.to_string(), layout.to_string());
    Err(other(method, "the layout", expected, given))
}

fn read_columns(
    reader: &mut Reader<'_>,
    layout: &ColumnLayout,
    n_rows: usize,
) -> Result<Rows, Error> {
    let mut rows = Rows::new(layout.clone());
    for (elements, column) in rows.columns_mut().iter_mut().zip(layout.columns()) {
        read_column(reader, elements, column.width, n_rows)?;
    }
    rows.set_len(n_rows);
    Ok(rows)
}

fn read_column(
    reader: &mut Reader<'_>,
    elements: &mut Elements,
    width: usize,
    n_rows: usize,
) -> Result<(), Error> {
    let too_short = || Error::malformed("the bytes end early");
    let n = width.checked_mul(n_rows).ok_or_else(too_short)?;
    let n_bytes = |size: usize| n.checked_mul(size).ok_or_else(too_short);
    match elements {
        Elements::F32(list) => {
            let (words, _) = reader.bytes(n_bytes(4)?)?.as_chunks();
            list.extend(words.iter().map(|&word| f32::from_le_bytes(word)));
            if !list.iter().all(|x| x.is_finite()) {
                return Err(Error::malformed("a number is not finite"));
            }
        }
        Elements::U32(list) => {
            let (words, _) = reader.bytes(n_bytes(4)?)?.as_chunks();
            list.extend(words.iter().map(|&word| u32::from_le_bytes(word)));
        }
        Elements::U8(list) => list.extend(reader.bytes(n)?),
    }
    Ok(())
}
