//! What `/proc` says about the machine.

use std::fs;

use serde_json::{Value, json};

/// The machine, as reports name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name; empty where the system does not say.
    pub cpu: String,
    /// How many CPUs this process may use.
    pub cpus: usize,
    /// The operating system and, on Linux, the kernel's release.
    pub system: String,
    /// The architecture.
    pub arch: &'static str,
    /// When it was asked, UTC.
    pub date: String,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu: field(&info, "model name").unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{} {}", std::env::consts::OS, release.trim())
                .trim()
                .to_owned(),
            arch: std::env::consts::ARCH,
            date: super::date::now(),
        }
    }

    /// Returns one line of text.
    pub fn line(&self) -> String {
        let Machine {
            cpu,
            cpus,
            system,
            arch,
            date,
        } = self;
        let cpu = if cpu.is_empty() {
            "unknown processor"
        } else {
            cpu
        };
        let plural = if *cpus == 1 { "CPU" } else { "CPUs" };
        format!("machine: {cpu}, {cpus} {plural}, {arch}, {system}, {date}")
    }

    /// Returns it as an object.
    pub fn to_json(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "cpus": self.cpus,
            "system": self.system,
            "arch": self.arch,
            "date": self.date,
        })
    }
}

/// Returns what stands behind the first `name : ` of a text.
fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(value.trim().to_owned())
}

/// What all CPUs of the machine have done since it started, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// User, nice, system, and both kinds of interrupt time.
    busy: u64,
    /// Time that the host gave to others while a CPU wanted to run.
    steal: u64,
}

impl CpuTimes {
    /// Reads the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Option<Vec<u64>> = line.split_whitespace().map(|t| t.parse().ok()).collect();
        match ticks?[..] {
            [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] => Some(CpuTimes {
                busy: user + nice + system + irq + softirq,
                steal,
            }),
            _ => None,
        }
    }

    /// Returns how much of the time that the CPUs wanted since `begin` the host gave to others, in
    /// percent.
    pub fn steal_percent_since(self, begin: Self) -> f64 {
        let steal = self.steal.saturating_sub(begin.steal) as f64;
        let busy = self.busy.saturating_sub(begin.busy) as f64;
        if steal == 0.0 {
            0.0
        } else {
            100.0 * steal / (steal + busy)
        }
    }
}

/// Returns what all CPUs have done; `None` where the system does not say.
pub fn cpu_times() -> Option<CpuTimes> {
    CpuTimes::parse(&fs::read_to_string("/proc/stat").ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_part_of_the_time_that_was_wanted() {
        let begin = CpuTimes::parse("cpu  100 0 50 900 0 0 0 10 0 0\ncpu0 1 2\n").expect("valid");
        let end = CpuTimes::parse("cpu  160 10 60 999 9 5 5 20 7 7\n").expect("valid");
        assert_eq!(end.steal_percent_since(begin), 10.0);
        assert_eq!(begin.steal_percent_since(begin), 0.0);
        for text in [
            "",
            "cpu  1 2 3",
            "cpu a b c d e f g h",
            "cpu0 1 2 3 4 5 6 7 8",
        ] {
            assert_eq!(CpuTimes::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_machine_is_named_in_one_line() {
        let machine = Machine {
            cpu: "Some CPU".to_owned(),
            cpus: 2,
            system: "linux 6.1".to_owned(),
            arch: "x86_64",
            date: "2026-01-31T12:00:00Z".to_owned(),
        };
        let line = "machine: Some CPU, 2 CPUs, x86_64, linux 6.1, 2026-01-31T12:00:00Z";
        assert_eq!(machine.line(), line);
        assert_eq!(field("a b\t: c : d\nx: y", "a b").as_deref(), Some("c : d"));
        assert_eq!(field("", "a"), None);
        assert!(Machine::here().cpus >= 1);
    }
}
