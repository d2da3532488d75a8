//! Reads the configuration anew and brings it to all workers, or changes nothing.
//!
//! It owns the reload under way. The file is read on a thread of its own, so that the loop goes on; the
//! outcome goes to whoever asked, and to the log. Only the loop in `office` calls it.

use std::rc::Rc;

use pgfleet_config::{
    Key, Kind, Problem, Settings, Workers, changed_needing_restart, worker_count,
};

use super::event::Event;
use super::input::{Done, Input, Refusal};
use super::office::{self, Office};
use super::requests::RELOAD_DEADLINE;
use super::shares::Unprepared;
use crate::log_line;

/// A SET, and who waits for it.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) done: Done,
}

/// What brings new settings.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    File,
    /// SET, in these words.
    Console(String),
}

/// A reload under way.
#[derive(Debug)]
pub(crate) struct Reloading {
    serial: u64,
    source: Source,
    /// None for a reload by signal.
    done: Option<Done>,
    /// The number of workers that the new settings mean.
    count: u16,
    notes: Vec<String>,
    /// What of an earlier SCALE or `--workers` still counts under the new settings.
    asked: Option<Workers>,
}

impl Office {
    /// Begins a reload.
    pub(super) fn reload(&mut self, done: Option<Done>) {
        let refusal = if self.fleet.is_stopping() {
            "the fleet is shutting down"
        } else if self.reloading.is_some() {
            "a reload is under way; repeat RELOAD when it is done"
        } else {
            self.begin_reload(Source::File, done);
            self.notify.reloading();
            // Also when the settings turn out to be wrong: a rotated log must be let go.
            if let Err(error) = log_line::reopen() {
                log::warn!("cannot open logfile anew: {error}; the log goes on where it was");
            }
            let (config, inputs) = (self.config.clone(), self.inputs.clone());
            // Files may be slow: they are read on a thread of their own.
            drop(tokio::task::spawn_local(async move {
                let loading = tokio::task::spawn_blocking(move || pgfleet_config::load(&config));
                if let Ok(loaded) = loading.await {
                    drop(inputs.send(Input::Loaded(loaded.map(Box::new))));
                }
            }));
            return;
        };
        log::warn!("RELOAD refused: {refusal}");
        if let Some(done) = done {
            drop(done.send(Err(Refusal::protocol(refusal))));
        }
    }

    fn begin_reload(&mut self, source: Source, done: Option<Done>) {
        self.reloads += 1;
        self.reloading = Some(Reloading {
            serial: self.reloads,
            source,
            done,
            count: 0,
            notes: Vec::new(),
            asked: None,
        });
    }

    /// Changes one setting until the next reload, as soon as no other change is under way.
    pub(super) fn set(&mut self, setting: Setting) {
        self.settings_to_come.push_back(setting);
        self.next_set();
    }

    fn next_set(&mut self) {
        if self.reloading.is_some() {
            return;
        }
        let Some(Setting { key, value, done }) = self.settings_to_come.pop_front() else { return };
        let is_secret = Key::of(&key).is_some_and(|key| key.kind == Kind::Secret);
        let shown = if is_secret { "***" } else { &value };
        log::info!("SET {key}={shown} command issued");
        self.begin_reload(Source::Console(key.clone()), Some(done));
        let changed = if self.fleet.is_stopping() {
            Err(vec!["the fleet is shutting down".to_owned()])
        } else {
            let faults = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect();
            self.settings.with(&key, &value).map_err(faults)
        };
        match changed {
            Ok(settings) => self.loaded(Ok(settings)),
            Err(reasons) => self.finish_reload(Err(reasons.join("\n"))),
        }
    }

    /// The file has been read: goes on with it, or says what is wrong with it.
    pub(super) fn loaded(&mut self, loaded: Result<Settings, Vec<Problem>>) {
        let checked = loaded.and_then(|settings| {
            let is_rewritten = settings.global.workers != self.settings.global.workers;
            let asked = if is_rewritten { None } else { self.asked };
            let (count, notes) = worker_count(&settings, asked)?;
            Ok((settings, asked, count, notes))
        });
        match checked {
            Ok((mut settings, asked, count, mut notes)) => {
                let is_of_file =
                    self.reloading.as_ref().is_some_and(|it| it.source == Source::File);
                if is_of_file {
                    notes.extend(settings.notes.iter().cloned());
                }
                let waiting = changed_needing_restart(&self.booted, &settings);
                notes.extend(waiting.iter().map(ToString::to_string));
                settings.global.keep_from_start(&self.booted.global);
                if let Some(reloading) = &mut self.reloading {
                    (reloading.count, reloading.notes, reloading.asked) = (count, notes, asked);
                }
                self.send_later(RELOAD_DEADLINE, Input::ReloadDue(self.reloads));
                let steps = self.shares.reload(Rc::new(settings));
                self.carry_out(steps);
            }
            Err(problems) => {
                let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
                self.finish_reload(Err(problems.join("\n")));
            }
        }
    }

    pub(super) fn reload_due(&mut self, serial: u64) {
        if self.reloading.as_ref().is_some_and(|reloading| reloading.serial == serial) {
            let steps = self.shares.expire_reload();
            self.carry_out(steps);
        }
    }

    /// The workers have committed the new settings, or none has.
    pub(super) fn reloaded(&mut self, result: Result<Rc<Settings>, Unprepared>) {
        match result {
            Ok(settings) => {
                self.settings = settings;
                self.credentials.follow(&self.settings);
                self.listeners.defer(self.settings.global.tcp_defer_accept);
                self.events.push_back(Event::Pace(office::pace(&self.settings)));
                if let Some(reloading) = &self.reloading {
                    self.asked = reloading.asked;
                    if reloading.count != self.fleet.wanted() {
                        log::info!(
                            "workers: {} instead of {}",
                            reloading.count,
                            self.fleet.wanted()
                        );
                        self.events.push_back(Event::Scale(reloading.count));
                    }
                }
                let sink = super::start::sink(&self.settings, self.errors);
                if let Err(error) = log_line::supervisor(sink) {
                    log::warn!("cannot open logfile: {error}; the log goes on where it was");
                }
                self.finish_reload(Ok(()));
            }
            Err(unprepared) => self.finish_reload(Err(unprepared.to_string())),
        }
    }

    fn finish_reload(&mut self, result: Result<(), String>) {
        let Some(reloading) = self.reloading.take() else { return };
        let what = match &reloading.source {
            Source::File => {
                self.notify.ready(&self.status_line());
                "RELOAD"
            }
            Source::Console(_) => "SET",
        };
        match &result {
            Ok(()) => {
                log::info!("{what} done");
                reloading.notes.iter().for_each(|note| log::info!("{note}"));
            }
            Err(reason) => {
                for line in reason.lines() {
                    log::error!("{what} failed, nothing has changed: {line}");
                }
            }
        }
        if let Some(done) = reloading.done {
            let notices = reloading.notes;
            let result = result.map(|()| notices);
            // Who asked may have gone away.
            drop(done.send(result.map_err(|reason| refusal(&reloading.source, &reason))));
        }
        self.next_set();
    }
}

/// PgBouncer's text. What it says in the log alone stands behind it, or in notices before it.
fn refusal(source: &Source, reason: &str) -> Refusal {
    match source {
        Source::File => Refusal::config(format!(
            "RELOAD failed, see logs for additional details; nothing has changed: {reason}"
        )),
        Source::Console(key) => {
            let mut notices: Vec<String> = reason.lines().map(str::to_owned).collect();
            if key.contains("_tls_") {
                let text = "TLS settings could not be applied, still using old configuration";
                notices.push(text.to_owned());
            }
            Refusal { notices, ..Refusal::protocol("SET failed") }
        }
    }
}
