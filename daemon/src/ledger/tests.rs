use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::{Accepting, Ledger, SLOTS, mapping::Layout, seals};
use crate::link::message::WorkerId;

fn worker(slot: u16, generation: u32) -> WorkerId {
    WorkerId { slot, generation }
}

/// A row that takes clients and has `clients` of them.
fn serving(ledger: &Ledger, worker: WorkerId, clients: u32) {
    let row = ledger.row(worker);
    row.claim(worker);
    row.set_most(u32::MAX);
    (0..clients).for_each(|_| row.add_client());
    row.set_accepting(Accepting::Yes);
}

/// A memfd of this length with these bytes at its start.
fn memory(length: i64, start: &[u8], seals: SealFlag) -> OwnedFd {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let fd = memfd_create("pgfleet-test", flags).unwrap();
    nix::unistd::ftruncate(&fd, length).unwrap();
    let file = File::from(fd);
    file.write_all_at(start, 0).unwrap();
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    file.into()
}

#[test]
fn two_mappings_see_each_other() {
    let (first, fd) = Ledger::create().unwrap();
    let second = Ledger::open(fd).unwrap();
    serving(&first, worker(3, 7), 2);
    assert_eq!(second.row(worker(3, 7)).clients(), 2);
    assert_eq!(second.row(worker(3, 7)).generation(), 7);
    second.row(worker(3, 7)).drop_client();
    second.row(worker(3, 7)).set_accepting(Accepting::No);
    assert_eq!(first.row(worker(3, 7)).clients(), 1);
    assert_eq!(first.row(worker(3, 7)).accepting(), Accepting::No);
}

#[test]
fn a_count_never_falls_below_zero() {
    let (ledger, _fd) = Ledger::create().unwrap();
    let row = ledger.row(worker(1, 1));
    row.drop_client();
    assert_eq!(row.clients(), 0);
    row.add_client();
    row.drop_client();
    row.drop_client();
    assert_eq!(row.clients(), 0);
}

#[test]
fn a_successor_does_not_share_the_row_of_the_one_it_replaces() {
    let (ledger, _fd) = Ledger::create().unwrap();
    serving(&ledger, worker(2, 4), 5);
    serving(&ledger, worker(2, 5), 1);
    assert_eq!(ledger.row(worker(2, 4)).clients(), 5);
    assert_eq!(ledger.row(worker(2, 5)).clients(), 1);
}

#[test]
fn a_claim_starts_anew_and_outdates_the_generation_before_last() {
    let (ledger, _fd) = Ledger::create().unwrap();
    serving(&ledger, worker(2, 4), 5);
    ledger.row(worker(2, 6)).claim(worker(2, 6));
    assert_eq!(ledger.row(worker(2, 6)).clients(), 0);
    assert_eq!(ledger.row(worker(2, 6)).accepting(), Accepting::No);
    ledger.row(worker(2, 6)).set_most(u32::MAX);
    ledger.row(worker(2, 6)).set_accepting(Accepting::Yes);
    assert_eq!(ledger.least_loaded([worker(2, 4)].into_iter()), None);
    let found = ledger.least_loaded([worker(2, 6)].into_iter());
    assert_eq!(found, Some((worker(2, 6), 0)));
}

#[test]
fn the_least_loaded_is_accepting_and_among_those_asked_for() {
    let (ledger, _fd) = Ledger::create().unwrap();
    serving(&ledger, worker(1, 1), 4);
    serving(&ledger, worker(2, 1), 2);
    serving(&ledger, worker(3, 1), 1);
    serving(&ledger, worker(4, 1), 0);
    ledger.row(worker(4, 1)).set_accepting(Accepting::No);
    let all = || (1..=SLOTS).map(|slot| worker(slot, 1));
    assert_eq!(ledger.least_loaded(all()), Some((worker(3, 1), 1)));
    let found = ledger.least_loaded(all().filter(|worker| worker.slot < 3));
    assert_eq!(found, Some((worker(2, 1), 2)));
    assert_eq!(ledger.least_loaded(std::iter::empty()), None);
}

#[test]
fn slots_out_of_range_have_a_row_that_gets_no_client() {
    let (ledger, _fd) = Ledger::create().unwrap();
    for outside in [worker(0, 1), worker(SLOTS + 1, 1), worker(u16::MAX, 2)] {
        serving(&ledger, outside, 0);
        assert_eq!(ledger.least_loaded([outside].into_iter()), None);
    }
    assert_eq!(ledger.row(worker(1, 1)).generation(), 0);
    assert_eq!(ledger.row(worker(SLOTS, 1)).generation(), 0);
}

#[test]
fn counts_of_many_threads_add_up() {
    let (ledger, fd) = Ledger::create().unwrap();
    let views: Vec<Ledger> =
        (0..4).map(|_| Ledger::open(fd.try_clone().unwrap()).unwrap()).collect();
    std::thread::scope(|scope| {
        for view in &views {
            scope.spawn(move || {
                (0..10_000).for_each(|_| view.row(worker(1, 1)).add_client());
                (0..9_999).for_each(|_| view.row(worker(1, 1)).drop_client());
            });
        }
    });
    assert_eq!(ledger.row(worker(1, 1)).clients(), 4);
}

#[test]
fn foreign_memory_is_refused() {
    let mark = b"Lteelfgp\x01\0\0\0";
    let refused = |fd| Ledger::open(fd).map(|_| ()).map_err(|error| error.kind());
    let right = Layout::LENGTH;
    assert_eq!(refused(memory(right, mark, seals())), Ok(()));
    for (length, start, seals) in [
        (right, &b"Lteelfgq\x01\0\0\0"[..], seals()),
        (right, b"Lteelfgp\x02\0\0\0", seals()),
        (right, b"", seals()),
        (right - 1, mark, seals()),
        (right + 1, mark, seals()),
        (right, mark, SealFlag::F_SEAL_GROW),
    ] {
        let found = refused(memory(length, start, seals));
        assert_eq!(found, Err(ErrorKind::InvalidData), "{length} {start:?}");
    }
    let plain: OwnedFd = tempfile::tempfile().unwrap().into();
    assert!(refused(plain).is_err());
}
