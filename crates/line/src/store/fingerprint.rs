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
        let (words, rest) = bytes.as_chunks::<4>();
        let mut padded = [0; 4];
        padded[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&padded);
        for &word in words.iter().chain(last) {
            self.0 = mixed(self.0 ^ u64::from(u32::from_le_bytes(word)));
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

/// Bytes that all chains of a [`RowsFingerprint`] take at a time.
const STRIPE: usize = 64;

/// As [`Fingerprint`], for rows, which come and go while training wants the processor: eight chains of 8 bytes at a time, as many as one multiplier keeps busy.
///
/// Fed in pieces of any lengths; how the bytes are cut makes no difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsFingerprint {
    chains: [u64; 8],
    /// What is not yet a whole stripe.
    rest: [u8; STRIPE],
    n_rest: usize,
    n_bytes: u64,
}

impl RowsFingerprint {
    pub(crate) fn new() -> RowsFingerprint {
        RowsFingerprint {
            chains: [1, 2, 3, 4, 5, 6, 7, 8].map(|k: u64| k.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            rest: [0; STRIPE],
            n_rest: 0,
            n_bytes: 0,
        }
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        self.n_bytes += bytes.len() as u64;
        if self.n_rest > 0 {
            let (more, later) = bytes.split_at(bytes.len().min(STRIPE - self.n_rest));
            self.rest[self.n_rest..][..more.len()].copy_from_slice(more);
            self.n_rest += more.len();
            bytes = later;
            if self.n_rest < STRIPE {
                return;
            }
            mix_stripe(&mut self.chains, &self.rest);
        }
        let (stripes, rest) = bytes.as_chunks::<STRIPE>();
        let mut chains = self.chains;
        stripes
            .iter()
            .for_each(|stripe| mix_stripe(&mut chains, stripe));
        self.chains = chains;
        self.rest[..rest.len()].copy_from_slice(rest);
        self.n_rest = rest.len();
    }

    pub(crate) fn finish(mut self) -> u64 {
        self.rest[self.n_rest..].fill(0);
        mix_stripe(&mut self.chains, &self.rest);
        let all = self.chains.into_iter().chain([self.n_bytes]);
        all.fold(0, |sum, chain| mixed(sum ^ chain))
    }
}

fn mix_stripe(chains: &mut [u64; 8], stripe: &[u8; STRIPE]) {
    let (words, _) = stripe.as_chunks::<8>();
    for (chain, word) in chains.iter_mut().zip(words) {
        *chain = mixed(*chain ^ u64::from_le_bytes(*word));
    }
}

/// One to one, so that no two words of a place have the same effect.
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^ (x >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_rows(pieces: &[&[u8]]) -> u64 {
        let mut fingerprint = RowsFingerprint::new();
        pieces.iter().for_each(|piece| fingerprint.update(piece));
        fingerprint.finish()
    }

    #[test]
    fn of_rows_cuts_make_no_difference_and_changes_do() {
        let bytes: Vec<u8> = (0..203).map(|k: u8| k.wrapping_mul(37)).collect();
        let whole = of_rows(&[&bytes]);
        for cut in 0..=203 {
            let (first, rest) = bytes.split_at(cut);
            let (second, third) = rest.split_at(rest.len() / 3);
            assert_eq!(of_rows(&[first, second, third]), whole, "{cut}");
            if cut < 203 {
                assert_ne!(of_rows(&[first]), whole, "{cut} bytes");
            }
        }
        for bit in 0..203 * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of_rows(&[&changed]), whole, "bit {bit}");
        }
        let mut swapped = bytes.clone();
        swapped[..32].rotate_left(8); // words change their places
        assert_ne!(of_rows(&[&swapped]), whole);
        assert_ne!(of_rows(&[&[0; 4]]), of_rows(&[&[0; 8]]));
    }

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
