//! Frames and messages: what is built is read again, whatever the splits; what is not a message is an error.
//! No peer is needed: bytes in, bytes out.
//! Random bytes must never make a parser panic.

use pgfleet_wire::back::{self, Auth, ErrorFields};
use pgfleet_wire::frame::{self, FrameError};
use pgfleet_wire::front;
use pgfleet_wire::key::{CancelKey, TAIL};
use pgfleet_wire::startup::Protocol;
use proptest::prelude::*;

fn body(message: &[u8]) -> &[u8] {
    let (head, body, used) = frame::split(message).expect("sane").expect("whole");
    assert_eq!((head.len, used), (message.len(), message.len()));
    body
}

fn built(build: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    build(&mut out);
    assert_eq!(body(&out).len(), out.len() - frame::HEADER);
    out
}

#[test]
fn a_length_below_four_or_negative_is_refused() {
    for len in [0_u32, 3, 0x8000_0000, u32::MAX] {
        let mut buf = vec![b'Q'];
        buf.extend_from_slice(&len.to_be_bytes());
        assert_eq!(frame::header(&buf), Err(FrameError::Length { tag: b'Q', len }));
    }
    assert_eq!(frame::header(b"Q\0\0\0"), Ok(None));
    assert_eq!(frame::split(b"Q\0\0\0\x05"), Ok(None));
    let longest = frame::header(b"d\x7f\xff\xff\xff").expect("sane").expect("whole");
    assert_eq!(longest.len, 1 << 31);
}

#[test]
fn front_messages_have_the_bytes_of_the_manual() {
    assert_eq!(built(|o| front::query(o, "x")), b"Q\0\0\0\x06x\0");
    assert_eq!(built(|o| front::parse(o, "s", "q", &[23])), b"P\0\0\0\x0es\0q\0\0\x01\0\0\0\x17");
    assert_eq!(
        built(|o| front::bind(o, "", "s", &[Some(b"1"), None])),
        b"B\0\0\0\x16\0s\0\0\0\0\x02\0\0\0\x011\xff\xff\xff\xff\0\0"
    );
    assert_eq!(built(|o| front::describe(o, b'S', "s")), b"D\0\0\0\x07Ss\0");
    assert_eq!(built(|o| front::close(o, b'P', "")), b"C\0\0\0\x06P\0");
    assert_eq!(built(|o| front::execute(o, "", 7)), b"E\0\0\0\x09\0\0\0\0\x07");
    assert_eq!(built(front::sync), b"S\0\0\0\x04");
    assert_eq!(built(front::flush), b"H\0\0\0\x04");
    assert_eq!(built(front::terminate), b"X\0\0\0\x04");
    assert_eq!(built(|o| front::password(o, "pw")), b"p\0\0\0\x07pw\0");
    assert_eq!(built(|o| front::sasl_initial(o, "M", b"ab")), b"p\0\0\0\x0cM\0\0\0\0\x02ab");
    assert_eq!(built(|o| front::sasl_response(o, b"ab")), b"p\0\0\0\x06ab");
}

#[test]
fn a_nul_in_our_text_cannot_shift_the_fields() {
    let message = built(|o| front::describe(o, b'S', "a\0b"));
    assert_eq!(front::parse_target(body(&message)), Ok((b'S', &b"a"[..])));
}

#[test]
fn front_parsers_read_what_builders_write() {
    let parse = built(|o| front::parse(o, "name", "select 1", &[]));
    assert_eq!(front::parse_message_name(body(&parse)), Ok(&b"name"[..]));
    let bind = built(|o| front::bind(o, "portal", "name", &[]));
    assert_eq!(front::parse_bind_statement(body(&bind)), Ok(&b"name"[..]));
    let query = built(|o| front::query(o, "select 1"));
    assert_eq!(front::parse_query_text(body(&query)), Ok(&b"select 1"[..]));
    let sasl = built(|o| front::sasl_initial(o, "M", b"data"));
    assert_eq!(front::parse_sasl_initial(body(&sasl)), Ok((&b"M"[..], Some(&b"data"[..]))));
    assert!(front::parse_target(b"Xname\0").is_err());
    assert!(front::parse_target(b"Sname\0more").is_err());
    assert!(front::parse_query_text(b"no end").is_err());
}

#[test]
fn back_parsers_read_what_builders_write() {
    let key = CancelKey::new(3, 260, [1, 2, 3, 4, 5, 6]);
    let message = built(|o| back::backend_key(o, &key));
    let (pid, secret) = back::parse_backend_key(body(&message)).expect("well formed");
    assert_eq!([pid.to_be_bytes().to_vec(), secret].concat(), key.bytes());
    assert!(back::parse_backend_key(&[0; 7]).is_err());
    assert!(back::parse_backend_key(&[0; 260]).is_ok());
    assert!(back::parse_backend_key(&[0; 261]).is_err());
    let message = built(|o| back::parameter_status(o, "TimeZone", "UTC"));
    assert_eq!(back::parse_parameter_status(body(&message)), Ok(("TimeZone", "UTC")));
    let message = built(|o| back::command_complete(o, "SELECT 1"));
    assert_eq!(back::parse_command_tag(body(&message)), Ok("SELECT 1"));
}

#[test]
fn every_kind_of_authentication_is_read() {
    type Build = fn(&mut Vec<u8>);
    let cases: [(Build, Auth<'_>); 7] = [
        (back::auth_ok, Auth::Ok),
        (back::auth_cleartext, Auth::Cleartext),
        (|o| back::auth_md5(o, [1, 2, 3, 4]), Auth::Md5([1, 2, 3, 4])),
        (|o| back::auth_sasl(o, &["A", "B"]), Auth::Sasl(vec!["A".into(), "B".into()])),
        (|o| back::auth_sasl_continue(o, b"x"), Auth::SaslContinue(b"x")),
        (|o| back::auth_sasl_final(o, b"y"), Auth::SaslFinal(b"y")),
        (|o| o.extend_from_slice(b"R\0\0\0\x08\0\0\0\x07"), Auth::Other(7)),
    ];
    for (build, auth) in cases {
        assert_eq!(back::parse_auth(body(&built(build))), Ok(auth));
    }
    assert!(back::parse_auth(b"\0\0\0\x05abc").is_err());
    assert!(back::parse_auth(b"\0\0\0\x0aSCRAM").is_err());
}

#[test]
fn errors_keep_their_fields() {
    let mut fields = ErrorFields::fatal("08P01", "no such database: x");
    fields.hint = Some("create it".into());
    let message = built(|o| back::error(o, &fields));
    assert_eq!(body(&message), b"SFATAL\0VFATAL\0C08P01\0Mno such database: x\0Hcreate it\0\0");
    assert_eq!(ErrorFields::parse(body(&message)), Ok(fields));
    let local = ErrorFields::parse(b"SFEHLER\0VERROR\0Mx\xff\0\0").expect("well formed");
    assert_eq!((local.severity.as_str(), local.message.as_str()), ("ERROR", "x\u{fffd}"));
    assert!(ErrorFields::parse(b"SERROR\0Mno end").is_err());
}

#[test]
fn rows_are_laid_out_as_in_the_manual() {
    let message = built(|o| back::row_description(o, &[("n", 23)]));
    assert_eq!(body(&message), b"\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0");
    let message = built(|o| back::data_row(o, [Some(&b"7"[..]), None]));
    assert_eq!(body(&message), b"\0\x02\0\0\0\x017\xff\xff\xff\xff");
    let message = built(|o| back::negotiate(o, Protocol::V3_0, &["_pq_.x".into()]));
    assert_eq!(body(&message), b"\0\x03\0\0\0\0\0\x01_pq_.x\0");
    let message = built(|o| back::parameter_description(o, &[25]));
    assert_eq!(body(&message), b"\0\x01\0\0\0\x19");
}

#[test]
fn a_cancel_key_names_its_slot_and_hides_its_secret() {
    for slot in 1..=128 {
        let key = CancelKey::new(slot, 0x1_0203, [0xff; 6]);
        assert_eq!((key.slot(), key.generation()), (slot, 3));
        assert!(i32::from_be_bytes(key.pid()) >= 0);
        let long = key.lengthened([7; TAIL]);
        for (key, len) in [(key, 8), (long, 36)] {
            assert_eq!(key.bytes().len(), len);
            assert_eq!(CancelKey::read(&key.bytes()), Some(key));
        }
        assert_ne!(key, long);
    }
    for len in (0..8).chain(9..36).chain(37..300) {
        assert_eq!(CancelKey::read(&vec![1; len]), None, "{len}");
    }
    let shown = format!("{:?}", CancelKey::new(5, 9, [0xab; 6]));
    assert_eq!(shown, "CancelKey { slot: 5, generation: 9, .. }");
}

/// It came back, whatever it says.
fn ran<T>(_: T) {}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_messages(
        messages in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        cuts in prop::collection::vec(1_usize..30, 1..40),
    ) {
        let mut stream = Vec::new();
        for (tag, body) in &messages {
            stream.push(*tag);
            stream.extend_from_slice(&u32::try_from(body.len() + 4).expect("small").to_be_bytes());
            stream.extend_from_slice(body);
        }
        let (mut buf, mut got) = (Vec::new(), Vec::new());
        let mut rest = &stream[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            buf.extend_from_slice(now);
            while let Some((head, body, used)) = frame::split(&buf).expect("sane") {
                got.push((head.tag, body.to_vec()));
                buf.drain(..used);
            }
            rest = later;
            if rest.is_empty() { break; }
        }
        prop_assert!(buf.is_empty());
        prop_assert_eq!(got, messages);
    }

    #[test]
    fn no_bytes_make_a_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        ran((frame::header(&bytes), frame::split(&bytes).is_ok()));
        ran((front::parse_message_name(&bytes), front::parse_bind_statement(&bytes)));
        ran((front::parse_target(&bytes), front::parse_query_text(&bytes)));
        ran((front::parse_password(&bytes), front::parse_sasl_initial(&bytes)));
        ran((back::parse_auth(&bytes), back::parse_backend_key(&bytes)));
        ran((back::parse_parameter_status(&bytes), back::parse_command_tag(&bytes)));
        ran(ErrorFields::parse(&bytes));
    }
}
