//! The outermost level of a binary protobuf message, field by field: offsets for errors, and no memory for what is not used.
//!
//! prost decodes whole messages; two bytes of file can become a few hundred bytes of an empty message. Walking the repeated
//! fields here and decoding their elements one by one keeps at most one of them in memory.

use shardgraph_costgraph::{Error, ErrorKind};

/// Walks over the fields of one message.
pub(crate) struct Fields<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Where `bytes` begins in the file.
    base: usize,
}

/// One field.
pub(crate) struct Field<'a> {
    pub(crate) number: u64,
    pub(crate) value: Value<'a>,
}

pub(crate) enum Value<'a> {
    Varint,
    /// The bytes and where they begin in the file.
    Bytes(&'a [u8], usize),
    /// Four or eight bytes that nothing here needs.
    Fixed,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(file: &'a str, bytes: &'a [u8], base: usize) -> Fields<'a> {
        Fields {
            file,
            bytes,
            at: 0,
            base,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, Error> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let start = self.at;
        let key = self.varint(start)?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => {
                self.varint(start)?;
                Value::Varint
            }
            1 => self.fixed(start, 8)?,
            5 => self.fixed(start, 4)?,
            2 => {
                let n_bytes = self.varint(start)?;
                let at = self.base + self.at;
                Value::Bytes(self.take(start, n_bytes)?, at)
            }
            other => {
                return Err(self.error(
                    start,
                    &format!("wire type {other} of field {number}; expected 0, 1, 2 or 5"),
                ));
            }
        };
        if number == 0 {
            return Err(self.error(start, "field number 0; the first possible one is 1"));
        }
        Ok(Some(Field { number, value }))
    }

    fn fixed(&mut self, start: usize, n_bytes: u64) -> Result<Value<'a>, Error> {
        self.take(start, n_bytes)?;
        Ok(Value::Fixed)
    }

    fn take(&mut self, start: usize, n_bytes: u64) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        if n_bytes > rest.len() as u64 {
            let message = format!(
                "a field of {n_bytes} bytes begins here, but only {} follow: the file is cut short or no protobuf",
                rest.len()
            );
            return Err(self.error(start, &message));
        }
        let taken = &rest[..n_bytes as usize];
        self.at += taken.len();
        Ok(taken)
    }

    fn varint(&mut self, start: usize) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err(self.error(start, "a number ends early: the file is cut short"));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.error(
            start,
            "a number of more than ten bytes; this is no protobuf",
        ))
    }

    fn error(&self, at: usize, message: &str) -> Error {
        let message = format!("byte {}: {message}", self.base + at);
        Error::new(ErrorKind::Syntax, message).or_at(self.file, 0, 0)
    }
}

/// An element decoded by prost, with the place of the element in an error.
pub(crate) fn decode<M: prost::Message + Default>(
    file: &str,
    what: &str,
    bytes: impl prost::bytes::Buf,
    at: usize,
) -> Result<M, Error> {
    M::decode(bytes).map_err(|e| {
        let message = format!("byte {at}: this is no {what}: {e}");
        Error::new(ErrorKind::Syntax, message).or_at(file, 0, 0)
    })
}
