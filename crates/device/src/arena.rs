//! One allocation that is lent out in parts at fixed places: what a program with known lifetimes computes in.
//!
//! A part is a [`Buffer`] like any other. Two parts that live at the same time never overlap: [`Arena::take`] refuses,
//! so a wrong plan is an error and never a value read after it was overwritten. [`Places`] are parts that are made once and
//! lent out again and again.

mod places;

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buffer::Store;
use crate::device::BackEnd;
use crate::gpu::memory::Memory;
use crate::host_part::HostPart;
use crate::{Buffer, Device, Error};

pub use places::Places;

/// One allocation of `f32` on a device, lent out in parts.
///
/// ```
/// use shardgraph_device::Device;
/// let device = Device::host();
/// let arena = device.arena(8)?;
/// let mut low = arena.take(0, 4)?;
/// device.write(&[1.0; 4], &mut low)?;
/// assert!(arena.take(3, 2).is_err()); // the element 3 is lent out
/// drop(low);
/// assert_eq!(arena.take(3, 2)?.len(), 2);
/// # Ok::<(), shardgraph_device::Error>(())
/// ```
#[derive(Debug)]
pub struct Arena {
    space: Arc<Space>,
}

/// The whole allocation, and where parts of it are lent out.
#[derive(Debug)]
pub(crate) struct Space {
    whole: Whole,
    len: usize,
    /// The end of each live part, by its first element.
    lent: Mutex<BTreeMap<usize, usize>>,
}

#[derive(Debug)]
enum Whole {
    Host(Box<[UnsafeCell<f32>]>),
    Gpu(Memory),
}

// SAFETY: the cells are reached through parts only, each of which has its elements alone (`Arena::take` and
// `Places::take` lend none twice) and gives access to them as `&self` and `&mut self` say; the rest of a space is behind a mutex or never changes.
unsafe impl Sync for Space {}

impl Space {
    fn lent(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        // The map is consistent between any two statements, so a panic elsewhere does not spoil it.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends `first..first + len`, unless some of it is lent out.
    fn lend(self: &Arc<Self>, first: usize, len: usize) -> Result<Lease, Error> {
        let refused = |why: String| Err(Error::invalid("arena", why));
        let end = match first.checked_add(len) {
            Some(end) if end <= self.len => end,
            _ => {
                return refused(format!(
                    "{len} elements from {first} on were asked for, it has {}",
                    self.len
                ));
            }
        };
        let mut lent = self.lent();
        if let Some((&other, &other_end)) = lent.range(..end).next_back()
            && other_end > first
        {
            return refused(format!(
                "{first}..{end} was asked for while {other}..{other_end} is lent out"
            ));
        }
        lent.insert(first, end);
        drop(lent);
        Ok(Lease {
            space: Arc::clone(self),
            first,
        })
    }
}

/// The right to some elements of a space; given back when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    space: Arc<Space>,
    first: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.space.lent().remove(&self.first);
    }
}

impl Device {
    /// Allocates an arena of `len` zeros.
    ///
    /// # Errors
    /// As [`Device::zeros`].
    pub fn arena(&self, len: usize) -> Result<Arena, Error> {
        let whole = match &self.back_end {
            BackEnd::Host => Whole::Host((0..len).map(|_| UnsafeCell::new(0.0)).collect()),
            BackEnd::Gpu(gpu) => match gpu.zeros::<f32>(len)?.store {
                Store::Gpu(memory) => Whole::Gpu(memory),
                Store::Host(_) | Store::Part(_) => unreachable!("a GPU allocates its own memory"),
            },
        };
        let space = Space {
            whole,
            len,
            lent: Mutex::default(),
        };
        Ok(Arena {
            space: Arc::new(space),
        })
    }
}

impl Arena {
    /// Alignment of a part's first element that every kernel is content with, in elements (256 bytes).
    pub const ALIGNMENT: usize = 64;

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.space.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lends the elements `first..first + len` as a buffer of unspecified contents, until that is dropped; on a GPU the
    /// place has to be aligned ([`Arena::ALIGNMENT`]).
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`] outside of the arena, for a place that is not aligned, and while some of the elements
    /// are lent out.
    /// # Complexity
    /// A look-up among the live parts; nothing is allocated but the look-up's entry.
    pub fn take(&self, first: usize, len: usize) -> Result<Buffer, Error> {
        if len == 0 && first <= self.len() {
            return self.nothing();
        }
        let lease = self.space.lend(first, len)?;
        self.part(first, len, Arc::new(lease))
    }

    /// The elements `first..first + len`, which are inside of the arena and of what the lease is for.
    fn part(&self, first: usize, len: usize, lease: Arc<Lease>) -> Result<Buffer, Error> {
        let store = match &self.space.whole {
            Whole::Host(cells) => {
                let start = NonNull::from(&cells[first..first + len]).cast();
                // SAFETY: initialised elements of the space, which the lease gives to this part alone.
                Store::Part(unsafe { HostPart::new(start, len, lease) })
            }
            Whole::Gpu(_) if !first.is_multiple_of(Self::ALIGNMENT) => {
                let alignment = Self::ALIGNMENT;
                let why = format!("a part starts at a multiple of {alignment}, not at {first}");
                return Err(Error::invalid("arena", why));
            }
            Whole::Gpu(memory) => Store::Gpu(memory.part(first, len, Some(lease))),
        };
        Ok(Buffer { store })
    }

    /// A part without elements overlaps with nothing.
    fn nothing(&self) -> Result<Buffer, Error> {
        Ok(match &self.space.whole {
            Whole::Host(_) => Vec::new().into(),
            Whole::Gpu(memory) => Buffer {
                store: Store::Gpu(memory.part(0, 0, None)),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::devices;

    proptest! {
        /// What is lent out is never lent again, everything else is, and values stay where they are.
        #[test]
        fn parts_never_overlap(steps in prop::collection::vec((0usize..12, 0usize..5, any::<bool>()), 1..40)) {
            for device in devices() {
                let arena = device.arena(10 * Arena::ALIGNMENT).unwrap();
                let mut live: Vec<(usize, usize, f32, Buffer)> = Vec::new();
                for (i, &(place, blocks, give_back)) in steps.iter().enumerate() {
                    let (first, len) = (place * Arena::ALIGNMENT, blocks * Arena::ALIGNMENT);
                    if give_back && !live.is_empty() {
                        let _ = live.swap_remove(i % live.len());
                    }
                    let overlaps = live.iter().any(|(f, l, ..)| len > 0 && first < f + l && *f < first + len);
                    let part = arena.take(first, len);
                    prop_assert_eq!(part.is_ok(), !overlaps && first + len <= arena.len());
                    if let Ok(mut part) = part {
                        device.write(&vec![i as f32; len], &mut part).unwrap();
                        if len > 0 {
                            live.push((first, len, i as f32, part));
                        }
                    }
                    for (_, len, value, part) in &live {
                        prop_assert_eq!(device.download(part).unwrap(), vec![*value; *len]);
                    }
                }
            }
        }
    }

    #[test]
    fn parts_keep_the_memory_and_may_change_threads() {
        for device in devices() {
            let arena = device.arena(128).unwrap();
            let mut part = arena.take(64, 3).unwrap();
            drop(arena);
            device.write(&[1.0, 2.0, 3.0], &mut part).unwrap();
            let values = std::thread::scope(|scope| {
                scope
                    .spawn(|| device.download(&part).unwrap())
                    .join()
                    .unwrap()
            });
            assert_eq!(values, [1.0, 2.0, 3.0]);
        }
    }
}
