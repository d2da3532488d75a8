//! What must fit together: the contradictions that no single value shows.
//! It reads the settings and the permissions of files, and changes nothing.
//! The draft calls it last, so that all problems come at once.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    Database, Problem, Settings,
    fault::Fault,
    limits, paths,
    problem::{Place, Places},
};

/// The longest path of a Unix socket.
const LONGEST_SOCKET: usize = 107;

/// A problem for each contradiction.
pub(crate) fn check(settings: &Settings, places: &Places) -> Vec<Problem> {
    let mut check = Check { settings, places, problems: Vec::new() };
    check.listeners();
    check.sockets();
    check.ranges();
    check.pools();
    check.auth();
    check.passwords();
    check.workers();
    check.resolver();
    check.problems
}

/// Whether anyone but owner and group may read, write or run the file.
pub(crate) fn open_to_others(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

pub(crate) struct Check<'a> {
    pub(crate) settings: &'a Settings,
    places: &'a Places,
    pub(crate) problems: Vec<Problem>,
}

impl Check<'_> {
    pub(crate) fn add(&mut self, key: &str, reason: impl Into<String>, remedy: impl Into<String>) {
        self.problems.push(self.places.problem(key, Fault::new(reason, remedy)));
    }

    pub(crate) fn databases(&self) -> impl Iterator<Item = &Database> {
        self.settings.databases.values().chain(&self.settings.fallback)
    }

    fn listeners(&mut self) {
        let global = &self.settings.global;
        if global.listen_addr.is_empty() && global.unix_socket_dir.is_none() {
            let remedy = "set listen_addr, or set unix_socket_dir to a directory or to \"auto\"";
            self.add(
                "listen_addr",
                "there is nothing to listen on: listen_addr and unix_socket_dir are both empty",
                remedy,
            );
        }
    }

    fn sockets(&mut self) {
        let global = &self.settings.global;
        let name = format!(".s.PGSQL.{}", global.listen_port);
        let console = paths::console_dir(&paths::runtime_dir(self.settings));
        let dirs =
            [("unix_socket_dir", global.unix_socket_dir.clone()), ("runtime_dir", Some(console))];
        for (key, dir) in dirs {
            let length = dir.map_or(0, |dir| dir.join(&name).as_os_str().len());
            if length > LONGEST_SOCKET {
                let reason = format!(
                    "the path of the socket {name} in it has {length} bytes, and the system takes {LONGEST_SOCKET}"
                );
                self.add(key, reason, "choose a shorter path");
            }
        }
    }

    fn ranges(&mut self) {
        let global = &self.settings.global;
        if global.max_client_conn == 0 {
            self.add(
                "max_client_conn",
                "must be at least 1, or no client could connect",
                "write, for example, 100",
            );
        }
        if global.scram_iterations == 0 {
            self.add("scram_iterations", "must be at least 1", "remove it for 4096");
        }
        for (key, period) in
            [("stats_period", global.stats_period), ("heartbeat_timeout", global.heartbeat_timeout)]
        {
            if period.is_zero() {
                self.add(key, "must be more than 0", "write, for example, \"60s\"");
            }
        }
    }

    fn pools(&mut self) {
        let global = &self.settings.global;
        let remedy = |size: u32| format!("lower it to {size} or less, or raise the pool size");
        let mut found = Vec::new();
        if exceeds(global.min_pool_size, global.default_pool_size) {
            let reason = format!(
                "{} is more than default_pool_size = {}",
                global.min_pool_size, global.default_pool_size
            );
            found.push(("min_pool_size".to_owned(), reason, remedy(global.default_pool_size)));
        }
        for db in self.databases().filter(|db| db.min_pool_size.or(db.pool_size).is_some()) {
            let (least, size) =
                (self.settings.min_pool_size(db), db.pool_size.unwrap_or(global.default_pool_size));
            if exceeds(least, size) {
                let reason = format!("the minimum of {least} is more than the pool size of {size}");
                found.push((format!("databases.{}.min_pool_size", db.name), reason, remedy(size)));
            }
        }
        found.into_iter().for_each(|(key, reason, remedy)| self.add(&key, reason, remedy));
    }

    /// A file that holds passwords must not be readable by others; one problem for each such file.
    fn passwords(&mut self) {
        let mut files: BTreeMap<_, Option<usize>> = BTreeMap::new();
        for db in self.databases().filter(|db| db.password.is_some()) {
            if let Place::Line(file, line) =
                self.places.of(&format!("databases.{}.password", db.name))
            {
                let first = files.entry(file).or_insert(line);
                *first = (*first).min(line);
            }
        }
        for (file, line) in files.into_iter().filter(|(file, _)| open_to_others(file)) {
            let remedy =
                format!("run chmod 640 {}, or move the password to auth_file", file.display());
            let fault = Fault::new("others can read this file, and it holds a password", remedy);
            self.problems.push(Problem::in_file(&file, line, fault));
        }
    }

    /// The workers read it, and would look names up somewhere else in silence.
    fn resolver(&mut self) {
        if let Some(file) = &self.settings.global.resolv_conf
            && let Err(error) = fs::read(file)
        {
            let reason = format!("cannot read {}: {error}", file.display());
            self.add(
                "resolv_conf",
                reason,
                "name a file that can be read, or remove it for /etc/resolv.conf",
            );
        }
    }

    /// A number of workers in the file must fit the limits in the file.
    fn workers(&mut self) {
        for problem in limits::worker_count(self.settings, None).err().unwrap_or_default() {
            self.add(&problem.key.unwrap_or_default(), problem.reason, problem.remedy);
        }
    }
}

fn exceeds(least: u32, size: u32) -> bool {
    size > 0 && least > size
}
