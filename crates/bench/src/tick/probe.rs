//! One subject in a process of its own: the loop, a number of times, and what it took.
//!
//! The program `evenkeel` runs this in a hidden command, the example `tick` of this crate as its
//! only purpose. Arguments go in as [`Probe::arguments`] writes them, and one line of JSON comes
//! out.

use std::io;
use std::time::Instant;

use evenkeel_core::features::FEATURES;
use evenkeel_static_key::{KeyInfo, StaticKey, arm_all, keys};
use serde_json::{Value, json};

use super::core_loop::CoreLoop;
use super::{Error, Place};
use crate::machine::{Counter, Counting, involuntary_switches};

#[cfg_attr(feature = "runtime", path = "probe/runtime_loop.rs")]
#[cfg_attr(not(feature = "runtime"), path = "probe/no_runtime.rs")]
mod runtime_loop;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// The loop.
    pub(super) place: Place,
    /// How often, at least once.
    pub(super) iterations: u64,
    /// How often before that, without being measured.
    pub(super) lead_in: u64,
    /// Keys to turn on; the others are off unless the loop itself uses them.
    pub(super) on: Vec<String>,
}

impl Probe {
    /// Writes the arguments that [`probe`] reads.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            self.place.name().to_owned(),
            self.iterations.to_string(),
            self.lead_in.to_string(),
        ];
        arguments.extend(self.on.iter().cloned());
        arguments
    }

    fn parse(arguments: &[String]) -> Result<Self, Error> {
        let [place, iterations, lead_in, on @ ..] = arguments else {
            let given = arguments.join(" ");
            return Err(Error::usage(
                "probe",
                given,
                "PLACE ITERATIONS LEAD-IN [KEY]...",
            ));
        };
        let number = |what, text: &String, least: u64| {
            let number = text.parse().ok().filter(|number| *number >= least);
            number.ok_or_else(|| Error::usage(what, text, format!("an integer from {least}")))
        };
        Ok(Probe {
            place: Place::parse(place)?,
            iterations: number("iterations", iterations, 1)?,
            lead_in: number("lead-in", lead_in, 0)?,
            on: on.to_vec(),
        })
    }

    /// Turns keys on, arms the branches of the others, and runs the loop.
    fn run(&self) -> Result<Value, Error> {
        for name in &self.on {
            let key = find(name)?;
            key.enable()
                .map_err(|error| Error::program("this process", error))?;
        }
        let armed = arm_all();
        let meter = Meter::new();
        let meter = match self.place {
            Place::Wake => self.around(meter, CoreLoop::new(), CoreLoop::wake),
            Place::Yield => self.around(meter, CoreLoop::new(), CoreLoop::yields),
            Place::Runtime | Place::Group => runtime_loop::run(self, meter)?,
        };
        let mut answer = meter.to_json();
        answer["armed"] = match armed {
            Ok(sites) => json!(sites),
            Err(error) => json!(error.to_string()),
        };
        Ok(answer)
    }

    /// Measures a loop on something that it changes.
    fn around<T>(&self, mut meter: Meter, mut on: T, mut run: impl FnMut(&mut T, u64)) -> Meter {
        run(&mut on, self.lead_in);
        meter.begin();
        run(&mut on, self.iterations);
        meter.end();
        meter
    }
}

/// Runs one subject, or with the only argument `list` says which keys there are; returns a line of
/// JSON.
///
/// # Errors
/// The arguments are wrong; a key could not be turned on; the runtime did not start, or is not in
/// this build.
pub fn probe(arguments: &[String]) -> Result<String, Error> {
    if let [list] = arguments
        && list == "list"
    {
        let names: Vec<&str> = switchable().map(|key| key.name).collect();
        return Ok(json!({"keys": names}).to_string());
    }
    Ok(Probe::parse(arguments)?.run()?.to_string())
}

/// Reads what a probe wrote for `list`.
pub(super) fn listed(text: &str) -> Option<Vec<String>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let names = value["keys"].as_array()?.iter();
    names.map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Returns the keys with branches in this program, but for scheduler features that are keys.
fn switchable() -> impl Iterator<Item = KeyInfo> {
    keys().filter(|key| FEATURES.iter().all(|feature| feature.name() != key.name))
}

fn find(name: &str) -> Result<&'static StaticKey, Error> {
    let found = switchable().find(|key| key.name == name);
    found.map(|key| key.key).ok_or_else(|| {
        let names: Vec<&str> = switchable().map(|key| key.name).collect();
        Error::usage("key", name, names.join(", "))
    })
}

/// Measures from [`begin`](Meter::begin) to [`end`](Meter::end). Made before threads are started,
/// so that its counters count those as well.
pub(super) struct Meter {
    counters: io::Result<[Counter; 2]>,
    counted: [u64; 2],
    begin: Option<Instant>,
    ns: u64,
    switches: u64,
}

impl Meter {
    fn new() -> Self {
        let counters = || {
            let instructions = Counter::start(Counting::Instructions)?;
            Ok([instructions, Counter::start(Counting::Branches)?])
        };
        Meter {
            counters: counters(),
            counted: [0; 2],
            begin: None,
            ns: 0,
            switches: 0,
        }
    }

    /// Reads the counters; remembers the first error.
    fn read(&mut self) -> [u64; 2] {
        let read = match &mut self.counters {
            Ok([one, two]) => one.read().and_then(|one| Ok([one, two.read()?])),
            Err(_) => return [0; 2],
        };
        read.unwrap_or_else(|error| {
            self.counters = Err(error);
            [0; 2]
        })
    }

    pub(super) fn begin(&mut self) {
        self.switches = involuntary_switches().unwrap_or(0);
        self.counted = self.read();
        self.begin = Some(Instant::now());
    }

    pub(super) fn end(&mut self) {
        let begin = self.begin.expect("begin was called");
        self.ns = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let end = self.read();
        self.counted = [end[0] - self.counted[0], end[1] - self.counted[1]];
        self.switches = involuntary_switches().unwrap_or(0) - self.switches;
    }

    fn to_json(&self) -> Value {
        json!({
            "ns": self.ns,
            "involuntary_switches": self.switches,
            "counters": match &self.counters {
                Ok(_) => json!({"instructions": self.counted[0], "branches": self.counted[1]}),
                Err(error) => json!(error.to_string()),
            },
        })
    }
}

/// What a probe answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    /// How long the loop took.
    pub(super) ns: f64,
    /// Instructions and branches by hardware counters, or why there are none.
    pub(super) counters: Result<[f64; 2], String>,
    /// Why branches could not be patched, if they could not.
    pub(super) unarmed: Option<String>,
}

impl Answer {
    /// Reads what a probe wrote.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let counters = &value["counters"];
        Some(Answer {
            ns: value["ns"].as_f64()?,
            counters: match counters.as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok([
                    counters["instructions"].as_f64()?,
                    counters["branches"].as_f64()?,
                ]),
            },
            unarmed: value["armed"].as_str().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let probe = Probe {
            place: Place::Group,
            iterations: 7,
            lead_in: 0,
            on: text(&["a", "b"]),
        };
        assert_eq!(Probe::parse(&probe.arguments()).expect("valid"), probe);
        for (arguments, message) in [
            (text(&[]), "probe is ``; allowed: PLACE ITERATIONS"),
            (
                text(&["core-wake", "0", "0"]),
                "iterations is `0`; allowed: an integer from 1",
            ),
            (
                text(&["core-wake", "1", "x"]),
                "lead-in is `x`; allowed: an integer from 0",
            ),
            (
                text(&["moon", "1", "1"]),
                "place is `moon`; allowed: core-wake, core-yield,",
            ),
        ] {
            let error = Probe::parse(&arguments).expect_err(message);
            assert!(
                error.is_usage() && error.to_string().starts_with(message),
                "{error}"
            );
        }
    }

    #[test]
    fn loops_run_and_say_what_they_took() {
        for place in Place::ALL {
            if place.is_runtime() && !cfg!(feature = "runtime") {
                continue;
            }
            let line = probe(&text(&[place.name(), "1000", "10"])).expect("nothing fails");
            let answer = Answer::parse(&line).expect("an answer");
            assert!(answer.ns > 0.0, "{line}");
        }
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let error = probe(&text(&["core-wake", "1", "0", "moon"])).expect_err("no such key");
        assert!(
            error.is_usage() && error.to_string().contains("`moon`"),
            "{error}"
        );
    }

    #[test]
    fn keys_with_branches_are_listed() {
        let line = probe(&text(&["list"])).expect("nothing fails");
        let listed = listed(&line).expect("a list");
        // Another package of the same build may have switched on what this one does without.
        let is_asked_for = cfg!(all(feature = "static-keys", feature = "realtime"));
        let has_realtime = listed.contains(&"realtime".to_owned());
        assert!(has_realtime || !is_asked_for, "{line}");
        assert_eq!(super::listed("{}"), None);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in ["", "{}", "{\"ns\": 1}", "nonsense"] {
            assert_eq!(Answer::parse(text), None, "{text}");
        }
        let line = r#"{"ns": 5, "counters": "none", "armed": "denied"}"#;
        let answer = Answer::parse(line).expect("an answer");
        assert_eq!(answer.counters, Err("none".to_owned()));
        assert_eq!(answer.unarmed.as_deref(), Some("denied"));
    }
}
