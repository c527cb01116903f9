//! One allocation that is lent out in parts at fixed places: what a program with known lifetimes computes in.
//!
//! A part is a [`Buffer`] like any other. [`Places`] are parts that are made once and lent out again and again; two that
//! are out at the same time never overlap, so a wrong plan is an error and never a value read after it was overwritten.

mod places;

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::buffer::Store;
use crate::device::BackEnd;
use crate::gpu::memory::Memory;
use crate::host_part::HostPart;
use crate::{Buffer, Device, Error};

pub use places::Places;

/// One allocation of `f32` on a device, lent out in parts: see [`Arena::places`].
#[derive(Debug)]
pub struct Arena {
    space: Arc<Space>,
}

/// The whole allocation, and whether it is lent out.
#[derive(Debug)]
pub(crate) struct Space {
    whole: Whole,
    len: usize,
    is_lent: AtomicBool,
}

#[derive(Debug)]
enum Whole {
    Host(Box<[UnsafeCell<f32>]>),
    Gpu(Memory),
}

// SAFETY: the cells are reached through parts only, each of which has its elements alone (one `Places` has the space at a
// time, and lends none twice) and gives access to them as `&self` and `&mut self` say; the rest of a space never changes.
unsafe impl Sync for Space {}

/// The right to all elements of a space, until the last part is dropped.
#[derive(Debug)]
pub(crate) struct Lease(Arc<Space>);

impl Lease {
    fn of(space: &Arc<Space>) -> Result<Lease, Error> {
        match space.is_lent.swap(true, Ordering::AcqRel) {
            false => Ok(Lease(Arc::clone(space))),
            true => Err(Error::invalid(
                "arena",
                "places were asked for while some of it is lent out",
            )),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.is_lent.store(false, Ordering::Release);
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
            is_lent: AtomicBool::new(false),
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
