//! Writes a report as a table: a line for each group, children indented below their parents.

use std::io::{self, Write};

use super::{GroupReport, Report, Throughput};

/// Writes the report for people.
///
/// # Errors
///
/// The destination cannot be written to.
pub(crate) fn write_table(report: &Report, mut to: impl Write) -> io::Result<()> {
    let cpus = if report.cpus == 1 {
        "1 CPU".to_owned()
    } else {
        format!("{} CPUs", report.cpus)
    };
    write!(to, "{:.1} s on {cpus}", report.duration_s)?;
    write!(
        to,
        ", after {:.1} s of warm-up, seed {}",
        report.warm_up_s, report.seed
    )?;
    writeln!(
        to,
        "{}\n",
        if report.is_partial {
            " (ended early)"
        } else {
            ""
        }
    )?;
    for line in layout(&rows(report)) {
        writeln!(to, "{line}")?;
    }
    if report.groups.iter().any(|group| group.is_demand_limited) {
        let note = "* expected to get all it asked for: its demand, not its weight, is its limit";
        writeln!(to, "\n{note}")?;
    }
    if let Some(percent) = stolen(report)
        .map(|part| 100.0 * part)
        .filter(|p| *p >= 5.0)
    {
        let (note, effect) = (
            "other processes had the CPU for",
            "shares and times are less exact",
        );
        writeln!(
            to,
            "\n{note} {percent:.0} % of the time that tasks ran: {effect}"
        )?;
    }
    to.flush()
}

/// The part of the groups' CPU time, which the clock counts, that this process did not have.
fn stolen(report: &Report) -> Option<f64> {
    let process = report.process_cpu_s?;
    let is_top = |group: &&GroupReport| group.path.matches('/').count() == 1;
    let groups: f64 = report
        .groups
        .iter()
        .filter(is_top)
        .map(|group| group.usage_usec as f64)
        .sum();
    let part = 1.0 - process * 1e6 / groups;
    part.is_finite().then_some(part)
}

/// The header and a row for each group.
fn rows(report: &Report) -> Vec<Vec<String>> {
    let has_requests = report.groups.iter().any(|group| group.request_us.is_some());
    let has_ticks = report.groups.iter().any(|group| group.ticks.due > 0);
    let mut header = vec![
        "group",
        "weight",
        "cpu",
        "expected",
        "throughput",
        "wait p50",
        "p99",
        "max",
        "run p99",
    ];
    if has_requests {
        header.extend(["request p50", "p99"]);
    }
    if has_ticks {
        header.extend(["ticks", "late", "max late"]);
    }
    let mut rows = vec![header.into_iter().map(str::to_owned).collect()];
    for (at, group) in report.groups.iter().enumerate() {
        let next = report.groups.get(at + 1);
        let mut row = cells(group, next.is_some_and(|next| is_below(next, group)));
        if has_requests {
            let (p50, p99) = group
                .request_us
                .map_or(("-".to_owned(), "-".to_owned()), |request| {
                    (time(request.p50), time(request.p99))
                });
            row.extend([p50, p99]);
        }
        if has_ticks {
            row.extend(ticks(group));
        }
        rows.push(row);
    }
    rows
}

/// Whether a group lies somewhere below another.
fn is_below(group: &GroupReport, above: &GroupReport) -> bool {
    group
        .path
        .strip_prefix(&above.path)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The cells that every table has. A parent shows work in one unit only, to keep the table narrow.
fn cells(group: &GroupReport, is_parent: bool) -> Vec<String> {
    let depth = group.path.matches('/').count().saturating_sub(1);
    let name = group.path.rsplit('/').next().unwrap_or_default();
    let mark = if group.is_demand_limited { "*" } else { " " };
    let shown = if is_parent {
        1
    } else {
        group.throughputs.len()
    };
    let throughput: Vec<String> = group.throughputs.iter().take(shown).map(rate).collect();
    vec![
        format!(
            "{}{}{name}",
            "  ".repeat(depth),
            if depth == 0 { "/" } else { "" }
        ),
        group.weight.to_string(),
        format!("{:.1} %", 100.0 * group.cpu_share),
        format!("{:.1} %{mark}", 100.0 * group.expected_share),
        if throughput.is_empty() {
            "-".to_owned()
        } else {
            throughput.join(", ")
        },
        time(group.wait_us.p50),
        time(group.wait_us.p99),
        time(group.wait_us.max),
        time(group.run_us.p99),
    ]
}

/// The cells about heartbeats.
fn ticks(group: &GroupReport) -> [String; 3] {
    if group.ticks.due == 0 {
        return ["-", "-", "-"].map(str::to_owned);
    }
    let ticks = &group.ticks;
    [
        ticks.due.to_string(),
        ticks.late.to_string(),
        time(ticks.max_late_us),
    ]
}

/// A rate with three digits or more.
fn rate(throughput: &Throughput) -> String {
    let Throughput { value, unit } = throughput;
    match value {
        100.0.. => format!("{value:.0} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// A time given in µs, in the unit that suits it.
fn time(us: f64) -> String {
    match us {
        ..0.05 => "0".to_owned(),
        ..10.0 => format!("{us:.1} us"),
        ..1e3 => format!("{us:.0} us"),
        ..1e6 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// Aligns cells into lines: the first column to the left, all others to the right.
fn layout(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_time(us: f64, expected: &str) {
        assert_eq!(time(us), expected);
    }

    #[test]
    fn times_pick_their_unit() {
        check_time(0.0, "0");
        check_time(1.23, "1.2 us");
        check_time(123.4, "123 us");
        check_time(12_345.0, "12.3 ms");
        check_time(2_500_000.0, "2.50 s");
    }

    #[test]
    fn rates_keep_three_digits() {
        assert_eq!(
            rate(&Throughput {
                value: 1234.5,
                unit: "requests/s"
            }),
            "1234 requests/s"
        );
        assert_eq!(
            rate(&Throughput {
                value: 12.34,
                unit: "MB/s"
            }),
            "12.3 MB/s"
        );
        assert_eq!(
            rate(&Throughput {
                value: 0.0,
                unit: "MB/s"
            }),
            "0.00 MB/s"
        );
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["group", "cpu"], ["/a", "1.0 %"], ["  long-name", "10.0 %"]]
            .map(|row| row.map(str::to_owned).to_vec());
        let expected = [
            "group           cpu",
            "/a            1.0 %",
            "  long-name  10.0 %",
        ];
        assert_eq!(layout(&rows), expected);
    }
}
