//! Messages as bytes on a connection: a header of 12 bytes (mark, tag, length; little-endian), then
//! the message.

use std::io::{self, ErrorKind, Read};

/// Frame of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Message {
        tag: u32,
        bytes: Vec<u8>,
    },
    /// Nothing but a sign of life.
    KeepAlive,
    /// Nothing more will come; the reason.
    Goodbye(String),
}

pub(super) const HEADER_BYTES: usize = 12;
const MESSAGE: u32 = 0x6d73_6753;
const KEEP_ALIVE: u32 = 0x6772_6565;
const GOODBYE: u32 = 0x6279_6521;
/// A reason is a line.
const MAX_GOODBYE_BYTES: usize = 4 << 10;

pub(super) fn message(tag: u32, bytes: &[u8]) -> Vec<u8> {
    frame(MESSAGE, tag, bytes)
}

pub(super) fn keep_alive() -> Vec<u8> {
    frame(KEEP_ALIVE, 0, &[])
}

pub(super) fn goodbye(why: &str) -> Vec<u8> {
    frame(GOODBYE, 0, why.as_bytes())
}

fn frame(mark: u32, tag: u32, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + bytes.len());
    for word in [mark, tag, bytes.len() as u32] {
        frame.extend(word.to_le_bytes());
    }
    frame.extend(bytes);
    frame
}

/// Reads one frame. Memory grows with the bytes that come, not with the length that the header
/// says.
pub(super) fn read(mut stream: impl Read, max_message_bytes: usize) -> io::Result<Frame> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header)?;
    let word = |place: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&header[4 * place..4 * place + 4]);
        u32::from_le_bytes(bytes)
    };
    let (mark, tag, len) = (word(0), word(1), word(2) as usize);
    let limit = match mark {
        MESSAGE => max_message_bytes,
        KEEP_ALIVE => 0,
        GOODBYE => MAX_GOODBYE_BYTES,
        _ => return Err(wrong("it sent something that is no message")),
    };
    if len > limit {
        return Err(wrong(&format!(
            "it sent a message of {len} bytes, at most {limit} are allowed: give all ranks the same limits"
        )));
    }
    let mut bytes = Vec::new();
    stream.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(match mark {
        MESSAGE => Frame::Message { tag, bytes },
        KEEP_ALIVE => Frame::KeepAlive,
        _ => Frame::Goodbye(String::from_utf8_lossy(&bytes).into_owned()),
    })
}

fn wrong(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_and_prefixes_do_not() {
        let long = vec![7u8; 100_000];
        let frames = [
            (
                message(9, &long),
                Frame::Message {
                    tag: 9,
                    bytes: long.clone(),
                },
            ),
            (
                message(u32::MAX, &[]),
                Frame::Message {
                    tag: u32::MAX,
                    bytes: Vec::new(),
                },
            ),
            (keep_alive(), Frame::KeepAlive),
            (goodbye("it left"), Frame::Goodbye("it left".to_string())),
        ];
        for (bytes, frame) in frames {
            assert_eq!(read(bytes.as_slice(), 100_000).unwrap(), frame);
            for len in (0..bytes.len()).step_by(bytes.len().div_ceil(50)) {
                let error = read(&bytes[..len], 100_000).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{len}");
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_stored() {
        let mut huge = message(1, &[]);
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut strange = keep_alive();
        strange[0] ^= 1;
        let mut full = keep_alive();
        full[8] = 1;
        for bytes in [huge, strange, full] {
            let error = read(bytes.as_slice(), 1 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        }
    }
}
