//! The short messages between two ranks beside the collective operations: which rank has left, gave
//! up, or has come.

use crate::codec;
use crate::rank_end::RankEnd;
use serde::{Deserialize, Serialize};

/// The length of every message; what it does not fill is zero.
pub(super) const MESSAGE_BYTES: usize = 512;
/// Longest text: the rest of a message takes at most 60 bytes.
const MAX_TEXT_LEN: usize = 440;

/// Message about the communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    /// Rounds that the sender has completed.
    pub(super) round: u64,
    /// The sender.
    pub(super) from: u32,
    pub(super) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Body {
    /// The last message of the sender.
    Ended(RankEnd),
    /// Question: which ranks have come to this round?
    Question,
    /// Answer: this rank has.
    Here,
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut message = self.clone();
        if let Body::Ended(end) = &mut message.body {
            end.why = codec::shortened(&end.why, MAX_TEXT_LEN).to_string();
        }
        let mut bytes = codec::encode(&message);
        bytes.resize(MESSAGE_BYTES, 0);
        bytes
    }

    /// `None` if no rank of this program wrote it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let (message, _padding) = postcard::take_from_bytes(bytes).ok()?;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank_end::Cause;

    #[test]
    fn a_message_comes_back_and_a_long_text_is_cut() {
        let end = |why: &str| {
            Body::Ended(RankEnd {
                seq: Some(u64::MAX),
                ..RankEnd::new(Cause::Aborted, Some(u32::MAX), why)
            })
        };
        for body in [Body::Question, Body::Here, end("disk full")] {
            let message = Message {
                round: u64::MAX,
                from: u32::MAX,
                body,
            };
            assert_eq!(Message::decode(&message.encode()), Some(message.clone()));
            let long = Message {
                body: end(&"\u{e9}".repeat(1000)),
                ..message
            };
            let bytes = long.encode();
            assert_eq!(bytes.len(), MESSAGE_BYTES);
            let read = Message::decode(&bytes).unwrap();
            assert_eq!(read.body, end(&"\u{e9}".repeat(220)));
        }
        assert_eq!(Message::decode(&[255; MESSAGE_BYTES]), None);
        assert_eq!(Message::decode(&[255; 7]), None);
    }
}
