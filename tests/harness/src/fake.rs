//! A server that lies: it logs clients in like Postgres, or not, and then misbehaves in one way.
//! It never tells the truth about data; a test that needs rows uses a real cluster.
//! Suites put it behind a fleet, beside a real database that must not notice.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{port, raw::message};

/// In which way it misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Accepts, and says nothing.
    Silent,
    /// Closes when it has read the startup packet.
    HangsUpInLogin,
    /// Answers the startup packet with bytes that are no message.
    NonsenseInLogin,
    /// Asks for a login method that nobody knows.
    UnknownLogin,
    /// Logs in, and never answers a query.
    SilentQuery,
    /// The same, and keeps the connections of cancel requests open.
    HoldsCancels,
    /// Logs in, and closes in the middle of the first data row.
    ClosesInRow,
    /// Logs in, and answers a query with a message of an unknown kind.
    NonsenseMessage,
    /// Logs in, and answers a query with a message of an impossible length.
    ImpossibleLength,
    /// Logs in, answers a query, and then answers once more without having been asked.
    AnswersTwice,
    /// Logs in, answers a query by starting a COPY that nobody asked for, and says it is ready.
    ReadyInCopy,
}

/// What stands for the version in a cancel request.
const CANCEL: [u8; 4] = 80_877_102_u32.to_be_bytes();

/// A lying server on a loopback port.
#[derive(Debug)]
pub struct FakeServer {
    port: u16,
    stop: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// Starts it.
    pub fn start(lie: Lie) -> Self {
        let port = port::free();
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port can be bound");
        let (stop, accepted, open) = (Arc::default(), Arc::default(), Arc::default());
        let mut fake = Self { port, stop, accepted, open, thread: None };
        let (stop, accepted, open) =
            (Arc::clone(&fake.stop), Arc::clone(&fake.accepted), Arc::clone(&fake.open));
        fake.thread = Some(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                accepted.fetch_add(1, Ordering::Relaxed);
                let copy = stream.try_clone().expect("a socket can be cloned");
                open.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
                thread::spawn(move || {
                    let mut stream = stream;
                    serve(&mut stream, lie);
                    // The copy would keep the connection open.
                    drop(stream.shutdown(Shutdown::Both));
                });
            }
        }));
        fake
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many connections it has accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the accept.
        drop(TcpStream::connect_timeout(
            &SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
            Duration::from_secs(1),
        ));
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves one connection until either side has had enough; a broken pipe is the expected end.
fn serve(stream: &mut TcpStream, lie: Lie) -> Option<()> {
    if lie == Lie::Silent {
        return drain(stream);
    }
    let mut packet = opening(stream)?;
    if packet.len() == 4 {
        // SSLRequest: no.
        stream.write_all(b"N").ok()?;
        packet = opening(stream)?;
    }
    let version = packet.get(..4)?;
    if version == CANCEL && lie == Lie::HoldsCancels {
        return drain(stream);
    }
    if version != 196_608_u32.to_be_bytes() {
        return None;
    }
    stream.write_all(&greeting(lie)?).ok()?;
    loop {
        let tag = next(stream)?;
        match tag {
            b'Q' | b'S' => stream.write_all(&answer(lie)).ok()?,
            b'X' => return None,
            _ => continue,
        }
        if lie == Lie::ClosesInRow {
            return None;
        }
    }
}

/// What the startup packet is answered with; nothing means to hang up.
fn greeting(lie: Lie) -> Option<Vec<u8>> {
    match lie {
        Lie::HangsUpInLogin => None,
        Lie::NonsenseInLogin => {
            Some(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".repeat(4))
        }
        Lie::UnknownLogin => Some(message::framed(b'R', &99_u32.to_be_bytes())),
        Lie::Silent | Lie::SilentQuery | Lie::HoldsCancels => Some(login()),
        Lie::ClosesInRow | Lie::NonsenseMessage => Some(login()),
        Lie::ImpossibleLength | Lie::AnswersTwice | Lie::ReadyInCopy => Some(login()),
    }
}

fn login() -> Vec<u8> {
    let report =
        |name: &str, value: &str| message::framed(b'S', format!("{name}\0{value}\0").as_bytes());
    [
        message::framed(b'R', &0_u32.to_be_bytes()),
        report("server_version", "15.0"),
        report("client_encoding", "UTF8"),
        report("server_encoding", "UTF8"),
        report("DateStyle", "ISO, MDY"),
        report("TimeZone", "UTC"),
        report("IntervalStyle", "postgres"),
        report("standard_conforming_strings", "on"),
        report("application_name", ""),
        report("integer_datetimes", "on"),
        message::framed(b'K', &[0, 0, 0, 7, 0, 0, 0, 7]),
        ready(),
    ]
    .concat()
}

fn ready() -> Vec<u8> {
    message::framed(b'Z', b"I")
}

/// What a query is answered with.
fn answer(lie: Lie) -> Vec<u8> {
    let empty = [message::framed(b'I', &[]), ready()].concat();
    match lie {
        Lie::Silent
        | Lie::HangsUpInLogin
        | Lie::NonsenseInLogin
        | Lie::UnknownLogin
        | Lie::SilentQuery
        | Lie::HoldsCancels => Vec::new(),
        Lie::ClosesInRow => {
            [b"D".as_slice(), &1000_u32.to_be_bytes(), b"\0\x01\0\0\x03\xe0half of a row"].concat()
        }
        Lie::NonsenseMessage => [message::framed(b'@', b"what is this"), ready()].concat(),
        Lie::ImpossibleLength => message::with_length(b'D', 2, b"\0\0\0\0"),
        Lie::AnswersTwice => [empty.clone(), empty].concat(),
        Lie::ReadyInCopy => [message::framed(b'G', &[0, 0, 0]), ready()].concat(),
    }
}

/// The packet without its length.
fn opening(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(head)).ok()?.checked_sub(4)?];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Reads a message and gives back its kind.
fn next(stream: &mut TcpStream) -> Option<u8> {
    let mut tag = [0; 1];
    stream.read_exact(&mut tag).ok()?;
    opening(stream)?;
    tag.first().copied()
}

fn drain(stream: &mut TcpStream) -> Option<()> {
    let mut chunk = [0; 4096];
    while stream.read(&mut chunk).ok()? > 0 {}
    None
}
