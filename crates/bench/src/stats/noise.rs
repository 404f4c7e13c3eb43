//! What disturbs a measurement, counted beside it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::machine::{self, CpuTimes};

/// Above this much of the CPUs' time taken by others on the host, in percent, a measurement gives
/// no verdict.
pub const MAX_STEAL_PERCENT: f64 = 5.0;

/// Counts from its creation on.
#[derive(Clone, Debug)]
pub struct NoiseMeter {
    begin: Instant,
    times: Option<CpuTimes>,
    switches: Option<u64>,
}

/// What disturbed a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// How long it took, in s.
    pub seconds: f64,
    /// How much of the CPU time that was wanted the host gave to others, in percent; `None` where
    /// the system does not say.
    pub steal_percent: Option<f64>,
    /// How often a thread of this process, or of child processes that have ended, lost its CPU to
    /// another; `None` where the system does not say.
    pub involuntary: Option<u64>,
}

impl NoiseMeter {
    /// Begins to count.
    #[must_use]
    pub fn start() -> Self {
        NoiseMeter {
            begin: Instant::now(),
            times: machine::cpu_times(),
            switches: machine::involuntary_switches(),
        }
    }

    /// Returns what was counted since.
    pub fn read(&self) -> Noise {
        let times = machine::cpu_times().zip(self.times);
        let switches = machine::involuntary_switches().zip(self.switches);
        Noise {
            seconds: self.begin.elapsed().as_secs_f64(),
            steal_percent: times.map(|(end, begin)| end.steal_percent_since(begin)),
            involuntary: switches.map(|(end, begin)| end.saturating_sub(begin)),
        }
    }
}

impl Noise {
    /// Returns whether others on the host took so much that comparisons mean nothing.
    pub fn is_too_noisy(&self) -> bool {
        self.steal_percent
            .is_some_and(|steal| steal > MAX_STEAL_PERCENT)
    }

    /// Returns one line of text.
    pub fn line(&self) -> String {
        let steal = self.steal_percent.map_or("unknown".to_owned(), |steal| {
            format!("{steal:.1} % of the CPU time")
        });
        let switches = self.involuntary.map_or("unknown".to_owned(), |count| {
            let rate = count as f64 / self.seconds.max(1e-9);
            format!("{count} ({rate:.0}/s)")
        });
        let verdict = if self.is_too_noisy() {
            format!(
                "; too noisy to tell (more than {MAX_STEAL_PERCENT} % stolen): no difference is \
                 called significant"
            )
        } else {
            String::new()
        };
        format!("noise: steal {steal}; involuntary switches {switches}{verdict}")
    }

    pub(super) fn to_json(self) -> Value {
        json!({
            "seconds": self.seconds,
            "steal_percent": self.steal_percent,
            "involuntary_switches": self.involuntary,
            "is_too_noisy": self.is_too_noisy(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_known() {
        let mut noise = Noise {
            seconds: 2.0,
            steal_percent: Some(1.25),
            involuntary: Some(30),
        };
        let line = "noise: steal 1.2 % of the CPU time; involuntary switches 30 (15/s)";
        assert_eq!(noise.line(), line);
        noise.steal_percent = Some(MAX_STEAL_PERCENT + 0.1);
        assert!(noise.is_too_noisy() && noise.line().contains("too noisy to tell"));
        noise.steal_percent = None;
        noise.involuntary = None;
        let line = "noise: steal unknown; involuntary switches unknown";
        assert_eq!(noise.line(), line);
    }
}
