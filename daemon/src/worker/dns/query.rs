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
