//! Progress on a terminal. Nothing is drawn if stderr is not a terminal, or with `--quiet`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;

/// A progress bar or a spinner on stderr.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar for work whose size is found on the way: call [`Self::expect`].
    pub fn files(quiet: bool, what: &'static str) -> Self {
        Self::with(
            quiet,
            what,
            "{prefix} [{bar:30}] {human_pos}/{human_len} {per_sec} {msg} eta {eta}",
        )
    }

    /// Creates a spinner for work of unknown size.
    pub fn rows(quiet: bool, what: &'static str) -> Self {
        Self::with(
            quiet,
            what,
            "{spinner} {prefix} {human_pos} {per_sec} {msg}",
        )
    }

    fn with(quiet: bool, what: &'static str, template: &str) -> Self {
        let hidden = quiet || !std::io::stderr().is_terminal();
        let target = if hidden {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(5)
        };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(what);
        Self(bar)
    }

    /// Adds to the number of items to process.
    pub fn expect(&self, more: u64) {
        self.0.inc_length(more);
    }

    /// Adds to the number of processed items.
    pub fn advance(&self, more: u64) {
        self.0.inc(more);
    }

    /// Sets the number of processed items.
    pub fn at(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Sets the text about the current item.
    pub fn message(&self, text: String) {
        self.0.set_message(text);
    }

    /// Prints a line on stderr above the bar.
    pub fn above(&self, print: impl FnOnce()) {
        self.0.suspend(print);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
