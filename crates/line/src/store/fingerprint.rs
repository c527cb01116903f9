//! A 64-bit fingerprint of bytes, against damage and mix-ups (not against malice).

/// Fed in pieces whose lengths are multiples of 4; how the bytes are cut makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn new() -> Fingerprint {
        Fingerprint(0x9e37_79b9_7f4a_7c15)
    }

    /// Takes in more bytes; up to 3 behind the last multiple of 4 are taken as one word with zeros.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(4) {
            let mut padded = [0; 4];
            padded[..word.len()].copy_from_slice(word);
            let mixed = (self.0 ^ u64::from(u32::from_le_bytes(padded)))
                .wrapping_mul(0xff51_afd7_ed55_8ccd);
            self.0 = mixed ^ (mixed >> 32);
        }
    }

    pub(crate) fn finish(self) -> u64 {
        self.0
    }

    /// Of one run of bytes.
    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut fingerprint = Fingerprint::new();
        fingerprint.update(bytes);
        fingerprint.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_make_no_difference_and_changes_do() {
        let bytes: Vec<u8> = (0..64).collect();
        let mut pieces = Fingerprint::new();
        pieces.update(&bytes[..20]);
        pieces.update(&bytes[20..]);
        assert_eq!(pieces.finish(), Fingerprint::of(&bytes));
        for bit in 0..512 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(
                Fingerprint::of(&changed),
                Fingerprint::of(&bytes),
                "bit {bit}"
            );
        }
        assert_ne!(Fingerprint::of(&[0; 4]), Fingerprint::of(&[0; 8]));
    }
}
