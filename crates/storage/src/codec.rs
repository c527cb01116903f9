//! One byte codec for messages between ranks and for files: numbers in little-endian order, slices and strings after their length.

use crate::Error;

/// Number with a fixed size in bytes.
pub trait Number: Copy {
    /// Size in bytes.
    const SIZE: usize;
    /// Name in messages.
    const NAME: &'static str;

    /// Writes the number in little-endian order into exactly [`Number::SIZE`] bytes.
    fn write_le(self, bytes: &mut [u8]);

    /// Number of exactly [`Number::SIZE`] bytes.
    fn read_le(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            const SIZE: usize = size_of::<$number>();
            const NAME: &'static str = stringify!($number);

            fn write_le(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }

            fn read_le(bytes: &[u8]) -> $number {
                let mut own = [0; size_of::<$number>()];
                own.copy_from_slice(bytes);
                <$number>::from_le_bytes(own)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64, f32, f64);

/// Writer of bytes that a [`Decoder`] reads.
///
/// ```
/// use shardgraph_storage::{Decoder, Encoder};
///
/// let mut out = Encoder::new();
/// out.number(7u64);
/// out.text("state");
/// out.numbers(&[0.5f32, -1.0]);
/// let bytes = out.finish();
///
/// let mut input = Decoder::new(&bytes);
/// assert_eq!(input.number::<u64>()?, 7);
/// assert_eq!(input.text()?, "state");
/// assert_eq!(input.numbers::<f32>()?, [0.5, -1.0]);
/// input.finish()?;
/// # Ok::<(), shardgraph_storage::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// Encoder without bytes.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Appends a number.
    pub fn number<T: Number>(&mut self, number: T) {
        let start = self.0.len();
        self.0.resize(start + T::SIZE, 0);
        number.write_le(&mut self.0[start..]);
    }

    /// Appends the length of a slice, then its numbers.
    pub fn numbers<T: Number>(&mut self, numbers: &[T]) {
        self.number(numbers.len() as u64);
        let start = self.0.len();
        self.0.resize(start + numbers.len() * T::SIZE, 0);
        let parts = self.0[start..].chunks_exact_mut(T::SIZE);
        parts
            .zip(numbers)
            .for_each(|(part, number)| number.write_le(part));
    }

    /// Appends the length of a run of bytes, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Appends a string, as its UTF-8 bytes.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// All bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reader of an [`Encoder`]'s bytes; it never panics, and allocates no more than the bytes that are there.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    n_bytes: usize,
}

impl<'a> Decoder<'a> {
    /// Decoder at the first of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder {
            rest: bytes,
            n_bytes: bytes.len(),
        }
    }

    /// Takes a number.
    ///
    /// # Errors
    /// [`Error::Truncated`] when too few bytes are left.
    pub fn number<T: Number>(&mut self) -> Result<T, Error> {
        self.take(T::SIZE, T::NAME).map(T::read_le)
    }

    /// Takes a slice of numbers.
    ///
    /// # Errors
    /// [`Error::Truncated`] when too few bytes are left.
    pub fn numbers<T: Number>(&mut self) -> Result<Vec<T>, Error> {
        let at = self.clone();
        let n_bytes = self.length()?.checked_mul(T::SIZE);
        let n_bytes = n_bytes.ok_or_else(|| at.expected("a slice of numbers"))?;
        let bytes = self.take(n_bytes, "a slice of numbers")?;
        Ok(bytes.chunks_exact(T::SIZE).map(T::read_le).collect())
    }

    /// Takes a run of bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] when too few bytes are left.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let len = self.length()?;
        self.take(len, "a run of bytes")
    }

    /// Takes a string.
    ///
    /// # Errors
    /// [`Error::Truncated`] when too few bytes are left, or they are no UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let at = self.clone();
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| at.expected("a string of UTF-8"))
    }

    /// Checks that no bytes are left.
    ///
    /// # Errors
    /// [`Error::Truncated`] when some are.
    pub fn finish(self) -> Result<(), Error> {
        match self.rest.is_empty() {
            true => Ok(()),
            false => Err(self.expected("the end")),
        }
    }

    fn length(&mut self) -> Result<usize, Error> {
        let at = self.clone();
        let len = self.number::<u64>()?;
        usize::try_from(len).map_err(|_| at.expected("a length"))
    }

    fn take(&mut self, n_bytes: usize, expected: &'static str) -> Result<&'a [u8], Error> {
        let Some((taken, rest)) = self.rest.split_at_checked(n_bytes) else {
            return Err(self.expected(expected));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn expected(&self, expected: &'static str) -> Error {
        Error::Truncated {
            at: self.n_bytes - self.rest.len(),
            expected,
            n_left: self.rest.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(words: &[u64], text: &str) -> Vec<u8> {
        let mut out = Encoder::new();
        out.numbers(words);
        out.text(text);
        out.number(1u8);
        out.finish()
    }

    fn decoded(bytes: &[u8]) -> Result<(Vec<u64>, String), Error> {
        let mut input = Decoder::new(bytes);
        let decoded = (input.numbers()?, input.text()?.to_owned());
        input.number::<u8>()?;
        input.finish()?;
        Ok(decoded)
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(words in prop::collection::vec(any::<u64>(), 0..20), text: String) {
            let bytes = encoded(&words, &text);
            prop_assert_eq!(decoded(&bytes).unwrap(), (words, text));
            for len in 0..bytes.len() {
                prop_assert!(decoded(&bytes[..len]).is_err());
            }
            prop_assert!(decoded(&[bytes, vec![0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decoded(&bytes);
        }
    }

    #[test]
    fn a_length_beyond_memory_is_refused() {
        let error = Decoder::new(&[0xff; 8]).numbers::<u64>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: expected a slice of numbers, found 8 more bytes"
        );
    }
}
