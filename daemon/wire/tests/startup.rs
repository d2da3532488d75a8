//! First packets: each kind is read, each fault has its text, and nothing waits for more than the bound.
//! Packets are built byte by byte, as a client would.
//! Random bytes and random splits must not matter.

use pgfleet_wire::key::{CancelKey, TAIL};
use pgfleet_wire::startup::{
    self, First, MAX_STARTUP, Protocol, Replication, Startup, StartupError, cancel_request, first,
    ssl_request, startup_packet,
};
use proptest::prelude::*;

fn packet(code: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 8).expect("small");
    [&len.to_be_bytes()[..], &code.to_be_bytes(), body].concat()
}

fn read(params: &[(&str, &str)]) -> Result<Startup, StartupError> {
    match first(&startup_packet(Protocol::V3_0, params))? {
        Some((First::Startup(startup), _)) => Ok(startup),
        other => unreachable!("{other:?}"),
    }
}

fn options(text: &str) -> Result<Vec<(String, String)>, StartupError> {
    read(&[("user", "u"), ("options", text)]).map(|startup| startup.options)
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect()
}

#[test]
fn requests_without_a_body_are_read() {
    assert_eq!(first(&ssl_request()), Ok(Some((First::Ssl, 8))));
    assert_eq!(first(&packet(80_877_104, b"")), Ok(Some((First::Gss, 8))));
    assert_eq!(first(&packet(80_877_103, b"x")), Err(StartupError::Request));
}

#[test]
fn what_follows_the_first_packet_is_left_alone() {
    let bytes = [ssl_request(), b"\x16\x03\x01".to_vec()].concat();
    assert_eq!(first(&bytes), Ok(Some((First::Ssl, 8))));
}

#[test]
fn a_cancel_request_has_a_secret_of_4_to_256_bytes() {
    let short = CancelKey::new(1, 2, [3, 4, 5, 6, 7, 8]);
    for key in [short, short.lengthened([9; TAIL])] {
        let bytes = packet(80_877_102, &key.bytes());
        assert_eq!(first(&bytes), Ok(Some((First::Cancel(Some(key)), bytes.len()))));
    }
    for secret in [5, 31, 33, 256] {
        let bytes = cancel_request(1, &vec![0; secret]);
        assert_eq!(first(&bytes), Ok(Some((First::Cancel(None), 12 + secret))), "{secret}");
    }
    for secret in [0, 3, 257] {
        let bytes = cancel_request(1, &vec![0; secret]);
        assert_eq!(first(&bytes), Err(StartupError::Cancel), "{secret}");
    }
}

#[test]
fn parameters_go_where_they_belong() {
    let got = read(&[
        ("user", "ann"),
        ("database", "db"),
        ("DateStyle", "ISO"),
        ("options", "-c geqo=off"),
        ("replication", "database"),
        ("_pq_.x", "1"),
        ("application_name", ""),
    ]);
    let expected = Startup {
        minor: 0,
        user: "ann".into(),
        database: Some("db".into()),
        params: pairs(&[("DateStyle", "ISO"), ("application_name", "")]),
        unknown_options: vec!["_pq_.x".into()],
        options: pairs(&[("geqo", "off")]),
        options_text: Some("-c geqo=off".into()),
        replication: Replication::Logical,
    };
    assert_eq!(got, Ok(expected));
}

#[test]
fn options_are_split_as_postgres_splits_them() {
    let got = options(r"-c a=1  -cb=x\ y --work-mem=7MB -c c=\\ --d=e=f");
    let expected =
        pairs(&[("a", "1"), ("b", "x y"), ("work_mem", "7MB"), ("c", "\\"), ("d", "e=f")]);
    assert_eq!(got, Ok(expected));
    assert_eq!(options("  "), Ok(vec![]));
    for bad in ["-c", "-c a", "-B 5", "x", "--a", "-c =1", "--=1"] {
        assert_eq!(options(bad), Err(StartupError::Options), "{bad}");
    }
}

#[test]
fn replication_is_a_boolean_of_postgres_or_database() {
    let cases = [
        (Replication::Physical, &["true", "on", "yes", "1", "T", "tr", "ON", "y"][..]),
        (Replication::None, &["false", "off", "no", "0", "f", "of", "N"]),
        (Replication::Logical, &["database"]),
    ];
    for (wanted, words) in cases {
        for word in words {
            let read = read(&[("user", "u"), ("replication", word)]);
            assert_eq!(read.map(|startup| startup.replication), Ok(wanted), "{word}");
        }
    }
    for word in ["", "o", "2", "Database", "truee", "logical", "trUe "] {
        let error = StartupError::Replication(word.into());
        assert_eq!(read(&[("user", "u"), ("replication", word)]), Err(error), "{word:?}");
    }
}

#[test]
fn versions_other_than_three_are_refused() {
    assert_eq!(first(&packet(2 << 16, b"")), Err(StartupError::Version2));
    let version = StartupError::Version { major: 4, minor: 1 };
    assert_eq!(first(&packet(4 << 16 | 1, b"")), Err(version));
    for (minor, spoken) in [
        (0_u16, Protocol::V3_0),
        (1, Protocol::V3_0),
        (2, Protocol::V3_2),
        (3, Protocol::V3_2),
        (9999, Protocol::V3_2),
    ] {
        let code = 3 << 16 | u32::from(minor);
        match first(&packet(code, b"user\0u\0\0")) {
            Ok(Some((First::Startup(got), _))) => {
                assert_eq!((got.minor, got.spoken()), (minor, spoken));
                assert_eq!(got.negotiates(), minor != spoken.minor());
            }
            other => unreachable!("{other:?}"),
        }
    }
}

#[test]
fn a_faulty_layout_is_refused() {
    for body in [&b""[..], b"user", b"user\0u", b"user\0u\0", b"user\0u\0\0x", b"user\0u\0\0\0"] {
        assert_eq!(first(&packet(3 << 16, body)), Err(StartupError::Layout));
    }
}

#[test]
fn a_user_is_demanded_and_bounded() {
    assert_eq!(read(&[("database", "d")]), Err(StartupError::NoUser));
    assert_eq!(read(&[("user", "")]), Err(StartupError::NoUser));
    assert!(read(&[("user", &"u".repeat(127))]).is_ok());
    let long = read(&[("user", &"u".repeat(128))]);
    assert_eq!(long, Err(StartupError::UserTooLong));
    assert_eq!(read(&[("user", "u"), ("database", "")]).map(|s| s.database), Ok(None));
}

#[test]
fn what_is_not_utf8_is_refused_by_name() {
    for (body, name) in
        [(&b"user\0\xff\0\0"[..], "user"), (b"user\0u\0DateStyle\0\xc3\0\0", "DateStyle")]
    {
        let error = StartupError::NotUtf8(name.into());
        assert_eq!(first(&packet(3 << 16, body)), Err(error));
    }
}

#[test]
fn a_length_out_of_bounds_is_refused_before_more_is_read() {
    for len in [0_u32, 7, 10_001, 0x1603_0100, u32::MAX] {
        assert_eq!(first(&len.to_be_bytes()), Err(StartupError::Length(len)));
    }
    let longest = u32::try_from(MAX_STARTUP).expect("small");
    assert_eq!(first(&longest.to_be_bytes()), Ok(None));
}

#[test]
fn texts_are_those_of_pgbouncer() {
    let texts = [
        (StartupError::Version2, "old V2 protocol not supported"),
        (StartupError::Layout, "invalid startup packet layout: expected terminator as last byte"),
        (StartupError::NoUser, "no username supplied"),
        (StartupError::Cancel, "bad cancel request"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

/// It came back, whatever it says.
fn ran<T>(_: T) {}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        code in prop_oneof![Just(3_u32 << 16), Just(80_877_102), any::<u32>()],
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        ran(startup::first(&packet(code, &body)));
        ran(startup::first(&body));
    }

    #[test]
    fn a_packet_is_read_at_its_last_byte_and_not_before(
        params in prop::collection::vec(("[a-z]{1,8}", "[a-z =-]{0,20}"), 0..8),
    ) {
        let mut all = vec![("user", "u")];
        all.extend(params.iter().filter(|(k, _)| k != "options").map(|(k, v)| (k.as_str(), v.as_str())));
        let bytes = startup_packet(Protocol::V3_0, &all);
        for cut in 0..bytes.len() {
            prop_assert_eq!(first(&bytes[..cut]), Ok(None));
        }
        let whole = first(&bytes).map(|found| found.map(|(_, used)| used));
        prop_assert!(matches!(whole, Ok(Some(used)) if used == bytes.len()) || whole == Err(StartupError::NoUser));
    }

    #[test]
    fn any_text_is_an_option_or_an_error(text in "[ -c=a\\\\]{0,20}") {
        ran(options(&text));
    }
}
