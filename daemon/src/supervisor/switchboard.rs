//! When what may be switched: PAUSE, RESUME, SUSPEND, DISABLE, ENABLE, and the way out.
//!
//! It owns the rules and PgBouncer's texts for what is against them; the state itself is plain data that the
//! workers get whole. It never sends anything and asks no clock. The loop calls it with each command.

use crate::link::switches::{Activity, Doors, Scope, Switches};

/// The names under which the console is a database.
pub(crate) const CONSOLE: [&str; 2] = ["pgbouncer", "pgfleet"];

/// One turn of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Pause(Scope),
    Resume(Scope),
    Suspend,
    Disable(String),
    Enable(String),
    /// What KILL does besides: it stays paused.
    Kill(Scope),
}

/// Why a switch stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stuck {
    #[error("already suspended/paused")]
    Already,
    #[error("pooler is not paused/suspended")]
    NotPaused,
    #[error("pooler is shutting down")]
    ShuttingDown,
    #[error("database {0} is not paused")]
    DatabaseNotPaused(String),
    #[error("no such database: {0}")]
    NoDatabase(String),
    #[error("cannot {0} admin db: {1}")]
    Console(&'static str, String),
}

/// Whether a command can be about this scope.
pub(crate) fn check(
    verb: &'static str,
    scope: &Scope,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), Stuck> {
    let Scope::Database(name) = scope else { return Ok(()) };
    if CONSOLE.contains(&name.as_str()) {
        return Err(Stuck::Console(verb, name.clone()));
    }
    if is_known(name) { Ok(()) } else { Err(Stuck::NoDatabase(name.clone())) }
}

/// How it is logged.
impl std::fmt::Display for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{} command issued", self.verb().to_uppercase(), self.scope())
    }
}

impl Turn {
    fn verb(&self) -> &'static str {
        match self {
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Suspend => "suspend",
            Self::Disable(_) => "disable",
            Self::Enable(_) => "enable",
            Self::Kill(_) => "kill",
        }
    }

    fn scope(&self) -> Scope {
        match self {
            Self::Pause(scope) | Self::Resume(scope) | Self::Kill(scope) => scope.clone(),
            Self::Disable(name) | Self::Enable(name) => Scope::Database(name.clone()),
            Self::Suspend => Scope::All,
        }
    }
}

/// Turns a switch; the switches are as they were if it is stuck.
pub(crate) fn turn(
    switches: &mut Switches,
    turn: &Turn,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), Stuck> {
    // A database that was removed while it was paused can still be resumed.
    let is_known = |name: &str| is_known(name) || switches.paused.contains(name);
    check(turn.verb(), &turn.scope(), is_known)?;
    match turn {
        Turn::Pause(Scope::All) | Turn::Kill(Scope::All) => halt(switches, Activity::Paused)?,
        Turn::Suspend => halt(switches, Activity::Suspended)?,
        Turn::Pause(Scope::Database(name)) | Turn::Kill(Scope::Database(name)) => {
            switches.paused.insert(name.clone());
        }
        Turn::Resume(_) if switches.doors == Doors::Closing => return Err(Stuck::ShuttingDown),
        Turn::Resume(Scope::All) => {
            if switches.activity == Activity::Running {
                return Err(Stuck::NotPaused);
            }
            switches.activity = Activity::Running;
        }
        Turn::Resume(Scope::Database(name)) => {
            if !switches.paused.remove(name) {
                return Err(Stuck::DatabaseNotPaused(name.clone()));
            }
        }
        Turn::Disable(name) => {
            switches.disabled.insert(name.clone());
        }
        Turn::Enable(name) => {
            switches.disabled.remove(name);
        }
    }
    Ok(())
}

fn halt(switches: &mut Switches, activity: Activity) -> Result<(), Stuck> {
    if switches.activity != Activity::Running {
        return Err(Stuck::Already);
    }
    switches.activity = activity;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Scope {
        Scope::All
    }

    fn app() -> Scope {
        Scope::Database("app".to_owned())
    }

    /// What comes of a turn: the error's text, or the state in a few words.
    fn after(switches: &mut Switches, command: &Turn) -> String {
        match turn(switches, command, |name| name == "app") {
            Err(stuck) => stuck.to_string(),
            Ok(()) => format!(
                "{:?} paused {:?} disabled {:?}",
                switches.activity, switches.paused, switches.disabled
            ),
        }
    }

    #[test]
    fn every_switch_in_every_activity() {
        let (running, paused, suspended) =
            (Activity::Running, Activity::Paused, Activity::Suspended);
        let already = "already suspended/paused";
        let table = [
            (running, Turn::Pause(all()), "Paused paused {} disabled {}"),
            (paused, Turn::Pause(all()), already),
            (suspended, Turn::Pause(all()), already),
            (running, Turn::Suspend, "Suspended paused {} disabled {}"),
            (paused, Turn::Suspend, already),
            (suspended, Turn::Suspend, already),
            (running, Turn::Kill(all()), "Paused paused {} disabled {}"),
            (paused, Turn::Kill(all()), already),
            (running, Turn::Resume(all()), "pooler is not paused/suspended"),
            (paused, Turn::Resume(all()), "Running paused {} disabled {}"),
            (suspended, Turn::Resume(all()), "Running paused {} disabled {}"),
            (running, Turn::Pause(app()), "Running paused {\"app\"} disabled {}"),
            (paused, Turn::Kill(app()), "Paused paused {\"app\"} disabled {}"),
            (running, Turn::Resume(app()), "database app is not paused"),
            (running, Turn::Disable("app".into()), "Running paused {} disabled {\"app\"}"),
            (running, Turn::Enable("app".into()), "Running paused {} disabled {}"),
        ];
        for (activity, command, expected) in table {
            let mut switches = Switches { activity, ..Switches::default() };
            assert_eq!(after(&mut switches, &command), expected, "{activity:?} {command:?}");
        }
    }

    #[test]
    fn the_console_and_strange_names_are_refused() {
        let mut switches = Switches::default();
        let named = |name: &str| Scope::Database(name.to_owned());
        let mut try_it = |command| after(&mut switches, &command);
        assert_eq!(try_it(Turn::Pause(named("nope"))), "no such database: nope");
        assert_eq!(try_it(Turn::Pause(named("pgbouncer"))), "cannot pause admin db: pgbouncer");
        assert_eq!(try_it(Turn::Disable("pgfleet".into())), "cannot disable admin db: pgfleet");
        assert_eq!(try_it(Turn::Kill(named("pgbouncer"))), "cannot kill admin db: pgbouncer");
        assert_eq!(switches, Switches::default());
    }

    #[test]
    fn nothing_is_resumed_on_the_way_out() {
        let mut switches =
            Switches { activity: Activity::Paused, doors: Doors::Closing, ..Switches::default() };
        assert_eq!(after(&mut switches, &Turn::Resume(all())), "pooler is shutting down");
    }

    #[test]
    fn a_paused_database_that_was_removed_can_be_resumed() {
        let mut switches = Switches::default();
        switches.paused.insert("gone".to_owned());
        let resumed = after(&mut switches, &Turn::Resume(Scope::Database("gone".to_owned())));
        assert_eq!(resumed, "Running paused {} disabled {}");
    }
}
