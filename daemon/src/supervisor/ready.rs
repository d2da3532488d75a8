//! Tells whoever started the daemon how the start went.
//!
//! It owns the descriptor of `--ready-fd` and writes to it once: `ready`, or the reason of a failure. It never
//! blocks the start on a reader that is gone. The entry and the loop call it.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// The waiting starter, until it has been told.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// The start is not over; there may be someone who waits for it.
    Open(Option<File>),
    #[default]
    Told,
}

impl Ready {
    /// Takes over the descriptor; a number that is no open pipe is ignored with a line in the log.
    pub(crate) fn take(descriptor: Option<i32>) -> Self {
        let file = descriptor.and_then(|descriptor| {
            // Opening it anew gives a descriptor that is ours and closed on exec, without unsafe code.
            let opened = OpenOptions::new().write(true).open(format!("/proc/self/fd/{descriptor}"));
            if let Err(error) = &opened {
                log::warn!("cannot use --ready-fd {descriptor}: {error}");
            } else if let Err(errno) = nix::unistd::close(descriptor) {
                log::warn!("cannot close --ready-fd {descriptor}: {errno}");
            }
            opened.ok()
        });
        Self { state: State::Open(file) }
    }

    /// Whether the start is not over yet.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The fleet serves.
    pub(crate) fn serving(&mut self) {
        self.tell("ready\n");
    }

    /// The start failed.
    pub(crate) fn fail(&mut self, reason: &str) {
        self.tell(&format!("{}\n", reason.trim_end()));
    }

    fn tell(&mut self, text: &str) {
        if let State::Open(Some(mut file)) = std::mem::take(&mut self.state)
            && let Err(error) = file.write_all(text.as_bytes())
        {
            log::warn!("whoever started the fleet does not listen any more: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    #[test]
    fn the_starter_is_told_once_and_then_sees_the_end() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut ready = Ready::take(Some(writer.into_raw_fd()));
        assert!(ready.is_open());
        ready.serving();
        ready.fail("too late");
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ready\n");
        assert!(reader.as_raw_fd() >= 0 && !ready.is_open());
    }

    #[test]
    fn nobody_need_wait() {
        let mut ready = Ready::take(None);
        assert!(ready.is_open());
        ready.serving();
        assert!(!ready.is_open());
    }
}
