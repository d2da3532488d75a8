//! A name server on loopback that knows a few names and misbehaves as it is told.
//! It never asks anyone else, and speaks no more of the protocol than A, AAAA and SOA over UDP and TCP.
//! Suites name it in the `resolv_conf` of a fleet.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{port, scratch::Scratch};

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it should.
    Honest,
    /// Not at all.
    Silent,
    /// That it cannot.
    Failing,
    /// By UDP only that the answer is too long.
    Truncating,
    /// First with bytes that are no answer, with an answer to something else, and then as it should.
    Noisy,
}

#[derive(Debug)]
struct State {
    manner: Manner,
    addresses: HashMap<String, Vec<Ipv4Addr>>,
    serial: u32,
    asked: Vec<(String, u16)>,
    stop: bool,
}

/// The server.
#[derive(Debug)]
pub struct NameServer {
    port: u16,
    state: Arc<Mutex<State>>,
    threads: Vec<JoinHandle<()>>,
    scratch: Scratch,
}

const A: u16 = 1;
const SOA: u16 = 6;

const NXDOMAIN: u8 = 3;
const SERVFAIL: u8 = 2;

impl NameServer {
    /// Starts one that knows no name.
    pub fn start() -> Self {
        let port = port::free();
        let socket =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port can be bound");
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port can be bound");
        let state = State {
            manner: Manner::Honest,
            addresses: HashMap::new(),
            serial: 1,
            asked: Vec::new(),
            stop: false,
        };
        let state = Arc::new(Mutex::new(state));
        let (one, two) = (Arc::clone(&state), Arc::clone(&state));
        let udp = thread::spawn(move || serve_udp(&socket, &one));
        let tcp = thread::spawn(move || serve_tcp(&listener, &two));
        let scratch = Scratch::make("nameserver");
        let text = format!("nameserver 127.0.0.1:{port}\noptions timeout:1 attempts:1\n");
        scratch.write("resolv.conf", 0o644, &text);
        Self { port, state, threads: vec![udp, tcp], scratch }
    }

    /// A `resolv.conf` that names it, and gives up after a second.
    pub fn resolv_conf(&self) -> String {
        self.scratch.path().join("resolv.conf").display().to_string()
    }

    /// From now on the name has these addresses; none means that there is no such name.
    pub fn set(&self, name: &str, addresses: &[&str]) {
        let parsed = addresses.iter().map(|ip| ip.parse().expect("it is an address")).collect();
        self.state().addresses.insert(name.to_owned(), parsed);
    }

    /// From now on it answers in this way.
    pub fn behave(&self, manner: Manner) {
        self.state().manner = manner;
    }

    /// The serial number of all its zones.
    pub fn set_serial(&self, serial: u32) {
        self.state().serial = serial;
    }

    /// How often it was asked for the address of this name.
    pub fn asked(&self, name: &str) -> usize {
        let wanted = (name.to_owned(), A);
        self.state().asked.iter().filter(|asked| **asked == wanted).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.state().stop = true;
        // Wakes the accept; the other thread looks by itself.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve_udp(socket: &UdpSocket, state: &Mutex<State>) {
    let step = Some(Duration::from_millis(50));
    socket.set_read_timeout(step).expect("a timeout can be set");
    let mut bytes = [0; 512];
    while !lock(state).stop {
        let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
        let Some(question) = Question::parse(bytes.get(..length).unwrap_or_default()) else {
            continue;
        };
        let mut state = lock(state);
        state.asked.push((question.name.clone(), question.kind));
        let datagrams = match state.manner {
            Manner::Silent => continue,
            Manner::Truncating => vec![question.answer(0x02, 0, &[])],
            Manner::Failing => vec![question.answer(0, SERVFAIL, &[])],
            Manner::Honest => vec![question.truth(&state)],
            Manner::Noisy => vec![
                b"what is this".to_vec(),
                question.other().truth(&state),
                question.truth(&state),
            ],
        };
        for datagram in datagrams {
            drop(socket.send_to(&datagram, from));
        }
    }
}

fn serve_tcp(listener: &TcpListener, state: &Mutex<State>) {
    for mut stream in listener.incoming().flatten() {
        if lock(state).stop {
            return;
        }
        // A client that hangs up has what it wanted.
        let _ended = serve_stream(&mut stream, state);
    }
}

fn serve_stream(stream: &mut TcpStream, state: &Mutex<State>) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut bytes).ok()?;
    let answer = Question::parse(&bytes)?.truth(&lock(state));
    stream.write_all(&u16::try_from(answer.len()).ok()?.to_be_bytes()).ok()?;
    stream.write_all(&answer).ok()
}

/// One question, as it was asked.
#[derive(Clone, Debug)]
struct Question {
    id: [u8; 2],
    /// Its name in lower case, with dots.
    name: String,
    kind: u16,
    /// The name, type and class as they were sent.
    bytes: Vec<u8>,
}

impl Question {
    fn parse(packet: &[u8]) -> Option<Self> {
        let rest = packet.get(12..)?;
        let (mut at, mut labels) = (0, Vec::new());
        loop {
            let length = usize::from(*rest.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(rest.get(at..at + length)?).to_lowercase());
            at += length;
        }
        let kind = u16::from_be_bytes(rest.get(at..at + 2)?.try_into().ok()?);
        let id = packet.get(..2)?.try_into().ok()?;
        Some(Self { id, name: labels.join("."), kind, bytes: rest.get(..at + 4)?.to_vec() })
    }

    /// The same with another id.
    fn other(&self) -> Self {
        Self { id: self.id.map(|byte| byte ^ 0x55), ..self.clone() }
    }

    fn truth(&self, state: &State) -> Vec<u8> {
        if self.kind == SOA {
            return self.answer(0, 0, &[soa(state.serial)]);
        }
        match state.addresses.get(&self.name) {
            Some(addresses) if !addresses.is_empty() && self.kind == A => {
                let records: Vec<_> = addresses.iter().map(|ip| ip.octets().to_vec()).collect();
                self.answer(0, 0, &records)
            }
            Some(addresses) if !addresses.is_empty() => self.answer(0, 0, &[]),
            Some(_) | None => self.answer(0, NXDOMAIN, &[]),
        }
    }

    /// A response with these flags, this code and one record for each of these contents.
    fn answer(&self, flags: u8, code: u8, records: &[Vec<u8>]) -> Vec<u8> {
        let mut packet = self.id.to_vec();
        packet.extend([0x81 | flags, 0x80 | code, 0, 1]);
        packet.extend(count(records.len()));
        packet.extend([0; 4]);
        packet.extend_from_slice(&self.bytes);
        for content in records {
            // The name of the question, its type, IN, a TTL of a minute.
            packet.extend([0xc0, 12]);
            packet.extend(self.kind.to_be_bytes());
            packet.extend([0, 1, 0, 0, 0, 60]);
            packet.extend(count(content.len()));
            packet.extend_from_slice(content);
        }
        packet
    }
}

fn count(number: usize) -> [u8; 2] {
    u16::try_from(number).expect("records are small").to_be_bytes()
}

/// A start of authority at the root, with this serial number.
fn soa(serial: u32) -> Vec<u8> {
    let times = [3600_u32, 600, 86400, 60].map(u32::to_be_bytes).concat();
    [&[0, 0], serial.to_be_bytes().as_slice(), &times].concat()
}
