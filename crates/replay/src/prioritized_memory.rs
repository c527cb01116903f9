//! A replay memory in which a row is the likelier, the larger its last TD error was.

use crate::LeafRef;
use crate::error::Error;
use crate::layout::ColumnLayout;
use crate::ring::{ItemId, Ring};
use crate::rows::Rows;
use crate::sum_tree::SumTree;

/// The priority of a TD error: p = (|TD error| + `epsilon`) ^ `alpha`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prioritization {
    /// From 0 (uniform) to 1 (proportional); 0.6 in the paper.
    pub alpha: f32,
    /// The priority of rows without an error, so that they stay reachable; above 0, 1e-6 by
    /// default.
    pub epsilon: f32,
}

impl Default for Prioritization {
    fn default() -> Prioritization {
        Prioritization {
            alpha: 0.6,
            epsilon: 1e-6,
        }
    }
}

/// The rows that [`PrioritizedMemory::sample_into`] drew; its lists are used again by the next
/// draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrioritizedBatch {
    /// The rows.
    pub ids: Vec<ItemId>,
    /// Their importance weights, at most 1.
    pub weights: Vec<f32>,
    slots: Vec<u32>,
}

/// The last `capacity` rows of a layout, sampled in proportion to their priorities.
///
/// # Complexity
/// Memory: `capacity` times [`ColumnLayout::row_bytes`], taken as rows come, and 4.9 B a row of
/// capacity for the priorities. Inserting takes O(row bytes); the sums over what was inserted are
/// made at the next draw, O(1) a row. Drawing a row and changing its priority take O(log capacity).
///
/// # Determinism
/// The rows of `sample_into` depend on the inserted rows, on the priorities and on the caller's
/// random numbers, and on nothing else. Sums do not depend on the order of the updates that led to
/// them.
///
/// # Source
/// Schaul, Quan, Antonoglou and Silver, Prioritized experience replay, ICLR 2016: section 3.3
/// (proportional prioritization), section 3.4 (importance weights), algorithm 1, appendix B.2.1
/// (sum tree, one draw from each of k ranges of equal mass).
///
/// ```
/// use shardgraph_replay::{LeafRef, ColumnLayout, ElementKind, Prioritization, PrioritizedBatch, PrioritizedMemory};
///
/// let layout = ColumnLayout::new(&[("action", ElementKind::U32, 1)])?;
/// let prioritization = Prioritization { alpha: 1.0, epsilon: 1e-6 };
/// let mut memory = PrioritizedMemory::new(layout, 1000, prioritization)?;
/// let ids: Vec<_> = (0..4).map(|a| memory.insert(&[LeafRef::U32(&[a])])).collect::<Result<_, _>>()?;
/// memory.update(&ids, &[1.0, 1.0, 1.0, 5.0])?; // the last row is drawn five times as often as another
///
/// let mut batch = PrioritizedBatch::default();
/// memory.sample_into(4, 1.0, &mut || 0.75, &mut batch)?; // any uniform source of numbers from [0, 1)
/// assert_eq!(batch.ids, [ids[1], ids[3], ids[3], ids[3]]);
/// assert!((batch.weights[1] - 0.2).abs() < 1e-6 && batch.weights[0] == 1.0);
/// # Ok::<(), shardgraph_replay::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PrioritizedMemory {
    pub(crate) ring: Ring,
    pub(crate) tree: SumTree,
    pub(crate) prioritization: Prioritization,
    /// The largest leaf that there ever was, at first 1: what a row without a TD error gets.
    pub(crate) largest: f32,
    /// The number of rows, of those last inserted, that are not in the tree's sums.
    pending: usize,
    pub(crate) n_stale_updates: u64,
    /// Of `update`.
    changed: Vec<u32>,
}

impl PrioritizedMemory {
    /// An empty memory for `capacity` rows.
    ///
    /// # Errors
    /// When `capacity` is 0 or does not fit 32 bits, alpha is outside 0..=1, or epsilon is not a
    /// normal number above 0; and [`Error::NoRoom`] where the system refuses the priorities'
    /// memory.
    pub fn new(
        layout: ColumnLayout,
        capacity: usize,
        prioritization: Prioritization,
    ) -> Result<PrioritizedMemory, Error> {
        let Prioritization { alpha, epsilon } = prioritization;
        if !(0.0..=1.0).contains(&alpha) || !epsilon.is_normal() || epsilon < 0.0 {
            return Err(Error::mismatch(
                "PrioritizedMemory::new",
                "the prioritization",
                "alpha from 0 to 1 and epsilon above 0",
                format!("alpha {alpha} and epsilon {epsilon}"),
            ));
        }
        Ok(PrioritizedMemory {
            ring: Ring::new("PrioritizedMemory::new", layout, capacity)?,
            tree: new_tree("PrioritizedMemory::new", capacity)?,
            prioritization,
            largest: 1.0,
            pending: 0,
            n_stale_updates: 0,
            changed: Vec::new(),
        })
    }

    /// The bytes that the priorities of `capacity` rows take from the start; rows are taken as they
    /// come.
    ///
    /// ```
    /// assert_eq!(shardgraph_replay::PrioritizedMemory::priority_bytes(1 << 20) >> 20, 4); // 4 bytes a row, and less for the sums
    /// ```
    #[must_use]
    pub fn priority_bytes(capacity: usize) -> u64 {
        SumTree::bytes(capacity)
    }

    /// Puts a row in the place of the oldest, with the largest priority that there ever was.
    ///
    /// # Errors
    /// When `cells` are no row of the layout, or hold floats that are not finite; the memory stays
    /// as it was.
    pub fn insert(&mut self, cells: &[LeafRef<'_>]) -> Result<ItemId, Error> {
        self.insert_leaf("PrioritizedMemory::insert", cells, self.largest)
    }

    /// [`PrioritizedMemory::insert`] of a row whose TD error is known.
    ///
    /// # Errors
    /// As [`PrioritizedMemory::insert`], and when the TD error is not finite.
    pub fn insert_with(&mut self, cells: &[LeafRef<'_>], td_error: f32) -> Result<ItemId, Error> {
        check_lengths("PrioritizedMemory::insert_with", 1, &[td_error])?;
        let leaf = self.leaf_of(td_error);
        let id = self.insert_leaf("PrioritizedMemory::insert_with", cells, leaf)?;
        self.largest = self.largest.max(leaf);
        Ok(id)
    }

    fn insert_leaf(
        &mut self,
        method: &'static str,
        cells: &[LeafRef<'_>],
        leaf: f32,
    ) -> Result<ItemId, Error> {
        let slot = self.ring.head as u32;
        let id = self.ring.insert(method, cells)?;
        self.tree.set_leaf(slot, leaf);
        self.pending += 1;
        Ok(id)
    }

    /// Inserts the rows of a block in their order, each with its TD error, and gives the first
    /// one's number; the others' follow.
    ///
    /// # Errors
    /// When the block has another layout, its rows and the TD errors differ in number, or a TD
    /// error is not finite; the memory stays as it was.
    pub fn insert_rows_with(&mut self, block: &Rows, td_errors: &[f32]) -> Result<ItemId, Error> {
        let method = "PrioritizedMemory::insert_rows_with";
        check_lengths(method, block.len(), td_errors)?;
        let mut slot = self.ring.head;
        let first = self.ring.insert_rows(method, block)?;
        for &td_error in td_errors {
            let leaf = self.leaf_of(td_error);
            self.largest = self.largest.max(leaf);
            self.tree.set_leaf(slot as u32, leaf);
            slot = if slot + 1 == self.ring.capacity {
                0
            } else {
                slot + 1
            };
        }
        self.pending += block.len();
        Ok(first)
    }

    /// Gives rows the priorities of new TD errors, and says how many rows it found. A row that was
    /// overwritten meanwhile is left alone and counted in [`PrioritizedMemory::n_stale_updates`].
    /// Of several errors for one row the last one holds.
    ///
    /// # Errors
    /// When the lists differ in length, or a TD error is not finite; the memory stays as it was.
    pub fn update(&mut self, ids: &[ItemId], td_errors: &[f32]) -> Result<usize, Error> {
        check_lengths("PrioritizedMemory::update", ids.len(), td_errors)?;
        self.changed.clear();
        for (&id, &td_error) in ids.iter().zip(td_errors) {
            let leaf = self.leaf_of(td_error);
            if let Some(slot) = self.ring.slot(id) {
                self.largest = self.largest.max(leaf);
                self.tree.set_leaf(slot, leaf);
                self.changed.push(slot);
            }
        }
        self.n_stale_updates += (ids.len() - self.changed.len()) as u64;
        self.tree.refresh(&self.changed);
        Ok(self.changed.len())
    }

    /// Above 0 and finite for every finite TD error.
    fn leaf_of(&self, td_error: f32) -> f32 {
        let Prioritization { alpha, epsilon } = self.prioritization;
        power((td_error.abs() + epsilon).min(f32::MAX), alpha)
    }

    /// Draws `n_items` rows into `batch`, one from each of `n_items` ranges of equal mass, with
    /// replacement, and their importance weights (N P(i))^-`beta`, divided by the largest that a
    /// row of the memory could have.
    ///
    /// `uniform()` gives a uniform random number from [0, 1).
    ///
    /// # Errors
    /// When the memory holds fewer than `n_items` rows, or `beta` is outside 0..=1; nothing is
    /// drawn then.
    ///
    /// # Panics
    /// When `uniform()` gives a number outside [0, 1).
    pub fn sample_into(
        &mut self,
        n_items: usize,
        beta: f32,
        uniform: &mut dyn FnMut() -> f64,
        batch: &mut PrioritizedBatch,
    ) -> Result<(), Error> {
        let method = "PrioritizedMemory::sample_into";
        self.ring.check_size(method, n_items)?;
        if !(0.0..=1.0).contains(&beta) {
            return Err(Error::mismatch(method, "beta", "0 to 1", beta));
        }
        self.refresh();
        let stride = self.tree.total() / n_items as f64;
        let masses = (0..n_items).map(|idx| {
            let drawn = uniform();
            assert!((0.0..1.0).contains(&drawn), "uniform() gave {drawn}");
            (idx as f64 + drawn) * stride
        });
        let smallest = self.tree.smallest();
        self.tree.draw(masses, &mut batch.slots);
        batch.ids.clear();
        batch.weights.clear();
        for &slot in &batch.slots {
            batch.ids.push(self.ring.id(slot));
            let ratio = smallest / self.tree.leaf(slot);
            batch.weights.push(power(ratio, beta));
        }
        Ok(())
    }

    /// Brings the rows that were inserted last into the sums.
    pub(crate) fn refresh(&mut self) {
        let n = self.pending.min(self.ring.capacity);
        self.pending = 0;
        let head = self.ring.head;
        if n == 0 {
            return;
        }
        if n <= head {
            self.tree.refresh_range(head - n, head);
            return;
        }
        let capacity = self.ring.capacity;
        self.tree.refresh_range(0, head);
        self.tree.refresh_range(capacity - (n - head), capacity);
    }

    /// Takes a state whose sums are made.
    pub(crate) fn replace(
        &mut self,
        ring: Ring,
        tree: SumTree,
        largest: f32,
        n_stale_updates: u64,
    ) {
        self.ring = ring;
        self.tree = tree;
        self.largest = largest;
        self.n_stale_updates = n_stale_updates;
        self.pending = 0;
    }

    /// Copies the rows `ids` into `out`, in that order; what `out` held goes.
    ///
    /// # Errors
    /// When a row is stale, or `out` has another layout; `out` stays as it was.
    pub fn gather_into(&self, ids: &[ItemId], out: &mut Rows) -> Result<(), Error> {
        self.ring
            .gather_into("PrioritizedMemory::gather_into", ids, out)
    }

    /// The priority of a row, (|TD error| + epsilon) ^ alpha; `None` when the row is stale.
    pub fn priority(&self, id: ItemId) -> Option<f32> {
        self.ring.slot(id).map(|slot| self.tree.leaf(slot))
    }

    /// The number of priorities that came for rows that were overwritten already.
    pub fn n_stale_updates(&self) -> u64 {
        self.n_stale_updates
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

fn check_lengths(method: &'static str, n_rows: usize, td_errors: &[f32]) -> Result<(), Error> {
    if td_errors.len() != n_rows {
        return Err(Error::mismatch(
            method,
            "the TD errors",
            format!("{n_rows}, one a row"),
            td_errors.len(),
        ));
    }
    let broken = td_errors.iter().position(|x| !x.is_finite());
    broken.map_or(Ok(()), |idx| {
        Err(Error::mismatch(
            method,
            format!("TD error {idx}"),
            "a finite number; find out where training diverged",
            td_errors[idx],
        ))
    })
}

/// The same bits on every machine, which the platform's own function does not promise.
fn power(base: f32, exponent: f32) -> f32 {
    libm::exp2(f64::from(exponent) * libm::log2(f64::from(base))) as f32
}

/// A tree without rows.
pub(crate) fn new_tree(method: &'static str, capacity: usize) -> Result<SumTree, Error> {
    SumTree::new(capacity).ok_or_else(|| {
        let n_bytes = SumTree::bytes(capacity);
        Error::NoRoom { method, n_bytes }
    })
}
