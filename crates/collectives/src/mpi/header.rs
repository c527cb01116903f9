//! What the ranks tell each other before an operation: a [`Call`] in 64 bytes.

use crate::op::{Call, DataType, OpKind, Reduction};

/// The length of a header.
pub(super) const HEADER_BYTES: usize = 64;

/// Stands for `None`.
const NONE: u8 = 255;
const NO_RANK: u32 = u32::MAX;
/// The first bytes of every header: another program's message is noticed.
const MAGIC: u32 = 0x5347_4d31;

const TYPES: [DataType; 5] = [
    DataType::F32,
    DataType::U32,
    DataType::U64,
    DataType::I64,
    DataType::U8,
];
const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];
const OPERATIONS: [OpKind; 11] = [
    OpKind::AllReduce,
    OpKind::AllGather,
    OpKind::AllGatherV,
    OpKind::ReduceScatter,
    OpKind::ReduceScatterV,
    OpKind::Broadcast,
    OpKind::AllToAllV,
    OpKind::Barrier,
    OpKind::ExactSum,
    OpKind::Split,
    OpKind::Exchange,
];

fn position<T: PartialEq>(table: &[T], item: Option<T>) -> u8 {
    let at = item.and_then(|item| table.iter().position(|other| *other == item));
    at.map_or(NONE, |at| at as u8)
}

/// The words of a header, in order: what two ranks write alike reads alike.
pub(super) fn encode(call: &Call) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend([
        position(&OPERATIONS, Some(call.op)),
        position(&TYPES, call.data_type),
        position(&REDUCTIONS, call.reduction),
        0,
    ]);
    bytes.extend(call.rank.to_le_bytes());
    bytes.extend(call.root.unwrap_or(NO_RANK).to_le_bytes());
    for word in [call.seq, call.len as u64, call.counts_digest] {
        bytes.extend(word.to_le_bytes());
    }
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
    let half = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    (half(0)? == MAGIC).then_some(())?;
    let op = *OPERATIONS.get(usize::from(*bytes.get(4)?))?;
    Some(Call {
        data_type: TYPES.get(usize::from(*bytes.get(5)?)).copied(),
        reduction: REDUCTIONS.get(usize::from(*bytes.get(6)?)).copied(),
        root: half(12).filter(|&root| root != NO_RANK),
        len: word(24)? as usize,
        counts_digest: word(32)?,
        ..Call::new(half(8)?, word(16)?, op)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_holds_the_whole_call() {
        for op in OPERATIONS {
            for data_type in TYPES.into_iter().map(Some).chain([None]) {
                for reduction in REDUCTIONS.into_iter().map(Some).chain([None]) {
                    let call = Call {
                        data_type,
                        reduction,
                        root: data_type.map(|_| 7),
                        len: usize::MAX,
                        counts_digest: 0x0123_4567_89ab_cdef,
                        ..Call::new(5, u64::MAX - 1, op)
                    };
                    let bytes = encode(&call);
                    assert_eq!(bytes.len(), HEADER_BYTES);
                    assert_eq!(decode(&bytes), Some(call));
                }
            }
        }
    }

    #[test]
    fn foreign_bytes_are_no_header() {
        assert_eq!(decode(&farewell()), None);
        assert!(is_farewell(&farewell()));
        let mut bytes = encode(&Call::new(0, 0, OpKind::Barrier));
        bytes[4] = 200;
        assert_eq!(decode(&bytes), None);
        assert_eq!(decode(&bytes[..10]), None);
        assert!(!is_farewell(&bytes));
    }
}
