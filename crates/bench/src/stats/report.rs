//! Everything that one benchmark found, as JSON and as text.

use serde_json::{Value, json};

use super::compare::Comparison;
use super::noise::Noise;
use super::summary::Series;
use super::table::{Table, number};
use crate::machine::Machine;

/// What a benchmark found. Every benchmark has the same form.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the benchmark.
    pub bench: &'static str,
    /// Its settings, an object.
    pub params: Value,
    /// Where it ran.
    pub machine: Machine,
    /// What disturbed it.
    pub noise: Noise,
    /// What was measured; a series without samples is left out of the output.
    pub series: Vec<Series>,
    /// What was compared.
    pub comparisons: Vec<Comparison>,
}

impl Report {
    /// Adds the comparison of two subjects by every metric that both have samples of.
    pub fn compare(&mut self, a: &str, b: &str) {
        for of_a in self.series.iter().filter(|series| series.name == a) {
            let of_b = self.series.iter().filter(|series| series.name == b);
            for of_b in of_b.filter(|of_b| of_b.metric == of_a.metric) {
                let comparison = Comparison::of(of_a, of_b);
                self.comparisons.extend(comparison.map(|mut comparison| {
                    // A count is what it is, whoever disturbed it.
                    comparison.significant &= of_a.metric.is_exact || !self.noise.is_too_noisy();
                    comparison
                }));
            }
        }
    }

    /// Returns the series of a subject and a metric.
    pub fn series(&self, name: &str, metric: &str) -> Option<&Series> {
        let mut all = self.series.iter();
        all.find(|series| series.name == name && series.metric.name == metric)
    }

    /// Returns the comparison of two subjects by a metric.
    pub fn comparison(&self, a: &str, b: &str, metric: &str) -> Option<&Comparison> {
        let mut all = self.comparisons.iter();
        all.find(|one| one.a == a && one.b == b && one.metric == metric)
    }

    /// Returns the object that `--json` prints.
    pub fn to_json(&self) -> Value {
        let mut machine = self.machine.to_json();
        machine["noise"] = self.noise.to_json();
        json!({
            "bench": self.bench,
            "params": self.params,
            "machine": machine,
            "subjects": self.series.iter().filter_map(Series::to_json).collect::<Vec<_>>(),
            "comparisons":
                self.comparisons.iter().map(Comparison::to_json).collect::<Vec<_>>(),
        })
    }

    /// Returns the text that a benchmark prints that has no table of its own: a line for each
    /// series, a line for each comparison, machine and noise.
    pub fn to_text(&self) -> String {
        let mut text = self.series_table().to_string();
        if !self.comparisons.is_empty() {
            text += "\n";
            text += &self.comparison_table().to_string();
        }
        text + "\n" + &self.footer()
    }

    /// Returns the lines on the machine and on what disturbed it.
    pub fn footer(&self) -> String {
        format!("{}\n{}\n", self.machine.line(), self.noise.line())
    }

    fn series_table(&self) -> Table {
        let titles = [
            "subject", "metric", "count", "mean", "std", "min", "50 %", "99 %", "max", "unit",
        ];
        let mut table = Table::new(titles);
        for series in &self.series {
            let Some(summary) = series.summary() else {
                continue;
            };
            table.row([
                series.name.clone(),
                series.metric.name.to_owned(),
                summary.count.to_string(),
                number(summary.mean),
                summary.std.map_or("-".to_owned(), number),
                number(summary.min),
                number(summary.p50),
                number(summary.p99),
                number(summary.max),
                series.metric.unit.to_owned(),
            ]);
        }
        table
    }

    /// Returns a line for each comparison.
    pub fn comparison_table(&self) -> Table {
        let titles = [
            "a",
            "against b",
            "metric",
            "a is better by",
            "95 % interval",
            "",
        ];
        let mut table = Table::new(titles);
        for one in &self.comparisons {
            table.row([
                one.a.clone(),
                one.b.clone(),
                one.metric.to_owned(),
                one.difference(),
                one.interval(),
                one.mark().to_owned(),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::super::summary::{Better, Metric};
    use super::*;

    const TIME: Metric = Metric::sampled("time", "ns", Better::Lower);
    const COUNT: Metric = Metric::counted("instructions", "1", Better::Lower);

    fn report(steal: f64) -> Report {
        let series = |name: &str, metric, factor: f64| {
            let samples = (0..9).map(|run| factor * (10.0 + f64::from(run) / 10.0));
            Series::new(name, metric, samples.collect())
        };
        let mut report = Report {
            bench: "test",
            params: json!({"runs": 9}),
            machine: Machine::here(),
            noise: Noise {
                seconds: 1.0,
                steal_percent: Some(steal),
                involuntary: Some(3),
            },
            series: vec![
                series("fast", TIME, 1.0),
                series("fast", COUNT, 1.0),
                series("slow", TIME, 1.5),
                series("slow", COUNT, 2.0),
                Series::new("absent", TIME, Vec::new()),
            ],
            comparisons: Vec::new(),
        };
        report.compare("fast", "slow");
        report.compare("fast", "absent");
        report
    }

    #[test]
    fn json_has_the_form_that_all_benchmarks_share() {
        let json = report(0.0).to_json();
        let keys = |value: &Value| -> Vec<String> {
            let object = value.as_object().expect("an object");
            object.keys().cloned().collect()
        };
        assert_eq!(
            keys(&json),
            ["bench", "comparisons", "machine", "params", "subjects"]
        );
        let subjects = json["subjects"].as_array().expect("an array");
        assert_eq!(subjects.len(), 4);
        let names = [
            "better", "count", "max", "mean", "metric", "min", "name", "p50", "p99", "std", "unit",
        ];
        assert_eq!(keys(&subjects[0]), names);
        assert_eq!(subjects[0]["better"], "lower");
        let comparisons = json["comparisons"].as_array().expect("an array");
        assert_eq!(comparisons.len(), 2);
        let names = [
            "a",
            "b",
            "ci95",
            "diff_percent",
            "metric",
            "ratio",
            "significant",
        ];
        assert_eq!(keys(&comparisons[0]), names);
        assert_eq!(comparisons[0]["ci95"].as_array().map(Vec::len), Some(2));
        assert_eq!(comparisons[0]["significant"], true);
    }

    #[test]
    fn the_text_has_a_line_for_each_series_and_comparison() {
        let text = report(0.0).to_text();
        for part in [
            "fast",
            "slow",
            "+50.00 %",
            "+100.00 %",
            "*",
            "noise: ",
            "instructions",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("absent"), "{text}");
    }

    #[test]
    fn stolen_time_forbids_verdicts_on_times_and_not_on_counts() {
        let noisy = report(50.0);
        let is_significant = |metric| {
            let comparison = noisy.comparison("fast", "slow", metric);
            comparison.expect("compared").significant
        };
        assert!(!is_significant("time") && is_significant("instructions"));
        assert_eq!(noisy.to_json()["machine"]["noise"]["is_too_noisy"], true);
    }
}
