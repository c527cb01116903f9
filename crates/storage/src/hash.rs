//! XXH3 checksums of 64 bits: they find damage and tell results apart; they do not resist malice.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::Number;

/// XXH3 hash of bytes, with 64 bits and no seed.
///
/// # Source
/// Collet, "xxHash - extremely fast hash algorithm": XXH3_64bits.
///
/// ```
/// assert_eq!(shardgraph_storage::hash(b""), 0x2d06_8005_38d3_94c2);
/// assert_eq!(format!("{:016x}", shardgraph_storage::hash(b"foobar")).len(), 16);
/// ```
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// XXH3 hash of numbers as little-endian bytes, one after the other.
///
/// ```
/// use shardgraph_storage::{hash, hash_numbers};
/// assert_eq!(hash_numbers([1u32, 2]), hash(&[1, 0, 0, 0, 2, 0, 0, 0]));
/// ```
pub fn hash_numbers<T: Number>(numbers: impl IntoIterator<Item = T>) -> u64 {
    let mut hasher = Hasher::new();
    hasher.numbers(numbers);
    hasher.finish()
}

/// XXH3 hash of bytes that come in pieces; the cuts between them make no difference.
///
/// ```
/// use shardgraph_storage::{Hasher, hash};
/// let mut hasher = Hasher::new();
/// hasher.update(b"foo");
/// hasher.update(b"bar");
/// assert_eq!(hasher.finish(), hash(b"foobar"));
/// ```
#[derive(Clone)]
pub struct Hasher(Xxh3);

impl Hasher {
    /// Hasher of no bytes yet.
    #[must_use]
    pub fn new() -> Hasher {
        Hasher(Xxh3::new())
    }

    /// Appends bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Appends numbers as little-endian bytes.
    pub fn numbers<T: Number>(&mut self, numbers: impl IntoIterator<Item = T>) {
        // Numbers go in by the kilobyte: an update for each of them would cost more than the hash.
        let mut buffer = [0u8; 1024];
        let mut len = 0;
        for number in numbers {
            if len + T::SIZE > buffer.len() {
                self.0.update(&buffer[..len]);
                len = 0;
            }
            number.write_le(&mut buffer[len..len + T::SIZE]);
            len += T::SIZE;
        }
        self.0.update(&buffer[..len]);
    }

    /// Hash of the bytes so far.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher::new()
    }
}

impl std::fmt::Debug for Hasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hasher({:016x})", self.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_make_no_difference_and_changes_do(
            bytes in prop::collection::vec(any::<u8>(), 1..3000),
            cut in any::<prop::sample::Index>(),
            bit in any::<prop::sample::Index>(),
        ) {
            let (first, rest) = bytes.split_at(cut.index(bytes.len()));
            let mut hasher = Hasher::new();
            hasher.update(first);
            hasher.update(rest);
            prop_assert_eq!(hasher.finish(), hash(&bytes));
            prop_assert_eq!(hash_numbers(bytes.iter().copied()), hash(&bytes));
            let bit = bit.index(8 * bytes.len());
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert_ne!(hash(&changed), hash(&bytes));
        }

        #[test]
        fn numbers_are_their_bytes(numbers in prop::collection::vec(any::<u64>(), 0..400)) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            prop_assert_eq!(hash_numbers(numbers), hash(&bytes));
        }
    }
}
