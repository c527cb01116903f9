//! Messages as bytes: little-endian numbers, and lists behind their lengths.

use crate::episodes::Episode;
use crate::error::Error;

/// A message that is being written.
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { bytes: Vec::new() }
    }

    pub(crate) fn u64(mut self, number: u64) -> Writer {
        self.bytes.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn u64s(self, list: impl ExactSizeIterator<Item = u64>) -> Writer {
        let mut writer = self.u64(list.len() as u64);
        writer.bytes.extend(list.flat_map(u64::to_le_bytes));
        writer
    }

    pub(crate) fn f32s(self, list: &[f32]) -> Writer {
        let mut writer = self.u64(list.len() as u64);
        writer
            .bytes
            .extend(list.iter().flat_map(|x| x.to_le_bytes()));
        writer
    }

    pub(crate) fn bytes(self, list: &[u8]) -> Writer {
        let mut writer = self.u64(list.len() as u64);
        writer.bytes.extend_from_slice(list);
        writer
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A message that is being read; memory is taken only for what its bytes hold.
pub(crate) struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// `what` names the message in errors.
    pub(crate) fn new(what: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { what, rest: bytes }
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        let (number, rest) = self.rest.split_first_chunk().ok_or_else(|| self.torn())?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*number))
    }

    pub(crate) fn u64s(&mut self) -> Result<Vec<u64>, Error> {
        let (words, _) = self.list(8)?.as_chunks();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    pub(crate) fn f32s(&mut self) -> Result<Vec<f32>, Error> {
        let (words, _) = self.list(4)?.as_chunks();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Error> {
        self.list(1)
    }

    /// Nothing may follow.
    pub(crate) fn end(self) -> Result<(), Error> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.torn()),
        }
    }

    fn list(&mut self, element_bytes: usize) -> Result<&'a [u8], Error> {
        let n = self.u64()?;
        let n_bytes = usize::try_from(n)
            .ok()
            .and_then(|n| n.checked_mul(element_bytes));
        let split = n_bytes.and_then(|n_bytes| self.rest.split_at_checked(n_bytes));
        let (list, rest) = split.ok_or_else(|| self.torn())?;
        self.rest = rest;
        Ok(list)
    }

    #[cold]
    pub(crate) fn torn(&self) -> Error {
        Error::input(format!(
            "{} between ranks is damaged: start all ranks with the same program and settings",
            self.what
        ))
    }
}

/// A number alone.
pub(crate) fn number_to_bytes(number: u64) -> Vec<u8> {
    Writer::new().u64(number).finish()
}

pub(crate) fn number_from_bytes(bytes: &[u8]) -> Result<u64, Error> {
    let mut reader = Reader::new("a number", bytes);
    let number = reader.u64()?;
    reader.end()?;
    Ok(number)
}

/// Episodes behind what was written before.
pub(crate) fn episodes_to(writer: Writer, episodes: &[Episode]) -> Writer {
    let returns: Vec<f32> = episodes.iter().map(|of| of.episodic_return).collect();
    let lengths = episodes.iter().map(|of| of.length);
    writer.f32s(&returns).u64s(lengths)
}

pub(crate) fn episodes_of(reader: &mut Reader<'_>) -> Result<Vec<Episode>, Error> {
    let (returns, lengths) = (reader.f32s()?, reader.u64s()?);
    if returns.len() != lengths.len() {
        return Err(reader.torn());
    }
    let episode = |(episodic_return, length)| Episode {
        episodic_return,
        length,
    };
    Ok(returns.into_iter().zip(lengths).map(episode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes = Writer::new()
            .u64(7)
            .u64s([1, u64::MAX].into_iter())
            .f32s(&[0.5, -0.0])
            .bytes(b"abc")
            .finish();
        let mut reader = Reader::new("a message", &bytes);
        assert_eq!(reader.u64().unwrap(), 7);
        assert_eq!(reader.u64s().unwrap(), [1, u64::MAX]);
        assert_eq!(reader.f32s().unwrap(), [0.5, -0.0]);
        assert_eq!(reader.bytes().unwrap(), b"abc");
        reader.end().unwrap();
    }

    #[test]
    fn every_cut_and_every_surplus_is_an_error() {
        let bytes = Writer::new()
            .u64(7)
            .f32s(&[0.5, 1.5])
            .bytes(b"abc")
            .finish();
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new("a message", bytes);
            reader.u64()?;
            reader.f32s()?;
            reader.bytes()?;
            reader.end()
        };
        read(&bytes).unwrap();
        for end in 0..bytes.len() {
            let message = read(&bytes[..end]).unwrap_err().to_string();
            assert!(
                message.starts_with("a message between ranks is damaged"),
                "{message}"
            );
        }
        assert!(read(&[&bytes[..], b"x"].concat()).is_err());
        let huge = Writer::new().u64(7).u64(u64::MAX).finish();
        assert!(read(&huge).is_err());
    }
}
