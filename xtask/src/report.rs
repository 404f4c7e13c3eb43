//! Checks the report that `evenkeel run --json` prints: its shape, and that the figures are
//! possible together.

use serde_json::Value;

/// How far the shares of a report may be off by rounding and by reading clocks one after another.
const SHARE_TOLERANCE: f64 = 0.01;

/// Fields of a group that are objects, and the numbers each must hold.
const GROUP_OBJECTS: &[(&str, &[&str])] = &[
    ("wait_us", &["p50", "p99", "max"]),
    ("run_us", &["p99", "max"]),
];

/// Fields of a group that may be null, and the numbers each must hold otherwise.
const OPTIONAL_OBJECTS: &[(&str, &[&str])] = &[
    ("throughput", &["value"]),
    ("ticks", &["due", "late", "max_late_us"]),
];

/// Fields of a group that must be numbers.
const GROUP_NUMBERS: &[&str] = &["weight", "cpu_share", "expected_share", "usage_usec"];

/// Returns everything that is wrong with the report `text`.
pub(crate) fn faults(text: &str) -> Vec<String> {
    let report: Value = match serde_json::from_str(text) {
        Ok(report) => report,
        Err(error) => return vec![format!("not one JSON value: {error}")],
    };
    let mut faults = Vec::new();
    for name in ["duration_s", "cpus"] {
        if number(&report, name).is_none_or(|value| value <= 0.0) {
            faults.push(format!("`{name}` must be a number above 0"));
        }
    }
    match report["groups"].as_array() {
        Some(groups) if !groups.is_empty() => check_groups(groups, &mut faults),
        _ => faults.push("`groups` must be a list that is not empty".to_owned()),
    }
    faults
}

fn check_groups(groups: &[Value], faults: &mut Vec<String>) {
    for group in groups {
        let path = group["path"].as_str().unwrap_or("");
        if !path.starts_with('/') {
            faults.push(format!("path `{path}` must begin with `/`"));
        }
        check_fields(path, group, faults);
        check_percentiles(path, group, faults);
    }
    let shares: Vec<(&str, f64)> = groups
        .iter()
        .filter_map(|g| Some((g["path"].as_str()?, number(g, "cpu_share")?)))
        .collect();
    for &(path, share) in &shares {
        if !(-SHARE_TOLERANCE..=1.0 + SHARE_TOLERANCE).contains(&share) {
            faults.push(format!("{path}: share {share} is not within 0 and 1"));
        }
        let sum: f64 = shares
            .iter()
            .filter(|(p, _)| is_child(p, path))
            .map(|(_, s)| s)
            .sum();
        if sum > share + SHARE_TOLERANCE {
            faults.push(format!(
                "{path}: share {share}, but its children have {sum}"
            ));
        }
    }
    let top: f64 = shares
        .iter()
        .filter(|(path, _)| is_top(path))
        .map(|(_, share)| share)
        .sum();
    if (top - 1.0).abs() > SHARE_TOLERANCE {
        faults.push(format!(
            "shares of the outermost groups add up to {top}, not 1"
        ));
    }
}

fn check_fields(path: &str, group: &Value, faults: &mut Vec<String>) {
    for name in GROUP_NUMBERS {
        if number(group, name).is_none() {
            faults.push(format!("{path}: `{name}` must be a number"));
        }
    }
    let required = GROUP_OBJECTS.iter().map(|object| (object, true));
    let optional = OPTIONAL_OBJECTS.iter().map(|object| (object, false));
    for ((name, fields), is_required) in required.chain(optional) {
        if group[*name].is_null() && !is_required {
            continue;
        }
        for field in *fields {
            if number(&group[*name], field).is_none() {
                faults.push(format!("{path}: `{name}.{field}` must be a number"));
            }
        }
    }
}

fn check_percentiles(path: &str, group: &Value, faults: &mut Vec<String>) {
    for (name, fields) in GROUP_OBJECTS {
        let values: Vec<f64> = fields
            .iter()
            .filter_map(|f| number(&group[*name], f))
            .collect();
        if !values.is_sorted() {
            faults.push(format!(
                "{path}: `{name}` must not decrease from p50 to max: {values:?}"
            ));
        }
    }
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value[name].as_f64()
}

/// Tells whether `path` names a group directly below the root. The root itself, `/`, is none.
fn is_top(path: &str) -> bool {
    path.len() > 1 && path.matches('/').count() == 1
}

/// Tells whether `path` names a direct child of `parent`.
fn is_child(path: &str, parent: &str) -> bool {
    let rest = path
        .strip_prefix(parent.trim_end_matches('/'))
        .and_then(|r| r.strip_prefix('/'));
    rest.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    //! A right report, and one fault at a time.
    use super::*;

    fn group(path: &str, share: f64) -> String {
        format!(
            r#"{{"path": "{path}", "weight": 100, "cpu_share": {share}, "expected_share": 0.5,
                "usage_usec": 7, "wait_us": {{"p50": 1, "p99": 2, "max": 3}},
                "run_us": {{"p99": 2, "max": 3}}, "throughput": null,
                "ticks": {{"due": 1, "late": 0, "max_late_us": 0}}}}"#
        )
    }

    fn right() -> String {
        let groups = [group("/a", 0.75), group("/a/b", 0.75), group("/c", 0.25)].join(", ");
        format!(r#"{{"duration_s": 5.0, "cpus": 2, "groups": [{groups}]}}"#)
    }

    #[test]
    fn a_right_report_has_no_fault() {
        assert_eq!(faults(&right()), [""; 0]);
    }

    #[test]
    fn each_fault_is_found() {
        let changes = [
            ("{\"duration_s\"", "done {\"duration_s\""),
            ("]}", "]} done"),
            ("\"cpus\": 2", "\"cpus\": 0"),
            ("\"path\": \"/c\"", "\"path\": \"c\""),
            ("\"weight\": 100", "\"weight\": null"),
            ("\"p50\": 1", "\"p50\": 9"),
            ("\"late\": 0", "\"late\": \"0\""),
            ("\"cpu_share\": 0.25", "\"cpu_share\": 0.5"),
            (
                "\"/a\", \"weight\": 100, \"cpu_share\": 0.75",
                "\"/a\", \"cpu_share\": 0.5",
            ),
            ("\"throughput\": null", "\"throughput\": {}"),
        ];
        for (from, to) in changes {
            let text = right().replace(from, to);
            assert_ne!(text, right(), "{from} does not occur");
            assert!(!faults(&text).is_empty(), "{from} -> {to} was not found");
        }
        assert!(!faults(r#"{"duration_s": 1, "cpus": 1, "groups": []}"#).is_empty());
    }
}
