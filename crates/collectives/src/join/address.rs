//! Addresses of ranks: where each listens, and connections to them.

use super::config::TcpConfig;
use crate::timeout::Expiry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// One attempt to connect takes at most this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Listener of rank 0: on the loopback interface if that is what its address says, else on all,
/// because the name may lead elsewhere here than on other hosts.
pub(crate) fn listen(config: &TcpConfig) -> io::Result<TcpListener> {
    let mut found = (config.master_addr.as_str(), config.master_port).to_socket_addrs()?;
    let first = found.next().ok_or_else(no_address)?;
    let ip = match first.ip() {
        ip if is_loopback_name(&config.master_addr) => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    TcpListener::bind((ip, config.master_port))
}

/// Listener of a rank above 0, which learns of the others from rank 0 at the other end of `stream`.
pub(crate) fn listen_beside(config: &TcpConfig, stream: &TcpStream) -> io::Result<TcpListener> {
    let is_ipv6 = stream.local_addr()?.is_ipv6();
    let ip = match (is_loopback_name(&config.master_addr), is_ipv6) {
        (true, false) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        (true, true) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        (false, false) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        (false, true) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    TcpListener::bind((ip, 0))
}

pub(crate) fn connect_to_rank_0(config: &TcpConfig, expiry: Expiry) -> io::Result<TcpStream> {
    let mut refusal = no_address();
    for address in (config.master_addr.as_str(), config.master_port).to_socket_addrs()? {
        match connect(&address, expiry) {
            Ok(stream) => return Ok(stream),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

/// A connection to another process, within [`CONNECT_TIMEOUT`] and by `expiry`.
pub(crate) fn connect(address: &SocketAddr, expiry: Expiry) -> io::Result<TcpStream> {
    let timeout = expiry.left().ok_or(io::ErrorKind::TimedOut)?;
    let stream = TcpStream::connect_timeout(address, timeout.min(CONNECT_TIMEOUT))?;
    match is_itself(&stream) {
        true => Err(io::ErrorKind::ConnectionRefused.into()),
        false => Ok(stream),
    }
}

/// `address` as seen from another host than `host`: the loopback interface of a host means that
/// host.
pub(crate) fn reachable(mut address: SocketAddr, host: Option<SocketAddr>) -> SocketAddr {
    let is_local = address.ip().is_loopback() || address.ip().is_unspecified();
    if let Some(host) = host.filter(|_| is_local) {
        address.set_ip(host.ip());
    }
    address
}

/// True where a connection to a free port of this machine has met itself, which TCP allows.
fn is_itself(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local == peer,
        _ => true,
    }
}

pub(super) fn is_loopback_name(name: &str) -> bool {
    name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

fn no_address() -> io::Error {
    io::Error::other("the name has no address")
}
