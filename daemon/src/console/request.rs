//! What a console client can ask for: its messages as values.
//!
//! It owns the reading of message bodies, which are taken apart once and copied. It never judges
//! whether a message comes at the right time. The session calls it for each whole message.

/// A message of the client (manual: "Message Formats").
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Query(String),
    /// A `Query` whose text is not UTF-8.
    NotText,
    Parse {
        name: Vec<u8>,
        /// `None` is a text that is not UTF-8.
        text: Option<String>,
    },
    Bind(Bind),
    Describe(Target),
    Close(Target),
    Execute {
        portal: Vec<u8>,
        /// The most rows; 0 is all.
        most: usize,
    },
    Flush,
    Sync,
    Terminate,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) portal: Vec<u8>,
    pub(super) statement: Vec<u8>,
    /// How many values for parameters came with it.
    pub(super) parameters: u16,
    pub(super) formats: Vec<Format>,
}

/// A statement or a portal, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Statement(Vec<u8>),
    Portal(Vec<u8>),
}

/// How a value of a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Binary,
}

impl Request {
    /// `None` is a message that is malformed, or that no console client may send.
    pub(super) fn read(tag: u8, body: &[u8]) -> Option<Self> {
        let mut body = Body(body);
        let request = match tag {
            b'Q' => match String::from_utf8(body.name()?) {
                Ok(text) => Self::Query(text),
                Err(_) => Self::NotText,
            },
            b'P' => {
                let (name, text) = (body.name()?, body.name()?);
                let types = usize::from(body.int16()?);
                body.bytes(types * 4)?;
                Self::Parse { name, text: String::from_utf8(text).ok() }
            }
            b'B' => Self::Bind(body.bind()?),
            b'D' => Self::Describe(body.target()?),
            b'C' => Self::Close(body.target()?),
            b'E' => Self::Execute {
                portal: body.name()?,
                // Postgres, too, takes a negative number for all.
                most: usize::try_from(body.int32()?).unwrap_or(0),
            },
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            _ => return None,
        };
        body.0.is_empty().then_some(request)
    }
}

/// What is left of a body.
struct Body<'a>(&'a [u8]);

impl Body<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn int16(&mut self) -> Option<u16> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes))
    }

    fn int32(&mut self) -> Option<i32> {
        let bytes = self.bytes(4)?.try_into().ok()?;
        Some(i32::from_be_bytes(bytes))
    }

    /// Up to the next NUL.
    fn name(&mut self) -> Option<Vec<u8>> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let name = self.bytes(end)?.to_vec();
        self.bytes(1)?;
        Some(name)
    }

    fn target(&mut self) -> Option<Target> {
        match self.bytes(1)? {
            b"S" => Some(Target::Statement(self.name()?)),
            b"P" => Some(Target::Portal(self.name()?)),
            _ => None,
        }
    }

    fn format(&mut self) -> Option<Format> {
        match self.int16()? {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }

    fn bind(&mut self) -> Option<Bind> {
        let (portal, statement) = (self.name()?, self.name()?);
        for _ in 0..self.int16()? {
            self.format()?;
        }
        let parameters = self.int16()?;
        for _ in 0..parameters {
            // -1 is null, and has no bytes.
            if let Ok(length) = usize::try_from(self.int32()?) {
                self.bytes(length)?;
            }
        }
        let count = self.int16()?;
        let formats = (0..count).map(|_| self.format()).collect::<Option<_>>()?;
        Some(Bind { portal, statement, parameters, formats })
    }
}
