//! A client that speaks the protocol by hand: it sends any bytes, in any pieces, and reads message by message.
//! It never answers by itself, but for the passwords of a login that it was asked to do.
//! Suites use it where a driver would not misbehave enough.

mod answer;
pub mod message;
mod socket;

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    time::Duration,
};

pub use answer::{Answer, Message};
use socket::Socket;

use crate::{address::Address, failure::Failure};

/// How long to wait for bytes before the test is told that it hangs.
const SILENCE: Duration = Duration::from_secs(30);

/// A connection, logged in or not.
#[derive(Debug)]
pub struct Raw {
    socket: Socket,
    received: Vec<u8>,
    /// The cancel key, as it was sent.
    pub key: Vec<u8>,
    /// What came before the first `ReadyForQuery`.
    pub welcome: Answer,
}

impl Raw {
    /// Connects, and sends nothing.
    ///
    /// # Errors
    /// When nobody accepts.
    pub fn open(address: &Address) -> io::Result<Self> {
        let socket = Socket::connect(address)?;
        socket.set_read_timeout(SILENCE)?;
        Ok(Self { socket, received: Vec::new(), key: Vec::new(), welcome: Answer::default() })
    }

    /// Connects and logs in by trust or with a cleartext password.
    ///
    /// # Errors
    /// What the other side refused it with.
    pub fn login(address: &Address) -> Result<Self, Failure> {
        Self::login_with(address, &[])
    }

    /// Logs in with more startup parameters.
    ///
    /// # Errors
    /// What the other side refused it with.
    pub fn login_with(address: &Address, parameters: &[(&str, &str)]) -> Result<Self, Failure> {
        Self::login_of(3 << 16, address, parameters)
    }

    /// Logs in and asks for this version of the protocol.
    ///
    /// # Errors
    /// What the other side refused it with.
    pub fn login_of(
        version: u32,
        address: &Address,
        parameters: &[(&str, &str)],
    ) -> Result<Self, Failure> {
        let mut raw = Self::open(address).map_err(lost)?;
        let mut all =
            vec![("user", address.user.as_str()), ("database", address.database.as_str())];
        all.extend_from_slice(parameters);
        raw.send(&message::startup_of(version, &all)).map_err(lost)?;
        raw.welcome = raw.logged_in(address.password.as_deref().unwrap_or(""))?;
        raw.key = raw.welcome.first(b'K').map(|message| message.body.clone()).unwrap_or_default();
        Ok(raw)
    }

    fn logged_in(&mut self, password: &str) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        loop {
            let message = self.read().map_err(lost)?;
            let (tag, body) = (message.tag, message.body.clone());
            answer.push(message);
            match tag {
                b'E' => {
                    return Err(answer
                        .error()
                        .unwrap_or_else(|| Failure::new("", "", "an unreadable error")));
                }
                b'Z' => return Ok(answer),
                b'R' if body.starts_with(&3_u32.to_be_bytes()) => {
                    self.send(&message::password(password)).map_err(lost)?
                }
                _ => {}
            }
        }
    }

    /// Sends the bytes as they are.
    ///
    /// # Errors
    /// When the other side has closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Reads the next message.
    ///
    /// # Errors
    /// `UnexpectedEof` when the other side has closed, `WouldBlock` or `TimedOut` when nothing comes.
    pub fn read(&mut self) -> io::Result<Message> {
        loop {
            if let Some((message, length)) = Message::parse(&self.received) {
                self.received.drain(..length);
                return Ok(message);
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut chunk = [0; 65_536];
        let count = self.socket.read(&mut chunk)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.received.extend_from_slice(chunk.get(..count).unwrap_or_default());
        Ok(())
    }

    /// Reads one byte that is no message: the answer to an SSLRequest.
    ///
    /// # Errors
    /// As [`Raw::read`].
    pub fn byte(&mut self) -> io::Result<u8> {
        while self.received.is_empty() {
            self.receive()?;
        }
        Ok(self.received.remove(0))
    }

    /// Reads up to and with the first message of this kind.
    ///
    /// # Errors
    /// What the other side said before it closed, or that it closed.
    pub fn until(&mut self, tag: u8) -> Result<Answer, Failure> {
        let mut answer = Answer::default();
        loop {
            match self.read() {
                Ok(message) => {
                    let found = message.tag == tag;
                    answer.push(message);
                    if found {
                        return Ok(answer);
                    }
                }
                Err(error) => return Err(answer.error().unwrap_or_else(|| lost(error))),
            }
        }
    }

    /// Sends the bytes and reads until the next `ReadyForQuery`.
    ///
    /// # Errors
    /// As [`Raw::until`].
    pub fn ask(&mut self, bytes: &[u8]) -> Result<Answer, Failure> {
        self.send(bytes).map_err(lost)?;
        self.until(b'Z')
    }

    /// Runs a simple query.
    ///
    /// # Errors
    /// As [`Raw::until`].
    pub fn query(&mut self, sql: &str) -> Result<Answer, Failure> {
        self.ask(&message::query(sql))
    }

    /// Reads until the other side closes, and gives back what came before.
    ///
    /// # Errors
    /// When it does not close.
    pub fn until_closed(&mut self) -> io::Result<Answer> {
        let mut answer = Answer::default();
        loop {
            match self.read() {
                Ok(message) => answer.push(message),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                    ) =>
                {
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Says goodbye.
    pub fn leave(mut self) {
        drop(self.send(&message::terminate()));
    }

    /// Sends no more, but still reads.
    pub fn shut(&self) {
        drop(self.socket.shutdown(Shutdown::Write));
    }

    /// How long to wait for bytes from now on.
    pub fn set_patience(&self, patience: Duration) {
        self.socket.set_read_timeout(patience).expect("a timeout can be set");
    }

    /// A second handle to the same connection, to send from another thread.
    pub fn writer(&self) -> impl Write + Send + use<> {
        self.socket.try_clone().expect("a socket can be cloned")
    }
}

/// Sends a cancel request for this key, and waits until its connection is closed.
///
/// # Errors
/// When nobody accepts, or when the connection stays open.
pub fn cancel(address: &Address, key: &[u8]) -> io::Result<()> {
    let mut raw = Raw::open(address)?;
    raw.send(&message::cancel(key))?;
    raw.until_closed().map(drop)
}

/// A connection that ended without a word.
fn lost(error: io::Error) -> Failure {
    Failure::new("", "", &format!("connection lost: {error}"))
}
