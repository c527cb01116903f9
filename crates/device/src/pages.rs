//! Host memory for tables whose rows are visited at random: it begins at a cache line, and lies on huge pages where the system
//! has them, so that a visit seldom misses the processor's list of pages.
//!
//! All but small ones come from the system itself and go back to it at once. An allocator would keep them: glibc's serves ever
//! larger blocks from its heaps once such a block was freed, and holes between rows that come and go stay the process' memory.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buffer::Store;
use crate::device::BackEnd;
use crate::host_memory::free_host_bytes;
use crate::host_part::HostPart;
use crate::{Buffer, Device, Error, ErrorKind, Scalar};

/// A cache line.
const LINE: usize = 64;
/// What the common processors have as their next larger page.
const HUGE_PAGE: usize = 2 << 20;

/// From so many bytes on, tables are mapped.
const MAPPED: usize = match cfg!(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
)) {
    true => 128 << 10,
    false => usize::MAX,
};
/// A multiple of every size that small pages have.
const SMALL_PAGES: usize = 64 << 10;

/// An allocation, given back when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Pages` only gives the memory back, which any thread may do; who reads and writes it is its user's affair.
unsafe impl Send for Pages {}
// SAFETY: as above; `&Pages` does nothing at all.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.layout.size() >= MAPPED {
            let len = self.layout.size().next_multiple_of(SMALL_PAGES);
            // SAFETY: `map` made these pages, and nobody uses them any more.
            unsafe { unmap(self.start.as_ptr(), len) };
        } else {
            // SAFETY: allocated with this layout by `zeros`, and not given back before.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

impl Device {
    /// As [`Device::zeros`]; in host memory it begins at a cache line, and lies on huge pages where the system has them.
    ///
    /// # Errors
    /// As [`Device::zeros`]; [`ErrorKind::OutOfMemory`] where the system does not give so much.
    pub fn zeros_on_huge_pages<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match (&self.back_end, len) {
            (BackEnd::Host, 1..) => Ok(Buffer {
                store: Store::Part(zeros(len)?),
            }),
            _ => self.zeros(len),
        }
    }
}

/// So many zeros in a vector, on huge pages where the system has them.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`] where the system does not give so much.
pub fn zeros_vec_on_huge_pages(len: usize) -> Result<Vec<f32>, Error> {
    let mut values: Vec<f32> = Vec::new();
    values
        .try_reserve_exact(len)
        .map_err(|_| out_of_memory::<f32>(len))?;
    let room = values.spare_capacity_mut();
    let (bytes, start) = (size_of_val(room), room.as_mut_ptr().cast::<u8>());
    let before = start.align_offset(SMALL_PAGES);
    let whole = bytes.saturating_sub(before) / SMALL_PAGES * SMALL_PAGES;
    if bytes >= HUGE_PAGE
        && let Some(first) = NonNull::new(start.wrapping_add(before))
    {
        // Before they are touched: the first touch decides what a page is.
        ask_for_huge_pages(first, whole);
    }
    values.resize(len, 0.0);
    Ok(values)
}

fn out_of_memory<T>(len: usize) -> Error {
    let wanted = (len as u64).saturating_mul(size_of::<T>() as u64);
    let (device, free) = ("host".to_owned(), free_host_bytes().unwrap_or(0));
    Error::from(ErrorKind::OutOfMemory {
        device,
        wanted,
        free,
    })
}

fn zeros<T: Scalar>(len: usize) -> Result<HostPart<T>, Error> {
    let (layout, start) = allocate::<T>(len).ok_or_else(|| out_of_memory::<T>(len))?;
    if layout.size() >= HUGE_PAGE {
        ask_for_huge_pages(start, layout.size());
    }
    if layout.size() < MAPPED {
        // SAFETY: the allocation has this size. (Fresh pages of the system are zeros already.)
        unsafe { start.as_ptr().write_bytes(0, layout.size()) };
    }
    // SAFETY: `len` elements of zeros, which are a value of every Scalar, and nobody else has them.
    Ok(unsafe { HostPart::new(start.cast(), len, Arc::new(Pages { start, layout })) })
}

/// Memory for so many elements, which is not yet initialised; none if the system has no more.
fn allocate<T: Scalar>(len: usize) -> Option<(Layout, NonNull<u8>)> {
    let array = Layout::array::<T>(len).ok()?;
    let alignment = if array.size() < HUGE_PAGE {
        LINE
    } else {
        HUGE_PAGE
    };
    let layout = array.align_to(alignment).ok()?;
    let start = match layout.size() >= MAPPED {
        true => map(layout),
        // SAFETY: `len` is not 0, and a Scalar has a size.
        false => NonNull::new(unsafe { alloc(layout) }),
    };
    start.map(|start| (layout, start))
}

/// Asks for a cache line that will be wanted soon: a hint, which changes nothing.
#[inline(always)]
pub fn prefetch_line<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Whole pages for a layout; none if the system has no more.
fn map(layout: Layout) -> Option<NonNull<u8>> {
    let len = layout.size().checked_next_multiple_of(SMALL_PAGES)?;
    // Pages begin at a multiple of 4096; for more, a part of a larger range is taken.
    let slack = match layout.align() > 4096 {
        true => layout.align(),
        false => 0,
    };
    let range = map_range(len.checked_add(slack)?)?;
    let before = match slack {
        0 => 0,
        _ => range.as_ptr().align_offset(layout.align()),
    };
    let after = slack - before;
    // SAFETY: the offset is at most `slack`, so `len` bytes of the range follow. What is cut off before and behind them are whole
    // pages, as `layout.align()` and `len` are multiples of pages, and nobody uses them.
    unsafe {
        let start = range.add(before);
        if before > 0 {
            unmap(range.as_ptr(), before);
        }
        if after > 0 {
            unmap(start.add(len).as_ptr(), after);
        }
        Some(start)
    }
}

/// A range of fresh pages.
fn map_range(len: usize) -> Option<NonNull<u8>> {
    #[cfg(target_os = "linux")]
    {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new range wherever the system likes; it changes no other.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
        match start == libc::MAP_FAILED {
            true => None,
            false => NonNull::new(start.cast()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    unreachable!("{len} bytes: nothing is mapped here, see `MAPPED`")
}

/// Gives pages back.
///
/// # Safety
/// They are whole pages of [`map_range`], which nobody uses.
unsafe fn unmap(start: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: the caller's.
        let status = unsafe { libc::munmap(start.cast(), len) };
        // It fails for ranges that are none, and where a process has too many; the pages stay then.
        debug_assert_eq!(status, 0, "munmap");
    }
    #[cfg(not(target_os = "linux"))]
    unreachable!("{start:?}, {len} bytes: nothing is mapped here, see `MAPPED`")
}

/// Where the system has none, rows lie on small pages: slower, and right all the same.
fn ask_for_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: advice about whole pages of an allocation of ours; it changes no contents.
        let status = unsafe { libc::madvise(start.as_ptr().cast(), size, libc::MADV_HUGEPAGE) };
        // A kernel without huge pages answers EINVAL.
        debug_assert!(status == 0 || status == -1);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_begin_at_a_line_or_a_huge_page_and_hold_what_is_written() {
        let device = Device::host();
        let lens = [
            (1, LINE),
            (1000, LINE),
            (32 << 10, LINE),
            ((64 << 10) - 1, LINE),
        ];
        let large = [(512 << 10, HUGE_PAGE), ((3 << 20) + 5, HUGE_PAGE)];
        for (len, alignment) in lens.into_iter().chain(large) {
            let mut table = device.zeros_on_huge_pages::<f32>(len).unwrap();
            let values = table.as_host_mut().unwrap();
            assert_eq!(
                (values.len(), values.as_ptr() as usize % alignment),
                (len, 0)
            );
            assert!(values.iter().all(|&v| v.to_bits() == 0));
            values[len - 1] = 2.5;
            let moved = std::thread::spawn(move || table).join().unwrap();
            assert_eq!(
                moved.as_host().unwrap()[len - 1].to_bits(),
                2.5f32.to_bits()
            );
        }
        assert!(device.zeros_on_huge_pages::<u16>(0).unwrap().is_empty());
    }

    #[test]
    fn a_vector_of_zeros_has_its_length_and_holds_what_is_written() {
        for len in [0, 1, 1000, (512 << 10) - 1, (512 << 10) + 3, (3 << 20) + 5] {
            let mut values = zeros_vec_on_huge_pages(len).unwrap();
            assert!(values.len() == len && values.iter().all(|&v| v.to_bits() == 0));
            values.iter_mut().for_each(|v| *v = 2.5);
            assert_eq!(values.iter().filter(|&&v| v > 2.0).count(), len);
        }
        // More than an allocator is asked for: one that checks memory ends the program at less.
        let refused = zeros_vec_on_huge_pages(usize::MAX >> 2).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::OutOfMemory { .. }));
    }

    #[test]
    fn more_than_there_is_is_an_error_that_names_the_bytes() {
        let device = Device::host();
        for len in [usize::MAX >> 18, usize::MAX >> 4, usize::MAX] {
            let refused = device.zeros_on_huge_pages::<f32>(len).unwrap_err();
            let ErrorKind::OutOfMemory { wanted, .. } = refused.kind() else {
                panic!("{refused}")
            };
            assert_eq!(*wanted, (len as u64).saturating_mul(4));
        }
    }
}
