use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::{Channel, ChannelError, LAST, MORE, bus_recv, bus_send, pair};
use crate::link::bus::Bus;
use crate::link::channel::{Receiver, Sender};
use crate::link::message::ListenerKind;

type Ends = ((Sender, Receiver), (Sender, Receiver));

fn ends() -> Ends {
    let (a, b) = pair().unwrap();
    (Channel::new(a).unwrap(), Channel::new(b).unwrap())
}

/// One end as a channel, the other one bare.
fn half() -> (OwnedFd, Receiver) {
    let (a, b) = pair().unwrap();
    (a, Channel::new(b).unwrap().1)
}

fn packet(socket: &OwnedFd, bytes: &[u8]) {
    nix::unistd::write(socket, bytes).unwrap();
}

/// Both ends of a pipe.
fn pipe() -> (File, File) {
    let (reading, writing) = nix::unistd::pipe().unwrap();
    (reading.into(), writing.into())
}

fn reads_from(fd: OwnedFd, writing: &mut File, text: &str) {
    writing.write_all(text.as_bytes()).unwrap();
    let mut found = vec![0; text.len()];
    File::from(fd).read_exact(&mut found).unwrap();
    assert_eq!(found, text.as_bytes());
}

#[tokio::test]
async fn a_message_of_any_size_arrives_whole() {
    let ((sender, _r), (_s, mut receiver)) = ends();
    let sizes = [0, 1, 61_430, 61_437, 61_438, 122_880, 5 << 20];
    for size in sizes {
        let message: Vec<u8> = (0_u8..251).cycle().take(size).collect();
        sender.send(&message, vec![]);
        let (found, fds) = receiver.recv::<Vec<u8>>().await.unwrap().unwrap();
        assert!(found == message && fds.is_empty(), "{size}");
    }
    assert_eq!(sender.queued(), 0);
}

#[tokio::test]
async fn descriptors_arrive_with_their_message() {
    let ((sender, _r), (_s, mut receiver)) = ends();
    let (first, mut first_writing) = pipe();
    let (second, mut second_writing) = pipe();
    sender.send(&"none", vec![]);
    sender.send(&"x".repeat(200_000), vec![first.into(), second.into()]);
    sender.send(&"none", vec![]);
    let (_, fds) = receiver.recv::<String>().await.unwrap().unwrap();
    assert!(fds.is_empty());
    let (text, mut fds) = receiver.recv::<String>().await.unwrap().unwrap();
    assert_eq!((text.len(), fds.len()), (200_000, 2));
    for fd in &fds {
        let flags = FdFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFD).unwrap());
        assert!(flags.contains(FdFlag::FD_CLOEXEC));
    }
    reads_from(fds.remove(1), &mut second_writing, "second");
    reads_from(fds.remove(0), &mut first_writing, "first");
    let (_, fds) = receiver.recv::<String>().await.unwrap().unwrap();
    assert!(fds.is_empty());
}

#[tokio::test]
async fn a_slow_peer_makes_a_queue_and_gets_all_of_it_in_order() {
    let ((sender, _r), (_s, mut receiver)) = ends();
    let clone = sender.clone();
    for number in 0..20_000_u32 {
        let sender = if number % 2 == 0 { &sender } else { &clone };
        sender.send(&(number, "some more bytes"), vec![]);
    }
    assert!(sender.queued() > 100_000);
    for number in 0..20_000_u32 {
        let found = receiver.recv::<(u32, String)>().await.unwrap().unwrap();
        assert_eq!(found.0.0, number);
    }
    sender.flush().await;
    assert_eq!(sender.queued(), 0);
    assert!(!sender.is_closed());
}

#[tokio::test]
async fn flush_waits_for_the_peer() {
    let ((sender, _r), (_s, mut receiver)) = ends();
    sender.send(&vec![7_u8; 1 << 20], vec![]);
    let waited = tokio::time::timeout(Duration::from_millis(20), sender.flush()).await;
    assert!(waited.is_err() && sender.queued() > 0);
    let (flushed, found) = tokio::join!(sender.flush(), receiver.recv::<Vec<u8>>());
    assert_eq!((flushed, found.unwrap().unwrap().0.len()), ((), 1 << 20));
}

#[tokio::test]
async fn a_closed_peer_is_an_end_and_closes_the_sender() {
    let ((sender, mut receiver), peer) = ends();
    peer.0.send(&"last words", vec![]);
    // Unread data makes the kernel say "reset" once, before the last words.
    sender.send(&"unread", vec![]);
    drop(peer);
    let (found, _) = receiver.recv::<String>().await.unwrap().unwrap();
    assert_eq!(found, "last words");
    assert!(receiver.recv::<String>().await.unwrap().is_none());
    assert!(!sender.is_closed());
    sender.send(&"anyone?", vec![]);
    assert!(sender.is_closed());
    sender.send(&"no", vec![]);
    sender.flush().await;
    assert_eq!(sender.queued(), 0);
}

#[tokio::test]
async fn a_peer_that_closes_ends_a_waiting_flush() {
    let ((sender, _r), peer) = ends();
    sender.send(&vec![7_u8; 1 << 20], vec![]);
    let ((), ()) = tokio::join!(sender.flush(), async { drop(peer) });
    assert!(sender.is_closed());
    assert_eq!(sender.queued(), 0);
}

#[tokio::test]
async fn a_receive_that_is_dropped_half_way_loses_nothing() {
    let (socket, mut receiver) = half();
    let record = postcard::to_stdvec("hello").unwrap();
    packet(&socket, &[&[MORE], &record[..2]].concat());
    for _ in 0..3 {
        let wait = Duration::from_millis(5);
        let waited = tokio::time::timeout(wait, receiver.recv::<String>()).await;
        assert!(waited.is_err());
    }
    packet(&socket, &[&[LAST], &record[2..]].concat());
    let (found, _) = receiver.recv::<String>().await.unwrap().unwrap();
    assert_eq!(found, "hello");
}

#[tokio::test]
async fn what_is_no_record_is_refused() {
    let refused = async |packets: &[&[u8]]| {
        let (socket, mut receiver) = half();
        packets.iter().for_each(|bytes| packet(&socket, bytes));
        drop(socket);
        receiver.recv::<String>().await.unwrap_err()
    };
    assert!(matches!(refused(&[&[2, 0]]).await, ChannelError::NotAPacket));
    let long = vec![0; 70_000];
    assert!(matches!(refused(&[&long]).await, ChannelError::NotAPacket));
    assert!(matches!(refused(&[&[MORE, 5]]).await, ChannelError::Torn));
    let malformed = refused(&[&[LAST, 5, b'x']]).await;
    assert!(matches!(malformed, ChannelError::Malformed(2, _)));
    let leftover = refused(&[&[LAST, 1, b'x', b'y']]).await;
    assert!(matches!(leftover, ChannelError::Malformed(3, _)));
}

#[tokio::test]
async fn more_descriptors_than_fit_are_an_error() {
    let (socket, mut receiver) = half();
    let (reading, _writing) = pipe();
    let numbers = [reading.as_raw_fd(); 9];
    let record = [std::io::IoSlice::new(&[LAST, 0])];
    super::descriptor::send(socket.as_fd(), &record, &numbers).unwrap();
    let found = receiver.recv::<String>().await;
    assert!(matches!(found, Err(ChannelError::DescriptorsLost)));
}

#[tokio::test]
async fn what_is_too_big_is_dropped_and_the_channel_lives() {
    let ((sender, _r), (_s, mut receiver)) = ends();
    let many = (0..5).map(|_| pipe().0.into()).collect();
    sender.send(&"too many descriptors", many);
    sender.send(&"fine", vec![]);
    let (found, _) = receiver.recv::<String>().await.unwrap().unwrap();
    assert_eq!(found, "fine");
    assert!(!sender.is_closed());
}

#[test]
fn the_bus_never_waits() {
    let (a, b) = pair().unwrap();
    let (reading, mut writing) = pipe();
    let hand = Bus::Hand { id: u64::MAX, kind: ListenerKind::Tcp };
    let nothing = bus_recv(b.as_fd()).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    bus_send(a.as_fd(), &hand, Some(reading.as_fd())).unwrap();
    let (found, fd) = bus_recv(b.as_fd()).unwrap().unwrap();
    assert_eq!(found, hand);
    reads_from(fd.unwrap(), &mut writing, "handed");
    let full = loop {
        if let Err(error) = bus_send(a.as_fd(), &Bus::Taken { id: 1 }, None) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    drop(a);
    while let Some((found, fd)) = bus_recv(b.as_fd()).unwrap() {
        assert!(found == Bus::Taken { id: 1 } && fd.is_none());
    }
    let gone = bus_send(b.as_fd(), &hand, None).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn nonsense_on_the_bus_is_invalid_data() {
    for nonsense in [&[9, 9, 9][..], &[1], &[1, 1, 1], &[0; 300]] {
        let (a, b) = pair().unwrap();
        packet(&a, nonsense);
        let error = bus_recv(b.as_fd()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{nonsense:?}");
    }
}
