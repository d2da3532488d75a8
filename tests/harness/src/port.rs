//! Free ports on the loopback addresses.
//! It never hands out a port of the kernel's own range, where any outgoing connection could take it meanwhile.
//! Clusters, fleets and lying servers ask it.

use std::{
    collections::HashSet,
    net::{Ipv4Addr, Ipv6Addr, TcpListener},
    process,
    sync::{Mutex, OnceLock, PoisonError},
};

const FIRST: u16 = 15_000;
const LAST: u16 = 31_000;

/// A port that nobody listens on, and that no one else in this process has been given.
pub fn free() -> u16 {
    static GIVEN: OnceLock<Mutex<HashSet<u16>>> = OnceLock::new();
    let mut given =
        GIVEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    // Test binaries start at different places, since two may run at once.
    let span = u32::from(LAST - FIRST);
    let start = process::id().wrapping_mul(797) % span;
    let ports = (0..span).map(|step| FIRST + u16::try_from((start + step) % span).unwrap_or(0));
    let port = ports.into_iter().find(|port| !given.contains(port) && is_free(*port));
    let port = port.expect("there is a free port between 15000 and 31000");
    given.insert(port);
    port
}

/// Binds it on both addresses, and lets go.
fn is_free(port: u16) -> bool {
    let six = has_ipv6();
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        && (!six || TcpListener::bind((Ipv6Addr::LOCALHOST, port)).is_ok())
}

/// Whether this machine has `::1`.
pub fn has_ipv6() -> bool {
    static SIX: OnceLock<bool> = OnceLock::new();
    *SIX.get_or_init(|| TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok())
}
