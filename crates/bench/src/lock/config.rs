//! The settings of the experiment.

use std::time::Duration;

use super::Error;

/// Sets up the lock experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    contenders: usize,
    cpus: usize,
    duration: Duration,
    section: Duration,
    outside: Duration,
    rounds: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config::new()
    }
}

impl Config {
    /// Returns the kernel authors' settings: one contender more than this process has CPUs, one
    /// round of 5 s for each subject, sections of 20 µs, no work outside the lock.
    pub fn new() -> Config {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Config {
            contenders: cpus + 1,
            cpus,
            duration: Duration::from_secs(5),
            section: Duration::from_micros(20),
            outside: Duration::ZERO,
            rounds: 1,
        }
    }

    /// Sets how many contenders share the lock; from 2, since one alone would wait for ever for
    /// another to raise the counter.
    #[must_use]
    pub fn with_contenders(self, contenders: usize) -> Config {
        Config { contenders, ..self }
    }

    /// Sets how long one round of one subject lasts; from 1 ms.
    #[must_use]
    pub fn with_duration(self, duration: Duration) -> Config {
        Config { duration, ..self }
    }

    /// Sets how long a contender works while it holds the lock; at most a second. It is an amount
    /// of work, measured beforehand: a contender that loses its CPU has the rest still to do.
    #[must_use]
    pub fn with_section(self, section: Duration) -> Config {
        Config { section, ..self }
    }

    /// Sets how long a contender works between two sections, after the counter has moved; at most
    /// a second.
    #[must_use]
    pub fn with_outside(self, outside: Duration) -> Config {
        Config { outside, ..self }
    }

    /// Sets how many rounds each subject gets; from 1.
    #[must_use]
    pub fn with_rounds(self, rounds: usize) -> Config {
        Config { rounds, ..self }
    }

    /// Returns how many contenders share the lock.
    pub fn contenders(&self) -> usize {
        self.contenders
    }

    /// Returns how many CPUs this process may use.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns how long one round of one subject lasts.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Returns how long a contender works while it holds the lock.
    pub fn section(&self) -> Duration {
        self.section
    }

    /// Returns how long a contender works between two sections.
    pub fn outside(&self) -> Duration {
        self.outside
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
        let second = Duration::from_secs(1);
        if self.contenders < 2 {
            return Err(Error::config("contenders", self.contenders, "2 or more"));
        }
        if self.duration < Duration::from_millis(1) {
            let given = format!("{:?}", self.duration);
            return Err(Error::config("duration", given, "1 ms or more"));
        }
        for (knob, value) in [("section", self.section), ("outside", self.outside)] {
            if value > second {
                return Err(Error::config(knob, format!("{value:?}"), "at most 1 s"));
            }
        }
        if self.rounds == 0 {
            return Err(Error::config("rounds", self.rounds, "1 or more"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_outside_their_limits_are_named() {
        let good = Config::new();
        assert!(good.check().is_ok());
        for (config, knob) in [
            (good.with_contenders(1), "contenders is 1"),
            (good.with_duration(Duration::ZERO), "duration is 0ns"),
            (good.with_section(Duration::from_secs(2)), "section is 2s"),
            (good.with_outside(Duration::from_secs(2)), "outside is 2s"),
            (good.with_rounds(0), "rounds is 0"),
        ] {
            let error = config.check().expect_err(knob);
            assert!(error.is_config());
            assert!(error.to_string().starts_with(knob), "{error}");
        }
    }
}
