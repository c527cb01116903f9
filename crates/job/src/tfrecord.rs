//! TFRecord framing: each record between its length and its checksum, the length with a checksum of its own.
//!
//! # Source
//! TensorFlow, `tensorflow/core/lib/io/record_writer.h` (the frame); RFC 3720, appendix B.4 (CRC-32C).

use crc32c::crc32c;

/// One record of a file.
pub(crate) struct Record<'a> {
    /// With its frame.
    pub(crate) whole: &'a [u8],
    /// None where the checksum says that it is damaged.
    pub(crate) data: Option<&'a [u8]>,
}

/// A record in its frame.
pub(crate) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut bytes = length.to_vec();
    bytes.extend(masked_crc32c(&length).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes.extend(masked_crc32c(data).to_le_bytes());
    bytes
}

/// The records of a file, up to its end or to one without a whole frame.
pub(crate) struct Records<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (length, rest) = self.0.split_first_chunk::<8>()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        if masked_crc32c(length) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let n_bytes = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let (data, rest) = rest.split_at_checked(n_bytes)?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        let is_intact = masked_crc32c(data) == u32::from_le_bytes(*checksum);
        Some(Record {
            whole,
            data: is_intact.then_some(data),
        })
    }
}

/// The checksum as it is stored: turned and shifted, because the checksum of bytes that hold their own checksum says little.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_where_a_frame_is_broken_and_go_on_behind_damaged_data() {
        let mut bytes = [framed(b"one"), framed(b""), framed(b"three")].concat();
        let data = |bytes: &[u8]| -> Vec<Option<Vec<u8>>> {
            let records = Records(bytes);
            records
                .map(|record| record.data.map(<[u8]>::to_vec))
                .collect()
        };
        let some = |data: &[u8]| Some(data.to_vec());
        assert_eq!(data(&bytes), [some(b"one"), some(b""), some(b"three")]);
        for n_bytes in 35..bytes.len() {
            assert_eq!(data(&bytes[..n_bytes]).len(), 2, "{n_bytes}");
        }
        bytes[12] ^= 1; // in the data of the first
        assert_eq!(data(&bytes), [None, some(b""), some(b"three")]);
        bytes[19] ^= 1; // in the length of the second
        assert_eq!(data(&bytes), [None]);
    }
}
