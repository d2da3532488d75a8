//! Asking name servers, without blocking.
//!
//! One question at a time to one server after the other, over UDP from a fresh port with a random id,
//! and over TCP where the answer did not fit. What is no answer to the question is passed over; nothing
//! is remembered here. `lookup` calls it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::{A, Aaaa, Soa};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::conf::Conf;

/// The longest datagram that is read.
const LONGEST: usize = 4096;

/// Addresses that are taken from one answer.
const MOST: usize = 64;

/// Why a name has no address now.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum LookupError {
    #[error("no such name")]
    NotFound,
    #[error("{0}")]
    Failed(String),
}

/// The addresses of a name: those of IPv4, else those of IPv6.
pub(crate) async fn addresses(conf: &Conf, name: &str) -> Result<Vec<IpAddr>, LookupError> {
    let mut last = LookupError::NotFound;
    for candidate in conf.candidates(name) {
        match addresses_of(conf, &candidate).await {
            Ok(found) => return Ok(found),
            Err(LookupError::NotFound) => {}
            Err(failed @ LookupError::Failed(_)) => last = failed,
        }
    }
    Err(last)
}

async fn addresses_of(conf: &Conf, name: &str) -> Result<Vec<IpAddr>, LookupError> {
    for rtype in [Rtype::A, Rtype::AAAA] {
        let answer = ask(conf, name, rtype).await?;
        let found = read_addresses(&answer);
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(LookupError::NotFound)
}

fn read_addresses(answer: &Message<Vec<u8>>) -> Vec<IpAddr> {
    let Ok(section) = answer.answer() else { return Vec::new() };
    let four = section.limit_to::<A>().flatten().map(|record| IpAddr::V4(record.data().addr()));
    let six = section.limit_to::<Aaaa>().flatten().map(|record| IpAddr::V6(record.data().addr()));
    four.chain(six).take(MOST).collect()
}

/// The serial number of a zone.
pub(crate) async fn serial(conf: &Conf, zone: &str) -> Result<u32, LookupError> {
    let answer = ask(conf, zone, Rtype::SOA).await?;
    let section = answer.answer().map_err(|error| LookupError::Failed(error.to_string()))?;
    let found = section.limit_to::<Soa<_>>().flatten().next();
    found.map(|record| record.data().serial().into_int()).ok_or(LookupError::NotFound)
}

/// Asks every server until one answers.
async fn ask(conf: &Conf, name: &str, rtype: Rtype) -> Result<Message<Vec<u8>>, LookupError> {
    let mut last = LookupError::Failed("no name server".to_owned());
    for _ in 0..conf.attempts {
        for &server in &conf.servers {
            let question = question(name, rtype)?;
            let failed = match timeout(conf.timeout, exchange(server, &question)).await {
                Ok(Ok(answer)) => match answer.header().rcode() {
                    Rcode::NOERROR => return Ok(answer),
                    Rcode::NXDOMAIN => return Err(LookupError::NotFound),
                    rcode => format!("{server} answers {rcode}"),
                },
                Ok(Err(error)) => format!("{server}: {error}"),
                Err(_) => format!("{server} does not answer"),
            };
            last = LookupError::Failed(failed);
        }
    }
    Err(last)
}

fn question(name: &str, rtype: Rtype) -> Result<Message<Vec<u8>>, LookupError> {
    let failed = |error: &dyn ToString| LookupError::Failed(error.to_string());
    let name: Name<Vec<u8>> = name.parse().map_err(|_| LookupError::NotFound)?;
    let mut id = [0; 2];
    getrandom::fill(&mut id).map_err(|error| failed(&error))?;
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(u16::from_ne_bytes(id));
    message.header_mut().set_rd(true);
    let mut message = message.question();
    message.push((name, rtype)).map_err(|error| failed(&error))?;
    Ok(message.into_message())
}

async fn exchange(server: SocketAddr, question: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
    let answer = by_udp(server, question).await?;
    if answer.header().tc() { by_tcp(server, question).await } else { Ok(answer) }
}

async fn by_udp(server: SocketAddr, question: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // From then on the kernel drops what others send.
    socket.connect(server).await?;
    socket.send(question.as_slice()).await?;
    let mut bytes = vec![0; LONGEST];
    loop {
        let length = socket.recv(&mut bytes).await?;
        let datagram = bytes.get(..length).unwrap_or_default().to_vec();
        if let Some(answer) = answer(datagram, question) {
            return Ok(answer);
        }
    }
}

async fn by_tcp(server: SocketAddr, question: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.as_slice().len()).map_err(io::Error::other)?;
    let mut packet = length.to_be_bytes().to_vec();
    packet.extend_from_slice(question.as_slice());
    stream.write_all(&packet).await?;
    let mut bytes = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut bytes).await?;
    answer(bytes, question).ok_or_else(|| io::Error::other("no answer to the question"))
}

/// The bytes as an answer to the question, if they are one.
fn answer(bytes: Vec<u8>, question: &Message<Vec<u8>>) -> Option<Message<Vec<u8>>> {
    let message = Message::from_octets(bytes).ok()?;
    message.is_answer(question).then_some(message)
}

/// The most that a lookup takes.
pub(crate) fn longest(conf: &Conf, name: &str) -> Duration {
    let questions = conf.candidates(name).len() * conf.servers.len() * 2;
    conf.timeout * conf.attempts * u32::try_from(questions).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The header of an answer to `question` with so many records, the question, and `rest`.
    fn packet(question: &Message<Vec<u8>>, flags: u8, records: u8, rest: &[u8]) -> Vec<u8> {
        let mut bytes = question.as_slice().to_vec();
        bytes[2] = 0x81 | flags;
        bytes[3] = 0x80;
        bytes[7] = records;
        bytes.extend_from_slice(rest);
        bytes
    }

    #[test]
    fn only_an_answer_to_the_question_is_one() {
        let question = question("db.example", Rtype::A).unwrap();
        let other = super::question("db.example", Rtype::AAAA).unwrap();
        assert!(answer(packet(&question, 0, 0, b""), &question).is_some());
        assert!(answer(question.as_slice().to_vec(), &question).is_none(), "an echo");
        assert!(answer(packet(&other, 0, 0, b""), &question).is_none());
        assert!(answer(b"what is this".to_vec(), &question).is_none());
    }

    #[test]
    fn addresses_are_read_behind_an_alias_too() {
        let question = question("db.example", Rtype::A).unwrap();
        let alias = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01x\xc0\x0f";
        let address = b"\xc0\x2a\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\0\x01";
        let bytes = packet(&question, 0, 2, &[alias.as_slice(), address].concat());
        let answer = answer(bytes, &question).unwrap();
        assert_eq!(read_addresses(&answer), [IpAddr::from([10, 0, 0, 1])]);
    }

    #[test]
    fn what_is_no_name_is_not_asked_for() {
        let long = "x".repeat(64);
        for name in ["", "a..b", long.as_str()] {
            assert_eq!(question(name, Rtype::A).err(), Some(LookupError::NotFound), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_of_a_name_server_do_harm(
            flags: u8,
            records: u8,
            rest in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let question = question("db.example", Rtype::A).unwrap();
            if let Some(answer) = answer(packet(&question, flags, records, &rest), &question) {
                prop_assert!(read_addresses(&answer).len() <= MOST);
            }
            prop_assert!(answer(rest, &question).is_none());
        }
    }
}
