//! The byte codec of memories and rows: little-endian numbers one after the other, and columns of
//! them.

use crate::error::Error;

/// The bytes that are still to be read.
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let Some((head, rest)) = self.rest.split_first_chunk() else {
            return Err(Error::malformed("the bytes end early"));
        };
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32, Error> {
        self.array().map(f32::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let Some((head, rest)) = self.rest.split_at_checked(n) else {
            return Err(Error::malformed("the bytes end early"));
        };
        self.rest = rest;
        Ok(head)
    }

    /// Takes memory as the numbers come, so that a length without its numbers takes none.
    pub(crate) fn u32s(&mut self, n: u32) -> Result<Vec<u32>, Error> {
        (0..n).map(|_| self.u32()).collect()
    }
}
