//! The comparison as text.

use std::fmt::Write;
use std::time::Duration;

use super::{Comparison, Config, Figures, Outcome};

const NS_PER_US: f64 = 1_000.0;

/// One number that every subject has, and how it is called.
type Metric = (&'static str, fn(&Outcome) -> Figures);

/// The rows' groups, in order.
const METRICS: &[Metric] = &[
    ("acquisitions, per round", |outcome| {
        outcome.per_round(|round| round.acquisitions)
    }),
    ("preempted while holding, per round", |outcome| {
        outcome.per_round(|round| round.preempted)
    }),
    (
        "time given, and the CPU given up after it, per round",
        |outcome| outcome.per_round(|round| round.yielded),
    ),
    ("time given, and over too early, per round", |outcome| {
        outcome.expired().unwrap_or_default()
    }),
    ("wait for the lock, µs", |outcome| {
        outcome.waits().figures().in_units_of(NS_PER_US)
    }),
    ("lock held, µs", |outcome| {
        outcome.holds().figures().in_units_of(NS_PER_US)
    }),
];

const COLUMNS: [&str; 7] = ["count", "total", "mean", "std", "min", "99 %", "max"];

/// Writes the whole comparison.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = settings(comparison.config());
    let names: Vec<&str> = comparison.outcomes().iter().map(Outcome::name).collect();
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0) + 2;
    writeln!(text, "\n{:width$}{}", "", heading()).expect("a string takes all");
    // What no subject has numbers for is left out.
    let is_known = |figures: &fn(&Outcome) -> Figures| {
        let outcomes = comparison.outcomes().iter();
        outcomes.map(figures).any(|figures| figures.count > 0)
    };
    for (label, figures) in METRICS.iter().filter(|(_, figures)| is_known(figures)) {
        writeln!(text, "{label}").expect("a string takes all");
        for outcome in comparison.outcomes() {
            let row = row(figures(outcome));
            writeln!(text, "  {:width$}{row}", outcome.name(), width = width - 2)
                .expect("a string takes all");
        }
        text.push('\n');
    }
    for line in probes(comparison) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn settings(config: &Config) -> String {
    format!(
        "one spin lock, {} contenders on {} CPUs; {} held, {} outside; {} round{} of {} each, by \
         turns\n",
        config.contenders(),
        config.cpus(),
        length(config.section()),
        length(config.outside()),
        config.rounds(),
        if config.rounds() == 1 { "" } else { "s" },
        length(config.duration()),
    )
}

/// Writes a time as `5 s`, `20 µs`.
fn length(time: Duration) -> String {
    let text = format!("{time:?}");
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(unit.unwrap_or(text.len()));
    format!("{number} {unit}")
}

fn heading() -> String {
    COLUMNS.map(|column| format!("{column:>13}")).concat()
}

fn row(figures: Figures) -> String {
    let mut cells = vec![format!("{:>13}", grouped(figures.count as f64))];
    let numbers = [
        Some(figures.total),
        Some(figures.mean),
        figures.std,
        Some(figures.min),
        figures.p99,
        Some(figures.max),
    ];
    for number in numbers {
        let number = number.filter(|_| figures.count > 0);
        cells.push(format!("{:>13}", number.map_or("–".to_owned(), grouped)));
    }
    cells.concat()
}

/// Writes a number with its thousands apart; one decimal below a thousand unless it is whole.
fn grouped(number: f64) -> String {
    if number < 1_000.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Says how preemption was noticed, once where all subjects agree.
fn probes(comparison: &Comparison) -> Vec<String> {
    let outcomes = comparison.outcomes();
    let Some(first) = outcomes.first() else {
        return Vec::new();
    };
    if outcomes.iter().all(|o| o.probe() == first.probe()) {
        return vec![format!("preempted while holding: {}", first.probe())];
    }
    outcomes
        .iter()
        .map(|o| format!("preempted while holding, {}: {}", o.name(), o.probe()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::compare::tests::in_turn;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (166.0, "166"),
            (999.96, "1000.0"),
            (1_000.0, "1,000"),
            (68_600.4, "68,600"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn lengths_have_a_space_before_the_unit() {
        assert_eq!(length(Duration::from_secs(5)), "5 s");
        assert_eq!(length(Duration::from_micros(20)), "20 µs");
        assert_eq!(length(Duration::from_micros(2_500)), "2.5 ms");
        assert_eq!(length(Duration::ZERO), "0 ns");
    }

    #[test]
    fn the_table_has_a_row_for_each_metric_and_subject() {
        let comparison = in_turn(2);
        let text = comparison.table();
        let rows = text.lines().filter(|l| l.starts_with("  in turn"));
        assert_eq!(rows.count(), METRICS.len() * 2);
        for line in text.lines().filter(|l| l.starts_with("  in turn")) {
            let cells = line.trim_start_matches("  in turn").split_whitespace();
            assert_eq!(cells.count(), COLUMNS.len(), "{line}");
        }
        assert!(text.ends_with("preempted while holding: always\n"));
    }
}
