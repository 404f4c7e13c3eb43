//! Builds a [`Workload`] out of a TOML document.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;

use super::error::{Diagnostics, WorkloadError, near_matches, one_of};
use super::model::{Class, Group, Io, Order, Workload};
use super::section::{NamedTable, Section};
use super::tasks;

/// How long a run measures when neither the file nor the command line says so.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);
/// The longest duration and warm-up.
pub(crate) const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);
/// The shortest time to measure.
pub(crate) const SHORTEST_RUN: Duration = Duration::from_millis(10);
/// The weight of a group that gives none, as in Linux.
const DEFAULT_WEIGHT: u32 = 100;
/// The most tasks a workload may start, replicas and load included.
const MOST_TASKS: u64 = 1_000_000;
/// The most worker threads.
pub(crate) const MOST_THREADS: i64 = 1024;

/// Keys of a workload that the design knows and the program does not support yet.
const LATER_TOP: [&str; 5] = ["preempt", "machine", "cpus", "faults", "trace"];
/// The same for groups.
const LATER_GROUP: [&str; 10] = [
    "quota",
    "period",
    "burst",
    "max",
    "uclamp_min",
    "uclamp_max",
    "preempt",
    "idle",
    "cpus",
    "affinity",
];

/// Settings of a group that say something about its own tasks only.
const TASK_SETTINGS: [&str; 5] = ["order", "class", "priority", "nice", "slice"];

/// What the parser carries along.
pub(super) struct Context<'a> {
    /// Where diagnostics go.
    pub(super) diagnostics: &'a RefCell<Diagnostics>,
    /// References to groups, checked when all groups are known.
    pub(super) references: RefCell<Vec<(String, Range<usize>)>>,
    /// Settings of tasks in groups that have none of their own, by path: judged when it is known
    /// whether the load of a server runs there.
    settings: RefCell<Vec<(String, &'static str, Range<usize>)>>,
}

/// Reads a workload; `path` is named in errors.
///
/// # Errors
///
/// The text is not TOML or not a workload; the error holds all that is wrong.
pub(super) fn workload(path: &Path, text: &str) -> Result<Workload, WorkloadError> {
    let diagnostics = RefCell::new(Diagnostics::default());
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        for error in errors {
            let span = error.span().unwrap_or(text.len()..text.len());
            let message = format!("not valid TOML: {}", error.message());
            diagnostics.borrow_mut().push(span, message, String::new());
        }
        return Err(diagnostics.into_inner().into_error(path, text));
    }
    let workload = {
        let context = Context {
            diagnostics: &diagnostics,
            references: RefCell::default(),
            settings: RefCell::default(),
        };
        let workload = top(document.get_ref(), &context);
        check_references(&workload, &context);
        check_settings(&context);
        workload
    };
    let diagnostics = diagnostics.into_inner();
    if diagnostics.is_empty() {
        Ok(workload)
    } else {
        Err(diagnostics.into_error(path, text))
    }
}

/// Reads the top level.
fn top(table: &DeTable<'_>, context: &Context<'_>) -> Workload {
    let mut section = Section::new("a workload", table, 0..0, context.diagnostics);
    let duration = section.duration("duration", SHORTEST_RUN..=LONGEST_RUN);
    let warm_up = section.duration("warm_up", Duration::ZERO..=LONGEST_RUN);
    let seed = section.integer("seed", 0..=i64::MAX);
    let threads = section.integer("threads", 1..=MOST_THREADS);
    let io = section.word(
        "io",
        &[("shared", Io::Shared), ("dedicated", Io::Dedicated)],
    );
    let tables = section.tables("groups");
    if let Some(span) = section.key_span("tasks") {
        let message = "tasks belong to a group".to_owned();
        section.report(span, message, "write `[[groups.NAME.tasks]]`".to_owned());
        let _ = section.value("tasks");
    }
    let groups: Vec<Group> = tables
        .iter()
        .map(|entry| group(entry, "", context))
        .collect();
    section.require("groups", "tables `[groups.NAME]` with tasks in them");
    check_task_count(&section, &groups, !tables.is_empty());
    section.finish(&LATER_TOP);
    Workload {
        duration: duration.unwrap_or(DEFAULT_DURATION),
        warm_up: warm_up.unwrap_or(Duration::ZERO),
        seed: seed.and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        threads: threads.and_then(|n| usize::try_from(n).ok()),
        io: io.unwrap_or(Io::Shared),
        groups,
    }
}

/// Reads a group and all under it.
fn group(entry: &NamedTable<'_>, parent: &str, context: &Context<'_>) -> Group {
    let path = format!("{parent}/{}", entry.name);
    let subject = format!("group `{path}`");
    let mut section = Section::new(
        subject,
        entry.table,
        entry.span.clone(),
        context.diagnostics,
    );
    check_name(&section, entry);
    let weight = section
        .integer("weight", 1..=10_000)
        .and_then(|n| u32::try_from(n).ok());
    let order = section.word("order", &[("fifo", Order::Fifo), ("fair", Order::Fair)]);
    let class = class(&mut section);
    let nice = section
        .integer("nice", -20..=19)
        .and_then(|n| i8::try_from(n).ok());
    let slice = section.duration(
        "slice",
        Duration::from_micros(100)..=Duration::from_millis(100),
    );
    let tables = section.array("tasks");
    if tables.is_empty() {
        for key in TASK_SETTINGS {
            let span = section.key_span(key);
            context
                .settings
                .borrow_mut()
                .extend(span.map(|span| (path.clone(), key, span)));
        }
    }
    let tasks = tables
        .into_iter()
        .filter_map(|(table, span)| tasks::task(table, span, context))
        .collect();
    let groups = section
        .tables("groups")
        .iter()
        .map(|e| group(e, &path, context))
        .collect();
    section.finish(&LATER_GROUP);
    Group {
        name: entry.name.to_owned(),
        path,
        weight: weight.unwrap_or(DEFAULT_WEIGHT),
        order: order.unwrap_or(Order::Fifo),
        class,
        nice,
        slice,
        tasks,
        groups,
    }
}

/// Reads `class` and `priority`, which belongs to one of the classes.
fn class(section: &mut Section<'_>) -> Class {
    let realtime = Class::RealTime { priority: 1 };
    let words = [
        ("fair", Class::Fair),
        ("idle", Class::Idle),
        ("realtime", realtime),
    ];
    let class = section.word("class", &words).unwrap_or(Class::Fair);
    let priority_span = section.value("priority").map(toml::Spanned::span);
    let priority = section
        .integer("priority", 1..=99)
        .and_then(|n| u8::try_from(n).ok());
    match (class, priority, priority_span) {
        (Class::RealTime { .. }, Some(priority), _) => Class::RealTime { priority },
        (Class::RealTime { .. }, None, None) => {
            let message = "`priority` is missing beside `class = \"realtime\"`".to_owned();
            section.report(
                section.span(),
                message,
                "allowed: an integer from 1 to 99".to_owned(),
            );
            class
        }
        (Class::Fair | Class::Idle, _, Some(span)) => {
            let message = "`priority` belongs to `class = \"realtime\"`".to_owned();
            let help = "remove it, or use `weight` to share the CPU".to_owned();
            section.report(span, message, help);
            class
        }
        _ => class,
    }
}

/// Reports a group name that cannot be part of a path.
fn check_name(section: &Section<'_>, entry: &NamedTable<'_>) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name = entry.name;
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) || name.starts_with('.') {
        let message = format!("`{name}` is not a group name");
        let help = "allowed: 1 to 64 letters, digits, `_`, `-` and `.`, not beginning with `.`";
        section.report(entry.span.clone(), message, help.to_owned());
    }
}

/// Reports a workload without tasks or with too many.
fn check_task_count(section: &Section<'_>, groups: &[Group], has_groups: bool) {
    fn count(groups: &[Group]) -> u64 {
        let own = |group: &Group| group.tasks.iter().map(tasks::started).sum::<u64>();
        groups
            .iter()
            .map(|group| own(group) + count(&group.groups))
            .sum()
    }
    let total = count(groups);
    if total > MOST_TASKS {
        let message = format!("the workload starts {total} tasks");
        section.report(0..0, message, format!("allowed: at most {MOST_TASKS}"));
    }
    // A task that was not understood has its own diagnostic, and is not missing.
    if total == 0 && has_groups && section.is_clean() {
        let message = "the workload has no tasks".to_owned();
        section.report(0..0, message, "write `[[groups.NAME.tasks]]`".to_owned());
    }
}

/// Reports references to groups that do not exist.
fn check_references(workload: &Workload, context: &Context<'_>) {
    let groups = workload.flatten();
    let paths: Vec<&str> = groups.iter().map(|group| group.path.as_str()).collect();
    for (path, span) in context.references.borrow().iter() {
        if paths.contains(&path.as_str()) {
            continue;
        }
        let help = match near_matches(path, &paths).first() {
            Some(near) => format!("did you mean `{near}`? allowed: {}", one_of(&paths)),
            None => format!("allowed: {}", one_of(&paths)),
        };
        let message = format!("there is no group `{path}`");
        context
            .diagnostics
            .borrow_mut()
            .push(span.clone(), message, help);
    }
}

/// Reports settings of tasks in groups where no task runs.
fn check_settings(context: &Context<'_>) {
    let references = context.references.borrow();
    for (path, key, span) in context.settings.borrow().iter() {
        if references.iter().any(|(referred, _)| referred == path) {
            continue;
        }
        let message = format!("`{key}` has no effect: group `{path}` has no tasks of its own");
        let help = "set it in the groups below that have tasks".to_owned();
        context
            .diagnostics
            .borrow_mut()
            .push(span.clone(), message, help);
    }
}
