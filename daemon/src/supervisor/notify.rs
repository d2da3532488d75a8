//! Tells the service manager how the fleet is.
//!
//! It owns the datagram socket to `$NOTIFY_SOCKET`, if there is one. A message that cannot be sent is dropped:
//! the fleet does not depend on who watches it. The loop calls it.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Connects to what the environment names.
    pub(crate) fn from_environment() -> Self {
        let Some(path) = env::var_os("NOTIFY_SOCKET") else { return Self::default() };
        let socket = match connect(path.as_bytes()) {
            Ok(socket) => Some(socket),
            Err(error) => {
                log::warn!("cannot reach NOTIFY_SOCKET: {error}");
                None
            }
        };
        Self { socket, watchdog: watchdog() }
    }

    /// How often `alive` is expected, if at all.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}", std::process::id()));
    }

    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={status}"));
    }

    pub(crate) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(message.as_bytes())
        {
            log::debug!("cannot notify the service manager: {error}");
        }
    }
}

fn connect(path: &[u8]) -> io::Result<UnixDatagram> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

/// Half of what the service manager allows, if it watches this process.
fn watchdog() -> Option<Duration> {
    let micros: u64 = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let for_us = env::var("WATCHDOG_PID")
        .map_or(Ok(true), |pid| pid.parse().map(|pid: u32| pid == std::process::id()));
    for_us.ok().filter(|for_us| *for_us).map(|_| Duration::from_micros(micros / 2))
}
