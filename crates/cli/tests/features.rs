//! `evenkeel features` as a user sees it: what it lists, what it switches, and what it refuses.

mod support;

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Output, Stdio};

use evenkeel_core::features::{CAN_SET, FEATURES};
use serde_json::Value;

use support::{number, parse, program, text};

fn run(arguments: &[&str]) -> Output {
    let mut command = program();
    command.arg("features").args(arguments);
    command.output().expect("the program starts")
}

/// Runs it to its good end, with nothing on standard error.
fn good(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "");
    output.stdout
}

fn listing(arguments: &[&str]) -> Value {
    parse(&good(&[arguments, &["--json"]].concat()))
}

fn array<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().expect("an array")
}

#[test]
fn every_feature_is_listed_with_its_default() {
    let listing = listing(&[]);
    let features = &listing["features"];
    assert_eq!(features["can_set"], CAN_SET);
    let list = array(features, "list");
    assert_eq!(list.len(), FEATURES.len());
    let mut words = Vec::new();
    for (listed, feature) in list.iter().zip(FEATURES) {
        assert_eq!(listed["name"], feature.name());
        assert_eq!(listed["default"], feature.default());
        assert_eq!(listed["is_on"], feature.default(), "nothing was switched");
        assert_eq!(listed["doc"], feature.doc());
        let no = if feature.default() { "" } else { "NO_" };
        words.push(format!("{no}{}", feature.name()));
    }
    assert_eq!(features["text"], words.join(" "));
}

#[test]
fn every_key_is_listed_with_its_sites() {
    let listing = listing(&[]);
    let keys = array(&listing, "keys");
    let names: BTreeSet<&str> = keys.iter().filter_map(|key| key["name"].as_str()).collect();
    let known = evenkeel::keys::list();
    assert_eq!(names, known.iter().map(|key| key.name).collect());
    for key in keys {
        assert!(
            number(&key["patched_sites"]) <= number(&key["sites"]),
            "{key}"
        );
        assert_eq!(key["is_on"], false, "nobody uses anything here: {key}");
        for words in ["guards", "turned_on_by"] {
            assert!(
                key[words].as_str().is_some_and(|words| !words.is_empty()),
                "{key}"
            );
        }
    }
    // The real-time class is compiled in by default, and the program has its paths.
    let realtime = keys.iter().find(|key| key["name"] == "realtime");
    let realtime = realtime.expect("listed");
    assert_eq!(realtime["is_compiled"], true);
    assert!(number(&realtime["sites"]) > 0.0, "{realtime}");
    let patching = &listing["patching"];
    if patching["error"].is_null() {
        for key in keys {
            assert_eq!(key["patched_sites"], key["sites"], "{key}");
        }
    }
}

#[test]
fn what_the_machine_offers_is_one_line_each() {
    let listing = listing(&[]);
    for offer in ["slice_extension", "membarrier", "uclamp"] {
        let offer = &listing["machine"][offer];
        assert!(offer["is_available"].is_boolean(), "{offer}");
        let status = offer["status"].as_str().expect("text");
        assert!(!status.is_empty() && !status.contains('\n'), "{status}");
        assert!(!status.contains("has not asked"), "{status}");
    }
}

#[test]
fn the_tables_have_a_line_for_each() {
    let tables = text(&good(&[]));
    let has_line = |name: &str| {
        tables
            .lines()
            .any(|line| line.trim_start().starts_with(name))
    };
    for feature in FEATURES {
        assert!(has_line(feature.name()), "{} in\n{tables}", feature.name());
    }
    for key in evenkeel::keys::list() {
        assert!(has_line(key.name), "{} in\n{tables}", key.name);
    }
    for offer in ["slice extension", "membarrier", "uclamp"] {
        assert!(has_line(offer), "{offer} in\n{tables}");
    }
}

#[test]
fn the_text_form_is_taken_back() {
    let line = text(&good(&["--text"]));
    assert_eq!(line.lines().count(), 1);
    assert_eq!(line.split_whitespace().count(), FEATURES.len());
    assert_eq!(text(&good(&["--set", line.trim(), "--text"])), line);
    // The last word about a feature counts, so this asks for nothing new.
    let twice = ["--set", "NO_PLACE_LAG", "--set", "PLACE_LAG", "--text"];
    assert_eq!(text(&good(&twice)), line);
}

#[test]
fn features_are_switched_or_the_error_says_how_to_build() {
    let arguments = ["--set", "NO_PLACE_LAG NEXT_BUDDY"];
    if CAN_SET {
        let listing = listing(&arguments);
        let words = listing["features"]["text"].as_str().expect("text");
        let words: BTreeSet<&str> = words.split(' ').collect();
        assert!(
            words.contains("NO_PLACE_LAG") && words.contains("NEXT_BUDDY"),
            "{words:?}"
        );
        return;
    }
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    let message = text(&output.stderr);
    for part in ["PLACE_LAG is on", "sched-debug", "--features sched-debug"] {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn unknown_features_are_refused_with_similar_names() {
    for (given, parts) in [
        ("NEXT_BUDY", &["word 1", "NEXT_BUDY", "NEXT_BUDDY"][..]),
        ("PLACE_LAG no-delay-zero", &["word 2", "DELAY_ZERO"]),
        ("xyzzyxyzzy", &["there are PLACE_LAG"]),
    ] {
        let output = run(&["--set", given]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert_eq!(text(&output.stdout), "");
        let message = text(&output.stderr);
        for part in parts {
            assert!(message.contains(part), "{part} in {message}");
        }
        assert!(
            message.starts_with(&format!("error: --set \"{given}\"")),
            "{message}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = File::options().write(true).open("/dev/full");
    let mut command = program();
    command.arg("features");
    command.stdout(Stdio::from(full.expect("Linux has /dev/full")));
    let output = command.output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("cannot print"), "{output:?}");
}
