//! Integers, texts and calls as bytes: little-endian, whatever the machine.

use crate::algorithm::Algorithm;
use crate::op::{Call, DataType, OpKind, Reduction};

/// Takes fixed-size integers from the front of a message.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text with its length before it.
    pub(crate) fn text(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// Appends a text with its length before it, cut to what a message holds.
pub(crate) fn put_text(text: &str, bytes: &mut Vec<u8>) {
    /// Longer messages of panics and errors are of no use to who reads them on another rank.
    const MAX_LEN: usize = 2048;
    let mut len = text.len().min(MAX_LEN);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(&text.as_bytes()[..len]);
}

/// The bytes of a call.
pub(crate) const CALL_LEN: usize = 4 + 8 + 5 + 4 + 8 + 8 + 4;

const OPS: [OpKind; 12] = [
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
    OpKind::Join,
];
const DATA_TYPES: [DataType; 5] = [
    DataType::F32,
    DataType::U32,
    DataType::U64,
    DataType::I64,
    DataType::U8,
];
const REDUCTIONS: [Reduction; 3] = [Reduction::Sum, Reduction::Max, Reduction::Min];

/// Marks the start of a call in a stream.
const CALL_MARK: u32 = 0x6c6c_6163;
const NONE: u8 = u8::MAX;

fn code_of<T: PartialEq>(table: &[T], value: &T) -> u8 {
    let position = table.iter().position(|entry| entry == value);
    position.map_or(NONE, |position| position as u8)
}

/// Appends [`CALL_LEN`] bytes.
pub(crate) fn put_call(call: &Call, bytes: &mut Vec<u8>) {
    bytes.extend(CALL_MARK.to_le_bytes());
    bytes.extend(call.seq.to_le_bytes());
    bytes.push(code_of(&OPS, &call.op));
    bytes.push(call.data_type.map_or(NONE, |t| code_of(&DATA_TYPES, &t)));
    bytes.push(call.reduction.map_or(NONE, |r| code_of(&REDUCTIONS, &r)));
    bytes.push(
        call.algorithm
            .map_or(NONE, |a| code_of(&Algorithm::ALL, &a)),
    );
    bytes.push(u8::from(call.root.is_some()));
    bytes.extend(call.root.unwrap_or_default().to_le_bytes());
    bytes.extend((call.len as u64).to_le_bytes());
    bytes.extend(call.counts_digest.to_le_bytes());
    bytes.extend(call.rank.to_le_bytes());
}

/// A call from its bytes; `None` where the bytes are none.
pub(crate) fn call(bytes: &[u8]) -> Option<Call> {
    let mut reader = Reader(bytes);
    let is_marked = reader.u32()? == CALL_MARK;
    let seq = reader.u64()?;
    let [op, data_type, reduction, algorithm, has_root] = reader.array()?;
    let root = reader.u32()?;
    let op = *OPS.get(op as usize)?;
    let call = Call {
        data_type: DATA_TYPES.get(data_type as usize).copied(),
        reduction: REDUCTIONS.get(reduction as usize).copied(),
        algorithm: Algorithm::ALL.get(algorithm as usize).copied(),
        root: (has_root == 1).then_some(root),
        len: reader.u64()? as usize,
        counts_digest: reader.u64()?,
        ..Call::new(reader.u32()?, seq, op)
    };
    is_marked.then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_back_as_it_was() {
        for (op_idx, op) in OPS.into_iter().enumerate() {
            let call = Call {
                data_type: DATA_TYPES.get(op_idx).copied(),
                len: 1 << (3 * op_idx),
                root: (op_idx % 2 == 0).then_some(op_idx as u32),
                reduction: REDUCTIONS.get(op_idx).copied(),
                algorithm: Algorithm::ALL.get(op_idx).copied(),
                counts_digest: u64::MAX - op_idx as u64,
                ..Call::new(op_idx as u32, 1 << (5 * op_idx), op)
            };
            let mut bytes = Vec::new();
            put_call(&call, &mut bytes);
            assert_eq!(bytes.len(), CALL_LEN);
            assert_eq!(super::call(&bytes), Some(call));
            assert_eq!(super::call(&bytes[1..]), None);
            bytes[0] ^= 1;
            assert_eq!(super::call(&bytes), None);
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let mut bytes = Vec::new();
        put_text(&"\u{e4}".repeat(2000), &mut bytes);
        put_text(&format!("x{}", "\u{e4}".repeat(2000)), &mut bytes);
        let mut reader = Reader(&bytes);
        assert_eq!(reader.text().unwrap().len(), 2048);
        assert_eq!(reader.text().unwrap().len(), 2047);
        assert_eq!(reader.text(), None);
    }
}
