//! The first words of a process on a new connection: its hello and, where the job has a secret, its
//! proof.

use super::hello::{Hello, send_within};
use super::response::{JoinResponse, MAX_RESPONSE_BYTES, Refusal};
use super::secret::{Secret, nonce};
use crate::codec::{self, FrameReader};
use crate::timeout::Expiry;
use std::io::{self, ErrorKind};
use std::net::TcpStream;

/// Says a hello on a new connection, which blocks no more afterwards, and proves it where there is a
/// secret.
///
/// # Errors
/// [`ErrorKind::PermissionDenied`] where the other side has another secret, or none;
/// [`ErrorKind::UnexpectedEof`] where it closed the connection.
pub(crate) fn introduce(
    mut hello: Hello,
    stream: &TcpStream,
    secret: Option<&Secret>,
    expiry: Expiry,
) -> io::Result<()> {
    let left = || expiry.left().ok_or(ErrorKind::TimedOut);
    hello.nonce = secret.map(|_| nonce());
    stream.set_nodelay(true)?;
    send_within(stream, &codec::frame(&hello), left()?)?;
    let (Some(secret), Some(nonce)) = (secret, &hello.nonce) else {
        return Ok(());
    };
    let reader = FrameReader::default();
    let denied = |why: String| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    match codec::decode(&reader.wait(stream, MAX_RESPONSE_BYTES, expiry)?) {
        Some(JoinResponse::Challenge(challenge)) if secret.is_host(nonce, &challenge) => {
            let proof = secret.proof(nonce, &challenge.nonce, &codec::encode(&hello));
            send_within(stream, &codec::frame(&proof), left()?)
        }
        Some(JoinResponse::Challenge(_)) => {
            denied("it has another secret: give all ranks the same SHARDGRAPH_SECRET".to_string())
        }
        Some(JoinResponse::Refused(Refusal::Launch(why))) => denied(why),
        _ => Err(io::Error::other("something else listens there")),
    }
}
