//! Host memory for tables whose rows are visited at random: it begins at a cache line, and lies on huge pages where the system
//! has them, so that a visit seldom misses the processor's list of pages.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::arena::HostPart;
use crate::buffer::Store;
use crate::device::BackEnd;
use crate::{Buffer, Device, Error, Scalar};

/// A cache line.
const LINE: usize = 64;
/// What the common processors have as their next larger page.
const HUGE_PAGE: usize = 2 << 20;

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
        // SAFETY: allocated with this layout by `zeros`, and not given back before.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Device {
    /// As [`Device::zeros`]; in host memory it begins at a cache line, and lies on huge pages where the system has them.
    ///
    /// # Errors
    /// As [`Device::zeros`].
    pub fn zeros_on_huge_pages<T: Scalar>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match (&self.back_end, len) {
            (BackEnd::Host(_), 1..) => Ok(Buffer {
                store: Store::Part(zeros(len)),
            }),
            _ => self.zeros(len),
        }
    }
}

fn zeros<T: Scalar>(len: usize) -> HostPart<T> {
    let array = Layout::array::<T>(len).expect("a table is smaller than the address space");
    let alignment = if array.size() < HUGE_PAGE {
        LINE
    } else {
        HUGE_PAGE
    };
    let layout = array
        .align_to(alignment)
        .expect("a table is smaller than the address space");
    // SAFETY: `len` is not 0, and a Scalar has a size.
    let start = unsafe { alloc(layout) };
    let Some(start) = NonNull::new(start) else {
        handle_alloc_error(layout)
    };
    if layout.size() >= HUGE_PAGE {
        ask_for_huge_pages(start, layout.size());
    }
    // SAFETY: the allocation has this size, and zeros are a value of every Scalar.
    unsafe { start.as_ptr().write_bytes(0, layout.size()) };
    // SAFETY: `len` elements, initialised above, which nobody else has.
    unsafe { HostPart::owning(start.cast(), len, Pages { start, layout }) }
}

/// Where the system has none, rows lie on small pages: slower, and right all the same.
fn ask_for_huge_pages(start: NonNull<u8>, size: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::ffi::{c_int, c_void};
        unsafe extern "C" {
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }
        const MADV_HUGEPAGE: c_int = 14;
        // SAFETY: advice about whole pages of an allocation of ours; it changes no contents.
        let status = unsafe { madvise(start.as_ptr().cast(), size, MADV_HUGEPAGE) };
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
        for (len, alignment) in [(1, LINE), (1000, LINE), ((3 << 20) + 5, HUGE_PAGE)] {
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
}
