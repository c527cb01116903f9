//! Memory of a device and points of its streams, which are given back when dropped.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::driver::Driver;
use super::traffic::MemoryCounter;
use crate::Error;
use crate::owner::SharedOwner;

/// Memory of a device, given back when its owner and all graphs with launches on it are dropped.
#[derive(Debug)]
pub(crate) struct Memory(Arc<Allocation>);

/// What a [`Memory`] and the graphs that were captured with it share.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(super) driver: Arc<dyn Driver>,
    /// 0 when there are no bytes.
    pub(super) address: u64,
    pub(super) bytes: usize,
    /// Where streams of other ranks are done reading this; waited for before it is written or given back.
    readers: Mutex<Vec<Arc<Mark>>>,
    /// Counts the bytes of a whole allocation.
    counter: Option<Arc<MemoryCounter>>,
    /// What keeps the memory allocated, where this is a part of an arena.
    pub(super) lease: Option<SharedOwner>,
}

impl Memory {
    /// A whole allocation of the driver; no address for no bytes.
    pub(super) fn new(
        driver: &Arc<dyn Driver>,
        address: u64,
        bytes: usize,
        counter: &Arc<MemoryCounter>,
    ) -> Memory {
        counter.add(bytes);
        Memory(Arc::new(Allocation {
            counter: Some(Arc::clone(counter)),
            driver: Arc::clone(driver),
            address,
            bytes,
            readers: Mutex::default(),
            lease: None,
        }))
    }

    /// Another owner of the same memory, for a graph.
    pub(super) fn share(&self) -> Arc<Allocation> {
        Arc::clone(&self.0)
    }

    /// The allocation, unless a graph has a part in it.
    pub(super) fn alone(&mut self) -> Option<&mut Allocation> {
        Arc::get_mut(&mut self.0)
    }

    /// The `len` `f32` from `first` on, which the lease gives to who asks; none with no elements.
    pub(crate) fn part(&self, first: usize, len: usize, lease: Option<SharedOwner>) -> Memory {
        let bytes = len * size_of::<f32>();
        let address = match bytes {
            0 => 0,
            _ => self.address + (first * size_of::<f32>()) as u64,
        };
        Memory(Arc::new(Allocation {
            counter: None,
            driver: Arc::clone(&self.driver),
            address,
            bytes,
            readers: Mutex::default(),
            lease,
        }))
    }
}

impl Deref for Memory {
    type Target = Allocation;

    fn deref(&self) -> &Allocation {
        &self.0
    }
}

impl Allocation {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// Keeps the memory as it is until the stream of a reader has come to `done`.
    pub(crate) fn read_until(&self, done: &Arc<Mark>) {
        self.readers().push(Arc::clone(done));
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Arc<Mark>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets what the owner's stream does from here on come after all reading.
    pub(crate) fn wait_for_readers(&self) -> Result<(), Error> {
        let readers = std::mem::take(&mut *self.readers());
        readers
            .iter()
            .try_for_each(|done| self.driver.wait(done.event))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Where readers cannot be waited for, the device has failed: memory that may still be read is not given back.
        if self.bytes == 0 {
            return;
        }
        match (self.wait_for_readers(), self.lease.take()) {
            (Ok(()), None) => {
                self.driver.free(self.address);
                if let Some(counter) = &self.counter {
                    counter.sub(self.bytes);
                }
            }
            (Ok(()), Some(lease)) => drop(lease),
            (Err(_), lease) => std::mem::forget(lease),
        }
    }
}

/// A point of a stream.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(super) driver: Arc<dyn Driver>,
    pub(super) event: u64,
}

impl Mark {
    pub(crate) fn has_happened(&self) -> Result<bool, Error> {
        self.driver.has_happened(self.event)
    }

    pub(crate) fn elapsed_ms(&self, since: &Mark) -> Result<f64, Error> {
        match self.driver.device_id() == since.driver.device_id() {
            true => self.driver.elapsed_ms(since.event, self.event),
            false => Err(Error::other_device("elapsed_ms", self.driver.kind())),
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.driver.destroy_event(self.event);
    }
}
