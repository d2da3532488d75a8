//! A worker's records: one packet each, to the supervisor, on descriptor 2.
//!
//! It owns the count of records that the supervisor did not take in time. It never waits and
//! never writes anything but whole packets. The worker sets it up before anything else.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use log::{LevelFilter, Log, Metadata, Record};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};

use super::{Line, Weight};

/// Where the supervisor listens.
const SOCKET: RawFd = 2;

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Sends this process's records to the supervisor from now on.
///
/// Called again, it changes only the level.
pub(crate) fn worker(level: LevelFilter) {
    // There is one logger for each process; a second attempt finds it in place.
    let _ = log::set_logger(&ToSupervisor);
    log::set_max_level(level);
}

/// Records that were lost because the supervisor did not take them in time, or is gone.
pub(crate) fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

struct ToSupervisor;

impl Log for ToSupervisor {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            deliver(SOCKET, &packet(record));
        }
    }

    fn flush(&self) {}
}

/// The level's byte and the text.
pub(super) fn packet(record: &Record<'_>) -> Vec<u8> {
    let line = Line::of(record.args());
    let mut packet = Vec::with_capacity(1 + line.text.len());
    packet.push(Weight::of(record.metadata()) as u8);
    packet.extend_from_slice(line.text.as_bytes());
    packet
}

/// Sends a packet if it can be done at once, and counts it otherwise.
pub(super) fn deliver(socket: RawFd, packet: &[u8]) {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    loop {
        match send(socket, packet, flags) {
            Ok(_) => return,
            Err(Errno::EINTR) => {}
            Err(_) => {
                DROPPED.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}
