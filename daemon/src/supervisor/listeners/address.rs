//! What `listen_addr` means.
//!
//! It turns names, addresses and `*` into socket addresses, each once. It binds nothing. Only the
//! listeners call it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use super::ListenError;

/// An address to bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) socket: SocketAddr,
    /// The IPv6 half of `*`: left out where there is no IPv6.
    pub(super) optional: bool,
}

/// All addresses of the list. A name may resolve to several.
pub(super) fn all(names: &[String], port: u16) -> Result<Vec<Address>, ListenError> {
    let mut addresses: Vec<Address> = Vec::new();
    let mut add = |socket: SocketAddr, optional: bool| {
        if !addresses.iter().any(|known| known.socket == socket) {
            addresses.push(Address { socket, optional });
        }
    };
    for name in names {
        if name == "*" {
            add((Ipv4Addr::UNSPECIFIED, port).into(), false);
            add((Ipv6Addr::UNSPECIFIED, port).into(), true);
            continue;
        }
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let found = (bare, port).to_socket_addrs();
        for socket in found.map_err(|source| ListenError::Resolve { name: name.clone(), source })? {
            add(socket, false);
        }
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_both_families_and_addresses_count_once() {
        let names = ["*", "127.0.0.1", "[::1]", "127.0.0.1"].map(str::to_owned);
        let found: Vec<String> =
            all(&names, 6432).unwrap().iter().map(|address| address.socket.to_string()).collect();
        assert_eq!(found, ["0.0.0.0:6432", "[::]:6432", "127.0.0.1:6432", "[::1]:6432"]);
    }

    #[test]
    fn a_name_that_does_not_resolve_is_named() {
        let error = all(&["no.such.name.invalid".to_owned()], 1).unwrap_err().to_string();
        assert!(error.contains("no.such.name.invalid"), "{error}");
    }
}
