use super::*;
use crate::console::binary;

/// `Parse`, `Bind` of the unnamed ones.
fn prepared(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "", text, &[]);
    front::bind(&mut bytes, "", "", &[]);
    bytes
}

/// `Bind` of the unnamed ones with these result formats.
fn bind_formats(bytes: &mut Vec<u8>, formats: &[u8]) {
    let length = u8::try_from(4 + 2 + 2 + 2 + 2 + formats.len() * 2).unwrap();
    bytes.extend([b'B', 0, 0, 0, length, 0, 0, 0, 0, 0, 0, 0]);
    bytes.push(u8::try_from(formats.len()).unwrap());
    formats.iter().for_each(|&format| bytes.extend([0, format]));
}

#[test]
fn a_portal_is_asked_once_for_its_description_and_its_rows() {
    let mut bytes = prepared("SHOW TWO");
    front::describe(&mut bytes, b'P', "");
    front::execute(&mut bytes, "", 0);
    front::sync(&mut bytes);
    let mut talk = Talk::default();
    let said = talk.feed(&bytes, 4).said();
    assert_eq!(said, ["1", "2", HEADERS, FIRST, SECOND, "C SHOW", "Z I"]);
    assert_eq!(talk.asked, ["SHOW TWO"]);
}

#[test]
fn a_described_statement_is_asked_anew_when_it_is_executed() {
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "named", "SHOW TWO;", &[]);
    front::describe(&mut bytes, b'S', "named");
    front::flush(&mut bytes);
    front::bind(&mut bytes, "p", "named", &[]);
    front::execute(&mut bytes, "p", 0);
    front::close(&mut bytes, b'S', "named");
    front::close(&mut bytes, b'P', "nothing");
    front::sync(&mut bytes);
    let mut talk = Talk::default();
    let said = talk.feed(&bytes, 4).said();
    let expected = ["1", "t", HEADERS, "2", FIRST, SECOND, "C SHOW"];
    assert_eq!(said[..7], expected);
    assert_eq!(said[7..], ["3", "3", "Z I"]);
    assert_eq!(talk.asked, ["SHOW TWO", "SHOW TWO"]);
}

#[test]
fn a_command_runs_only_when_it_is_executed() {
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "s", "RELOAD", &[]);
    front::describe(&mut bytes, b'S', "s");
    front::bind(&mut bytes, "", "s", &[]);
    front::describe(&mut bytes, b'P', "");
    let mut talk = Talk::default();
    assert_eq!(talk.feed(&bytes, 4).said(), ["1", "t", "n", "2", "n"]);
    assert!(talk.asked.is_empty());
    let mut bytes = Vec::new();
    front::execute(&mut bytes, "", 0);
    front::execute(&mut bytes, "", 0);
    assert_eq!(talk.feed(&bytes, 4).said(), ["C RELOAD", "C RELOAD"]);
    assert_eq!(talk.asked, ["RELOAD"]);
}

#[test]
fn rows_can_be_fetched_in_parts() {
    let mut bytes = query("BEGIN");
    bytes.extend(prepared("SHOW TWO"));
    for _ in 0..3 {
        front::execute(&mut bytes, "", 1);
        front::sync(&mut bytes);
    }
    let said = said(&bytes);
    let parts = [FIRST, "s", "Z T", SECOND, "s", "Z T", "C SHOW", "Z T"];
    assert_eq!(said[4..], parts);
}

#[test]
fn after_an_error_all_is_skipped_until_sync() {
    let mut bytes = prepared("nonsense");
    front::execute(&mut bytes, "", 0);
    front::parse(&mut bytes, "", "RELOAD", &[]);
    bytes.extend(query("RELOAD"));
    front::sync(&mut bytes);
    bytes.extend(query("RELOAD"));
    let mut talk = Talk::default();
    let said = talk.feed(&bytes, 4).said();
    let error = "E 08P01 invalid command 'nonsense'";
    assert_eq!(said, ["1", "2", error, "Z I", "C RELOAD", "Z I"]);
    assert_eq!(talk.asked, ["nonsense", "RELOAD"]);
}

#[test]
fn what_cannot_be_done_is_refused_and_the_session_lives() {
    let refused = |bytes: &[u8]| {
        let mut talk = Talk::default();
        let said = talk.feed(bytes, 4).said().pop().unwrap();
        let mut sync = Vec::new();
        front::sync(&mut sync);
        assert_eq!(talk.feed(&sync, 4).said(), ["Z I"]);
        said.split(' ').nth(1).unwrap().to_owned()
    };
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "", "RELOAD; RELOAD", &[]);
    assert_eq!(refused(&bytes), "42601");
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "s", "RELOAD", &[]);
    front::parse(&mut bytes, "s", "RELOAD", &[]);
    assert_eq!(refused(&bytes), "42P05");
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "", "RELOAD", &[]);
    front::bind(&mut bytes, "", "", &[Some(b"1")]);
    assert_eq!(refused(&bytes), "0A000");
    let mut bytes = Vec::new();
    front::bind(&mut bytes, "", "s", &[]);
    assert_eq!(refused(&bytes), "26000");
    let mut bytes = Vec::new();
    front::execute(&mut bytes, "p", 0);
    assert_eq!(refused(&bytes), "34000");
    assert_eq!(refused(b"P\0\0\0\x0a\0a\xff\0\0\0"), "08P01");
}

#[test]
fn statements_and_portals_are_bounded() {
    let mut parses = Vec::new();
    (0..300).for_each(|n| front::parse(&mut parses, format!("s{n}"), "RELOAD", &[]));
    let parsed = said(&parses);
    assert_eq!(parsed.len(), 257);
    assert_eq!(parsed[256], "E 08P01 too many prepared statements: close some");
    let mut binds = Vec::new();
    front::parse(&mut binds, "s", "RELOAD", &[]);
    (0..20).for_each(|n| front::bind(&mut binds, format!("p{n}"), "s", &[]));
    let bound = said(&binds);
    assert_eq!(bound.len(), 18);
    assert_eq!(bound[17], "E 08P01 too many open portals: close some");
}

#[test]
fn portals_end_with_sync_outside_a_transaction() {
    let mut bytes = prepared("RELOAD");
    front::sync(&mut bytes);
    front::execute(&mut bytes, "", 0);
    assert_eq!(said(&bytes)[3], "E 34000 portal \"\" does not exist");
}

#[test]
fn an_empty_statement_is_said_to_be_empty() {
    let mut bytes = prepared(" ; ");
    front::describe(&mut bytes, b'P', "");
    front::execute(&mut bytes, "", 0);
    assert_eq!(said(&bytes), ["1", "2", "n", "I"]);
}

#[test]
fn transactions_of_drivers_are_followed_here_too() {
    let mut bytes = Vec::new();
    for text in ["BEGIN", "COMMIT"] {
        bytes.extend(prepared(text));
        front::describe(&mut bytes, b'P', "");
        front::execute(&mut bytes, "", 0);
        front::sync(&mut bytes);
    }
    let said = said(&bytes);
    assert_eq!(said[..5], ["1", "2", "n", "C BEGIN", "Z T"]);
    assert_eq!(said[5..], ["1", "2", "n", "C COMMIT", "Z I"]);
}

#[test]
fn binary_results_are_announced_and_encoded() {
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "", "SHOW TWO", &[]);
    bind_formats(&mut bytes, &[1, 0]);
    front::describe(&mut bytes, b'P', "");
    front::execute(&mut bytes, "", 1);
    let mixed = said(&bytes);
    let headers = HEADERS.replacen(r"\xff\x00\x00t", r"\xff\x00\x01t", 1);
    assert_eq!(mixed[2], headers);
    let row = r"D \x00\x00\x00\x04\x00\x00\x00\x01\x00\x00\x00\x01a";
    assert_eq!(mixed[3], row);
    let mut bytes = Vec::new();
    front::parse(&mut bytes, "", "SHOW TWO", &[]);
    bind_formats(&mut bytes, &[1, 1, 1]);
    front::execute(&mut bytes, "", 0);
    let text = "bind message has 3 result formats but query has 2 columns";
    assert_eq!(said(&bytes)[2], format!("E 08P01 {text}"));
}

#[test]
fn numbers_have_postgres_binary_form() {
    let form = |text| binary::encode(Type::Numeric.oid(), text).map(|b| b.into_owned());
    let numeric = |weight: i16, sign: u16, places: u16, groups: &[u16]| {
        let count = u16::try_from(groups.len()).unwrap();
        let mut words = vec![count, weight.cast_unsigned(), sign, places];
        words.extend(groups);
        Some(words.iter().flat_map(|w| w.to_be_bytes()).collect())
    };
    assert_eq!(form("0"), numeric(0, 0, 0, &[]));
    assert_eq!(form("-0.00"), numeric(0, 0, 2, &[]));
    assert_eq!(form("1"), numeric(0, 0, 0, &[1]));
    assert_eq!(form("-12345.678"), numeric(1, 0x4000, 3, &[1, 2345, 6780]));
    assert_eq!(form("30000000"), numeric(1, 0, 0, &[3000]));
    assert_eq!(form("0.00012"), numeric(-1, 0, 5, &[1, 2000]));
    assert_eq!(form("00000.00000001"), numeric(-2, 0, 8, &[1]));
    for text in ["", "-", ".", "1e5", "NaN", "1.2.3", "+1", "ä"] {
        assert_eq!(form(text), None, "{text}");
    }
    let int8 = binary::encode(Type::Int8.oid(), "-2").unwrap();
    assert_eq!(int8[..], [255, 255, 255, 255, 255, 255, 255, 254]);
    assert_eq!(binary::encode(Type::Int4.oid(), "2147483648"), None);
    assert_eq!(binary::encode(17, "x"), None);
}
