//! Elements in host memory that something else keeps: an arena, or pages of their own.

use std::ptr::NonNull;

use crate::owner::SharedOwner;

/// Elements in host memory that are lent out, or lie on pages of their own.
#[derive(Debug)]
pub(crate) struct HostPart<T> {
    first: NonNull<T>,
    len: usize,
    /// Keeps the memory there, and others away from these elements.
    _owner: SharedOwner,
}

// SAFETY: a part owns its elements as a Vec does (see `new`); a Scalar is Send and Sync, and so is the owner.
unsafe impl<T: Send> Send for HostPart<T> {}
// SAFETY: as above; `&HostPart` only reads.
unsafe impl<T: Sync> Sync for HostPart<T> {}

impl<T> HostPart<T> {
    /// # Safety
    /// `first` and `len` are initialised elements that exist as long as the owner, and which nobody else uses.
    pub(crate) unsafe fn new(first: NonNull<T>, len: usize, owner: SharedOwner) -> HostPart<T> {
        HostPart {
            first,
            len,
            _owner: owner,
        }
    }

    pub(crate) fn values(&self) -> &[T] {
        // SAFETY: the promise of `new`; `&self` keeps the elements from `values_mut`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `values`, with `&mut self` alone having the part.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}
