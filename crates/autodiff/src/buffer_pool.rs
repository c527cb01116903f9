//! Memory of eager programs that have ended, for the results of the next one.

use std::collections::BTreeMap;

use shardgraph_device::{Buffer, Device, DeviceKind};

use crate::Error;

/// Buffers in host memory that no program reads any more; see [`crate::Eager::with_pool`].
///
/// A new buffer has to be cleared, or its pages are when they are touched first: of a step that makes many large arrays and computes little on
/// each that is a good part. At most a quarter more is kept than the largest program had; what was not asked for of late goes first.
#[derive(Debug, Default)]
pub struct BufferPool {
    by_len: BTreeMap<usize, OneLength>,
    n_elements: usize,
    /// Elements of the largest program so far.
    most: usize,
    /// Programs that have ended.
    n_programs: u64,
}

/// Buffers of one length.
#[derive(Debug, Default)]
struct OneLength {
    buffers: Vec<Buffer>,
    /// The program that asked for this length last, or gave it back.
    used_by: u64,
}

/// Shorter ones are not worth looking for; tests have short ones.
const LEAST_LEN: usize = if cfg!(test) { 2 } else { 1024 };

impl BufferPool {
    /// A buffer of unspecified contents.
    pub(crate) fn take(&mut self, device: &Device, len: usize) -> Result<Buffer, Error> {
        let of_len = self.by_len.get_mut(&len);
        if let Some(of_len) = of_len.filter(|_| device.kind() == DeviceKind::Host) {
            of_len.used_by = self.n_programs;
            if let Some(buffer) = of_len.buffers.pop() {
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
            let of_len = self.by_len.entry(len).or_default();
            of_len.used_by = self.n_programs;
            of_len.buffers.push(buffer);
        }
        self.most = self.most.max(n_made);
        self.n_programs += 1;
        while self.n_elements > self.most + self.most / 4 {
            self.drop_one();
        }
    }

    /// Fills all with NaN, so that what an operation leaves out shows.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn poisoned(mut self) -> Self {
        let lengths = self.by_len.values_mut();
        for buffer in lengths.flat_map(|of_len| &mut of_len.buffers) {
            buffer.as_host_mut().unwrap_or_default().fill(f32::NAN);
        }
        self
    }

    /// Gives up one of the buffers that were not used for longest.
    fn drop_one(&mut self) {
        let filled = self
            .by_len
            .iter()
            .filter(|(_, of_len)| !of_len.buffers.is_empty());
        let Some((&len, _)) = filled.min_by_key(|(_, of_len)| of_len.used_by) else {
            return;
        };
        if let Some(of_len) = self.by_len.get_mut(&len) {
            self.n_elements -= of_len.buffers.pop().map_or(0, |buffer| buffer.len());
            if of_len.buffers.is_empty() {
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
        let (device, mut pool) = (Device::host(), BufferPool::default());
        let mut first = made(&device, &[2000, 3000, 1]);
        first[0].as_host_mut().unwrap().fill(7.0);
        pool.keep(first.into_iter());
        let again = pool.take(&device, 2000).unwrap();
        assert!(again.as_host().unwrap().iter().all(|&x| x > 6.0));
        let new = pool.take(&device, 2000).unwrap();
        assert!(new.as_host().unwrap().iter().all(|x| x.to_bits() == 0));
        assert_eq!(pool.n_elements, 3000, "short ones are not kept");
        assert_eq!(pool.take(&device, 1).unwrap().len(), 1);
    }

    #[test]
    fn what_is_not_asked_for_goes_and_the_rest_is_bounded() {
        let (device, mut pool) = (Device::host(), BufferPool::default());
        for len in (0..20).map(|i| 2000 + i) {
            let used = pool.take(&device, 8000).unwrap();
            let one = made(&device, &[len]).remove(0);
            pool.keep([used, one].into_iter());
            assert!(pool.n_elements <= pool.most + pool.most / 4);
            assert!(
                pool.by_len.contains_key(&8000),
                "asked for by every program"
            );
        }
        assert!(pool.n_elements >= 10_000);
        assert!(!pool.by_len.contains_key(&2000));
    }
}
