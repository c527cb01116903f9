//! The memory of a rank's network: one account through which training allocates its arrays, and
//! through which a dry run of the same code counts them.
//!
//! A dry [`Memory`] hands out arrays that have a length and no numbers. They read as empty slices,
//! so loops over their numbers end at once.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Bytes of a device, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Bytes {
    /// Weights of the input layer that the device owns and steps: a row of V for each of its nodes,
    /// or a row a pair.
    pub weights: u64,
    /// Inputs of its messages, where these are dealt by pair and not by source: copies of rows and
    /// activations, its own among them. Materialised weights W_r, where the run has them.
    pub copies: u64,
    /// Adam's two numbers for each weight.
    pub optimiser: u64,
    /// The part's edges and self loops by pair, with their normalisers.
    pub edges: u64,
    /// Outputs of each layer for the part's own nodes.
    pub units: u64,
    /// Sums over all nodes: integers of 8 bytes where they are exact, floats where other devices
    /// have a part in them.
    pub sums: u64,
    /// The other parameters, Adam's numbers for them, and their tables by relation.
    pub parameters: u64,
    /// Gradients that live for a part of a step, and the pieces in which ranks hand rows and
    /// gradients around.
    pub gradients: u64,
}

impl Bytes {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.resident() + self.streamed()
    }

    /// Bytes that a device holds all the time, however its sources are divided.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.copies + self.edges + self.units + self.sums + self.parameters + self.gradients
    }

    /// Bytes that come and go with the sources where they are divided into tiles.
    #[must_use]
    pub fn streamed(&self) -> u64 {
        self.weights + self.optimiser
    }

    fn of(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Weights => &mut self.weights,
            Purpose::Copies => &mut self.copies,
            Purpose::Optimiser => &mut self.optimiser,
            Purpose::Edges => &mut self.edges,
            Purpose::Units => &mut self.units,
            Purpose::Sums => &mut self.sums,
            Purpose::Parameters => &mut self.parameters,
            Purpose::Gradients => &mut self.gradients,
        }
    }
}

/// The field of [`Bytes`] that an array counts in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Weights,
    Copies,
    Optimiser,
    Edges,
    Units,
    Sums,
    Parameters,
    Gradients,
}

/// The bytes that are held now, and those at the fullest moment.
#[derive(Debug, Default)]
struct Account {
    held: Bytes,
    peak: Bytes,
}

/// The account of some arrays. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    account: Arc<Mutex<Account>>,
    is_dry: bool,
}

impl Memory {
    /// An account of arrays without numbers.
    pub(crate) fn dry() -> Memory {
        Memory {
            is_dry: true,
            ..Memory::default()
        }
    }

    /// A second account of the same kind.
    pub(crate) fn beside(&self) -> Memory {
        Memory {
            is_dry: self.is_dry,
            ..Memory::default()
        }
    }

    /// True if arrays have no numbers.
    pub(crate) fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// The bytes that are held now.
    pub(crate) fn held(&self) -> Bytes {
        self.lock().held
    }

    /// The bytes at the moment at which the most were held.
    pub(crate) fn peak(&self) -> Bytes {
        self.lock().peak
    }

    fn lock(&self) -> MutexGuard<'_, Account> {
        // An account is whole between any two of its operations.
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes that are not an array's.
    pub(crate) fn hold(&self, purpose: Purpose, n_bytes: u64) -> Held {
        let mut held = Held {
            place: Some((self.clone(), purpose)),
            n_bytes: 0,
        };
        held.set(n_bytes);
        held
    }

    /// An array of `len` zeros.
    pub(crate) fn zeros<T: Number>(&self, purpose: Purpose, len: usize) -> Array<T> {
        let mut array = self.with_capacity(purpose, len);
        array.resize(len);
        array
    }

    /// An empty array with room for some numbers.
    pub(crate) fn with_capacity<T: Number>(&self, purpose: Purpose, capacity: usize) -> Array<T> {
        let mut array = Array {
            values: Vec::new(),
            len: 0,
            capacity: 0,
            held: self.hold(purpose, 0),
        };
        array.reserve(capacity);
        array
    }

    /// An array of these numbers.
    pub(crate) fn copy<T: Number>(&self, purpose: Purpose, values: &[T]) -> Array<T> {
        let mut array = self.with_capacity(purpose, values.len());
        array.extend(values);
        array
    }
}

/// Bytes that an account counts for as long as this exists.
#[derive(Debug, Default)]
pub(crate) struct Held {
    place: Option<(Memory, Purpose)>,
    n_bytes: u64,
}

impl Held {
    /// Counts another number of bytes from now on.
    pub(crate) fn set(&mut self, n_bytes: u64) {
        if let Some((memory, purpose)) = &self.place {
            let mut account = memory.lock();
            let held = account.held.of(*purpose);
            *held = *held - self.n_bytes + n_bytes;
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

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        match &self.place {
            Some((memory, purpose)) => memory.hold(*purpose, self.n_bytes),
            None => Held::default(),
        }
    }
}

/// The number types of arrays.
pub(crate) trait Number: Copy + Default {}

impl Number for f32 {}
impl Number for i64 {}

/// An array of numbers of a [`Memory`]; the default one is of none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Array<T> {
    /// None in a dry run.
    values: Vec<T>,
    len: usize,
    capacity: usize,
    held: Held,
}

impl<T: Number> Array<T> {
    /// Its numbers, those of a dry run too.
    pub(crate) fn len(&self) -> usize {
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
    pub(crate) fn resize(&mut self, len: usize) {
        self.reserve(len);
        if !self.held.is_dry() {
            self.values.resize(len, T::default());
        }
        self.len = len;
    }

    /// Makes it `len` zeros.
    pub(crate) fn clear_to(&mut self, len: usize) {
        self.values.clear();
        self.resize(len);
    }

    /// Adds some numbers.
    pub(crate) fn extend(&mut self, values: &[T]) {
        self.reserve(self.len + values.len());
        self.values.extend_from_slice(values);
        self.len += values.len();
    }

    /// Makes it a copy of some numbers, without spare room.
    pub(crate) fn refill(&mut self, values: &[T]) {
        self.values.clear();
        self.values.shrink_to(values.len());
        (self.len, self.capacity) = (0, self.values.capacity());
        self.extend(values);
    }

    /// The numbers, which are no longer counted.
    pub(crate) fn into_vec(self) -> Vec<T> {
        self.values
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Array<T> {
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

    /// The same work by an account and by a dry one.
    fn work(memory: &Memory) -> (Bytes, Bytes) {
        let weights = memory.zeros::<f32>(Purpose::Weights, 100);
        let mut sums = memory.zeros::<i64>(Purpose::Sums, 10);
        sums.clear_to(30);
        sums.clear_to(20);
        let gradients = memory.zeros::<f32>(Purpose::Gradients, 50);
        let both = gradients.clone();
        drop((gradients, both));
        let lists = memory.hold(Purpose::Edges, 7);
        assert_eq!((weights.len(), sums.len()), (100, 20));
        let held = memory.held();
        drop((weights, sums, lists));
        (held, memory.peak())
    }

    #[test]
    fn a_dry_account_counts_as_the_other_does() {
        let (real, dry) = (Memory::default(), Memory::dry());
        let (held, peak) = work(&real);
        assert_eq!((held, peak), work(&dry));
        assert_eq!((held.weights, held.sums, held.edges), (400, 240, 7));
        assert_eq!((held.total(), peak.total()), (647, 1040));
        assert_eq!(peak.gradients, 400);
        assert_eq!((real.held(), dry.held()), Default::default());
    }

    #[test]
    fn arrays_of_a_dry_account_have_no_numbers() {
        let mut array = Memory::dry().zeros::<f32>(Purpose::Units, 4);
        assert!(array.iter().next().is_none() && array.iter_mut().next().is_none());
        array.extend(&[1.0]);
        assert_eq!(array.len(), 5);
    }
}
