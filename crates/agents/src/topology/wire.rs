//! Messages as bytes: postcard's form of plain data.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Error;

pub(crate) fn to_bytes<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_allocvec(message).expect("messages are plain data in memory")
}

/// The message whose bytes are all of `bytes`; `what` names it where they are damaged.
pub(crate) fn from_bytes<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, Error> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(Error::input(format!(
            "{what} between ranks is damaged: start all ranks with the same program and settings"
        ))),
    }
}

/// Bytes within a message, written and read as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes<'de>, D::Error> {
        <&[u8]>::deserialize(deserializer).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Message<'a> = (u64, Vec<u64>, Vec<f32>, Bytes<'a>);

    #[test]
    fn what_is_written_is_read() {
        let message = (7, vec![1, u64::MAX], vec![0.5, -0.0], Bytes(b"abc"));
        let bytes = to_bytes(&message);
        let read: Message<'_> = from_bytes("a message", &bytes).unwrap();
        assert_eq!(read, message);
        assert_eq!(read.2[1].to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn every_cut_and_every_surplus_is_an_error() {
        let bytes = to_bytes(&(7u64, vec![3u64], vec![0.5f32, 1.5], Bytes(b"abc")));
        let read = |bytes: &[u8]| from_bytes::<Message<'_>>("a message", bytes).map(drop);
        read(&bytes).unwrap();
        for end in 0..bytes.len() {
            let message = read(&bytes[..end]).unwrap_err().to_string();
            assert!(
                message.starts_with("a message between ranks is damaged"),
                "{message}"
            );
        }
        assert!(read(&[&bytes[..], b"x"].concat()).is_err());
        let huge = to_bytes(&(7u64, u64::MAX));
        assert!(read(&huge).is_err());
    }
}
