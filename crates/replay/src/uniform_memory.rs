//! A replay memory in which every row is as likely as the next.

use crate::LeafRef;
use crate::error::Error;
use crate::layout::ColumnLayout;
use crate::ring::{ItemId, Ring};
use crate::rows::Rows;

/// The last `capacity` rows of a layout, sampled uniformly.
///
/// # Complexity
/// Memory: `capacity` times [`ColumnLayout::row_bytes`], taken as rows come. Inserting and drawing
/// a row take O(row bytes).
///
/// # Determinism
/// The rows of `sample_into` depend on the inserted rows and on the caller's random numbers alone.
///
/// ```
/// use shardgraph_replay::{LeafRef, ColumnLayout, ElementKind, Rows, UniformMemory};
///
/// let layout = ColumnLayout::new(&[("observation", ElementKind::F32, 2), ("action", ElementKind::U32, 1)])?;
/// let mut memory = UniformMemory::new(layout.clone(), 1000)?;
/// for step in 0..5 {
///     memory.insert(&[LeafRef::F32(&[step as f32, 1.0]), LeafRef::U32(&[step])])?;
/// }
/// let (mut ids, mut batch) = (Vec::new(), Rows::new(layout));
/// let mut coin = 0;
/// memory.sample_into(2, &mut |n| { coin += 3; coin % n }, &mut ids)?; // any unbiased source of numbers below n
/// memory.gather_into(&ids, &mut batch)?;
/// assert_eq!(batch.u32s(1), [3, 1]);
/// # Ok::<(), shardgraph_replay::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct UniformMemory {
    pub(crate) ring: Ring,
}

impl UniformMemory {
    /// An empty memory for `capacity` rows.
    ///
    /// # Errors
    /// When `capacity` is 0 or does not fit 32 bits.
    pub fn new(layout: ColumnLayout, capacity: usize) -> Result<UniformMemory, Error> {
        let ring = Ring::new("UniformMemory::new", layout, capacity)?;
        Ok(UniformMemory { ring })
    }

    /// Puts a row in the place of the oldest.
    ///
    /// # Errors
    /// When `cells` are no row of the layout, or hold floats that are not finite; the memory stays
    /// as it was.
    pub fn insert(&mut self, cells: &[LeafRef<'_>]) -> Result<ItemId, Error> {
        self.ring.insert("UniformMemory::insert", cells)
    }

    /// Inserts the rows of a block in their order, and gives the first one's number; the others'
    /// follow.
    ///
    /// # Errors
    /// When the block has another layout; the memory stays as it was.
    pub fn insert_rows(&mut self, block: &Rows) -> Result<ItemId, Error> {
        self.ring.insert_rows("UniformMemory::insert_rows", block)
    }

    /// Draws `n_items` rows, each one uniformly among all that the memory holds, with replacement,
    /// into `ids`.
    ///
    /// `below(n)` gives a uniform random number from `0..n`, without modulo bias.
    ///
    /// # Errors
    /// When the memory holds fewer than `n_items` rows; nothing is drawn then.
    ///
    /// # Panics
    /// When `below(n)` gives n or more.
    pub fn sample_into(
        &self,
        n_items: usize,
        below: &mut dyn FnMut(u64) -> u64,
        ids: &mut Vec<ItemId>,
    ) -> Result<(), Error> {
        self.ring
            .check_size("UniformMemory::sample_into", n_items)?;
        let n = self.len() as u64;
        let oldest = self.ring.n_inserted - n;
        ids.clear();
        ids.extend((0..n_items).map(|_| {
            let drawn = below(n);
            assert!(drawn < n, "below({n}) gave {drawn}");
            ItemId(oldest + drawn)
        }));
        Ok(())
    }

    /// Copies the rows `ids` into `out`, in that order; what `out` held goes.
    ///
    /// # Errors
    /// When a row is stale, or `out` has another layout; `out` stays as it was.
    pub fn gather_into(&self, ids: &[ItemId], out: &mut Rows) -> Result<(), Error> {
        self.ring
            .gather_into("UniformMemory::gather_into", ids, out)
    }

    /// The number of rows in the memory.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// True if nothing was inserted yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of rows that the memory can hold.
    pub fn capacity(&self) -> usize {
        self.ring.capacity
    }

    /// The number of rows ever inserted.
    pub fn n_inserted(&self) -> u64 {
        self.ring.n_inserted
    }

    /// The layout of every row.
    pub fn layout(&self) -> &ColumnLayout {
        self.ring.rows.layout()
    }
}
