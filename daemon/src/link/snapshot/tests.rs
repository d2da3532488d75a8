use std::io::Write;
use std::os::unix::fs::FileExt;

use super::*;

fn settings() -> Settings {
    let mut settings = Settings {
        files: vec!["pgfleet.toml".into(), "userlist.txt".into()],
        ..Settings::default()
    };
    let secret = "SCRAM-SHA-256$".repeat(10_000);
    settings.userlist.insert("åsa".to_owned(), secret);
    settings
}

#[test]
fn settings_come_out_as_they_went_in() {
    let fd = settings_memfd(&settings()).unwrap();
    // Every worker gets a copy of the same descriptor.
    for _ in 0..3 {
        let copy = fd.try_clone().unwrap();
        assert!(read_settings(copy).unwrap() == settings());
    }
}

#[test]
fn a_snapshot_cannot_be_changed() {
    let fd = settings_memfd(&settings()).unwrap();
    let file = File::from(fd);
    assert!(file.write_all_at(b"x", 0).is_err());
    assert!(file.set_len(1).is_err());
    assert!(file.set_len(1 << 20).is_err());
}

#[test]
fn what_could_change_is_not_read() {
    let bytes = postcard::to_stdvec(&settings()).unwrap();
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file = File::from(memfd_create("pgfleet-test", flags).unwrap());
    file.write_all(&bytes).unwrap();
    let refused = read_settings(file.into()).map(|_| ());
    assert!(matches!(refused, Err(SnapshotError::NotSealed)));
    let plain = tempfile::tempfile().unwrap();
    let refused = read_settings(plain.into()).map(|_| ());
    assert!(refused.is_err());
}

#[test]
fn nonsense_is_refused() {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("pgfleet-test", flags).unwrap());
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals())).unwrap();
    let refused = read_settings(file.into()).map(|_| ());
    assert!(matches!(refused, Err(SnapshotError::Malformed(_))));
}
