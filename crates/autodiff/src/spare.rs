//! Results of an eager program that has ended, whose memory the next one writes to.

use std::collections::BTreeMap;

use shardgraph_device::{Buffer, Device, DeviceKind};

use crate::Error;

/// Buffers in host memory that nobody reads any more; see [`crate::Eager::with_spare`].
///
/// A new buffer has to be cleared, or its pages are when they are touched first: of a step that makes many large arrays and computes little on
/// each that is a good part. At most a quarter more is kept than the largest program had; what was not asked for of late goes first.
#[derive(Debug, Default)]
pub struct SpareBuffers {
    by_len: BTreeMap<usize, Shelf>,
    n_elements: usize,
    /// Elements of the largest program so far.
    most: usize,
    /// Programs that have ended.
    n_programs: u64,
}

/// Buffers of one length.
#[derive(Debug, Default)]
struct Shelf {
    buffers: Vec<Buffer>,
    /// The program that asked for this length last, or gave it back.
    used_by: u64,
}

/// Shorter ones are not worth looking for; tests have short ones.
const LEAST_LEN: usize = if cfg!(test) { 2 } else { 1024 };

impl SpareBuffers {
    /// A buffer of unspecified contents.
    pub(crate) fn take(&mut self, device: &Device, len: usize) -> Result<Buffer, Error> {
        let shelf = self.by_len.get_mut(&len);
        if let Some(shelf) = shelf.filter(|_| device.kind() == DeviceKind::Host) {
            shelf.used_by = self.n_programs;
            if let Some(buffer) = shelf.buffers.pop() {
                self.n_elements -= len;
                return Ok(buffer);
            }
        }
        Ok(device.zeros(len)?)
    }

    /// Takes over what a program has made.
    pub(crate) fn keep(&mut self, made: impl Iterator<Item = Buffer>) {
        let mut n_made = 0;
        let is_kept = |buffer: &Buffer| buffer.len() >= LEAST_LEN && buffer.as_host().is_some();
        for buffer in made.filter(is_kept) {
            let len = buffer.len();
            n_made += len;
            self.n_elements += len;
            let shelf = self.by_len.entry(len).or_default();
            shelf.used_by = self.n_programs;
            shelf.buffers.push(buffer);
        }
        self.most = self.most.max(n_made);
        self.n_programs += 1;
        while self.n_elements > self.most + self.most / 4 {
            self.drop_one();
        }
    }

    /// Fills all with NaN, so that what an operation leaves out shows.
    #[cfg(test)]
    pub(crate) fn poisoned(mut self) -> Self {
        let shelves = self.by_len.values_mut();
        for buffer in shelves.flat_map(|shelf| &mut shelf.buffers) {
            buffer.as_host_mut().unwrap().fill(f32::NAN);
        }
        self
    }

    /// Gives up one of the buffers that were not used for longest.
    fn drop_one(&mut self) {
        let filled = self
            .by_len
            .iter()
            .filter(|(_, shelf)| !shelf.buffers.is_empty());
        let Some((&len, _)) = filled.min_by_key(|(_, shelf)| shelf.used_by) else {
            return;
        };
        if let Some(shelf) = self.by_len.get_mut(&len) {
            self.n_elements -= shelf.buffers.pop().map_or(0, |buffer| buffer.len());
            if shelf.buffers.is_empty() {
                self.by_len.remove(&len);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(device: &Device, lens: &[usize]) -> Vec<Buffer> {
        lens.iter().map(|&len| device.zeros(len).unwrap()).collect()
    }

    #[test]
    fn a_buffer_comes_back_for_its_length_alone() {
        let (device, mut spare) = (Device::host(), SpareBuffers::default());
        let mut first = made(&device, &[2000, 3000, 1]);
        first[0].as_host_mut().unwrap().fill(7.0);
        spare.keep(first.into_iter());
        let again = spare.take(&device, 2000).unwrap();
        assert!(again.as_host().unwrap().iter().all(|&x| x > 6.0));
        let new = spare.take(&device, 2000).unwrap();
        assert!(new.as_host().unwrap().iter().all(|x| x.to_bits() == 0));
        assert_eq!(spare.n_elements, 3000, "short ones are not kept");
        assert_eq!(spare.take(&device, 1).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_asked_for_goes_and_the_rest_is_bounded() {
        let (device, mut spare) = (Device::host(), SpareBuffers::default());
        for len in (0..20).map(|i| 2000 + i) {
            let used = spare.take(&device, 8000).unwrap();
            let one = made(&device, &[len]).remove(0);
            spare.keep([used, one].into_iter());
            assert!(spare.n_elements <= spare.most + spare.most / 4);
            assert!(
                spare.by_len.contains_key(&8000),
                "asked for by every program"
            );
        }
        assert!(spare.n_elements >= 10_000);
        assert!(!spare.by_len.contains_key(&2000));
    }
}
