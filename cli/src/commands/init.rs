//! `pgfleet init`: a commented configuration that starts as it is.
//!
//! It owns the two files that it writes, the configuration and the user list, and never replaces either unless it is
//! told to (and never a user list). `commands` calls it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::{User, chown, geteuid};
use pgfleet_config::{AuthType, PoolMode, SampleOptions, closed_to, load, sample};

use crate::args::{Global, Init};
use crate::exit::Failure;
use crate::render::Outcome;
use crate::screen::Screen;

mod from;

/// The name of the admin user.
const ADMIN: &str = "pgfleet";

/// Whom the daemon becomes when root starts it: the first of these that exists.
const DAEMON_USERS: [&str; 3] = ["pgfleet", "postgres", "nobody"];

/// Where everything goes.
struct Files {
    configuration: PathBuf,
    userlist: PathBuf,
    log: PathBuf,
}

/// Writes the files, and says what is in them.
pub(super) fn run(init: &Init, global: &Global, screen: &Screen) -> Result<(), Failure> {
    let files = files(init, global)?;
    if !init.force && files.configuration.exists() {
        return Err(Failure::Refused(format!(
            "{} exists; replace it with --force, or name another file with --output",
            files.configuration.display()
        )));
    }
    let owner = daemon_user()?;
    if let Some(ini) = &init.from {
        return from::run(ini, init.from_processes, &files.configuration, owner, screen);
    }
    enterable(&files.configuration, owner.as_ref())?;
    let text = text(init, &files, owner.as_ref());
    let made = make_userlist(&files.userlist, owner.as_ref())?;
    if let Err(failure) = place(&text, &files.configuration, owner.as_ref()) {
        if made == Userlist::Made {
            // It belongs to a configuration that there is not; the failure is the thing to report.
            let _leftover = fs::remove_file(&files.userlist);
        }
        return Err(failure);
    }
    report(&files, made, screen)
}

/// Root's daemon reads its files as another user.
fn enterable(configuration: &Path, owner: Option<&User>) -> Result<(), Failure> {
    let closed = owner.and_then(|owner| Some((owner, closed_to(&owner.name, configuration)?)));
    closed.map_or(Ok(()), |(owner, dir)| {
        Err(Failure::Refused(format!(
            "the daemon would run as {}, who cannot enter {}; write to a directory that it can enter, for example with \
             --output /etc/pgfleet/pgfleet.toml",
            owner.name,
            dir.display()
        )))
    })
}

fn files(init: &Init, global: &Global) -> Result<Files, Failure> {
    let given = init.output.as_ref().or(global.config.as_ref());
    let named = given.cloned().unwrap_or_else(|| PathBuf::from("pgfleet.toml"));
    let configuration =
        std::path::absolute(&named).map_err(Failure::system("find the current directory"))?;
    if configuration.extension().is_some_and(|extension| extension == "ini") {
        return Err(Failure::Usage(format!(
            "{} would be read as a pgbouncer.ini; give the file a name in .toml",
            named.display()
        )));
    }
    let userlist = configuration.with_file_name("userlist.txt");
    let log = configuration.with_extension("log");
    Ok(Files { configuration, userlist, log })
}

/// Root's daemon runs as another user, who must be able to read the files.
fn daemon_user() -> Result<Option<User>, Failure> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let found = DAEMON_USERS.iter().find_map(|name| User::from_name(name).ok().flatten());
    found.map(Some).ok_or_else(|| {
        Failure::Refused(
            "there is no user that a daemon of root could become; make one named pgfleet"
                .to_owned(),
        )
    })
}

fn text(init: &Init, files: &Files, owner: Option<&User>) -> String {
    let mut databases: Vec<(String, String)> = init
        .database
        .iter()
        .map(|database| (database.name.clone(), database.conninfo.clone()))
        .collect();
    if databases.is_empty() {
        databases.push(("*".to_owned(), "host=127.0.0.1 port=5432".to_owned()));
    }
    let text = sample(&SampleOptions {
        databases,
        listen: Some((init.listen.address.clone(), init.listen.port)),
        workers: Some(init.workers),
        auth_type: AuthType::ScramSha256,
        auth_file: Some(files.userlist.clone()),
        admin_users: vec![ADMIN.to_owned()],
        runtime_dir: None,
        pool_mode: PoolMode::Transaction,
    });
    let text = set(&text, "logfile", &files.log.display().to_string());
    match owner {
        Some(owner) => set(&text, "user", &owner.name),
        None => text,
    }
}

/// Sets a key that stands as a comment with its default.
fn set(text: &str, key: &str, value: &str) -> String {
    let comment = format!("#{key} = ");
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
    let line = |line: &str| match line.starts_with(&comment) {
        true => format!("{key} = \"{quoted}\"\n"),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// What became of the user list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Userlist {
    /// It was written, with an admin user.
    Made,
    /// There was one, and it was left alone.
    Kept,
}

fn make_userlist(path: &Path, owner: Option<&User>) -> Result<Userlist, Failure> {
    let failed = || Failure::system(format!("write {}", path.display()));
    let text = format!(
        "; The users of pgfleet: a name and a secret on each line. The secret is the password, or a SCRAM or md5 secret\n\
         ; from pg_authid. The first user may also use the console.\n\
         \"{ADMIN}\" \"{}\"\n",
        password()?
    );
    match new_file(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).map_err(failed())?;
            give(path, owner)?;
            Ok(Userlist::Made)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Userlist::Kept),
        Err(error) => Err(failed()(error)),
    }
}

/// Writes the configuration beside its place, checks it there, and moves it only if it has no problems.
fn place(text: &str, path: &Path, owner: Option<&User>) -> Result<(), Failure> {
    let failed = || Failure::system(format!("write {}", path.display()));
    let draft = path.with_extension(format!("{}.toml", std::process::id()));
    let written = new_file(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .map_err(failed())
        .and_then(|()| give(&draft, owner))
        .and_then(|()| check(&draft, path))
        .and_then(|()| fs::rename(&draft, path).map_err(failed()));
    if written.is_err() {
        // The draft may never have come to be; the failure is the thing to report.
        let _leftover = fs::remove_file(&draft);
    }
    written
}

fn check(draft: &Path, path: &Path) -> Result<(), Failure> {
    let Err(mut problems) = load(draft).map(drop) else {
        return Ok(());
    };
    for problem in &mut problems {
        if problem.file.as_deref() == Some(draft) {
            problem.file = Some(path.to_owned());
        }
    }
    Err(Failure::Configuration { file: path.to_owned(), problems })
}

/// A file that only its owner can read, and that was not there before.
fn new_file(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn give(path: &Path, owner: Option<&User>) -> Result<(), Failure> {
    let Some(owner) = owner else { return Ok(()) };
    chown(path, Some(owner.uid), Some(owner.gid))
        .map_err(io::Error::from)
        .map_err(Failure::system(format!("give {} to {}", path.display(), owner.name)))
}

/// 128 random bits in letters and digits.
fn password() -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Refused(format!("cannot make a password: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn report(files: &Files, made: Userlist, screen: &Screen) -> Result<(), Failure> {
    let configuration = files.configuration.display().to_string();
    let userlist = files.userlist.display().to_string();
    let users = match made {
        Userlist::Made => format!(
            "wrote {userlist}: the admin user {ADMIN} with its password; add your users there"
        ),
        Userlist::Kept => {
            format!("kept {userlist} as it was; the admin user is {ADMIN}, if it is in there")
        }
    };
    let sentence = format!(
        "wrote {configuration}\n{users}\nclients share servers between transactions (pool_mode); start with: pgfleet start"
    );
    screen.outcome(
        &Outcome::new(sentence)
            .with("state", "written")
            .with("configuration", configuration)
            .with("userlist", userlist)
            .with("admin_user", ADMIN),
    )
}

#[cfg(test)]
mod tests;
