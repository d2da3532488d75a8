//! The statements of the console.
//!
//! It reads a statement, checks who may run it, and runs it at the desk. It keeps no state between
//! statements and holds up no one but whoever asked. The console and the link's statements call it.

use pgfleet_config::Workers;

use super::desk::Desk;
use super::input::Refusal;
use super::show;
use super::slot::Stop;
use crate::link::message::{Drain, Role};
use crate::link::table::{Outcome, Reply};

/// One statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Statement {
    Show(Show),
    Reload,
    Scale(Workers),
    Restart,
    Shutdown(Wait),
}

/// What SHUTDOWN waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Servers,
    Clients,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    Help,
    Version,
    Fleet,
    Workers,
    Databases,
    Pools,
    Clients,
    Servers,
    Stats,
    StatsTotals,
    StatsAverages,
    Totals,
    Lists,
    Config,
    Users,
    Mem,
    DnsHosts,
    DnsZones,
    State,
}

const SHOWS: [(&str, Show); 19] = [
    ("help", Show::Help),
    ("version", Show::Version),
    ("fleet", Show::Fleet),
    ("workers", Show::Workers),
    ("databases", Show::Databases),
    ("pools", Show::Pools),
    ("clients", Show::Clients),
    ("servers", Show::Servers),
    ("stats", Show::Stats),
    ("stats_totals", Show::StatsTotals),
    ("stats_averages", Show::StatsAverages),
    ("totals", Show::Totals),
    ("lists", Show::Lists),
    ("config", Show::Config),
    ("users", Show::Users),
    ("mem", Show::Mem),
    ("dns_hosts", Show::DnsHosts),
    ("dns_zones", Show::DnsZones),
    ("state", Show::State),
];

/// Runs a statement to its reply.
pub(crate) async fn run(desk: &Desk, role: Role, text: &str) -> Reply {
    match attempt(desk, role, text).await {
        Ok(reply) => reply,
        Err(Refusal { sqlstate, message }) => Reply {
            notices: Vec::new(),
            outcome: Outcome::Refused { sqlstate: sqlstate.to_owned(), message },
        },
    }
}

async fn attempt(desk: &Desk, role: Role, text: &str) -> Result<Reply, Refusal> {
    let statement = parse(text)?;
    let (tag, notices) = match (statement, role) {
        (Statement::Show(show), _) => return show::run(desk, show).await,
        (_, Role::Stats) => return Err(Refusal::protocol("admin access needed")),
        (Statement::Reload, Role::Admin) => ("RELOAD", desk.reload().await?),
        (Statement::Scale(workers), Role::Admin) => ("SCALE", desk.scale(workers).await?),
        (Statement::Restart, Role::Admin) => ("RESTART", desk.restart().await?),
        (Statement::Shutdown(wait), Role::Admin) => {
            let stop = match wait {
                Wait::Nothing => Stop::Now,
                Wait::Clients => Stop::Drain(Drain::WhenClientsLeave),
                Wait::Servers => {
                    let drain_timeout = desk.view().await?.settings.global.drain_timeout;
                    Stop::Drain(Drain::BetweenTransactions(drain_timeout))
                }
            };
            ("SHUTDOWN", desk.shutdown(stop).await?)
        }
    };
    Ok(Reply { notices, outcome: Outcome::Done { tag: tag.to_owned() } })
}

/// Reads a statement: any case, with or without its semicolon, at most one word after the command.
fn parse(text: &str) -> Result<Statement, Refusal> {
    let invalid = || {
        let shown: String = text.trim().chars().take(200).collect();
        Refusal::protocol(format!("invalid command '{shown}', use SHOW HELP;"))
    };
    let bare = text.trim().trim_end_matches(';').trim_end().to_ascii_lowercase();
    let words: Vec<&str> = bare.split_ascii_whitespace().collect();
    let statement = match words.as_slice() {
        ["show" | "select", what] => {
            let found = SHOWS.iter().find(|(name, _)| name == what);
            let (_, show) =
                found.ok_or_else(|| Refusal::protocol("bad SHOW arg, use SHOW HELP for usage"))?;
            Statement::Show(*show)
        }
        ["show"] => Statement::Show(Show::Help),
        ["reload"] => Statement::Reload,
        ["restart"] => Statement::Restart,
        ["scale", count] => Statement::Scale(scale(count)?),
        ["scale"] => {
            return Err(Refusal::protocol(
                "a number of workers is required: SCALE n, or SCALE auto",
            ));
        }
        ["shutdown"] => Statement::Shutdown(Wait::Nothing),
        ["shutdown", "wait_for_servers"] => Statement::Shutdown(Wait::Servers),
        ["shutdown", "wait_for_clients"] => Statement::Shutdown(Wait::Clients),
        _ => return Err(invalid()),
    };
    Ok(statement)
}

fn scale(count: &str) -> Result<Workers, Refusal> {
    let most = Workers::MOST;
    match (count.trim_matches('\''), count.parse::<i64>()) {
        (_, Ok(0)) => Err(Refusal::protocol(format!(
            "cannot scale to 0 workers: no one would serve; use SHUTDOWN to stop the fleet, or a number from 1 to {most}"
        ))),
        (_, Ok(number)) if number < 0 || number > i64::from(most) => {
            Err(Refusal::protocol(format!(
                "cannot scale to {number} workers: a fleet has 1 to {most}; use a number in that range, or auto"
            )))
        }
        (word, _) => word
            .parse()
            .map_err(|reason: String| Refusal::protocol(format!("SCALE {word}: {reason}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().message
    }

    #[test]
    fn statements_are_read_in_any_case_with_or_without_semicolon() {
        assert_eq!(parse("  Show  POOLS ; ").unwrap(), Statement::Show(Show::Pools));
        assert_eq!(parse("select stats").unwrap(), Statement::Show(Show::Stats));
        assert_eq!(parse("SCALE 4;").unwrap(), Statement::Scale(Workers::Count(4)));
        assert_eq!(parse("scale Auto").unwrap(), Statement::Scale(Workers::Auto));
        assert_eq!(parse("SHUTDOWN WAIT_FOR_SERVERS").unwrap(), Statement::Shutdown(Wait::Servers));
    }

    #[test]
    fn what_is_no_statement_gets_pgbouncers_text() {
        assert_eq!(refusal("drop table x"), "invalid command 'drop table x', use SHOW HELP;");
        assert_eq!(refusal("show nothing"), "bad SHOW arg, use SHOW HELP for usage");
    }

    #[test]
    fn a_scale_out_of_range_is_refused_with_the_way_out() {
        assert!(refusal("scale 0").contains("use SHUTDOWN"));
        assert!(refusal("scale 100000").contains("1 to 128"));
        assert!(refusal("scale -1").contains("1 to 128"));
        assert!(refusal("scale many").contains("auto"));
    }
}
