use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;

use log::{Level, LevelFilter, Record};
use time::macros::datetime;

use super::supervisor::{read, shape};
use super::worker::{deliver, packet};
use super::{Errors, FATAL, LONGEST, Line, Sink, Weight, dropped, from_worker, reopen, supervisor};
use crate::link::channel::pair;

fn record(level: Level, target: &str, text: &str) -> Vec<u8> {
    packet(&Record::builder().level(level).target(target).args(format_args!("{text}")).build())
}

/// What the supervisor prints for a packet, without its stamp.
fn printed(packet: &[u8]) -> String {
    let (weight, line) = read(packet);
    let line = shape(datetime!(2026-12-01 03:00:00.1239 UTC), 42, weight, &line);
    line.strip_prefix("2026-12-01 03:00:00.123 UTC [42] ").unwrap().to_owned()
}

#[test]
fn levels_have_pgbouncers_words() {
    for (level, target, word) in [
        (Level::Error, FATAL, "FATAL"),
        (Level::Error, "pgfleetd", "ERROR"),
        (Level::Warn, "pgfleetd", "WARNING"),
        (Level::Info, FATAL, "LOG"),
        (Level::Debug, "pgfleetd", "DEBUG"),
        (Level::Trace, "pgfleetd", "NOISE"),
    ] {
        let line = printed(&record(level, target, "no more connections"));
        assert_eq!(line, format!("{word} no more connections\n"));
    }
}

#[test]
fn no_text_can_begin_a_line() {
    let text = "a\nb\r\tc\0d\u{1b}[0m\u{85}e\u{2028}f\\n é";
    let line = printed(&record(Level::Info, "t", text));
    let escaped = "a\\nb\\r\\tc\\u{0}d\\u{1b}[0m\\u{85}e\\u{2028}f\\n é";
    assert_eq!(line, format!("LOG {escaped}\n"));
    let raw = [&[Weight::Log as u8], text.as_bytes()].concat();
    assert_eq!(printed(&raw), line);
}

#[test]
fn a_panic_message_is_an_error() {
    let line = printed(b"\nthread 'main' panicked at a.rs:1:2:\nboom \xff\n");
    let text = "thread 'main' panicked at a.rs:1:2:\\nboom \u{fffd}";
    assert_eq!(line, format!("ERROR {text}\n"));
    assert_eq!(printed(b""), "ERROR \n");
}

#[test]
fn long_text_is_cut_between_characters() {
    let line = Line::of("é".repeat(LONGEST));
    assert!(line.cut && line.text.ends_with("é..."));
    assert_eq!(line.text.len(), LONGEST + 3);
    let line = Line::of(format!("x{}", "é".repeat(LONGEST)));
    assert_eq!(line.text.len(), LONGEST - 1 + 3);
    assert!(!Line::of("x".repeat(LONGEST)).cut);
}

#[test]
fn a_full_socket_drops_and_counts() {
    let (worker, supervisor) = pair().unwrap();
    let long = record(Level::Info, "t", &"x".repeat(LONGEST));
    let before = dropped();
    (0..1_000).for_each(|_| deliver(worker.as_raw_fd(), &long));
    let lost = dropped() - before;
    assert!((1..1_000).contains(&lost), "{lost}");
    let mut buffer = vec![0; LONGEST + 64];
    let length = nix::unistd::read(&supervisor, &mut buffer).unwrap();
    assert_eq!(buffer[..length], long[..]);
}

// The only test that touches the one place of this process.
#[test]
fn a_log_file_is_appended_to_and_follows_a_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pgfleet.log");
    let sink = Sink { errors: Errors::Quiet, file: Some(path.clone()), level: LevelFilter::Off };
    supervisor(sink.clone()).unwrap();
    let contents = |path| {
        let mut text = String::new();
        let mut file = std::fs::File::open(path).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    };
    from_worker(7, &record(Level::Info, "t", "first"));
    let mode = path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode & !0o640, 0, "{mode:o}");
    let rotated = folder.path().join("pgfleet.log.1");
    std::fs::rename(&path, &rotated).unwrap();
    from_worker(7, &record(Level::Info, "t", "second"));
    reopen().unwrap();
    from_worker(7, &record(Level::Info, "t", "third"));
    assert!(contents(rotated).ends_with(" [7] LOG second\n"));
    assert!(contents(path).ends_with(" UTC [7] LOG third\n"));
    let nowhere = Some(folder.path().join("no/such/folder"));
    let failed = supervisor(Sink { file: nowhere, ..sink });
    assert!(failed.unwrap_err().to_string().contains("no/such/folder"));
}
