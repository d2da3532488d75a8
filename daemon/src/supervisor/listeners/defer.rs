//! Letting the kernel keep a connection until its client has said something (`tcp_defer_accept`).
//!
//! A port scan then wakes no worker. After a second, in which the client is asked once more, the kernel
//! hands over a silent one too. It owns nothing; the listeners call it.

use std::io;
use std::os::fd::AsRawFd;

use nix::libc;
use socket2::Socket;

/// Seconds, which the kernel rounds to whole retransmissions; PgBouncer sets the same.
const WAIT: libc::c_int = 1;

/// Whether a connection is handed over before its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    UntilData,
    None,
}

impl Deferral {
    /// As the setting says.
    pub(crate) fn of(tcp_defer_accept: bool) -> Self {
        if tcp_defer_accept { Self::UntilData } else { Self::None }
    }

    /// Sets it on a socket, which may be listening already.
    pub(super) fn apply(self, socket: &Socket) -> io::Result<()> {
        let seconds = match self {
            Self::UntilData => WAIT,
            Self::None => 0,
        };
        set(socket, seconds)
    }
}

#[expect(unsafe_code, reason = "none of our libraries knows this option")]
fn set(socket: &Socket, seconds: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&seconds)).map_err(io::Error::other)?;
    // SAFETY: the option reads one integer of this length, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
