//! Settings in the making: the merged values become typed, with every fault noted where its value stands.
//! It never decides what fits together; that is for the checks, which run last.
//! `load` makes one for each loading.

use std::path::{Path, PathBuf};

use config::{Map, Value, ValueKind};

use crate::{
    AuthType, Database, Problem, Settings, User, check, conninfo,
    fault::Fault,
    hba,
    key::{Key, Reload},
    layer::{Format, HEADER, Layer},
    notes, paths,
    problem::{Place, Places},
    raw::Raw,
    refuse, userlist,
};

/// The databases that the console answers for.
const RESERVED: [&str; 2] = ["pgbouncer", "pgfleet"];

/// What has been read so far.
pub(crate) struct Draft {
    main: PathBuf,
    settings: Settings,
    places: Places,
    problems: Vec<Problem>,
}

impl Draft {
    pub(crate) fn new(main: &Path, layer: &Layer) -> Self {
        let settings = Settings { files: layer.files.clone(), ..Settings::default() };
        Self {
            main: main.to_owned(),
            settings,
            places: Places::new(main),
            problems: layer.problems.clone(),
        }
    }

    /// Begins with settings that are in force.
    pub(crate) fn of(settings: &Settings) -> Self {
        let main = settings.files.first().cloned().unwrap_or_default();
        Self { places: Places::new(&main), main, settings: settings.clone(), problems: Vec::new() }
    }

    /// Changes one key, and reads the file anew that it names.
    pub(crate) fn change(mut self, key: &str, value: &str) -> Result<Settings, Vec<Problem>> {
        let set = match Key::of(key) {
            Some(Key { reload: Reload::Restart, .. }) => {
                let reason = "it can only be changed by a new start";
                Err(Fault::new(reason, "write it to the configuration, and start the fleet anew"))
            }
            Some(_) | None => self.settings.global.set(key, &Raw::text(value)),
        };
        self.note(key, set);
        match key {
            "auth_file" => {
                let file = self.settings.global.auth_file.clone();
                self.settings.userlist =
                    file.map(|file| userlist::read(&file, &mut self.problems)).unwrap_or_default();
            }
            "auth_type" | "auth_hba_file" | "auth_ident_file" | "auth_ldap_options" => self.rules(),
            _ => {}
        }
        self.checked()
    }

    /// Takes the merged values over.
    pub(crate) fn fill(&mut self, values: &Map<String, Value>) {
        for (name, value) in values {
            match (name.as_str(), &value.kind) {
                ("databases", ValueKind::Table(entries)) => {
                    entries.iter().for_each(|(name, value)| self.database(name, value))
                }
                ("users", ValueKind::Table(entries)) => {
                    entries.iter().for_each(|(name, value)| self.user(name, value))
                }
                ("peers", _) => self.places.put("peers", Place::of(value.origin())),
                (key, _) => {
                    self.places.put(key, Place::of(value.origin()));
                    let set = self.settings.global.set(key, &Raw::from(value));
                    self.note(key, set);
                }
            }
        }
    }

    fn note(&mut self, key: &str, result: Result<(), Fault>) {
        if let Err(fault) = result {
            self.problems.push(self.places.problem(key, fault));
        }
    }

    fn database(&mut self, name: &str, value: &Value) {
        let path = format!("databases.{name}");
        let mut database = Database::new(name);
        for (key, raw) in self.pairs(&path, value) {
            let set = database.set(&key, &raw);
            self.note(&format!("{path}.{key}"), set);
        }
        if RESERVED.contains(&name) {
            let fault = Fault::new(
                "this name is reserved for the console",
                "give the database another name, and the real one as dbname=",
            );
            self.problems.push(self.places.problem(&path, fault));
        } else if name == "*" {
            self.settings.fallback = Some(database);
        } else {
            self.settings.databases.insert(name.to_owned(), database);
        }
    }

    fn user(&mut self, name: &str, value: &Value) {
        let path = format!("users.{name}");
        let mut user = User::new(name);
        for (key, raw) in self.pairs(&path, value) {
            let set = user.set(&key, &raw);
            self.note(&format!("{path}.{key}"), set);
        }
        self.settings.users.insert(name.to_owned(), user);
    }

    /// The keys of an entry, from a table or from a connection string.
    fn pairs(&mut self, path: &str, value: &Value) -> Vec<(String, Raw)> {
        let ValueKind::Table(table) = &value.kind else {
            self.places.put(path, Place::of(value.origin()));
            let Raw::Text(text) = Raw::from(value) else {
                return Vec::new();
            };
            let pairs = conninfo::pairs(&text).unwrap_or_else(|fault| {
                self.note(path, Err(fault));
                Vec::new()
            });
            return pairs.into_iter().map(|(key, value)| (key, Raw::Text(value))).collect();
        };
        self.places.put(path, Place::of(table.get(HEADER).and_then(Value::origin)));
        let mut pairs: Vec<_> = table.iter().filter(|(key, _)| *key != HEADER).collect();
        pairs.sort_by_key(|(key, _)| *key);
        for (key, value) in &pairs {
            self.places.put(&format!("{path}.{key}"), Place::of(value.origin()));
        }
        pairs.into_iter().map(|(key, value)| (key.clone(), Raw::from(value))).collect()
    }

    /// Fills in what depends on the machine, reads the auth file, checks and notes.
    pub(crate) fn finish(
        mut self,
        format: Format,
        notes: Vec<String>,
    ) -> Result<Settings, Vec<Problem>> {
        let global = &mut self.settings.global;
        global.conffile.get_or_insert_with(|| self.main.clone());
        if format == Format::Ini && self.places.is_set("unix_socket_dir") {
            self.default_hosts();
        }
        let runtime = paths::runtime_dir(&self.settings);
        let global = &mut self.settings.global;
        if global.unix_socket_dir.as_deref().is_some_and(paths::is_auto) {
            global.unix_socket_dir = Some(runtime.clone());
        }
        global.runtime_dir = Some(runtime);
        if let Some(file) = global.auth_file.clone() {
            self.settings.userlist = userlist::read(&file, &mut self.problems);
            self.settings.files.push(file);
        }
        self.rules();
        let notes = [notes, notes::notes(&self.settings, &self.places, format)].concat();
        let mut settings = self.checked()?;
        settings.notes = notes;
        Ok(settings)
    }

    /// The settings, if nothing is wrong with them.
    fn checked(mut self) -> Result<Settings, Vec<Problem>> {
        let found = [
            check::check(&self.settings, &self.places),
            refuse::refuse(&self.settings, &self.places),
        ]
        .concat();
        // A key that could not be read has its default, which may contradict others: one problem for each key is enough.
        let read = self.problems.clone();
        self.problems.extend(found.into_iter().filter(|problem| {
            problem.key.is_none() || read.iter().all(|earlier| earlier.key != problem.key)
        }));
        if self.problems.is_empty() {
            return Ok(self.settings);
        }
        let order = |problem: &Problem| (problem.file.clone(), problem.line, problem.key.clone());
        self.problems.sort_by_cached_key(order);
        Err(self.problems)
    }

    /// Reads the files and options of the authentication methods, where the method uses them.
    fn rules(&mut self) {
        let global = &self.settings.global;
        let auth_type = global.auth_type;
        if auth_type == AuthType::Hba {
            if let Some(file) = global.auth_hba_file.clone() {
                self.settings.hba = hba::read_rules(&file, &mut self.problems);
                self.settings.files.push(file);
            }
            if let Some(file) = self.settings.global.auth_ident_file.clone() {
                self.settings.ident = hba::read_maps(&file, &mut self.problems);
                self.settings.files.push(file);
            }
        }
        if auth_type == AuthType::Ldap
            && let Some(text) = &self.settings.global.auth_ldap_options
        {
            match hba::read_ldap_options(text.expose()) {
                Ok(options) => self.settings.ldap = Some(options),
                Err(fault) => self.note("auth_ldap_options", Err(fault)),
            }
        }
    }

    /// PgBouncer looks for servers without a host in its own socket directory, where an ini file names one.
    fn default_hosts(&mut self) {
        let Some(dir) =
            self.settings.global.unix_socket_dir.as_deref().filter(|dir| !paths::is_auto(dir))
        else {
            return;
        };
        let dir = dir.display().to_string();
        for database in self.settings.databases.values_mut().chain(&mut self.settings.fallback) {
            if database.hosts.is_empty() {
                database.hosts.push(dir.clone());
            }
        }
    }
}
