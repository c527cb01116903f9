//! Little-endian encoding of the shards' arrays, and a reader that checks lengths before it takes memory.

use std::ops::Range;

use crate::Error;

/// Takes values from the front of a byte slice; every shortage is an error that names the expected form.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    form: &'static str,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], form: &'static str) -> Reader<'a> {
        Reader { rest: bytes, form }
    }

    pub(crate) fn error(&self, reason: &'static str) -> Error {
        Error::malformed(self.form, reason)
    }

    pub(crate) fn magic(&mut self, magic: &[u8; 8]) -> Result<(), Error> {
        if self.take(8, 1)? != magic {
            return Err(self.error("the first 8 bytes are not this form and version"));
        }
        Ok(())
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        Ok(self.u32s(1)?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        Ok(self.u64s(1)?[0])
    }

    pub(crate) fn range(&mut self) -> Result<Range<u32>, Error> {
        let (start, end) = (self.u32()?, self.u32()?);
        if start > end {
            return Err(self.error("a range ends before it starts"));
        }
        Ok(start..end)
    }

    pub(crate) fn u32s(&mut self, n: u64) -> Result<Vec<u32>, Error> {
        let (values, _) = self.take(n, 4)?.as_chunks::<4>();
        Ok(values.iter().map(|&b| u32::from_le_bytes(b)).collect())
    }

    pub(crate) fn f32s(&mut self, n: u64) -> Result<Vec<f32>, Error> {
        let (values, _) = self.take(n, 4)?.as_chunks::<4>();
        Ok(values.iter().map(|&b| f32::from_le_bytes(b)).collect())
    }

    pub(crate) fn u64s(&mut self, n: u64) -> Result<Vec<u64>, Error> {
        let (values, _) = self.take(n, 8)?.as_chunks::<8>();
        Ok(values.iter().map(|&b| u64::from_le_bytes(b)).collect())
    }

    pub(crate) fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.error("bytes follow the last array"))
    }

    fn take(&mut self, n: u64, width: u64) -> Result<&'a [u8], Error> {
        let n_bytes = n
            .checked_mul(width)
            .and_then(|bytes| usize::try_from(bytes).ok());
        match n_bytes.and_then(|bytes| self.rest.split_at_checked(bytes)) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(self.error("the bytes end early")),
        }
    }
}

pub(crate) fn put_range(out: &mut Vec<u8>, range: &Range<u32>) {
    put_u32s(out, &[range.start, range.end]);
}

pub(crate) fn put_u32s(out: &mut Vec<u8>, values: &[u32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub(crate) fn put_f32s(out: &mut Vec<u8>, values: &[f32]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub(crate) fn put_u64s(out: &mut Vec<u8>, values: &[u64]) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}
