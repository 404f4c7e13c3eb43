//! Reads the tasks of a group, kind by kind.

use std::ops::Range;
use std::time::Duration;

use toml::de::DeTable;

use super::model::{Compress, Files, Hash, Http, Kind, Lock, Mutex, Spin, Task, Tick};
use super::parse::Context;
use super::section::Section;

/// Reads the settings of one kind.
type Read = fn(&mut Section<'_>, &Context<'_>) -> Option<Kind>;

/// The words that `kind` takes, and how the settings of each are read.
const KINDS: [(&str, Read); 6] = [
    ("hash", hash),
    ("compress", compress),
    ("http", http),
    ("tick", tick),
    ("spin", spin),
    ("lock", lock),
];

/// Keys of tasks that the design knows and the program does not support yet.
const LATER: [&str; 6] = [
    "nice",
    "slice",
    "class",
    "uclamp_min",
    "uclamp_max",
    "preempt",
];

/// The longest CPU work of one poll, and the longest pause, period and think time.
const LONGEST_POLL: Duration = Duration::from_secs(10);
/// The shortest period of a heartbeat: Tokio's timers have a grain of 1 ms.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);
/// The sizes a chunk may have.
const CHUNK: std::ops::RangeInclusive<u64> = 64..=16 * 1024 * 1024;
/// The most replicas of one task.
const MOST_REPLICAS: i64 = 100_000;
/// The most connections of one `http` task.
const MOST_CONNECTIONS: i64 = 10_000;

/// Reads one task; `None` when its kind is not known or a key that it cannot do without is.
pub(super) fn task(table: &DeTable<'_>, span: Range<usize>, context: &Context<'_>) -> Option<Task> {
    let mut section = Section::new("a task", table, span, context.diagnostics);
    section.require(
        "kind",
        "`hash`, `compress`, `http`, `tick`, `spin` or `lock`",
    );
    // Without a kind no other key can be judged: `finish` would call them all unknown.
    let (name, read) = section.word("kind", &KINDS.map(|(name, read)| (name, (name, read))))?;
    section.rename(format!("a `{name}` task"));
    let count = section
        .integer("count", 1..=MOST_REPLICAS)
        .and_then(|n| u32::try_from(n).ok());
    let kind = read(&mut section, context);
    section.finish(&LATER);
    Some(Task {
        count: count.unwrap_or(1),
        kind: kind?,
    })
}

/// How many tasks an entry starts on the runtime, the load of a server included.
pub(super) fn started(task: &Task) -> u64 {
    let each = match &task.kind {
        // The listener; a serving task, a client and the client's transport for each connection.
        Kind::Http(http) => 1 + 3 * u64::from(http.connections),
        _ => 1,
    };
    u64::from(task.count) * each
}

/// Reads `files`, which both kinds that have it require.
fn files(section: &mut Section<'_>) -> Option<Files> {
    section.require("files", "an array of paths, directories and patterns");
    section
        .strings("files")
        .map(|(entries, span)| Files { entries, span })
}

fn hash(section: &mut Section<'_>, _: &Context<'_>) -> Option<Kind> {
    let files = files(section);
    let chunk = section.size("chunk", CHUNK).unwrap_or(64 * 1024);
    Some(Kind::Hash(Hash {
        files: files?,
        chunk,
    }))
}

fn compress(section: &mut Section<'_>, _: &Context<'_>) -> Option<Kind> {
    let files = files(section);
    let chunk = section.size("chunk", CHUNK).unwrap_or(16 * 1024);
    let level = section
        .integer("level", 0..=9)
        .and_then(|n| u32::try_from(n).ok())
        .unwrap_or(6);
    Some(Kind::Compress(Compress {
        files: files?,
        chunk,
        level,
    }))
}

fn http(section: &mut Section<'_>, context: &Context<'_>) -> Option<Kind> {
    let connections = section.integer("connections", 1..=MOST_CONNECTIONS);
    let think = section.duration("think", Duration::ZERO..=LONGEST_POLL);
    let body = section.size("body", 0..=16 * 1024 * 1024);
    let work = section.duration("work", Duration::ZERO..=LONGEST_POLL);
    let load_group = section.string("load_group");
    if let Some((path, span)) = &load_group {
        context
            .references
            .borrow_mut()
            .push(((*path).to_owned(), span.clone()));
    }
    Some(Kind::Http(Http {
        connections: connections.and_then(|n| u32::try_from(n).ok()).unwrap_or(8),
        think: think.unwrap_or(Duration::from_millis(1)),
        body: body.unwrap_or(1024),
        work: work.unwrap_or(Duration::ZERO),
        load_group: load_group.map(|(path, _)| path.to_owned()),
    }))
}

fn tick(section: &mut Section<'_>, _: &Context<'_>) -> Option<Kind> {
    section.require("every", "a string such as \"10ms\"");
    let every = section.duration("every", SHORTEST_PERIOD..=LONGEST_POLL);
    let late_after = section.duration("late_after", Duration::ZERO..=LONGEST_POLL);
    let work = section.duration("work", Duration::ZERO..=LONGEST_POLL);
    let every = every?;
    Some(Kind::Tick(Tick {
        every,
        late_after: late_after.unwrap_or(every),
        work: work.unwrap_or(Duration::ZERO),
    }))
}

fn spin(section: &mut Section<'_>, _: &Context<'_>) -> Option<Kind> {
    let poll = section.duration("poll", Duration::from_micros(1)..=LONGEST_POLL);
    let pause = section.duration("pause", Duration::ZERO..=LONGEST_POLL);
    Some(Kind::Spin(Spin {
        poll: poll.unwrap_or(Duration::from_micros(100)),
        pause: pause.unwrap_or(Duration::ZERO),
    }))
}

fn lock(section: &mut Section<'_>, _: &Context<'_>) -> Option<Kind> {
    let held = section.duration("held", Duration::ZERO..=LONGEST_POLL);
    let outside = section.duration("outside", Duration::ZERO..=LONGEST_POLL);
    let mutex = section.word("mutex", &[("async", Mutex::Async), ("std", Mutex::Std)]);
    Some(Kind::Lock(Lock {
        held: held.unwrap_or(Duration::from_micros(5)),
        outside: outside.unwrap_or(Duration::from_micros(20)),
        mutex: mutex.unwrap_or(Mutex::Async),
    }))
}
