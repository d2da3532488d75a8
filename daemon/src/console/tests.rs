mod extended;
mod simple;

use pgfleet_wire::back::ErrorFields;
use pgfleet_wire::{frame, front};
use proptest::prelude::*;

use super::*;
use crate::link::table::Type;

/// A session, and what it has sent, one line for each message.
#[derive(Default)]
struct Talk {
    session: Session,
    out: Vec<u8>,
    /// What was asked.
    asked: Vec<String>,
    closed: bool,
}

impl Talk {
    /// Feeds bytes in pieces of this size and answers whatever is asked.
    fn feed(&mut self, bytes: &[u8], piece: usize) -> &mut Self {
        for piece in bytes.chunks(piece) {
            let mut step = self.session.input(piece, &mut self.out);
            while let Step::Ask(text) = step {
                let reply = reply(&text);
                self.asked.push(text);
                step = self.session.answer(reply, &mut self.out);
            }
            self.closed |= step == Step::Close;
        }
        self
    }

    /// What came out since the last call.
    fn said(&mut self) -> Vec<String> {
        let out = std::mem::take(&mut self.out);
        let mut said = Vec::new();
        let mut rest = &out[..];
        while let Some((header, body, length)) = frame::split(rest).unwrap() {
            said.push(line(header.tag, body));
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
        said
    }
}

/// A message in a form that is easy to compare.
fn line(tag: u8, body: &[u8]) -> String {
    let tag = char::from(tag);
    match tag {
        'E' | 'N' => {
            let fields = ErrorFields::parse(body).unwrap();
            format!("{tag} {} {}", fields.code, fields.message)
        }
        'D' => format!("D {}", body[2..].escape_ascii()),
        'T' => format!("T {}", body[2..].escape_ascii()),
        _ => {
            format!("{tag} {}", body.escape_ascii()).trim_end_matches("\\x00").trim_end().to_owned()
        }
    }
}

/// The fleet of these tests.
fn reply(text: &str) -> Reply {
    let columns = || vec![("n".to_owned(), Type::Int4.oid()), ("t".to_owned(), Type::Text.oid())];
    let row = |n: &str, t: Option<&str>| vec![Some(n.to_owned()), t.map(str::to_owned)];
    let outcome = match text {
        "SHOW TWO" => Outcome::Table {
            columns: columns(),
            rows: vec![row("1", Some("a")), row("2", None)],
            tag: "SHOW".to_owned(),
        },
        "SHOW HELP" | "RELOAD" => Outcome::Done { tag: text.split(' ').next().unwrap().to_owned() },
        _ => Outcome::Refused {
            sqlstate: PROTOCOL.to_owned(),
            message: format!("invalid command '{text}'"),
        },
    };
    let notices = if text == "SHOW HELP" { vec!["help".to_owned()] } else { Vec::new() };
    Reply { notices, outcome }
}

const HEADERS: &str = r"T n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00t\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00";
const FIRST: &str = r"D \x00\x00\x00\x011\x00\x00\x00\x01a";
const SECOND: &str = r"D \x00\x00\x00\x012\xff\xff\xff\xff";

fn query(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    front::query(&mut bytes, text);
    bytes
}

fn said(bytes: &[u8]) -> Vec<String> {
    Talk::default().feed(bytes, usize::MAX).said()
}

fn everything() -> Vec<u8> {
    let mut bytes = query("SHOW TWO; RELOAD; nonsense; RELOAD");
    bytes.extend(query("begin; -- ; \n select 1 /* ; */; set datestyle = ';'"));
    bytes.extend(query(" ; "));
    front::parse(&mut bytes, "s", "SHOW TWO", &[]);
    front::describe(&mut bytes, b'S', "s");
    front::flush(&mut bytes);
    front::bind(&mut bytes, "", "s", &[]);
    front::describe(&mut bytes, b'P', "");
    front::execute(&mut bytes, "", 1);
    front::execute(&mut bytes, "", 0);
    front::bind(&mut bytes, "", "missing", &[]);
    front::execute(&mut bytes, "", 0);
    front::sync(&mut bytes);
    bytes.extend(query("commit"));
    front::terminate(&mut bytes);
    bytes.extend(query("RELOAD"));
    bytes
}

#[test]
fn bytes_split_anywhere_give_the_same_answers() {
    let bytes = everything();
    let mut whole = Talk::default();
    let expected = whole.feed(&bytes, usize::MAX).said();
    assert!(whole.closed);
    for piece in 1..bytes.len() {
        let mut talk = Talk::default();
        assert_eq!(talk.feed(&bytes, piece).said(), expected, "{piece}");
        assert_eq!(talk.asked, whole.asked);
    }
}

proptest! {
    #[test]
    fn no_bytes_can_do_harm(bytes: Vec<u8>, at in 0_usize..400, flip: u8) {
        let mut garbled = everything();
        let at = at % garbled.len();
        garbled[at] ^= flip;
        garbled.splice(at..at, bytes);
        Talk::default().feed(&garbled, 7).said();
    }
}

#[test]
fn input_waits_while_a_statement_is_asked() {
    let mut session = Session::new();
    let mut out = Vec::new();
    let bytes = [query("SHOW TWO"), query("RELOAD")].concat();
    let asked = session.input(&bytes, &mut out);
    assert_eq!(asked, Step::Ask("SHOW TWO".to_owned()));
    assert_eq!(session.input(&query("select 1"), &mut out), Step::NeedMore);
    assert!(out.is_empty());
    let next = session.answer(reply("SHOW TWO"), &mut out);
    assert_eq!(next, Step::Ask("RELOAD".to_owned()));
    let next = session.answer(reply("RELOAD"), &mut out);
    assert_eq!(next, Step::NeedMore);
    let mut talk = Talk { out, ..Talk::default() };
    assert_eq!(talk.said().iter().filter(|line| *line == "Z I").count(), 3);
}

#[test]
fn what_is_sent_ahead_is_bounded() {
    let mut session = Session::new();
    let mut out = Vec::new();
    session.input(&query("SHOW TWO"), &mut out);
    let flood = query(&"x".repeat(LONGEST_TEXT));
    let step =
        (0..10).map(|_| session.input(&flood, &mut out)).find(|step| *step != Step::NeedMore);
    assert_eq!(step, Some(Step::Close));
    assert_eq!(session.answer(reply("SHOW TWO"), &mut out), Step::Close);
    assert_eq!(session.input(&flood, &mut out), Step::Close);
    assert!(session.buffer.is_empty());
}

#[test]
fn messages_that_cannot_be_end_the_session() {
    for (bytes, text) in [
        (&b"Q\0\0\0\x03"[..], "E 08P01 bad packet header"),
        (b"Q\xff\xff\xff\xff", "E 08P01 bad packet header"),
        (b"Q\0\0\0\x04", "E 08P01 bad packet"),
        (b"F\0\0\0\x04", "E 08P01 bad packet"),
        (b"D\0\0\0\x06?\0", "E 08P01 bad packet"),
        (b"S\0\0\0\x05x", "E 08P01 bad packet"),
        (
            b"Q\x00\x20\0\0",
            "E 08P01 message is too long for the console: a statement may have 64 kB",
        ),
    ] {
        let mut talk = Talk::default();
        assert_eq!(talk.feed(bytes, 1).said()[0], text);
        assert!(talk.closed);
    }
}

#[test]
fn the_greeting_ends_with_ready() {
    let mut talk = Talk::default();
    greeting(&mut talk.out, &CancelKey::new(98, 98, *b"cdefgh"));
    let said = talk.said();
    assert_eq!(said[0], r"S server_version\x001.25.2/pgfleet");
    assert_eq!(said[said.len() - 2..], ["K abcdefgh", "Z I"]);
    assert_eq!(said.len(), PARAMETERS.len() + 2);
}
