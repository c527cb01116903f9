//! Bytes of what processes tell each other: postcard bodies, frames with the length in front, calls
//! of a fixed length.

use crate::op::Call;
use crate::timeout::Expiry;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Between two looks at sockets.
pub(crate) const POLL_PAUSE: Duration = Duration::from_millis(1);

/// Bytes of a call; what it does not fill is zero.
pub(crate) const CALL_LEN: usize = 64;

/// Marks the start of a call in a stream.
const CALL_MARK: [u8; 4] = *b"call";

/// Length of a text in a message; a longer one is cut.
const MAX_TEXT_LEN: usize = 2048;

pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("messages are plain data in memory")
}

/// The value whose bytes are all of `bytes`.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Some(value),
        Ok(_) | Err(_) => None,
    }
}

/// The value as bytes, with their number in front.
pub(crate) fn frame<T: Serialize>(value: &T) -> Vec<u8> {
    let body = encode(value);
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// `text`, cut between characters to at most `max_len` bytes.
pub(crate) fn shortened(text: &str, max_len: usize) -> &str {
    &text[..text.floor_char_boundary(max_len)]
}

/// For `serialize_with`: a text of bounded length.
pub(crate) fn short_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(shortened(text, MAX_TEXT_LEN))
}

/// Appends [`CALL_LEN`] bytes.
pub(crate) fn put_call(call: &Call, bytes: &mut Vec<u8>) {
    let end = bytes.len() + CALL_LEN;
    bytes.extend(CALL_MARK);
    bytes.extend(encode(call));
    bytes.resize(end, 0);
}

/// The call of [`CALL_LEN`] bytes; `None` where no rank of this program wrote them.
pub(crate) fn call(bytes: &[u8]) -> Option<Call> {
    let body = bytes.get(..CALL_LEN)?.strip_prefix(&CALL_MARK)?;
    let (call, padding) = postcard::take_from_bytes(body).ok()?;
    padding.iter().all(|&byte| byte == 0).then_some(call)
}

/// Reads frames from a socket that does not block, and not one byte more than the frame.
#[derive(Default)]
pub(crate) struct FrameReader {
    bytes: Vec<u8>,
}

impl FrameReader {
    /// The body of the next frame, once all of it has come.
    pub(crate) fn poll(
        &mut self,
        stream: &TcpStream,
        max_len: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        loop {
            let n_missing = match self.bytes.split_first_chunk::<4>() {
                None => 4 - self.bytes.len(),
                Some((len, body)) => {
                    let len = u32::from_le_bytes(*len) as usize;
                    if len > max_len {
                        return Err(ErrorKind::InvalidData.into());
                    }
                    len - body.len()
                }
            };
            if n_missing == 0 {
                return Ok(Some(std::mem::take(&mut self.bytes).split_off(4)));
            }
            if !self.read(stream, n_missing)? {
                return Ok(None);
            }
        }
    }

    /// The body of the next frame, once all of it has come.
    ///
    /// # Errors
    /// Those of [`FrameReader::poll`]; [`ErrorKind::TimedOut`].
    pub(crate) fn wait(
        mut self,
        stream: &TcpStream,
        max_len: usize,
        expiry: Expiry,
    ) -> io::Result<Vec<u8>> {
        loop {
            match self.poll(stream, max_len)? {
                Some(body) => return Ok(body),
                None if expiry.left().is_none() => return Err(ErrorKind::TimedOut.into()),
                None => thread::sleep(POLL_PAUSE),
            }
        }
    }

    /// Reads at most `n` bytes; false if there is nothing to read now.
    fn read(&mut self, mut stream: &TcpStream, n: usize) -> io::Result<bool> {
        let known = self.bytes.len();
        self.bytes.resize(known + n, 0);
        let read = stream.read(&mut self.bytes[known..]);
        let n_read = read.as_ref().copied().unwrap_or_default();
        self.bytes.truncate(known + n_read);
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::op::{DataType, OpKind, Reduction};

    #[test]
    fn calls_come_back_and_other_bytes_do_not() {
        let longest = Call {
            data_type: Some(DataType::U8),
            len: usize::MAX,
            root: Some(u32::MAX),
            reduction: Some(Reduction::Min),
            algorithm: Some(Algorithm::ReduceScatterAllGather),
            counts_digest: u64::MAX,
            ..Call::new(u32::MAX, u64::MAX, OpKind::Send)
        };
        for call in [longest, Call::new(0, 0, OpKind::AllReduce)] {
            let mut bytes = Vec::new();
            put_call(&call, &mut bytes);
            assert_eq!(bytes.len(), CALL_LEN);
            assert_eq!(super::call(&bytes), Some(call));
            assert_eq!(super::call(&bytes[1..]), None);
            bytes[0] ^= 1;
            assert_eq!(super::call(&bytes), None);
        }
        assert_eq!(super::call(&[0; CALL_LEN]), None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened(&"\u{e4}".repeat(9), 5), "\u{e4}\u{e4}");
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn prefixes_and_longer_messages_are_no_values() {
        let bytes = encode(&(7u32, "text".to_string()));
        assert_eq!(decode(&bytes), Some((7u32, "text".to_string())));
        for len in 0..bytes.len() {
            assert_eq!(decode::<(u32, String)>(&bytes[..len]), None);
        }
        assert_eq!(decode::<(u32, String)>(&[bytes, vec![0]].concat()), None);
    }
}
