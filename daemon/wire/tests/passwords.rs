//! Password exchange: the vectors of the RFCs and of Postgres, and both sides against each other.
//! Nonces and salts are fixed, so every byte is known.
//! A wrong password, a wrong server and a forged message must be told apart.

use pgfleet_wire::md5::{md5_check, md5_response, md5_stored};
use pgfleet_wire::scram::{
    ClientKey, ClientSecret, ScramClient, ScramError, ScramServer, Verifier,
};
use pgfleet_wire::secret::{Secret, SecretError, password_check};
use proptest::prelude::*;

/// RFC 7677, section 3.
const SALT: [u8; 16] = [
    0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81,
];
const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const FINAL: &[u8] = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

fn rfc() -> Verifier {
    Verifier::derive("pencil", &SALT, 4096)
}

fn converse(how: ClientSecret<'_>, verifier: Verifier) -> Result<ClientKey, ScramError> {
    let (first, client) = ScramClient::new("clientnonce");
    let (challenge, server) = ScramServer::first(&first, "servernonce", verifier)?;
    let (last, verify) = client.answer(&challenge, how)?;
    let (outcome, key) = server.finish(&last)?;
    verify.check(&outcome)?;
    Ok(key)
}

#[test]
fn the_server_speaks_the_exchange_of_rfc_7677() {
    let hello = format!("n,,n=user,r={CLIENT_NONCE}");
    let (first, server) =
        ScramServer::first(hello.as_bytes(), SERVER_NONCE, rfc()).expect("accepted");
    assert_eq!(
        first,
        format!("r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").as_bytes()
    );
    let (last, _) = server.finish(FINAL).expect("right password");
    assert_eq!(last, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn our_client_logs_in_at_our_server_with_password_or_keys() {
    let key = converse(ClientSecret::Password("pencil"), rfc()).expect("right password");
    let keys = ClientSecret::Keys { client_key: key.0, server_key: rfc().server_key };
    assert_eq!(converse(keys, rfc()), Ok(key));
}

#[test]
fn a_wrong_password_and_a_mock_user_fail_alike() {
    let wrong = converse(ClientSecret::Password("pen"), rfc());
    assert_eq!(wrong, Err(ScramError::Proof));
    let mock = Verifier::mock("nobody", b"fleet secret");
    assert_eq!(mock, Verifier::mock("nobody", b"fleet secret"));
    assert_ne!(mock.salt, Verifier::mock("other", b"fleet secret").salt);
    assert_eq!((mock.salt.len(), mock.iterations), (16, 4096));
    let mocked = converse(ClientSecret::Password("pencil"), mock);
    assert_eq!(mocked, Err(ScramError::Proof));
}

#[test]
fn a_server_that_does_not_know_the_verifier_is_found_out() {
    let (first, client) = ScramClient::new("abc");
    let (challenge, _) = ScramServer::first(&first, "def", rfc()).expect("accepted");
    let how = || ClientSecret::Password("pencil");
    let (_, verify) = client.answer(&challenge, how()).expect("well formed");
    let forged = "v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert_eq!(verify.check(forged.as_bytes()), Err(ScramError::Signature));
    let (_, client) = ScramClient::new("abc");
    let (_, verify) = client.answer(&challenge, how()).expect("well formed");
    let reported = verify.check(b"e=other-error");
    assert_eq!(reported, Err(ScramError::Reported("other-error".into())));
}

#[test]
fn a_faulty_first_message_of_a_client_is_refused() {
    let cases = [
        ("p=tls-server-end-point,,n=,r=x", ScramError::ChannelBinding),
        ("n,a=root,n=,r=x", ScramError::AuthorizationIdentity),
        ("n,,m=x,n=,r=x", ScramError::Extension),
        ("n,,n=", ScramError::Malformed("attribute missing")),
        ("n,,n=,r=", ScramError::Malformed("bad nonce")),
        ("n,,n=,r=a b", ScramError::Malformed("bad nonce")),
        ("hello", ScramError::Malformed("bad channel binding flag")),
    ];
    for (message, error) in cases {
        let got = ScramServer::first(message.as_bytes(), "s", rfc()).err();
        assert_eq!(got, Some(error), "{message}");
    }
    let long = format!("n,,n=,r={}", "x".repeat(600));
    assert!(ScramServer::first(long.as_bytes(), "s", rfc()).is_err());
}

#[test]
fn a_faulty_last_message_of_a_client_is_refused() {
    let hello = format!("y,,n=,r={CLIENT_NONCE}");
    let last = |text: &[u8]| {
        let (_, server) =
            ScramServer::first(hello.as_bytes(), SERVER_NONCE, rfc()).expect("accepted");
        server.finish(text).err()
    };
    // The flag was `y`, so `biws` (`n,,`) is a downgrade.
    assert_eq!(last(FINAL), Some(ScramError::ChannelBinding));
    let proof = "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    let replay = format!("c=eSws,r={CLIENT_NONCE}other,{proof}");
    assert_eq!(last(replay.as_bytes()), Some(ScramError::Nonce));
    assert_eq!(last(b"c=eSws,r=x"), Some(ScramError::Malformed("proof missing")));
}

#[test]
fn a_server_cannot_ask_for_endless_work_or_another_nonce() {
    let answer = |first: &str| {
        let (_, client) = ScramClient::new("abc");
        client.answer(first.as_bytes(), ClientSecret::Password("x")).err()
    };
    for (n, asked) in [("0", 0), ("10000001", 10_000_001), ("99999999999", 99_999_999_999)] {
        let first = format!("r=abcd,s=AAAA,i={n}");
        assert_eq!(answer(&first), Some(ScramError::Iterations(asked)));
    }
    assert_eq!(answer("r=abc,s=AAAA,i=1"), Some(ScramError::Nonce));
    assert_eq!(answer("r=xabcd,s=AAAA,i=1"), Some(ScramError::Nonce));
    assert!(matches!(answer("r=abcd,s=!,i=1"), Some(ScramError::Malformed(_))));
}

#[test]
fn passwords_are_prepared_as_postgres_prepares_them() {
    let same =
        |a: &str, b: &str| Verifier::derive(a, b"salt", 1) == Verifier::derive(b, b"salt", 1);
    assert!(same("I\u{ad}X", "IX"), "mapped to nothing");
    assert!(same("\u{2168}", "IX"), "NFKC");
    assert!(same("a\u{a0}b", "a b"), "space");
    assert!(!same("a\u{7}", "a"), "control characters are used as they are");
    assert!(!same("\u{ad}", ""), "nothing left: used as it is");
}

#[test]
fn a_right_password_shows_the_key_of_its_verifier() {
    let key = rfc().prove("pencil").expect("it is the password");
    let shown =
        converse(ClientSecret::Keys { client_key: key.0, server_key: rfc().server_key }, rfc());
    assert_eq!(shown, Ok(key));
    assert_eq!(rfc().prove("pencils"), None);
}

#[test]
fn md5_matches_what_postgres_stores() {
    // select md5('foobar') with password 'foo' and user 'bar'
    let stored = md5_stored("bar", "foo");
    assert_eq!(stored, "md53858f62230ac3c915f300c664312c63f");
    let secret = Secret::parse(&stored).expect("well formed");
    let answer = md5_response(&stored[3..], [1, 2, 3, 4]);
    for known in [secret, Secret::Plain("foo".into())] {
        assert!(md5_check(&known, "bar", [1, 2, 3, 4], &answer));
        assert!(!md5_check(&known, "bar", [1, 2, 3, 5], &answer));
        assert!(!md5_check(&known, "bar", [1, 2, 3, 4], "md5"));
    }
    let plain = Secret::Plain("foo".into());
    assert!(!md5_check(&plain, "baz", [1, 2, 3, 4], &answer));
    assert!(!md5_check(&Secret::Scram(rfc()), "bar", [1, 2, 3, 4], &answer));
}

#[test]
fn secrets_are_told_apart_by_their_text() {
    let scram = rfc().to_text();
    assert!(scram.starts_with("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$"));
    assert_eq!(Secret::parse(&scram), Ok(Secret::Scram(rfc())));
    for plain in ["", "pw", "md5", "md53858F62230AC3C915F300C664312C63F", "md5xx"] {
        assert_eq!(Secret::parse(plain), Ok(Secret::Plain(plain.into())));
    }
    for bad in
        ["SCRAM-SHA-256$", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$1:AA==$AA==:AA=="]
    {
        assert_eq!(Secret::parse(bad), Err(SecretError::Scram));
    }
    assert_eq!(Secret::parse("a\0b"), Err(SecretError::Nul));
}

#[test]
fn a_cleartext_password_is_checked_against_every_form() {
    for text in ["pencil".to_owned(), md5_stored("u", "pencil"), rfc().to_text()] {
        let secret = Secret::parse(&text).expect("well formed");
        assert_eq!(secret.to_text(), text);
        assert!(password_check(&secret, "u", "pencil"));
        assert!(!password_check(&secret, "u", "pencil "));
        assert!(!password_check(&secret, "u", ""));
    }
}

#[test]
fn nothing_secret_is_printed() {
    let secret = Secret::Plain("s3cret".into());
    assert_eq!(format!("{secret:?}"), "Secret::Plain(..)");
    assert_eq!(format!("{:?}", ClientKey([7; 32])), "ClientKey(..)");
    assert_eq!(format!("{:?}", rfc()), "Verifier { iterations: 4096, .. }");
}

/// It came back, whatever it says.
fn ran<T>(_: T) {}

proptest! {
    #[test]
    fn no_bytes_make_the_exchange_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[nyp],,?n=,r=[ -~]{0,9}") {
        let cheap = || Verifier::mock("u", b"s");
        ran(ScramServer::first(&bytes, "s", cheap()).is_ok());
        ran(ScramServer::first(text.as_bytes(), "s", cheap()).is_ok());
        let (first, client) = ScramClient::new("abc");
        let (_, server) = ScramServer::first(&first, "s", cheap()).expect("well formed");
        ran(server.finish(&bytes).is_ok());
        let keys = ClientSecret::Keys { client_key: [0; 32], server_key: [0; 32] };
        ran(client.answer(&bytes, keys).is_ok());
    }

    #[test]
    fn any_secret_survives_its_text_form(text in "\\PC{0,40}") {
        if let Ok(secret) = Secret::parse(&text) {
            prop_assert_eq!(Secret::parse(&secret.to_text()), Ok(secret));
        }
    }
}
