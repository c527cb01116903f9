//! Account of memory: a job allocates its arrays through it, and a dry run of the same code counts them.
//!
//! A dry [`Memory`] hands out arrays that have a length and no numbers. They read as empty slices,
//! so loops over their numbers end at once.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a job, by what they are for.
pub trait Bytes: Copy + Default + fmt::Debug {
    /// What bytes are for: a field.
    type Purpose: Copy + fmt::Debug;

    /// The field.
    fn of(&mut self, purpose: Self::Purpose) -> &mut u64;

    /// The sum of all fields.
    fn total(&self) -> u64;
}

/// The bytes that are held now, and those at the fullest moment.
#[derive(Debug, Default)]
struct Account<B> {
    held: B,
    peak: B,
    /// Each field's own largest number, whenever that was.
    highest: B,
}

/// The account of some arrays. Clones share it.
///
/// ```
/// use shardgraph_job::{Bytes, Memory};
/// #[derive(Clone, Copy, Debug, Default)]
/// struct RowBytes(u64);
/// impl Bytes for RowBytes {
///     type Purpose = ();
///     fn of(&mut self, (): ()) -> &mut u64 {
///         &mut self.0
///     }
///     fn total(&self) -> u64 {
///         self.0
///     }
/// }
///
/// fn work(memory: &Memory<RowBytes>) -> usize {
///     memory.zeros::<f32>((), 100).iter().count()
/// }
/// let (real, dry) = (Memory::<RowBytes>::default(), Memory::<RowBytes>::dry());
/// assert_eq!((work(&real), work(&dry)), (100, 0));
/// assert_eq!((real.peak().total(), dry.peak().total()), (400, 400));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memory<B: Bytes> {
    account: Arc<Mutex<Account<B>>>,
    is_dry: bool,
}

impl<B: Bytes> Memory<B> {
    /// An account of arrays without numbers.
    #[must_use]
    pub fn dry() -> Memory<B> {
        Memory {
            is_dry: true,
            ..Memory::default()
        }
    }

    /// A second account of the same kind.
    #[must_use]
    pub fn beside(&self) -> Memory<B> {
        Memory {
            is_dry: self.is_dry,
            ..Memory::default()
        }
    }

    /// True if arrays have no numbers.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// The bytes that are held now.
    #[must_use]
    pub fn held(&self) -> B {
        self.lock().held
    }

    /// The bytes at the moment at which the most were held.
    #[must_use]
    pub fn peak(&self) -> B {
        self.lock().peak
    }

    /// The most bytes of each field, which need not have been held at one moment.
    #[must_use]
    pub fn highest(&self) -> B {
        self.lock().highest
    }

    fn lock(&self) -> MutexGuard<'_, Account<B>> {
        // An account is whole between any two of its operations.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that are not an array's.
    #[must_use]
    pub fn hold(&self, purpose: B::Purpose, n_bytes: u64) -> Held<B> {
        let mut held = Held {
            place: Some((self.clone(), purpose)),
            n_bytes: 0,
        };
        held.set(n_bytes);
        held
    }

    /// An array of `len` zeros.
    #[must_use]
    pub fn zeros<T: Copy + Default>(&self, purpose: B::Purpose, len: usize) -> Array<T, B> {
        let mut array = self.with_capacity(purpose, 0);
        if !self.is_dry {
            array.values = vec![T::default(); len];
        }
        (array.len, array.capacity) = (len, len);
        array.held.set((len * size_of::<T>()) as u64);
        array
    }

    /// An empty array with room for some numbers.
    #[must_use]
    pub fn with_capacity<T: Copy + Default>(
        &self,
        purpose: B::Purpose,
        capacity: usize,
    ) -> Array<T, B> {
        let mut array = Array {
            values: Vec::new(),
            len: 0,
            capacity: 0,
            held: self.hold(purpose, 0),
        };
        array.reserve(capacity);
        array
    }

    /// A copy of an array, which may be of another account or purpose.
    #[must_use]
    pub fn duplicate<T: Copy + Default>(
        &self,
        purpose: B::Purpose,
        array: &Array<T, B>,
    ) -> Array<T, B> {
        match self.is_dry {
            true => self.zeros(purpose, array.len()),
            false => self.copy(purpose, array),
        }
    }

    /// An array of these numbers.
    #[must_use]
    pub fn copy<T: Copy + Default>(&self, purpose: B::Purpose, values: &[T]) -> Array<T, B> {
        let mut array = self.with_capacity(purpose, values.len());
        array.extend(values);
        array
    }

    /// An array of the first `len` numbers of these, which a dry run does not ask for.
    #[must_use]
    pub fn collect<T: Copy + Default>(
        &self,
        purpose: B::Purpose,
        len: usize,
        values: impl Iterator<Item = T>,
    ) -> Array<T, B> {
        let mut array = self.with_capacity(purpose, len);
        if !self.is_dry {
            array.values.extend(values.take(len));
            debug_assert_eq!(array.values.len(), len);
        }
        array.len = len;
        array
    }
}

/// Bytes that an account counts for as long as this exists.
#[derive(Debug)]
pub struct Held<B: Bytes> {
    place: Option<(Memory<B>, B::Purpose)>,
    n_bytes: u64,
}

impl<B: Bytes> Default for Held<B> {
    /// Bytes that no account counts.
    fn default() -> Held<B> {
        Held {
            place: None,
            n_bytes: 0,
        }
    }
}

impl<B: Bytes> Held<B> {
    /// Counts another number of bytes from now on.
    pub fn set(&mut self, n_bytes: u64) {
        if let Some((memory, purpose)) = &self.place {
            let mut account = memory.lock();
            let held = account.held.of(*purpose);
            *held = *held - self.n_bytes + n_bytes;
            let held = *held;
            let highest = account.highest.of(*purpose);
            *highest = held.max(*highest);
            if account.held.total() > account.peak.total() {
                account.peak = account.held;
            }
        }
        self.n_bytes = n_bytes;
    }

    fn is_dry(&self) -> bool {
        self.place.as_ref().is_some_and(|(memory, _)| memory.is_dry)
    }
}

impl<B: Bytes> Drop for Held<B> {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl<B: Bytes> Clone for Held<B> {
    fn clone(&self) -> Held<B> {
        match &self.place {
            Some((memory, purpose)) => memory.hold(*purpose, self.n_bytes),
            None => Held::default(),
        }
    }
}

/// An array of numbers of a [`Memory`]; the default one is of none.
#[derive(Clone, Debug)]
pub struct Array<T, B: Bytes> {
    /// None in a dry run.
    values: Vec<T>,
    len: usize,
    capacity: usize,
    held: Held<B>,
}

impl<T, B: Bytes> Default for Array<T, B> {
    fn default() -> Array<T, B> {
        Vec::new().into()
    }
}

#[expect(
    clippy::len_without_is_empty,
    reason = "`is_empty` is the slice's, which says whether there are numbers to work on"
)]
impl<T: Copy + Default, B: Bytes> Array<T, B> {
    /// Its numbers, those of a dry run too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Room for so many numbers, and no more where it has less now.
    fn reserve(&mut self, capacity: usize) {
        if capacity <= self.capacity {
            return;
        }
        if !self.held.is_dry() {
            self.values.reserve_exact(capacity - self.values.len());
        }
        self.capacity = capacity;
        self.held.set((capacity * size_of::<T>()) as u64);
    }

    /// Makes it `len` numbers long; new ones are zero.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len);
        if !self.held.is_dry() {
            self.values.resize(len, T::default());
        }
        self.len = len;
    }

    /// Makes it `len` zeros.
    pub fn clear_to(&mut self, len: usize) {
        self.values.clear();
        self.resize(len);
    }

    /// Adds some numbers.
    pub fn extend(&mut self, values: &[T]) {
        self.reserve(self.len + values.len());
        self.values.extend_from_slice(values);
        self.len += values.len();
    }

    /// Makes it a copy of some numbers, without spare room.
    pub fn refill(&mut self, values: &[T]) {
        self.values.clear();
        self.values.shrink_to(values.len());
        (self.len, self.capacity) = (0, self.values.capacity());
        self.extend(values);
    }

    /// Some of its numbers; none in a dry run.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> &[T] {
        match self.held.is_dry() {
            true => &[],
            false => &self.values[range],
        }
    }

    /// The same, for writing.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [T] {
        match self.held.is_dry() {
            true => &mut [],
            false => &mut self.values[range],
        }
    }

    /// The numbers, which are no longer counted.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.values
    }
}

impl<T, B: Bytes> Deref for Array<T, B> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T, B: Bytes> DerefMut for Array<T, B> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T, B: Bytes> From<Vec<T>> for Array<T, B> {
    fn from(values: Vec<T>) -> Array<T, B> {
        Array {
            len: values.len(),
            capacity: values.capacity(),
            values,
            held: Held::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Two {
        weights: u64,
        sums: u64,
    }

    #[derive(Clone, Copy, Debug)]
    enum Purpose {
        Weights,
        Sums,
    }

    impl Bytes for Two {
        type Purpose = Purpose;

        fn of(&mut self, purpose: Purpose) -> &mut u64 {
            match purpose {
                Purpose::Weights => &mut self.weights,
                Purpose::Sums => &mut self.sums,
            }
        }

        fn total(&self) -> u64 {
            self.weights + self.sums
        }
    }

    type Memory = super::Memory<Two>;

    /// The same work by an account and by a dry one.
    fn work(memory: &Memory) -> [Two; 3] {
        let weights = memory.zeros::<f32>(Purpose::Weights, 100);
        let mut sums = memory.zeros::<i64>(Purpose::Sums, 10);
        sums.clear_to(30);
        sums.clear_to(20);
        let gradients = memory.zeros::<f32>(Purpose::Weights, 50);
        let both = gradients.clone();
        drop((gradients, both));
        let lists = memory.collect(Purpose::Sums, 7, std::iter::repeat(1u8));
        assert_eq!((weights.len(), sums.len(), lists.len()), (100, 20, 7));
        let held = memory.held();
        drop(weights);
        let more = memory.zeros::<i64>(Purpose::Sums, 10);
        drop((sums, lists, more));
        [held, memory.peak(), memory.highest()]
    }

    #[test]
    fn a_dry_account_counts_as_the_other_does() {
        let (real, dry) = (Memory::default(), Memory::dry());
        let [held, peak, highest] = work(&real);
        assert_eq!([held, peak, highest], work(&dry));
        assert_eq!((held.weights, held.sums), (400, 247));
        assert_eq!((peak.weights, peak.sums), (800, 240));
        assert_eq!((highest.weights, highest.sums), (800, 327));
        assert_eq!((real.held(), dry.held()), Default::default());
    }

    #[test]
    fn arrays_of_a_dry_account_have_no_numbers() {
        let mut array = Memory::dry().zeros::<f32>(Purpose::Sums, 4);
        assert!(array.iter().next().is_none() && array.iter_mut().next().is_none());
        array.extend(&[1.0]);
        assert_eq!(array.len(), 5);
    }
}
