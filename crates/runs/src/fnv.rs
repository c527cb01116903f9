//! The 64-bit FNV-1a hash: finds damage and tells results apart, not malice.

/// The hash of bytes.
///
/// # Source
/// Fowler, Noll and Vo, the 64-bit FNV-1a parameters.
///
/// ```
/// assert_eq!(shardgraph_runs::fnv1a64(*b"foobar"), 0x8594_4171_f739_67e8);
/// ```
pub fn fnv1a64(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the authors' test vectors.
    #[test]
    fn known_hashes() {
        assert_eq!(fnv1a64([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(*b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(*b"foobar"), 0x8594_4171_f739_67e8);
    }
}
