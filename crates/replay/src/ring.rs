//! The store of a memory: a ring of rows, and the numbers that say which use of a slot is meant.

use serde::{Deserialize, Serialize};

use crate::LeafRef;
use crate::error::Error;
use crate::layout::ColumnLayout;
use crate::rows::Rows;

/// Names an inserted row for ever: how many rows the memory had taken before it. The row of number
/// g is in slot g mod capacity, so the number is the slot and its generation in one; once the slot
/// holds a newer row, it is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ItemId(pub u64);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ring {
    pub(crate) rows: Rows,
    pub(crate) capacity: usize,
    pub(crate) n_inserted: u64,
    /// `n_inserted` mod `capacity`: where the next row goes.
    pub(crate) head: usize,
}

impl Ring {
    pub(crate) fn new(
        method: &'static str,
        layout: ColumnLayout,
        capacity: usize,
    ) -> Result<Ring, Error> {
        if capacity == 0 || u32::try_from(capacity).is_err() {
            return Err(Error::mismatch(
                method,
                "the capacity",
                "1 to 2^32 - 1 rows",
                capacity,
            ));
        }
        Ok(Ring {
            rows: Rows::new(layout),
            capacity,
            n_inserted: 0,
            head: 0,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Puts a row into the next slot.
    pub(crate) fn insert(
        &mut self,
        method: &'static str,
        cells: &[LeafRef<'_>],
    ) -> Result<ItemId, Error> {
        self.rows.check(method, cells)?;
        self.rows.write(self.head, cells);
        Ok(self.advance(1))
    }

    /// Puts the rows of a block into the next slots, and gives the first one's number.
    pub(crate) fn insert_rows(
        &mut self,
        method: &'static str,
        block: &Rows,
    ) -> Result<ItemId, Error> {
        self.check_layout(method, block.layout())?;
        let first = ItemId(self.n_inserted);
        let mut done = 0;
        while done < block.len() {
            let n = (block.len() - done).min(self.capacity - self.head);
            self.rows.write_rows(self.head, block, done, n);
            self.advance(n);
            done += n;
        }
        Ok(first)
    }

    /// At most to the ring's end.
    fn advance(&mut self, n: usize) -> ItemId {
        let id = ItemId(self.n_inserted);
        self.n_inserted += n as u64;
        self.head += n;
        if self.head == self.capacity {
            self.head = 0;
        }
        id
    }

    pub(crate) fn check_layout(
        &self,
        method: &'static str,
        given: &ColumnLayout,
    ) -> Result<(), Error> {
        if given == self.rows.layout() {
            return Ok(());
        }
        Err(Error::mismatch(
            method,
            "the layout",
            self.rows.layout().to_string(),
            given,
        ))
    }

    /// The slot of the row `id`; `None` when it is stale or was never inserted.
    pub(crate) fn slot(&self, id: ItemId) -> Option<u32> {
        // Slots count back from the head: no division, which would cost more than the look-up.
        let age = self.n_inserted.checked_sub(id.0)?;
        if age == 0 || age > self.len() as u64 {
            return None;
        }
        let age = age as usize;
        let slot = if age <= self.head {
            self.head - age
        } else {
            self.head + self.capacity - age
        };
        Some(slot as u32)
    }

    /// The number of the row that is in `slot` now.
    pub(crate) fn id(&self, slot: u32) -> ItemId {
        let slot = slot as usize;
        let age = if slot < self.head {
            self.head - slot
        } else {
            self.head + self.capacity - slot
        };
        ItemId(self.n_inserted - age as u64)
    }

    /// Copies the rows `ids` into `out`, whose own rows go.
    pub(crate) fn gather_into(
        &self,
        method: &'static str,
        ids: &[ItemId],
        out: &mut Rows,
    ) -> Result<(), Error> {
        self.check_layout(method, out.layout())?;
        let stale = |id: ItemId| Error::Stale {
            method,
            id: id.0,
            oldest: self.n_inserted - self.len() as u64,
            newest: self.n_inserted,
        };
        if let Some(&id) = ids.iter().find(|&&id| self.slot(id).is_none()) {
            return Err(stale(id));
        }
        out.clear();
        let slots = ids.iter().map(|&id| self.slot(id).unwrap_or_default());
        out.gather(&self.rows, slots);
        Ok(())
    }

    pub(crate) fn check_size(&self, method: &'static str, n_items: usize) -> Result<(), Error> {
        if n_items <= self.len() {
            return Ok(());
        }
        Err(Error::TooFewItems {
            method,
            expected: n_items,
            given: self.len(),
        })
    }
}
