//! What the tick experiment found, as JSON and as text.

use serde_json::{Value, json};

use super::Place;
use super::experiment::OFF;
use super::subject::{
    BRANCHES, HARDWARE_BRANCHES, HARDWARE_INSTRUCTIONS, INSTRUCTIONS, TIME, name,
};
use crate::stats::{Comparison, Report, Table, number};

/// A subject that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// What the columns are.
const LEGEND: &str = "\
per round: instr, branch: instructions and branches; ns: time, the median; ±: its standard deviation
vs off: in percent; *: significant; 95 % interval: of the difference in time
noisy, few runs: nothing can be told from the time\n
";

/// Returns the title of a metric's column.
fn title(metric: &str) -> &'static str {
    match metric {
        INSTRUCTIONS => "instr",
        BRANCHES => "branch",
        _ if metric == HARDWARE_INSTRUCTIONS.name => "hw instr",
        _ => "hw branch",
    }
}

/// What the tick experiment found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Series and comparisons. The state `off` of each place is compared with the others, so a
    /// difference is by how much the other state is dearer, in percent.
    pub report: Report,
    /// What was not measured.
    pub missing: Vec<Missing>,
    /// Whether the experiment was broken off.
    pub is_partial: bool,
    /// Place and state of every row, in order.
    pub(super) rows: Vec<(Place, String)>,
    /// Why callgrind counted nothing.
    pub(super) callgrind: Result<(), String>,
    /// Why the hardware counted nothing.
    pub(super) hardware: Result<(), String>,
    /// Why branches were not patched.
    pub(super) unarmed: Option<String>,
}

impl Findings {
    pub(super) fn new(report: Report) -> Self {
        let not_tried = || Err("not tried".to_owned());
        Findings {
            report,
            missing: Vec::new(),
            is_partial: false,
            rows: Vec::new(),
            callgrind: not_tried(),
            hardware: not_tried(),
            unarmed: None,
        }
    }

    /// Returns the object that `--json` prints: the [report's](Report::to_json), with what was not
    /// measured among its parameters.
    pub fn to_json(&self) -> Value {
        let mut json = self.report.to_json();
        let missing = self.missing.iter();
        let missing = missing.map(|one| json!({"name": one.name, "reason": one.reason}));
        let said = |found: &Result<(), String>| match found {
            Ok(()) => "counted".to_owned(),
            Err(reason) => format!("not counted: {reason}"),
        };
        json["params"]["not_measured"] = missing.collect();
        json["params"]["callgrind"] = said(&self.callgrind).into();
        json["params"]["hardware_counters"] = said(&self.hardware).into();
        json["params"]["not_patched"] = json!(self.unarmed);
        json["params"]["is_partial"] = self.is_partial.into();
        json
    }

    /// Returns the text that the benchmark prints.
    pub fn table(&self) -> String {
        let mut text = LEGEND.to_owned();
        for place in Place::ALL {
            let rows = self.rows.iter().filter(|(of, _)| *of == place);
            let states: Vec<&str> = rows.map(|(_, state)| state.as_str()).collect();
            if !states.is_empty() {
                text += &format!("{place}: {}\n{}\n", place.doc(), self.block(place, &states));
            }
        }
        for (what, found) in [
            ("callgrind", &self.callgrind),
            ("hardware counters", &self.hardware),
        ] {
            if let Err(reason) = found {
                text += &format!("{what}: nothing counted: {reason}\n");
            }
        }
        if let Some(reason) = &self.unarmed {
            text += &format!("keys: branches are not patched, they load flags: {reason}\n");
        }
        text + &self.report.footer()
    }

    /// One place: a row for each state.
    fn block(&self, place: Place, states: &[&str]) -> String {
        let mut counted = vec![INSTRUCTIONS, BRANCHES];
        counted.extend([HARDWARE_INSTRUCTIONS, HARDWARE_BRANCHES].map(|metric| metric.name));
        counted.retain(|metric| self.report.series(&name(place, OFF), metric).is_some());
        let mut titles = vec!["state"];
        for metric in &counted {
            titles.extend([title(metric), "vs off"]);
        }
        titles.extend(["ns", "±", "vs off", "95 % interval", ""]);
        let mut table = Table::new(titles);
        let mut missing = String::new();
        for state in states {
            let subject = name(place, state);
            if let Some(one) = self.missing.iter().find(|one| one.name == subject) {
                missing += &format!("{state}: not measured: {}\n", one.reason);
                continue;
            }
            let mut row = vec![(*state).to_owned()];
            for metric in &counted {
                row.extend([
                    self.median(&subject, metric),
                    self.diff(place, state, metric),
                ]);
            }
            row.push(self.median(&subject, TIME.name));
            row.extend(self.time(place, state));
            table.row(row);
        }
        format!("{table}{missing}")
    }

    /// The median: one run that was disturbed may take ten times as long, and the mean with it.
    fn median(&self, subject: &str, metric: &str) -> String {
        let series = self.report.series(subject, metric);
        let summary = series.and_then(|series| series.summary());
        summary.map_or("-".to_owned(), |summary| number(summary.p50))
    }

    /// By how much the state is dearer than `off`, with a mark if that is significant.
    fn diff(&self, place: Place, state: &str, metric: &str) -> String {
        let compared = self.compared(place, state, metric);
        compared.map_or(String::new(), |one| {
            let mark = if one.significant { '*' } else { ' ' };
            format!("{}{mark}", one.difference().trim_end_matches(" %"))
        })
    }

    fn compared(&self, place: Place, state: &str, metric: &str) -> Option<&Comparison> {
        let (off, state) = (name(place, OFF), name(place, state));
        self.report.comparison(&off, &state, metric)
    }

    /// The columns on time, but for its mean.
    fn time(&self, place: Place, state: &str) -> [String; 4] {
        let series = self.report.series(&name(place, state), TIME.name);
        let std = series.and_then(|series| series.summary()?.std);
        let std = std.map_or("-".to_owned(), number);
        let compared = self.compared(place, state, TIME.name);
        let [interval, verdict] = compared.map_or([String::new(), String::new()], |one| {
            let verdict = match one {
                one if one.is_too_few => "few runs",
                one if one.is_too_noisy() => "noisy",
                _ => "",
            };
            [one.interval(), verdict.to_owned()]
        });
        [std, self.diff(place, state, TIME.name), interval, verdict]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::stats::{Better, Metric, NoiseMeter, Series};

    const COUNT: Metric = Metric::counted(INSTRUCTIONS, "1", Better::Lower);

    #[test]
    fn every_row_is_in_the_table_or_says_why_not() {
        let series = |state, metric, samples: &[f64]| {
            Series::new(name(Place::Wake, state), metric, samples.to_vec())
        };
        let mut report = Report {
            bench: "tick",
            params: json!({}),
            machine: Machine::here(),
            noise: NoiseMeter::start().read(),
            series: vec![
                series(OFF, COUNT, &[200.0]),
                series("x on", COUNT, &[203.0]),
                series(OFF, TIME, &[20.0; 8]),
                series("x on", TIME, &[21.0; 8]),
            ],
            comparisons: Vec::new(),
        };
        report.compare(&name(Place::Wake, OFF), &name(Place::Wake, "x on"));
        let mut findings = Findings::new(report);
        let states = [OFF, "x on", "x compiled out"];
        findings.rows = states.map(|state| (Place::Wake, state.to_owned())).to_vec();
        findings.missing.push(Missing {
            name: name(Place::Wake, "x compiled out"),
            reason: "needs the source tree".to_owned(),
        });
        let text = findings.table();
        let row = text
            .lines()
            .find(|line| line.starts_with("x on"))
            .expect("a row");
        for part in ["203.0", "+1.50*", "21.00", "+5.00*"] {
            assert!(row.contains(part), "{part} in {row}");
        }
        for line in [
            "x compiled out: not measured: needs the source tree",
            "callgrind: nothing counted: not tried",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        let json = findings.to_json();
        assert_eq!(
            json["params"]["not_measured"][0]["reason"],
            "needs the source tree"
        );
        assert_eq!(json["bench"], "tick");
    }
}
