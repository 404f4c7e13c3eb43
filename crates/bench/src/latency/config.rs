//! The settings of the experiment.

use std::time::Duration;

use super::Error;

/// Sets up the latency experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    workers: usize,
    hogs: usize,
    poll: Duration,
    duration: Duration,
    rounds: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// Returns the settings of the figures in the documents: 4 hogs in polls of 5 ms, one round of
    /// 5 s for each subject, and a worker for each CPU of this process.
    pub fn new() -> Config {
        Config {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            hogs: 4,
            poll: Duration::from_millis(5),
            duration: Duration::from_secs(5),
            rounds: 1,
        }
    }

    /// Sets how many tasks compute; from 1.
    #[must_use]
    pub fn with_hogs(self, hogs: usize) -> Config {
        Config { hogs, ..self }
    }

    /// Sets how long a hog computes before it yields; 20 µs to a minute. It is an amount of work,
    /// measured beforehand. Hogs end with the round, also in the middle of a poll.
    #[must_use]
    pub fn with_poll(self, poll: Duration) -> Config {
        Config { poll, ..self }
    }

    /// Sets how long one round of one subject lasts, 20 ms to a minute; a tenth of a second that
    /// does not count comes before it.
    #[must_use]
    pub fn with_duration(self, duration: Duration) -> Config {
        Config { duration, ..self }
    }

    /// Sets how many rounds each subject gets; from 1.
    #[must_use]
    pub fn with_rounds(self, rounds: usize) -> Config {
        Config { rounds, ..self }
    }

    /// Returns how many workers each runtime has.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns how many tasks compute.
    pub fn hogs(&self) -> usize {
        self.hogs
    }

    /// Returns how long a hog computes before it yields.
    pub fn poll(&self) -> Duration {
        self.poll
    }

    /// Returns how long one round of one subject lasts.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns how many rounds each subject gets.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// The first setting that is outside its limits, with what is allowed.
    pub fn check(&self) -> Result<(), Error> {
        if self.hogs == 0 {
            return Err(Error::config("hogs", self.hogs, "1 or more"));
        }
        check_poll("poll", self.poll)?;
        check_duration(self.duration)?;
        if self.rounds == 0 {
            return Err(Error::config("rounds", self.rounds, "1 or more"));
        }
        Ok(())
    }
}

/// Checks the length of a poll.
pub(super) fn check_poll(knob: &str, poll: Duration) -> Result<(), Error> {
    let allowed = Duration::from_micros(20)..=Duration::from_secs(60);
    if allowed.contains(&poll) {
        return Ok(());
    }
    Err(Error::config(knob, format!("{poll:?}"), "20 µs to 1 min"))
}

/// Checks the length of a round.
pub(super) fn check_duration(duration: Duration) -> Result<(), Error> {
    let allowed = Duration::from_millis(20)..=Duration::from_secs(60);
    if allowed.contains(&duration) {
        return Ok(());
    }
    let given = format!("{duration:?}");
    Err(Error::config("duration", given, "20 ms to 1 min"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_limits_are_named() {
        let good = Config::new();
        assert!(good.check().is_ok());
        for (config, knob) in [
            (good.with_hogs(0), "hogs is 0"),
            (good.with_poll(Duration::ZERO), "poll is 0ns"),
            (good.with_duration(Duration::ZERO), "duration is 0ns"),
            (
                good.with_duration(Duration::from_secs(61)),
                "duration is 61s",
            ),
            (good.with_rounds(0), "rounds is 0"),
        ] {
            let error = config.check().expect_err(knob);
            assert!(error.is_config());
            assert!(error.to_string().starts_with(knob), "{error}");
        }
    }
}
