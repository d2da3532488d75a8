//! Prepared statements belong to the client that parsed them, for as long as that client says.
//! These tests never look at speed; that statements are shared between servers comes later.
//! `make test` runs them over a real Postgres.

use pgfleet_harness::{
    cluster::{Cluster, Database},
    crowd::Crowd,
    fleet::Fleet,
    raw::{Raw, message},
    wait,
};

fn servers(database: &Database<'_>, count: u32) -> Fleet {
    Fleet::of(database).workers(1).set("default_pool_size", count).start()
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    [message::parse(name, sql), message::sync()].concat()
}

fn run(name: &str, values: &[Option<&str>]) -> Vec<u8> {
    [message::bind("", name, values), message::execute("", 0), message::sync()].concat()
}

/// The SQLSTATE that running the statement ends in, or its values.
fn outcome(raw: &mut Raw, name: &str) -> Result<Vec<String>, String> {
    let answer = raw.ask(&run(name, &[])).expect("an answer comes");
    if answer.error().is_some() { Err(answer.code()) } else { Ok(answer.values()) }
}

fn unknown() -> Result<Vec<String>, String> {
    Err("26000".to_owned())
}

fn rows(value: &str) -> Result<Vec<String>, String> {
    Ok(vec![value.to_owned()])
}

/// One client's rounds: an unnamed statement is parsed once and then run in batches of its own, in between
/// which the servers serve everybody else.
fn rounds(address: &pgfleet_harness::address::Address, number: usize) -> Vec<String> {
    let mut raw = Raw::login(address).expect("the fleet lets app in");
    let mut wrong = Vec::new();
    for round in 0..40 {
        let sql = format!("select 'client {number}, round {round}: ' || $1::text");
        raw.ask(&parse("", &sql)).expect("it is parsed");
        for again in 0..3 {
            let answer = raw.ask(&run("", &[Some(&again.to_string())]));
            let expected = format!("client {number}, round {round}: {again}");
            if answer.as_ref().map(|answer| answer.values()) != Ok(vec![expected.clone()]) {
                wrong.push(format!("{expected}, but {answer:?}"));
            }
        }
        if number.is_multiple_of(3) {
            // Drops the unnamed statement of the server that happens to serve it.
            raw.query("select 1").expect("a simple query runs");
        }
    }
    wrong
}

#[test]
fn an_unnamed_statement_runs_again_and_again_and_is_never_anothers() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 3);
    let address = fleet.address();
    let wrong = Crowd::start(9, move |number, _| rounds(&address, number)).finish().concat();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Holds a server in a transaction without a simple query, which would drop the unnamed statement there.
fn hold(fleet: &Fleet) -> Raw {
    let mut raw = fleet.raw();
    let begin = [message::parse("hold", "begin"), run("hold", &[])].concat();
    assert_eq!(raw.ask(&begin).expect("begin runs").state(), Some('T'));
    raw
}

#[test]
fn a_statement_parsed_anew_on_another_server_is_never_run_in_its_old_form() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 2);
    let mut raw = fleet.raw();
    raw.ask(&parse("", "select 'old'")).expect("it is parsed");
    // The only server so far is taken, so that the new form is parsed on a second one.
    let first = hold(&fleet);
    raw.ask(&parse("", "select 'new'")).expect("it is parsed");
    release(&fleet, first);
    // One server is held and then the other, so that it runs once on each.
    let one = hold(&fleet);
    assert_eq!(outcome(&mut raw, ""), rows("new"));
    let other = hold(&fleet);
    release(&fleet, one);
    assert_eq!(outcome(&mut raw, ""), rows("new"));
    other.leave();
}

#[test]
fn a_statement_dropped_on_another_server_is_gone_on_every_server() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 2);
    let mut raw = fleet.raw();
    raw.ask(&parse("", "select 'old'")).expect("it is parsed");
    let first = hold(&fleet);
    // A simple query drops the unnamed statement: here it runs on a second server.
    raw.query("select 1").expect("it runs");
    release(&fleet, first);
    let one = hold(&fleet);
    assert_eq!(outcome(&mut raw, ""), unknown());
    let other = hold(&fleet);
    release(&fleet, one);
    assert_eq!(outcome(&mut raw, ""), unknown());
    other.leave();
}

/// The holder ends its transaction and its statement, and both servers are there.
fn release(fleet: &Fleet, mut holder: Raw) {
    let active = || fleet.console("show pools").sum("sv_active");
    let before = active();
    let commit = [message::parse("end", "commit"), run("end", &[])].concat();
    assert_eq!(holder.ask(&commit).expect("commit runs").state(), Some('I'));
    let close =
        [message::close_statement("hold"), message::close_statement("end"), message::sync()];
    holder.ask(&close.concat()).expect("they are closed");
    wait::until_true("its server is idle", || active() == before - 1);
}

#[test]
fn a_batch_sent_ahead_of_the_parse_answer_runs_on_the_right_statement() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 3);
    let address = fleet.address();
    let wrong = Crowd::start(9, move |number, _| {
        let mut raw = Raw::login(&address).expect("the fleet lets app in");
        let batches = [parse("", &format!("select {number}")), run("", &[]), run("", &[])].concat();
        let mut round = || -> Result<bool, pgfleet_harness::failure::Failure> {
            raw.ask(&batches)?;
            let answers = [raw.until(b'Z')?, raw.until(b'Z')?];
            Ok(answers.iter().all(|answer| answer.values() == [number.to_string()]))
        };
        (0..60).filter(|_| round() != Ok(true)).count()
    });
    assert_eq!(wrong.finish(), [0; 9]);
}

#[test]
fn a_bind_never_runs_a_statement_that_another_client_has_now() {
    let database = Cluster::shared().database();
    for (name, count) in [("", 1), ("theirs", 2)] {
        let fleet = servers(&database, count);
        let (mut owner, mut thief) = (fleet.raw(), fleet.raw());
        owner.ask(&parse(name, "select 'secret'")).expect("it is parsed");
        for _ in 0..3 {
            assert_eq!(outcome(&mut owner, name), rows("secret"), "statement {name:?}");
            assert_eq!(outcome(&mut thief, name), unknown(), "statement {name:?}");
            let described = [message::describe_statement(name), message::sync()].concat();
            let answer = thief.ask(&described).expect("an answer comes");
            assert_eq!(answer.code(), "26000", "statement {name:?}");
        }
        assert_eq!(thief.query("select 1").expect("the client goes on").values(), ["1"]);
    }
}

/// A client that clears its statements, and one that has the same name and does not.
fn cleared_by(command: &str) {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 2);
    let (mut one, mut two) = (fleet.raw(), fleet.raw());
    one.ask(&parse("same", "select 'one'")).expect("it is parsed");
    two.ask(&parse("same", "select 'two'")).expect("it is parsed");
    assert_eq!(one.query(command).expect("it runs").commands(), [command.to_uppercase()]);
    assert_eq!(outcome(&mut one, "same"), unknown());
    assert_eq!(outcome(&mut two, "same"), rows("two"));
    one.ask(&parse("same", "select 'one again'")).expect("it is parsed");
    assert_eq!(outcome(&mut one, "same"), rows("one again"));
    assert_eq!(outcome(&mut two, "same"), rows("two"));
}

#[test]
fn deallocate_all_ends_the_statements_of_its_client_alone() {
    cleared_by("deallocate all");
}

#[test]
fn discard_all_ends_the_statements_of_its_client_alone() {
    cleared_by("discard all");
}

#[test]
fn the_server_is_shared_again_after_the_statements_are_gone() {
    let database = Cluster::shared().database();
    for command in ["deallocate all", "discard all"] {
        let fleet = servers(&database, 1);
        let (mut holder, mut other) = (fleet.raw(), fleet.raw());
        holder.ask(&parse("mine", "select 1")).expect("it is parsed");
        other.send(&message::query("select 'served'")).expect("the fleet reads");
        wait::until_true("the other one waits for the one server", || {
            fleet.console("show pools").sum("cl_waiting") == 1
        });
        holder.query(command).expect("it runs");
        assert_eq!(other.until(b'Z').expect("it is served").values(), ["served"], "{command}");
        assert_eq!(holder.query("select 2").expect("so is this one").values(), ["2"]);
    }
}

#[test]
fn a_reset_and_a_new_parse_may_come_in_one_packet() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 2);
    let mut raw = fleet.raw();
    raw.ask(&parse("s", "select 'old'")).expect("it is parsed");
    for command in ["deallocate all", "discard all"] {
        let extended = message::unnamed(command, &[]);
        for reset in [message::query(command), extended] {
            raw.send(&[reset, parse("s", "select 'new'"), run("s", &[])].concat())
                .expect("the fleet reads");
            assert_eq!(raw.until(b'Z').expect("it is reset").code(), "", "{command}");
            assert_eq!(raw.until(b'Z').expect("it is parsed").course(), "1Z", "{command}");
            assert_eq!(raw.until(b'Z').expect("it runs").values(), ["new"], "{command}");
        }
    }
}

#[test]
fn a_reset_that_is_rolled_back_has_still_ended_the_statements() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 2);
    let mut raw = fleet.raw();
    raw.ask(&parse("s", "select 'old'")).expect("it is parsed");
    // Postgres does not undo it either.
    raw.query("begin; deallocate all; rollback").expect("it runs");
    assert_eq!(outcome(&mut raw, "s"), unknown());
}

#[test]
fn a_parse_that_fails_leaves_no_statement() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 1);
    for name in ["", "s"] {
        let mut raw = fleet.raw();
        let answer = raw.ask(&parse(name, "select from from")).expect("an error is an answer");
        assert_eq!(answer.code(), "42601", "statement {name:?}");
        assert_eq!(outcome(&mut raw, name), unknown(), "statement {name:?}");
        raw.leave();
    }
}

#[test]
fn a_name_that_is_taken_is_an_error_and_the_first_statement_stays() {
    let database = Cluster::shared().database();
    let fleet = servers(&database, 1);
    let mut raw = fleet.raw();
    raw.ask(&parse("s", "select 'first'")).expect("it is parsed");
    let answer = raw.ask(&parse("s", "select 'second'")).expect("an error is an answer");
    assert_eq!(answer.code(), "42P05");
    assert_eq!(outcome(&mut raw, "s"), rows("first"));
}
