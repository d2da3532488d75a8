//! Socket options of client and server connections, from the `tcp_*` settings.
//!
//! An option that the kernel refuses is left at its default: a connection is worth more.

use std::os::fd::OwnedFd;
use std::time::Duration;

use log::debug;
use pgfleet_config::Global;
use socket2::{SockRef, TcpKeepalive};

/// Sets the options of one TCP connection. TCP_NODELAY always.
pub(crate) fn tune(fd: &OwnedFd, settings: &Global) {
    if let Err(error) = try_tune(fd, settings) {
        debug!("a socket option was refused: {error}");
    }
}

fn try_tune(fd: &OwnedFd, settings: &Global) -> std::io::Result<()> {
    let socket = SockRef::from(fd);
    socket.set_tcp_nodelay(true)?;
    if settings.tcp_keepalive {
        let mut keepalive = TcpKeepalive::new();
        if settings.tcp_keepidle > 0 {
            keepalive = keepalive.with_time(Duration::from_secs(settings.tcp_keepidle.into()));
        }
        if settings.tcp_keepintvl > 0 {
            keepalive = keepalive.with_interval(Duration::from_secs(settings.tcp_keepintvl.into()));
        }
        if settings.tcp_keepcnt > 0 {
            keepalive = keepalive.with_retries(settings.tcp_keepcnt);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    if settings.tcp_user_timeout > 0 {
        let timeout = Duration::from_millis(settings.tcp_user_timeout.into());
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if settings.tcp_socket_buffer > 0 {
        let bytes = usize::try_from(settings.tcp_socket_buffer).unwrap_or(usize::MAX);
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    Ok(())
}
