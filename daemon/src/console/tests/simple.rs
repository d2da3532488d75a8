use super::*;

#[test]
fn a_script_runs_until_it_is_refused() {
    let mut talk = Talk::default();
    talk.feed(&query("SHOW TWO; RELOAD;nonsense; SHOW TWO"), 3);
    let expected =
        [HEADERS, FIRST, SECOND, "C SHOW", "C RELOAD", "E 08P01 invalid command 'nonsense'", "Z I"];
    assert_eq!(talk.said(), expected);
    assert_eq!(talk.asked, ["SHOW TWO", "RELOAD", "nonsense"]);
}

#[test]
fn semicolons_in_quotes_and_comments_end_nothing() {
    for (text, statements) in [
        ("", &[][..]),
        (" ;;\n; -- x", &[]),
        ("SET a = 'x;y'; RELOAD", &["SET a = 'x;y'", "RELOAD"]),
        ("a 'it''s;' b;c", &["a 'it''s;' b", "c"]),
        ("a \";\" /* ; /* ; */ ; */ b", &["a \";\"   b"]),
        ("/* app */ RELOAD -- ;\n;", &["RELOAD"]),
        ("a 'open; b", &["a 'open; b"]),
        ("a /* open; b", &["a"]),
        ("é;ü'ö;'", &["é", "ü'ö;'"]),
    ] {
        assert_eq!(script::statements(text), statements, "{text}");
    }
}

#[test]
fn an_empty_query_is_said_to_be_empty() {
    assert_eq!(said(&query("")), ["I", "Z I"]);
    assert_eq!(said(&query(" ; -- nothing")), ["I", "Z I"]);
}

#[test]
fn notices_come_first() {
    assert_eq!(said(&query("SHOW HELP")), ["N 00000 help", "C SHOW", "Z I"]);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let said = said(b"Q\0\0\0\x07a\xff\0");
    assert_eq!(said, ["E 08P01 statement is not valid UTF-8", "Z I"]);
}

#[test]
fn small_talk_of_drivers_is_answered_here() {
    let ignored = ["N 00000 SET ignored", "C SET", "Z I"];
    for text in [
        "SET client_encoding = 'UTF8'",
        "set DateStyle to ISO",
        "SET SESSION TimeZone='UTC'",
        "SET TIME ZONE 'UTC'",
        "SET NAMES utf8",
        "SET extra_float_digits = 3",
        "/* driver */ SET application_name = 'a;b'",
        "SET standard_conforming_strings = on",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    ] {
        assert_eq!(said(&query(text)), ignored, "{text}");
    }
    let talked = said(&query("BEGIN; SELECT 1"));
    assert_eq!(talked[0], "C BEGIN");
    assert_eq!(talked[2..], [r"D \x00\x00\x00\x011", "C SELECT 1", "Z T"]);
    for text in ["COMMIT", "ROLLBACK", "END; ABORT"] {
        let mut talk = Talk::default();
        talk.feed(&query("start transaction read only"), 9);
        assert_eq!(talk.said(), ["C START TRANSACTION", "Z T"]);
        talk.feed(&query(text), 9);
        assert_eq!(talk.said().pop().unwrap(), "Z I");
        assert!(talk.asked.is_empty());
    }
}

#[test]
fn faked_settings_can_be_shown() {
    for (text, value) in [
        ("SHOW client_encoding", "UTF8"),
        ("show DateStyle;", "ISO, MDY"),
        ("show TimeZone", "GMT"),
        ("show time zone", "GMT"),
        ("show standard_conforming_strings", "on"),
        ("show transaction isolation level", "read committed"),
    ] {
        let row = &said(&query(text))[1];
        assert!(row.ends_with(value), "{text}: {row}");
    }
}

#[test]
fn what_is_about_the_fleet_is_asked() {
    for text in [
        "SET pool_mode = session",
        "SET \"default_pool_size\" = 3",
        "SHOW POOLS",
        "SHOW VERSION",
        "SELECT 2",
        "SELECT 1, 2",
        "SCALE 4",
        "KILL begin",
    ] {
        let mut talk = Talk::default();
        talk.feed(&query(text), 9);
        assert_eq!(talk.asked, [text]);
    }
}
