//! The table of a comparison.

use std::fmt::Write as _;

use super::Comparison;
use super::compare::{Outcome, QUANTILES};
use crate::lock::Distribution;
use crate::stats::median;

const NS_PER_US: f64 = 1e3;

/// Writes the whole comparison.
pub(super) fn render(comparison: &Comparison) -> String {
    let config = comparison.config();
    let mut text = format!(
        "{} hogs in polls of {:?} beside a task that is woken 1,000 times a second, {} workers; \
         {} round{} of {:?}, by turns\n",
        config.hogs(),
        config.poll(),
        config.workers(),
        config.rounds(),
        if config.rounds() == 1 { "" } else { "s" },
        config.duration(),
    );
    let quantiles = QUANTILES.map(|(name, _)| format!("{name:>10}")).concat();
    let head = format!("{:>8}{quantiles}{:>10}", "count", "max");
    times(&mut text, comparison, "wake to run, µs", &head, |outcome| {
        outcome.waits()
    });
    times(&mut text, comparison, "due to run, µs", &head, |outcome| {
        outcome.lateness()
    });
    work(&mut text, comparison);
    text
}

fn times(
    text: &mut String,
    comparison: &Comparison,
    label: &str,
    head: &str,
    of: impl Fn(&Outcome) -> &Distribution,
) {
    line(text, &format!("\n{label:<16}{head}"));
    for outcome in comparison.outcomes() {
        let times = of(outcome);
        let mut row = format!("  {:<14}{:>8}", outcome.subject().name(), times.count());
        for (_, fraction) in QUANTILES {
            row += &cell(times.quantile(fraction).map(|ns| ns as f64));
        }
        row += &cell((times.count() > 0).then(|| times.figures().max));
        line(text, &row);
    }
}

fn cell(ns: Option<f64>) -> String {
    match ns {
        Some(ns) => format!("{:>10.1}", ns / NS_PER_US),
        None => format!("{:>10}", "–"),
    }
}

fn work(text: &mut String, comparison: &Comparison) {
    let parts: [Part; 2] = [
        ("hogs' work, %", Outcome::kept),
        ("per CPU used, %", Outcome::kept_per_cpu),
    ];
    for (label, of) in parts {
        let head = format!("{:>8}{:>10}{:>10}", "median", "min", "max");
        line(text, &format!("\n{label:<16}{head}"));
        for outcome in comparison.outcomes() {
            let name = outcome.subject().name();
            line(text, &format!("  {name:<14}{}", percents(of(outcome))));
        }
    }
    line(
        text,
        "\n100 %: the hogs in the same round without preemption and without the task that is woken",
    );
}

/// What is said of an outcome, by rounds, and its name.
type Part = (&'static str, fn(&Outcome) -> &[f64]);

fn percents(parts: &[f64]) -> String {
    if parts.is_empty() {
        return format!("{:>8}{:>10}{:>10}", "–", "–", "–");
    }
    let min = parts.iter().copied().fold(f64::INFINITY, f64::min);
    let max = parts.iter().copied().fold(0.0, f64::max);
    let [median, min, max] = [median(parts), min, max].map(|part| part * 100.0);
    format!("{median:>8.2}{min:>10.2}{max:>10.2}")
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes all");
}

#[cfg(test)]
mod tests {
    use crate::latency::compare::tests::made_up;

    #[test]
    fn the_table_has_a_row_for_each_subject_and_kind_of_figure() {
        let text = made_up().table();
        for name in ["  park ", "  tokio "] {
            assert_eq!(text.lines().filter(|l| l.starts_with(name)).count(), 4);
        }
        let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("  park")).collect();
        let cells = |row: &str| -> Vec<String> {
            let cells = row.split_whitespace().skip(1);
            cells.map(str::to_owned).collect()
        };
        assert_eq!(cells(rows[0])[0], "4");
        assert_eq!(cells(rows[0]).last().unwrap(), "5000.0");
        assert_eq!(cells(rows[1]).last().unwrap(), "5060.0");
        assert_eq!(cells(rows[2]), ["99.50", "99.00", "100.00"]);
        assert_eq!(cells(rows[3]), ["97.00", "95.00", "99.00"]);
    }
}
