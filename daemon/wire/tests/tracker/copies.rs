//! The rules of COPY, one story each.

use pgfleet_wire::tracker::Copy;

use crate::Talk;

#[test]
fn copy_in_of_a_query() {
    let mut talk = Talk::new();
    talk.client("Q").server("G");
    assert_eq!(talk.0.copy(), Copy::In);
    talk.client("dSHdc").server("C");
    assert_eq!(talk.0.copy(), Copy::None);
    talk.server("Z");
    talk.free();
    talk.discarded("dcf");
}

#[test]
fn copy_in_of_an_execute_swallows_the_sync_behind_it() {
    let mut talk = Talk::new();
    talk.client("PBES").server("12G");
    assert_eq!(talk.0.outstanding(), 1);
    talk.client("ddc").server("C");
    talk.held();
    talk.client("S").server("Z");
    talk.free();
}

#[test]
fn copy_data_may_be_sent_before_the_copy_has_begun() {
    let mut talk = Talk::new();
    talk.client("BESddcS").server("2GCZ");
    talk.free();
    talk.client("QddcQdfS").server("GCZGEZZ");
    talk.free();
    talk.client("Qdc").server("TDCZ");
    talk.free();
    talk.client("BEcS").server("2EZ");
    talk.free();
}

#[test]
fn an_error_in_copy_in_of_a_query_is_followed_by_ready_for_query() {
    let mut talk = Talk::new();
    talk.client("Q").server("G");
    talk.client("dd").server("E");
    assert_eq!(talk.0.copy(), Copy::None);
    talk.client("dc").server("Z");
    talk.free();
    talk.discarded("dc");
}

#[test]
fn an_error_in_copy_in_is_doubtful_only_if_a_sync_was_swallowed() {
    let mut talk = Talk::new();
    talk.client("BE").server("2G");
    talk.client("dd").server("E");
    talk.discarded("c").client("S").server("Z");
    talk.free();
    for (before, within) in [("BES", "d"), ("BE", "dS"), ("BES", "dcS")] {
        let mut talk = Talk::new();
        talk.client(before).server("2G");
        talk.client(within).server("E");
        assert!(talk.0.doubtful());
        talk.client("S").server("ZZ");
        talk.held();
    }
}

#[test]
fn a_request_in_copy_in_is_doubtful() {
    for late in ["Q", "P", "F"] {
        let mut talk = Talk::new();
        talk.client("Q").server("G");
        talk.client(late);
        assert!(talk.0.doubtful());
        let mut talk = Talk::new();
        talk.client("E").client(late).server("G");
        assert!(talk.0.doubtful());
    }
}

#[test]
fn two_copies_in_one_query() {
    let mut talk = Talk::new();
    talk.client("Q").server("G");
    talk.client("dc").server("CG");
    talk.client("dSc").server("CHddcCZ");
    talk.free();
}

#[test]
fn a_sync_swallowed_by_a_copy_that_was_answered_leaves_the_batch_open() {
    let mut talk = Talk::new();
    talk.client("EScES").server("GCC");
    talk.held();
    talk.server("Z");
    talk.free();
    talk.client("ESc").server("GC");
    assert!(!talk.0.busy());
    talk.held();
}

#[test]
fn copy_out_ends_with_copy_done() {
    let mut talk = Talk::new();
    talk.client("BES").server("2Hdd");
    assert_eq!(talk.0.copy(), Copy::Out);
    talk.server("c");
    assert_eq!(talk.0.copy(), Copy::None);
    talk.server("CZ");
    talk.free();
}

#[test]
fn copy_both_runs_until_its_results() {
    let mut talk = Talk::new();
    talk.client("Q").server("Wd");
    assert_eq!(talk.0.copy(), Copy::Both);
    talk.client("dc").server("dcTDCCZ");
    talk.free();
}
