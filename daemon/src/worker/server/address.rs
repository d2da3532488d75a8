//! Where a server is, in the form in which a socket can be connected.
//!
//! It is what remains of a host setting after a name has been resolved; a cancel request goes to
//! the same one. It opens no socket.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use nix::sys::socket::{SockaddrIn, SockaddrIn6, UnixAddr};

/// One place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// Linux' abstract namespace, without the leading NUL.
    Abstract(String),
}

/// A host setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Ready(Address),
    /// To be looked up.
    Name(String, u16),
}

/// An [`Address`] as the kernel wants it.
pub(crate) enum Sockaddr {
    V4(SockaddrIn),
    V6(SockaddrIn6),
    Unix(UnixAddr),
}

impl Host {
    /// `/dir` and `@name` are Unix sockets, as in libpq; what parses as an IP address needs no look-up.
    pub(crate) fn new(host: &str, port: u16) -> Self {
        if host.starts_with('/') {
            return Self::Ready(Address::Unix(PathBuf::from(format!("{host}/.s.PGSQL.{port}"))));
        }
        if let Some(name) = host.strip_prefix('@') {
            return Self::Ready(Address::Abstract(format!("{name}/.s.PGSQL.{port}")));
        }
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(ip) => Self::Ready(Address::Tcp(SocketAddr::new(ip, port))),
            Err(_) => Self::Name(host.to_owned(), port),
        }
    }
}

impl Address {
    /// The address on the network, if it is there.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix(_) | Self::Abstract(_) => None,
        }
    }

    /// # Errors
    /// A path that does not fit into a socket address.
    pub(crate) fn sockaddr(&self) -> io::Result<Sockaddr> {
        Ok(match self {
            Self::Tcp(SocketAddr::V4(address)) => Sockaddr::V4((*address).into()),
            Self::Tcp(SocketAddr::V6(address)) => Sockaddr::V6((*address).into()),
            Self::Unix(path) => Sockaddr::Unix(UnixAddr::new(path)?),
            Self::Abstract(name) => Sockaddr::Unix(UnixAddr::new_abstract(name.as_bytes())?),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_libpq_reads_them() {
        assert_eq!(
            Host::new("127.0.0.1", 1),
            Host::Ready(Address::Tcp("127.0.0.1:1".parse().unwrap()))
        );
        assert_eq!(Host::new("::1", 2), Host::Ready(Address::Tcp("[::1]:2".parse().unwrap())));
        assert_eq!(Host::new("[::1]", 2), Host::Ready(Address::Tcp("[::1]:2".parse().unwrap())));
        assert_eq!(
            Host::new("/run/pg", 3),
            Host::Ready(Address::Unix("/run/pg/.s.PGSQL.3".into()))
        );
        assert_eq!(Host::new("@pg", 4), Host::Ready(Address::Abstract("pg/.s.PGSQL.4".into())));
        assert_eq!(Host::new("db.example", 5), Host::Name("db.example".into(), 5));
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let long = Address::Unix(format!("/{}", "x".repeat(200)).into());
        assert!(long.sockaddr().is_err());
    }
}
