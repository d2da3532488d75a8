//! The rules of the protocol, one story each.

use pgfleet_wire::tracker::{Done, Forward, Note, TrackError};

use crate::{FATAL, Talk};

#[test]
fn a_query_with_many_results_ends_at_ready_for_query() {
    let mut talk = Talk::new();
    talk.client("Q");
    talk.server("TDDCCTDCI");
    talk.held();
    assert_eq!(talk.server("Z"), Some(Done::Query(Note::None)));
    talk.free();
}

#[test]
fn a_transaction_holds_the_server() {
    for status in [b'T', b'E'] {
        let mut talk = Talk::new();
        talk.client("Q").server("C");
        talk.0.server(b'Z', &[status]).expect("in step");
        assert_eq!((talk.0.status(), talk.0.busy()), (status, false));
        talk.held();
        talk.client("Q").server("CZ");
        talk.free();
    }
}

#[test]
fn a_status_that_does_not_exist_is_out_of_step() {
    for body in [&b""[..], b"X"] {
        let mut talk = Talk::new();
        talk.client("S");
        assert!(talk.0.server(b'Z', body).is_err());
    }
}

#[test]
fn pipelined_queries_are_all_waited_for() {
    let mut talk = Talk::new();
    talk.client("QQ").server("CZ");
    talk.held();
    talk.server("CZ");
    talk.free();
}

#[test]
fn a_batch_is_held_from_its_first_message_to_its_sync() {
    let mut talk = Talk::new();
    talk.client("PDH").server("1tT");
    assert!(!talk.0.busy());
    talk.held();
    talk.client("BEH").server("2Ds");
    talk.held();
    talk.client("S").held();
    talk.server("Z");
    talk.free();
}

#[test]
fn a_flush_after_sync_holds_nothing() {
    let mut talk = Talk::new();
    talk.client("PSH").server("1Z");
    talk.free();
}

#[test]
fn a_query_ends_a_batch_without_sync() {
    let mut talk = Talk::new();
    talk.client("PQ").server("1CZ");
    talk.free();
}

#[test]
fn an_error_drops_what_is_queued_up_to_the_sync() {
    let mut talk = Talk::new();
    let note = Note::Statement(3);
    for tag in *b"PBDE" {
        assert_eq!(talk.0.client(tag, note), Ok(Forward::Pass));
    }
    talk.client("QSPS");
    talk.server("1");
    assert_eq!(talk.server("E"), Some(Done::Failed(b'B', note)));
    assert_eq!(talk.0.dropped(), [note, note]);
    assert_eq!(talk.0.outstanding(), 3);
    talk.server("Z");
    talk.held();
    talk.server("1Z");
    talk.free();
}

#[test]
fn after_an_error_without_sync_everything_is_skipped_until_it() {
    let mut talk = Talk::new();
    talk.client("P").server("E");
    assert!(talk.0.skipping());
    talk.client("BDECQFH").discarded("dcf").held();
    assert!(!talk.0.busy());
    assert!(talk.say(b'Z').is_err(), "a skipped Query has no answer");
    talk.client("S").server("Z");
    talk.free();
}

#[test]
fn an_error_in_query_function_or_sync_is_followed_by_ready_for_query() {
    for tag in ["Q", "F", "S"] {
        let mut talk = Talk::new();
        talk.client(tag).server("E");
        talk.held();
        talk.server("Z");
        talk.free();
    }
}

#[test]
fn a_failed_commit_at_sync_ends_that_batch_only() {
    let mut talk = Talk::new();
    talk.client("BESBES").server("2C");
    assert_eq!(talk.server("E"), Some(Done::Failed(b'S', Note::None)));
    assert_eq!(talk.server("Z"), Some(Done::Sync(Note::None)));
    talk.server("2CZ");
    talk.free();
}

#[test]
fn a_flush_that_fails_begins_skipping() {
    let mut talk = Talk::new();
    talk.client("P").server("1");
    talk.client("H").server("E");
    assert!(talk.0.skipping());
    talk.client("BES").server("Z");
    talk.free();
}

#[test]
fn a_fatal_error_means_that_the_server_goes() {
    for asked in ["", "Q", "P", "S"] {
        let mut talk = Talk::new();
        talk.client(asked);
        let seen = talk.0.server(b'E', FATAL).expect("it may come at any time");
        assert!(!seen.swallow);
        assert!(talk.0.doubtful());
        talk.held();
    }
    let mut talk = Talk::new();
    talk.client("Q").server("E");
    assert!(talk.0.server(b'E', FATAL).is_ok(), "after an error too");
    let mut talk = Talk::new();
    let local = b"SFEHLER\0VERROR\0";
    talk.client("Q");
    assert!(talk.0.server(b'E', local).is_ok());
    assert!(!talk.0.doubtful());
}

#[test]
fn an_own_batch_is_swallowed_and_its_status_counts() {
    let mut talk = Talk::new();
    talk.own("PBDES").client("Q");
    assert_eq!((talk.0.own_pending(), talk.0.outstanding()), (5, 6));
    talk.swallowed("1N2tTDSCZ");
    assert_eq!(talk.0.own_pending(), 0);
    talk.server("NTDCZ");
    talk.free();
    talk.own("Q").swallowed("C");
    talk.0.server(b'Z', b"T").expect("in step");
    assert_eq!(talk.0.status(), b'T');
}

#[test]
fn a_notification_is_never_swallowed() {
    let mut talk = Talk::new();
    talk.own("Q").server("A");
}

#[test]
fn a_failed_own_batch_is_swallowed_to_its_end() {
    let mut talk = Talk::new();
    talk.own("PBES").client("Q");
    assert_eq!(talk.swallowed("1E"), Some(Done::OwnFailed(b'B')));
    talk.swallowed("NZ");
    talk.server("CZ");
    talk.free();
    talk.own("Q");
    assert_eq!(talk.swallowed("E"), Some(Done::OwnFailed(b'Q')));
    assert_eq!(talk.swallowed("Z"), None);
    talk.free();
}

#[test]
fn an_own_parse_in_the_clients_batch_is_swallowed() {
    let mut talk = Talk::new();
    talk.own("CP").client("BES");
    talk.swallowed("31");
    talk.server("2DCZ");
    talk.free();
    assert_eq!(talk.0.own_pending(), 0);
}

#[test]
fn the_client_sees_why_an_own_parse_in_its_batch_failed() {
    let mut talk = Talk::new();
    talk.own("P").client("BES");
    assert_eq!(talk.server("E"), Some(Done::OwnFailed(b'P')));
    talk.server("Z");
    talk.free();
    talk.own("P").client("B");
    assert_eq!(talk.server("E"), Some(Done::OwnFailed(b'P')));
    assert!(talk.0.skipping(), "and its Sync is still to come");
    talk.client("ES").server("Z");
    talk.free();
}

#[test]
fn an_answer_to_nothing_and_an_unknown_tag_are_errors_with_their_text() {
    let mut talk = Talk::new();
    let error = talk.say(b'C').expect_err("nothing was asked");
    assert_eq!(
        error.to_string(),
        "unexpected message 'C' from server, expected nothing: no request is outstanding"
    );
    let error = talk.0.client(b'p', Note::None);
    assert_eq!(error, Err(TrackError::Unknown(b'p')));
}
