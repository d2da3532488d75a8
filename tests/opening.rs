//! The first bytes of a connection: versions, encryption requests, startup parameters and the welcome.
//! These tests never get as far as a password; logins have a suite of their own.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, PASSWORD},
    failure::Failure,
    fleet::Fleet,
    raw::{Raw, message},
};

#[test]
fn encryption_requests_are_answered_with_no() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for request in [message::ssl_request(), message::gss_request()] {
        let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
        raw.send(&request).expect("the fleet reads");
        assert_eq!(raw.byte().expect("an answer comes"), b'N');
        raw.send(&startup(&fleet)).expect("the fleet reads");
        assert_eq!(raw.until(b'Z').expect("the login goes on in plain text").state(), Some('I'));
    }
}

#[test]
fn both_encryption_requests_may_come_one_after_the_other() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
    for request in [message::gss_request(), message::ssl_request()] {
        raw.send(&request).expect("the fleet reads");
        assert_eq!(raw.byte().expect("an answer comes"), b'N');
    }
    raw.send(&startup(&fleet)).expect("the fleet reads");
    assert!(raw.until(b'Z').is_ok());
}

#[test]
fn bytes_sent_along_with_an_encryption_request_close_the_connection() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for request in [message::ssl_request(), message::gss_request()] {
        let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
        raw.send(&[request, startup(&fleet)].concat()).expect("the fleet reads");
        let answer = raw.until_closed().expect("the connection closes");
        assert!(answer.first(b'R').is_none(), "nothing smuggled in may log in");
    }
    assert_eq!(fleet.client().value("select 1"), "1");
}

/// A version asked for, the version spoken, and the bytes of its cancel key.
const VERSIONS: [(u32, u32, usize); 5] =
    [(0, 0, 8), (1, 0, 8), (2, 2, 36), (3, 2, 36), (9999, 2, 36)];

#[test]
fn a_version_is_negotiated_once_and_only_if_it_is_not_the_one_asked_for() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    for (minor, spoken, length) in VERSIONS {
        let mut raw = Raw::login_of((3 << 16) + minor, &fleet.address(), &[]).expect("app gets in");
        let offers = raw.welcome.tags().matches('v').count();
        assert_eq!(offers, usize::from(minor != spoken), "3.{minor}");
        if let Some(offer) = raw.welcome.first(b'v') {
            assert_eq!(offer.body, [&((3 << 16) + spoken).to_be_bytes()[..], &[0; 4]].concat());
        }
        assert_eq!(raw.key.len(), length, "3.{minor}");
        assert_eq!(raw.query("select 1").expect("it works").values(), ["1"]);
    }
}

#[test]
fn options_of_the_protocol_that_nobody_knows_are_named_before_the_password_is_asked_for() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).secret("app", PASSWORD).set("auth_type", "plain").start();
    let options = [("_pq_.unheard_of", "1"), ("_pq_.other", "")];
    for (minor, spoken) in [(0, 0), (2, 2), (9999, 2)] {
        let version = (3 << 16) + minor;
        let raw = Raw::login_of(version, &fleet.address(), &options).expect("app gets in");
        let offer = raw.welcome.first(b'v').expect("the options are named");
        let body = [&[0, 3, 0, spoken, 0, 0, 0, 2][..], b"_pq_.unheard_of\0_pq_.other\0"];
        assert_eq!(offer.body, body.concat(), "3.{minor}");
        assert!(raw.welcome.tags().starts_with("vR"), "{}", raw.welcome.tags());
    }
}

#[test]
fn old_and_future_versions_are_refused() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let versions = [(2 << 16, "old V2 protocol not supported"), (4 << 16, ""), (1, "")];
    for (version, text) in versions {
        let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
        raw.send(&message::startup_of(version, &[("user", "app")])).expect("the fleet reads");
        let answer = raw.until_closed().expect("the connection closes");
        if !text.is_empty() {
            assert_eq!(answer.error(), Some(Failure::new("FATAL", "08P01", text)));
        }
        assert!(answer.first(b'R').is_none(), "version {version} must not log in");
    }
}

#[test]
fn the_welcome_holds_what_drivers_look_at() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let raw = fleet.raw();
    for (name, value) in [
        ("client_encoding", "UTF8"),
        ("standard_conforming_strings", "on"),
        ("integer_datetimes", "on"),
    ] {
        assert_eq!(raw.welcome.parameter(name).as_deref(), Some(value), "{name}");
    }
    assert!(
        raw.welcome
            .parameter("server_version")
            .is_some_and(|version| version.starts_with(char::is_numeric))
    );
    assert_eq!(raw.key.len(), 8);
    assert_ne!(raw.key, fleet.raw().key);
}

#[test]
fn startup_parameters_reach_the_server_and_the_welcome() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let parameters =
        [("application_name", "billing"), ("DateStyle", "German, DMY"), ("TimeZone", "Asia/Tokyo")];
    let mut raw = Raw::login_with(&fleet.address(), &parameters).expect("the fleet lets app in");
    assert_eq!(raw.welcome.parameter("TimeZone").as_deref(), Some("Asia/Tokyo"));
    let answer = raw.query("select current_setting('application_name') || '/' || current_setting('DateStyle') || '/' || current_setting('TimeZone')");
    assert_eq!(answer.expect("the query runs").values(), ["billing/German, DMY/Asia/Tokyo"]);
}

#[test]
fn parameters_in_options_reach_the_server() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let options = [("options", "-c application_name=by\\ options --timezone=Asia/Tokyo")];
    let mut raw = Raw::login_with(&fleet.address(), &options).expect("the fleet lets app in");
    let answer = raw
        .query("select current_setting('application_name') || '/' || current_setting('TimeZone')");
    assert_eq!(answer.expect("the query runs").values(), ["by options/Asia/Tokyo"]);
}

#[test]
fn unknown_startup_parameters_are_refused_unless_ignored() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).set("ignore_startup_parameters", "extra_float_digits").start();
    assert!(Raw::login_with(&fleet.address(), &[("extra_float_digits", "3")]).is_ok());
    let failure =
        Raw::login_with(&fleet.address(), &[("work_mem", "1MB")]).expect_err("it is refused");
    assert_eq!(failure, Failure::new("FATAL", "08P01", "unsupported startup parameter: work_mem"));
    let failure = Raw::login_with(&fleet.address(), &[("options", "-c work_mem=1MB")])
        .expect_err("it is refused");
    assert_eq!(
        failure,
        Failure::new("FATAL", "08P01", "unsupported startup parameter in options: work_mem")
    );
}

#[test]
fn a_startup_without_a_user_is_refused() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
    raw.send(&message::startup(&[("database", database.name())])).expect("the fleet reads");
    let answer = raw.until_closed().expect("the connection closes");
    assert_eq!(answer.error(), Some(Failure::new("FATAL", "08P01", "no username supplied")));
}

#[test]
fn the_database_defaults_to_the_name_of_the_user() {
    let database = Cluster::shared().database();
    let entry = pgfleet_harness::fleet::setup::entry(database.cluster(), database.name());
    let fleet = Fleet::of(&database).database("app", &entry).start();
    let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
    raw.send(&message::startup(&[("user", "app")])).expect("the fleet reads");
    assert!(raw.until(b'Z').is_ok());
    assert_eq!(
        raw.query("select current_database()").expect("the query runs").values(),
        [database.name()]
    );
}

#[test]
fn a_startup_may_come_in_any_pieces() {
    let database = Cluster::shared().database();
    let fleet = Fleet::of(&database).start();
    let bytes = [message::ssl_request(), startup(&fleet)];
    for split in [1, 3, 4, 5, 7, 8] {
        let mut raw = Raw::open(&fleet.address()).expect("the fleet accepts");
        let (head, tail) = bytes[0].split_at(split);
        raw.send(head).expect("the fleet reads");
        raw.send(tail).expect("the fleet reads");
        assert_eq!(raw.byte().expect("an answer comes"), b'N', "split after {split} bytes");
        for byte in &bytes[1] {
            raw.send(&[*byte]).expect("the fleet reads");
        }
        assert!(raw.until(b'Z').is_ok());
    }
}

fn startup(fleet: &Fleet) -> Vec<u8> {
    message::startup(&[("user", "app"), ("database", &fleet.address().database)])
}
