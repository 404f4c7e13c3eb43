//! The progress bar and the status line: on standard error, and only when that is a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over the warm-up and the measurement, or nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Makes the bar for a run of this length, if it is wanted and there is a terminal.
    pub(crate) fn new(total: Duration, is_wanted: bool) -> Self {
        let is_shown = is_wanted && std::io::stderr().is_terminal();
        let bar = is_shown.then(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(millis(total)), target);
            let template = "{msg:10} [{bar:40}] {percent:>3} %";
            let style = ProgressStyle::with_template(template).expect("the template is valid");
            bar.with_style(style.progress_chars("=> "))
        });
        Self { bar }
    }

    /// Shows how far the run is, and in what phase.
    pub(crate) fn set(&self, elapsed: Duration, phase: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_message(phase);
            bar.set_position(millis(elapsed));
        }
    }

    /// Removes the bar, so that the results begin on a clean line.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line that says what is being done, or nothing.
#[derive(Debug)]
pub(crate) struct Status {
    bar: Option<ProgressBar>,
}

impl Status {
    /// Makes the line, if there is a terminal.
    pub(crate) fn new() -> Self {
        let is_shown = std::io::stderr().is_terminal();
        let bar = is_shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.with_style(ProgressStyle::with_template("{msg}").expect("the template is valid"))
        });
        Self { bar }
    }

    /// Says what is done from now on.
    pub(crate) fn set(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
    }

    /// Removes the line, so that the results begin on a clean one.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
