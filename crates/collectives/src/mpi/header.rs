//! What the ranks tell each other before an operation: a [`Call`] in 64 bytes.

use crate::bytes::{self, CALL_LEN, put_call};
use crate::op::Call;

/// The length of a header.
pub(super) const HEADER_BYTES: usize = 64;
const _: () = assert!(CALL_LEN <= HEADER_BYTES);

/// The call, then zeros.
pub(super) fn encode(call: &Call) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    put_call(call, &mut bytes);
    bytes.resize(HEADER_BYTES, 0);
    bytes
}

/// What a rank gives instead of a header when it has done with the communicator.
pub(super) fn farewell() -> Vec<u8> {
    vec![0; HEADER_BYTES]
}

pub(super) fn is_farewell(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// The call of a header; `None` if no rank of this program wrote it.
pub(super) fn decode(bytes: &[u8]) -> Option<Call> {
    bytes::call(bytes.get(..CALL_LEN)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;

    #[test]
    fn a_header_comes_back_as_it_was() {
        let call = Call {
            len: usize::MAX,
            ..Call::new(5, u64::MAX - 1, OpKind::ReduceScatterV)
        };
        let bytes = encode(&call);
        assert_eq!(bytes.len(), HEADER_BYTES);
        assert_eq!(decode(&bytes), Some(call));
    }

    #[test]
    fn foreign_bytes_are_no_header() {
        assert_eq!(decode(&farewell()), None);
        assert!(is_farewell(&farewell()));
        let mut bytes = encode(&Call::new(0, 0, OpKind::Barrier));
        bytes[12] = 200;
        assert_eq!(decode(&bytes), None);
        assert_eq!(decode(&bytes[..10]), None);
        assert!(!is_farewell(&bytes));
    }
}
