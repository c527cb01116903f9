//! The short messages between two ranks beside the collective operations: who has left, who gave up, who is there.

/// The length of every message.
pub(super) const MESSAGE_BYTES: usize = 512;
/// Bytes before the text.
const HEAD_BYTES: usize = 32;

/// What one rank tells another about a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// The communicator, see `Session`.
    pub(super) comm: u64,
    /// How many rounds the sender has completed in it.
    pub(super) round: u64,
    /// The sender, as a rank of the world.
    pub(super) from: u32,
    /// The rank of the world where it began.
    pub(super) origin: u32,
    /// What happened there, as text.
    pub(super) why: String,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The sender has dropped its communicator.
    Left,
    /// A thread panicked.
    Panicked,
    /// A rank gave up.
    Aborted,
    /// Who has come to this round?
    RollCall,
    /// I have.
    Here,
}

const KINDS: [Kind; 5] = [
    Kind::Left,
    Kind::Panicked,
    Kind::Aborted,
    Kind::RollCall,
    Kind::Here,
];

impl Kind {
    /// Whether it is the sender's last word on the communicator.
    pub(super) fn is_end(self) -> bool {
        matches!(self, Kind::Left | Kind::Panicked | Kind::Aborted)
    }
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut len = self.why.len().min(MESSAGE_BYTES - HEAD_BYTES);
        while !self.why.is_char_boundary(len) {
            len -= 1;
        }
        let kind = KINDS.iter().position(|kind| *kind == self.kind);
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        bytes.extend((kind.unwrap_or_default() as u32).to_le_bytes());
        bytes.extend((len as u32).to_le_bytes());
        bytes.extend(self.comm.to_le_bytes());
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.from.to_le_bytes());
        bytes.extend(self.origin.to_le_bytes());
        bytes.extend(&self.why.as_bytes()[..len]);
        bytes.resize(MESSAGE_BYTES, 0);
        bytes
    }

    /// `None` if no rank of this program wrote it.
    pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
        let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let text = bytes.get(HEAD_BYTES..HEAD_BYTES + half(4)? as usize)?;
        Some(Message {
            kind: *KINDS.get(half(0)? as usize)?,
            comm: word(8)?,
            round: word(16)?,
            from: half(24)?,
            origin: half(28)?,
            why: String::from_utf8_lossy(text).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_and_a_long_text_is_cut() {
        for kind in KINDS {
            let short = Message {
                kind,
                comm: 3,
                round: u64::MAX,
                from: 4,
                origin: 5,
                why: "disk full".to_string(),
            };
            assert_eq!(Message::decode(&short.encode()), Some(short.clone()));
            let long = Message {
                why: "\u{e9}".repeat(1000),
                ..short
            };
            let bytes = long.encode();
            assert_eq!(bytes.len(), MESSAGE_BYTES);
            let read = Message::decode(&bytes).unwrap();
            assert_eq!(read.why, "\u{e9}".repeat(240));
        }
        assert_eq!(Message::decode(&[255; MESSAGE_BYTES]), None);
        assert_eq!(Message::decode(&[0; 7]), None);
    }
}
