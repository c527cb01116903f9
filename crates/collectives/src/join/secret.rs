//! The secret that the processes of a job share, and the proofs that they know it.
//!
//! ```text
//! a process                                          the one it comes to
//!    | -- Hello { nonce a, ... } ----------------------> |
//!    | <-- Challenge { nonce b, HMAC("host", a, b) } --- |
//!    | -- HMAC("guest", a, b, Hello) ------------------> |
//! ```
//!
//! The proofs are HMAC-SHA-256 (RFC 2104, FIPS 180-4) under the secret. Each side proves itself with
//! the other's nonce, so that nothing of an earlier connection serves a second time.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Random bytes of one side, for one connection.
pub(crate) type Nonce = [u8; 32];
/// Bytes of HMAC-SHA-256.
pub(crate) type Proof = [u8; 32];

/// Shortest secret in bytes.
const MIN_BYTES: usize = 16;

/// Secret that the processes of a job share; a process without it does not become a rank.
///
/// ```
/// use shardgraph_collectives::tcp::Secret;
///
/// assert!(Secret::new("correct horse battery staple").is_ok());
/// let refusal = Secret::new("short").unwrap_err();
/// assert_eq!(refusal, "a secret of 5 bytes: expected at least 16, such as those of `openssl rand -hex 32`");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// A secret of at least 16 bytes.
    ///
    /// # Errors
    /// The reason, for a shorter one.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Secret, String> {
        let bytes = bytes.as_ref();
        match bytes.len() < MIN_BYTES {
            true => Err(format!(
                "a secret of {} bytes: expected at least {MIN_BYTES}, such as those of `openssl rand -hex 32`",
                bytes.len()
            )),
            false => Ok(Secret(bytes.into())),
        }
    }

    /// Answer of the one that is come to.
    pub(crate) fn challenge(&self, guest: &Nonce) -> Challenge {
        let nonce = nonce();
        let parts: [&[u8]; 3] = [b"host", guest, &nonce];
        let proof = self.mac(&parts).finalize().into_bytes().into();
        Challenge { nonce, proof }
    }

    /// True where the one that is come to knows the secret.
    pub(crate) fn is_host(&self, guest: &Nonce, challenge: &Challenge) -> bool {
        let parts: [&[u8]; 3] = [b"host", guest, &challenge.nonce];
        self.mac(&parts).verify_slice(&challenge.proof).is_ok()
    }

    /// Proof of the one that comes, with all of its hello.
    pub(crate) fn proof(&self, guest: &Nonce, host: &Nonce, hello: &[u8]) -> Proof {
        let parts: [&[u8]; 4] = [b"guest", guest, host, hello];
        self.mac(&parts).finalize().into_bytes().into()
    }

    /// True where the one that came knows the secret. Takes the same time for every wrong proof.
    pub(crate) fn is_guest(&self, guest: &Nonce, host: &Nonce, hello: &[u8], proof: &[u8]) -> bool {
        let parts: [&[u8]; 4] = [b"guest", guest, host, hello];
        self.mac(&parts).verify_slice(proof).is_ok()
    }

    /// The parts but the last have fixed lengths, so that no two lists of parts are one text.
    fn mac(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut mac = mac.expect("HMAC takes a key of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Nonce of the one that is come to, and its proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge {
    pub(crate) nonce: Nonce,
    proof: Proof,
}

/// Bytes that differ for each connection: SipHash under keys that the system gave to this process.
pub(crate) fn nonce() -> Nonce {
    let mut nonce = Nonce::default();
    for (idx, word) in nonce.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&RandomState::new().hash_one(idx).to_le_bytes());
    }
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2, whose key is shorter than ours may be.
    #[test]
    fn the_code_is_that_of_the_standard() {
        let secret = Secret(b"Jefe"[..].into());
        let code = secret.mac(&[b"what do ya want ", b"for nothing?"]);
        let code: [u8; 32] = code.finalize().into_bytes().into();
        let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn every_byte_counts_and_nothing_serves_twice() {
        let [one, other] = ["one secret of a job", "another secret of it"].map(Secret::new);
        let (one, other) = (one.unwrap(), other.unwrap());
        let (guest, hello) = (nonce(), b"hello of rank 2");
        let challenge = one.challenge(&guest);
        assert!(one.is_host(&guest, &challenge));
        assert!(!other.is_host(&guest, &challenge));
        assert!(!one.is_host(&nonce(), &challenge), "of another connection");
        let proof = one.proof(&guest, &challenge.nonce, hello);
        let is_guest =
            |host: &Nonce, hello: &[u8], proof: &[u8]| one.is_guest(&guest, host, hello, proof);
        assert!(is_guest(&challenge.nonce, hello, &proof));
        assert!(!is_guest(&nonce(), hello, &proof), "of another connection");
        assert!(!is_guest(&challenge.nonce, b"hello of rank 3", &proof));
        assert!(!is_guest(&challenge.nonce, hello, &proof[..31]));
        assert!(!other.is_guest(&guest, &challenge.nonce, hello, &proof));
        assert!(
            !is_guest(&challenge.nonce, hello, &challenge.proof),
            "reflected"
        );
        for idx in 0..32 {
            let mut wrong = proof;
            wrong[idx] ^= 1;
            assert!(!is_guest(&challenge.nonce, hello, &wrong), "{idx}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("a secret nobody prints").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
