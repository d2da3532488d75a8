//! What came back: messages, and what tests ask of them.
//! It never fails on a message that it does not know.
//! `Raw` gives it back.

use crate::failure::Failure;

/// One message of the server side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its first byte.
    pub tag: u8,
    /// What follows the length.
    pub body: Vec<u8>,
}

impl Message {
    /// The message at the start of the bytes, and how long it is there.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let tag = *bytes.first()?;
        let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?);
        let end = usize::try_from(length).ok()? + 1;
        let body = bytes.get(5..end)?.to_vec();
        Some((Self { tag, body }, end))
    }

    /// The body as text, without a closing zero byte.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.body.strip_suffix(&[0]).unwrap_or(&self.body)).into_owned()
    }

    /// The columns of a data row.
    fn row(&self) -> Option<Vec<Option<String>>> {
        let mut rest = self.body.get(2..)?;
        let mut values = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(4) {
            let length = i32::from_be_bytes(head.try_into().ok()?);
            let (value, after) = after.split_at_checked(usize::try_from(length).unwrap_or(0))?;
            values.push((length >= 0).then(|| String::from_utf8_lossy(value).into_owned()));
            rest = after;
        }
        Some(values)
    }

    /// The parts of an error or notice.
    fn failure(&self) -> Failure {
        let fields: Vec<&[u8]> = self.body.split(|byte| *byte == 0).collect();
        let field = |tag: u8| {
            let found = fields.iter().find_map(|field| field.strip_prefix(&[tag]));
            found.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
        };
        Failure { severity: field(b'S'), code: field(b'C'), message: field(b'M') }
    }
}

/// The messages that came, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer(Vec<Message>);

impl Answer {
    pub(super) fn push(&mut self, message: Message) {
        self.0.push(message);
    }

    /// Their first bytes, as a string: `TDCZ`.
    pub fn tags(&self) -> String {
        self.0.iter().map(|message| char::from(message.tag)).collect()
    }

    /// The same without notices and parameter reports, which may come at any time.
    pub fn course(&self) -> String {
        self.tags().replace(['N', 'S'], "")
    }

    /// The first message of this kind.
    pub fn first(&self, tag: u8) -> Option<&Message> {
        self.0.iter().find(|message| message.tag == tag)
    }

    /// The first error.
    pub fn error(&self) -> Option<Failure> {
        self.first(b'E').map(Message::failure)
    }

    /// The SQLSTATE of the first error, or nothing.
    pub fn code(&self) -> String {
        self.error().map(|failure| failure.code).unwrap_or_default()
    }

    /// The notices.
    pub fn notices(&self) -> Vec<Failure> {
        self.0.iter().filter(|message| message.tag == b'N').map(Message::failure).collect()
    }

    /// The data rows.
    pub fn rows(&self) -> Vec<Vec<Option<String>>> {
        self.0.iter().filter(|message| message.tag == b'D').filter_map(Message::row).collect()
    }

    /// The first value of each row; null is empty.
    pub fn values(&self) -> Vec<String> {
        self.rows()
            .into_iter()
            .map(|row| row.into_iter().next().flatten().unwrap_or_default())
            .collect()
    }

    /// The names of the columns, as the first row description has them.
    pub fn columns(&self) -> Vec<String> {
        let mut rest =
            self.first(b'T').and_then(|message| message.body.get(2..)).unwrap_or_default();
        let mut names = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            let (name, after) = rest.split_at(end);
            names.push(String::from_utf8_lossy(name).into_owned());
            // Table, column, type, size, modifier and format follow the name.
            rest = after.get(1 + 18..).unwrap_or_default();
        }
        names
    }

    /// The command tags.
    pub fn commands(&self) -> Vec<String> {
        self.0.iter().filter(|message| message.tag == b'C').map(Message::text).collect()
    }

    /// The transaction state of the last `ReadyForQuery`: `I`, `T` or `E`.
    pub fn state(&self) -> Option<char> {
        let ready = self.0.iter().rev().find(|message| message.tag == b'Z')?;
        ready.body.first().map(|byte| char::from(*byte))
    }

    /// What the server reported of a parameter last.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let start = format!("{name}\0");
        let reports = self.0.iter().rev().filter(|message| message.tag == b'S');
        reports.filter_map(|message| message.text().strip_prefix(&start).map(str::to_owned)).next()
    }

    /// The bytes of all CopyData messages together.
    pub fn copied(&self) -> Vec<u8> {
        self.0
            .iter()
            .filter(|message| message.tag == b'd')
            .flat_map(|message| message.body.clone())
            .collect()
    }
}
