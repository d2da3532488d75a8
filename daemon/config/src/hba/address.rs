//! The addresses that a rule is for: networks, and the words that stand for some.
//! It never looks a name up; `samehost` and `samenet` are what the interfaces have when the file is read.
//! Rules are made of it, and ask whether a peer is in it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use serde::{Deserialize, Serialize};

use super::tokens::Token;
use crate::fault::Fault;

/// A network: an address and which of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    address: IpAddr,
    mask: IpAddr,
}

impl Network {
    /// Whether the address is in it; an IPv4 address in IPv6's clothes counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, self.mask, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(mask), IpAddr::V4(other)) => {
                own.to_bits() & mask.to_bits() == other.to_bits() & mask.to_bits()
            }
            (IpAddr::V6(own), IpAddr::V6(mask), IpAddr::V6(other)) => {
                own.to_bits() & mask.to_bits() == other.to_bits() & mask.to_bits()
            }
            (IpAddr::V4(_) | IpAddr::V6(_), _, _) => false,
        }
    }

    /// The network of so many leading bits, if the address has as many.
    fn of_bits(address: IpAddr, bits: u32) -> Option<Self> {
        let mask = match address {
            IpAddr::V4(_) if bits <= 32 => {
                IpAddr::V4(Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - bits).unwrap_or(0)))
            }
            IpAddr::V6(_) if bits <= 128 => {
                IpAddr::V6(Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - bits).unwrap_or(0)))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => return None,
        };
        Some(Self { address, mask })
    }

    fn everywhere() -> Vec<Self> {
        let zero = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        zero.into_iter().filter_map(|address| Self::of_bits(address, 0)).collect()
    }
}

/// What was read, and whether the next word was its mask.
pub(super) struct Found {
    pub(super) networks: Vec<Network>,
    pub(super) took_mask: bool,
}

/// Reads an address, with the word after it if that is its mask.
pub(super) fn networks(token: &Token, next: Option<&Token>) -> Result<Found, Fault> {
    let alone = |networks| Ok(Found { networks, took_mask: false });
    match token.text.as_str() {
        "all" if !token.quoted => return alone(Network::everywhere()),
        "samehost" if !token.quoted => return alone(own(Own::Address)),
        "samenet" if !token.quoted => return alone(own(Own::Network)),
        _ => {}
    }
    if let Some((address, bits)) = token.text.split_once('/') {
        let network = address.parse::<IpAddr>().ok().zip(bits.parse().ok());
        return match network.and_then(|(address, bits)| Network::of_bits(address, bits)) {
            Some(network) => alone(vec![network]),
            None => Err(no_address(&token.text)),
        };
    }
    let address: IpAddr = token.text.parse().map_err(|_| no_address(&token.text))?;
    let mask = next.and_then(|next| next.text.parse::<IpAddr>().ok());
    match mask {
        Some(mask) if mask.is_ipv4() == address.is_ipv4() => {
            Ok(Found { networks: vec![Network { address, mask }], took_mask: true })
        }
        Some(_) => Err(Fault::new(
            format!("address {address} and its mask are of different kinds"),
            "write both as IPv4 or both as IPv6, or use the form 10.0.0.0/8",
        )),
        None => Err(Fault::new(
            format!("address {address} has no mask"),
            format!("write {address}/{}", if address.is_ipv4() { 32 } else { 128 }),
        )),
    }
}

fn no_address(text: &str) -> Fault {
    Fault::new(
        format!("\"{text}\" is no address"),
        "write an address with its bits, such as 10.0.0.0/8 or ::1/128, or all, samehost or samenet; host names are not looked up",
    )
}

/// Which of its own a machine means.
#[derive(Clone, Copy)]
enum Own {
    Address,
    Network,
}

/// What the interfaces have now.
fn own(which: Own) -> Vec<Network> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    let networks = interfaces.filter_map(|interface| {
        let address = ip(interface.address.as_ref()?)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let whole = Network::of_bits(address, bits)?;
        match which {
            Own::Address => Some(whole),
            Own::Network => {
                let mask = interface.netmask.as_ref().and_then(ip).unwrap_or(whole.mask);
                Some(Network { address, mask })
            }
        }
    });
    networks.collect()
}

fn ip(storage: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(IpAddr::V4(v4.ip()));
    }
    storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))
}
