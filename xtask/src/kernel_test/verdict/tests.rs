//! Tests of the verdict: a good report, and each way in which one can be bad.

use serde_json::json;

use super::super::serial::Counter;
use super::*;

fn counters(granted: u64, yielded: u64) -> Vec<Counter> {
    [("sgrant", granted), ("syield", yielded)]
        .map(|(name, value)| Counter {
            name: name.to_owned(),
            value,
        })
        .into()
}

fn lock_lines(without: u64, with: u64) -> Vec<String> {
    let subject = |name: &str, preempted: u64, yielded: u64| {
        json!({
            "name": name,
            "acquisitions": { "total": 1_000.0 + 2.0 * yielded as f64 },
            "preempted": { "total": preempted as f64 },
            "yielded": { "total": yielded as f64 },
        })
    };
    let json = json!({
        "subjects": [subject(WITHOUT, without, 0), subject(WITH, with, 160)],
    });
    vec!["a table".to_owned(), json.to_string(), String::new()]
}

fn checks(name: &str) -> Run {
    Run {
        name: name.to_owned(),
        lines: vec!["check a: ok".to_owned(), "check b: skipped: old".to_owned()],
        status: Some(0),
    }
}

fn good() -> Report {
    Report {
        kernel: "7.2.13-rseqvm".to_owned(),
        processors: Some(2),
        clock: "tsc".to_owned(),
        extension_ns: Some(50_000),
        counters: [(0, 0), (10, 9), (20, 18), (200, 170)]
            .map(|(granted, yielded)| counters(granted, yielded))
            .into(),
        runs: vec![
            checks("abi"),
            checks("abi-unregistered"),
            Run {
                name: "lock".to_owned(),
                lines: lock_lines(166, 5),
                status: Some(0),
            },
        ],
        is_done: true,
    }
}

#[test]
fn a_good_report_has_no_faults() {
    let verdict = judge(&good());
    assert_eq!(verdict.faults, [] as [String; 0]);
    let facts = verdict.facts.join("\n");
    assert!(facts.contains("1 checks passed, 1 skipped"), "{facts}");
    assert!(facts.contains("166 times without, 5 times with"), "{facts}");
    let gain = "acquisitions 1000 without, 1320 with the extension: +32.0 %";
    assert!(facts.contains(gain), "{facts}");
}

/// Spoils a good report and returns the faults.
fn faults(spoil: impl Fn(&mut Report)) -> String {
    let mut report = good();
    spoil(&mut report);
    judge(&report).faults.join("\n")
}

#[test]
fn each_bad_report_has_its_fault() {
    type Case = (fn(&mut Report), &'static str);
    let cases: &[Case] = &[
        (|r| r.is_done = false, "did not get to its end"),
        (|r| r.kernel = "6.12.1".to_owned(), "another kernel"),
        (|r| r.processors = Some(1), "another number of CPUs"),
        (|r| r.extension_ns = Some(5_000), "length of the extension"),
        (|r| r.runs.truncate(2), "lock did not run"),
        (|r| r.runs[2].status = None, "lock did not end"),
        (
            |r| r.runs[0].status = Some(101),
            "abi ended with status 101",
        ),
        (|r| r.runs[0].lines.clear(), "no check passed"),
        (
            |r| r.runs[0].lines.push("check c: FAILED: why".to_owned()),
            "abi: c: FAILED: why",
        ),
        (|r| r.runs[2].lines.truncate(1), "no line of JSON"),
        (|r| r.runs[2].lines = lock_lines(49, 1), "only 49 times"),
        (
            |r| r.runs[2].lines = lock_lines(166, 17),
            "less than 10 times",
        ),
        (
            |r| r.counters[3] = counters(100, 90),
            "by the kernel's count 80 granted",
        ),
        (|r| r.counters[3] = counters(200, 190), "172 yielded"),
        (
            |r| r.counters[2].clear(),
            "counters sgrant and syield are missing",
        ),
        (
            |r| r.counters.truncate(3),
            "counters sgrant and syield are missing",
        ),
        (
            |r| {
                r.runs[2].lines = vec![json!({"subjects": []}).to_string()];
            },
            "figures of one subject are missing",
        ),
    ];
    for (spoil, expected) in cases {
        let faults = faults(spoil);
        assert!(faults.contains(expected), "{expected}: {faults}");
    }
}

#[test]
fn none_with_the_extension_is_good() {
    assert_eq!(faults(|r| r.runs[2].lines = lock_lines(50, 0)), "");
}
