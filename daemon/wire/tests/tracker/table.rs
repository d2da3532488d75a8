//! The tables in the header of the tracker, walked pair by pair: every state with every tag.

use pgfleet_wire::tracker::{Done, Forward, Note, Seen, TrackError};

use crate::Talk;

/// A state, how to get there, the tags within it, and the tags that finish its head.
type Row = (&'static str, fn(&mut Talk), &'static str, &'static str);

const ROWS: [Row; 18] = [
    ("idle", |_| (), "", ""),
    ("open", |t| asked(t, "P", "1"), "E", ""),
    ("skip", |t| asked(t, "P", "E"), "", ""),
    ("parse", |t| asked(t, "P", ""), "", "1E"),
    ("bind", |t| asked(t, "B", ""), "", "2E"),
    ("close", |t| asked(t, "C", ""), "", "3E"),
    ("describe", |t| asked(t, "D", ""), "t", "TnE"),
    ("described", |t| asked(t, "D", "t"), "", "TnE"),
    ("execute", |t| asked(t, "E", ""), "DGHW", "CIsE"),
    ("execute in", |t| asked(t, "Ec", "G"), "D", "CIsE"),
    ("execute out", |t| asked(t, "E", "H"), "Ddc", "CIsE"),
    ("query", |t| asked(t, "Q", ""), "TDCIGHW", "ZE"),
    ("query in", |t| asked(t, "Q", "G"), "TDCI", "E"),
    ("query out", |t| asked(t, "Q", "H"), "TDCIdc", "E"),
    ("query both", |t| asked(t, "Q", "W"), "TDCIdc", "ZE"),
    ("failed query", |t| asked(t, "Q", "E"), "Z", ""),
    ("function", |t| asked(t, "F", ""), "V", "E"),
    ("sync", |t| asked(t, "S", ""), "", "ZE"),
];

fn asked(talk: &mut Talk, client: &str, server: &str) {
    talk.client(client);
    talk.server(server);
}

#[test]
fn every_state_with_every_message_of_the_server() {
    for (name, setup, within, finish) in ROWS {
        for tag in 0..=u8::MAX {
            let mut talk = Talk::new();
            setup(&mut talk);
            let got = talk.say(tag);
            let char = char::from(tag);
            let at = format!("{name}: {char:?} {got:?}");
            if "NSA".contains(char) || within.contains(char) {
                let pass = Seen { swallow: false, done: None };
                assert_eq!(got, Ok(pass), "{at}");
            } else if finish.contains(char) {
                let done = got.map(|seen| seen.done.is_some());
                assert_eq!(done, Ok(true), "{at}");
            } else {
                let wrong = matches!(got, Err(TrackError::Unexpected { tag: t, .. }) if t == tag);
                assert!(wrong, "{at}");
            }
            assert!(!talk.0.doubtful() || name.ends_with("in"), "{at}");
        }
    }
}

#[test]
fn only_ready_for_query_frees_a_server() {
    for (name, setup, ..) in ROWS {
        for tag in 0..=u8::MAX {
            let mut talk = Talk::new();
            setup(&mut talk);
            let before = talk.0.may_release();
            assert_eq!(before, name == "idle");
            let legal = talk.say(tag).is_ok();
            let freed = !before && talk.0.may_release();
            assert_eq!(freed, legal && tag == b'Z', "{name}: {tag}");
        }
    }
}

/// What becomes of a client's message: passed and queued, passed without an answer, discarded, or doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Queued,
    Passed,
    Discarded,
    Doubtful,
    Unknown,
}

/// A state, how to get there, and what becomes of: requests, Sync, Flush, CopyData, CopyDone and CopyFail.
type Fates = (&'static str, fn(&mut Talk), [Fate; 5]);

fn fate(setup: fn(&mut Talk), tag: u8) -> Fate {
    let mut talk = Talk::new();
    setup(&mut talk);
    let before = talk.0.outstanding();
    match talk.0.client(tag, Note::None) {
        Err(_) => Fate::Unknown,
        Ok(Forward::Discard) => Fate::Discarded,
        Ok(Forward::Pass) if talk.0.doubtful() => Fate::Doubtful,
        Ok(Forward::Pass) if talk.0.outstanding() > before => Fate::Queued,
        Ok(Forward::Pass) => Fate::Passed,
    }
}

#[test]
fn every_state_with_every_message_of_the_client() {
    use Fate::{Discarded, Doubtful, Passed, Queued};
    let rows: [Fates; 7] = [
        ("idle", |_| (), [Queued, Queued, Passed, Discarded, Discarded]),
        ("open", |t| asked(t, "P", "1"), [Queued, Queued, Passed, Discarded, Discarded]),
        ("busy", |t| asked(t, "Q", ""), [Queued, Queued, Passed, Passed, Queued]),
        ("skip", |t| asked(t, "P", "E"), [Passed, Queued, Passed, Discarded, Discarded]),
        ("in", |t| asked(t, "Q", "G"), [Doubtful, Passed, Passed, Passed, Passed]),
        ("ended", |t| asked(t, "Qc", "G"), [Queued, Queued, Passed, Passed, Queued]),
        ("both", |t| asked(t, "Q", "W"), [Doubtful, Doubtful, Passed, Passed, Passed]),
    ];
    for (name, setup, [request, sync, flush, data, end]) in rows {
        for tag in 0..=u8::MAX {
            let expected = match tag {
                b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'F' => request,
                b'S' => sync,
                b'H' => flush,
                b'd' => data,
                b'c' | b'f' => end,
                b'X' => Doubtful,
                _ => Fate::Unknown,
            };
            assert_eq!(fate(setup, tag), expected, "{name}: {tag}");
        }
    }
}

#[test]
fn a_request_is_reported_with_its_note() {
    let note = Note::Statement(7);
    let cases: [(u8, &str, Done); 8] = [
        (b'P', "1", Done::Parse(note)),
        (b'B', "2", Done::Bind(note)),
        (b'C', "3", Done::Close(note)),
        (b'D', "tT", Done::Describe(note)),
        (b'E', "DC", Done::Execute(note)),
        (b'Q', "TDCZ", Done::Query(note)),
        (b'F', "VZ", Done::Function(note)),
        (b'S', "Z", Done::Sync(note)),
    ];
    for (tag, answers, done) in cases {
        let mut talk = Talk::new();
        assert_eq!(talk.0.client(tag, note), Ok(Forward::Pass));
        assert_eq!(talk.server(answers), Some(done));
        let mut talk = Talk::new();
        assert_eq!(talk.0.client(tag, note), Ok(Forward::Pass));
        assert_eq!(talk.server("E"), Some(Done::Failed(tag, note)));
        let mut talk = Talk::new();
        talk.0.own_noted(tag, note);
        assert_eq!(talk.swallowed(answers), Some(done));
        let mut talk = Talk::new();
        talk.0.own(tag);
        assert_eq!(talk.swallowed(answers), None);
    }
}
