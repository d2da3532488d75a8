//! The sign of life while something takes its time.
//!
//! It owns the spinner and the bar on standard error, and never writes where there is no terminal.
//! `Screen` makes it; dropping it clears the line, so that errors and results stand alone.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const TICK: Duration = Duration::from_millis(100);

/// A running sign of life.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Nothing is shown.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// A spinner with a text.
    pub(crate) fn spinner(text: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        // Every locale can show these.
        bar.set_style(ProgressStyle::default_spinner().tick_chars("-\\|/ "));
        bar.set_message(text.to_owned());
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// A bar with a number of steps and a text.
    pub(crate) fn bar(steps: u64, text: &str) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(text.to_owned());
        Self(bar)
    }

    /// Changes the text.
    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// One step of the bar is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
