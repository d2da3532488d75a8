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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn tuned(change: impl FnOnce(&mut Global)) -> OwnedFd {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut settings = Global::default();
        change(&mut settings);
        let fd = OwnedFd::from(stream);
        tune(&fd, &settings);
        fd
    }

    #[test]
    fn by_default_nothing_waits_and_silence_is_probed() {
        let fd = tuned(|_| ());
        let socket = SockRef::from(&fd);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
    }

    #[test]
    fn every_setting_reaches_the_socket() {
        let fd = tuned(|settings| {
            settings.tcp_keepidle = 7;
            settings.tcp_keepintvl = 5;
            settings.tcp_keepcnt = 3;
            settings.tcp_user_timeout = 12_500;
            settings.tcp_socket_buffer = 30_000;
        });
        let socket = SockRef::from(&fd);
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(7));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_millis(12_500)));
        // The kernel counts its own overhead too.
        assert_eq!(socket.send_buffer_size().unwrap(), 60_000);
        assert_eq!(socket.recv_buffer_size().unwrap(), 60_000);
    }

    #[test]
    fn probes_can_be_turned_off() {
        let fd = tuned(|settings| settings.tcp_keepalive = false);
        assert!(!SockRef::from(&fd).keepalive().unwrap());
    }
}
