//! Tests of reading workloads: what is understood, and what is reported where.

use std::path::Path;
use std::time::Duration;

use super::Document;
use super::model::{Class, Http, Io, Kind, Lock, Mutex, Order, Spin, Tick};
use super::parse;

/// Reads a text that is not a workload and compares what is reported: for each error
/// `line:column message / help`.
fn check(text: &str, expected: &[&str]) {
    let path = Path::new("w.toml");
    let error = match parse::workload(path, text) {
        Ok(workload) => panic!("this was understood: {text}\n{workload:?}"),
        Err(error) => error.to_string(),
    };
    let mut reports: Vec<String> = Vec::new();
    for line in error.lines() {
        if let Some(message) = line.strip_prefix("error: ") {
            reports.push(message.to_owned());
        } else if let Some((_, place)) = line.split_once("--> w.toml:") {
            let last = reports
                .last_mut()
                .expect("a message comes before its place");
            *last = format!("{place} {last}");
        } else if let Some((_, help)) = line.split_once(" = ")
            && line.trim_start().starts_with('=')
        {
            reports
                .last_mut()
                .expect("as above")
                .push_str(&format!(" / {help}"));
        }
    }
    assert_eq!(reports, expected, "{error}");
    let count = if expected.len() == 1 {
        "1 error".into()
    } else {
        format!("{} errors", expected.len())
    };
    assert!(error.ends_with(&format!("{count} in w.toml")), "{error}");
}

/// Reads a group `g` with these lines in it and one task.
fn check_group(lines: &str, expected: &[&str]) {
    check(
        &format!("[groups.g]\ntasks = [{{ kind = \"spin\" }}]\n{lines}"),
        expected,
    );
}

/// Reads a group with one task of these settings.
fn check_task(settings: &str, expected: &[&str]) {
    check(&format!("[[groups.g.tasks]]\n{settings}"), expected);
}

#[test]
fn a_small_workload_has_defaults() {
    let workload = Document::from_text("groups.g.tasks = [{ kind = \"spin\" }]").workload;
    assert_eq!(workload.duration, Duration::from_secs(10));
    assert_eq!(workload.warm_up, Duration::ZERO);
    assert_eq!(
        (workload.seed, workload.threads, workload.io),
        (0, None, Io::Shared)
    );
    let [group] = &workload.groups[..] else {
        panic!("one group")
    };
    assert_eq!(
        (group.name.as_str(), group.path.as_str(), group.weight),
        ("g", "/g", 100)
    );
    assert_eq!((group.order, group.class), (Order::Fifo, Class::Fair));
    assert_eq!((group.nice, group.slice), (None, None));
    let [task] = &group.tasks[..] else {
        panic!("one task")
    };
    let spin = Spin {
        poll: Duration::from_micros(100),
        pause: Duration::ZERO,
    };
    assert_eq!((task.count, &task.kind), (1, &Kind::Spin(spin)));
}

#[test]
fn every_setting_is_read() {
    let text = r#"
        duration = "1.5s"
        warm_up = "250ms"
        seed = 0x2a
        threads = 3
        io = "dedicated"
        [groups.z]
        weight = 300
        order = "fair"
        class = "realtime"
        priority = 7
        nice = -3
        slice = "0.5ms"
        tasks = [{ kind = "spin" }]
        [[groups.z.groups.b.tasks]]
        kind = "http"
        count = 2
        connections = 5
        think = "3ms"
        body = "2KiB"
        work = "40us"
        load_group = "/a"
        [groups.a]
        class = "idle"
        tasks = [
            { kind = "tick", every = "10ms", late_after = "2ms", work = "1us" },
            { kind = "lock", held = "5us", outside = "7us", mutex = "std" },
        ]
    "#;
    let workload = Document::from_text(text).workload;
    assert_eq!(workload.duration, Duration::from_millis(1500));
    assert_eq!(workload.warm_up, Duration::from_millis(250));
    assert_eq!(
        (workload.seed, workload.threads, workload.io),
        (42, Some(3), Io::Dedicated)
    );
    let groups = workload.flatten();
    let paths: Vec<&str> = groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/z", "/z/b", "/a"], "the order of the file is kept");
    let z = groups[0];
    assert_eq!((z.weight, z.order, z.nice), (300, Order::Fair, Some(-3)));
    assert_eq!(z.class, Class::RealTime { priority: 7 });
    assert_eq!(z.slice, Some(Duration::from_micros(500)));
    let http = Http {
        connections: 5,
        think: Duration::from_millis(3),
        body: 2048,
        work: Duration::from_micros(40),
        load_group: Some("/a".to_owned()),
    };
    assert_eq!(
        (groups[1].tasks[0].count, &groups[1].tasks[0].kind),
        (2, &Kind::Http(http))
    );
    let tick = Tick {
        every: Duration::from_millis(10),
        late_after: Duration::from_millis(2),
        work: Duration::from_micros(1),
    };
    let lock = Lock {
        held: Duration::from_micros(5),
        outside: Duration::from_micros(7),
        mutex: Mutex::Std,
    };
    assert_eq!(groups[2].class, Class::Idle);
    assert_eq!(groups[2].tasks[0].kind, Kind::Tick(tick));
    assert_eq!(groups[2].tasks[1].kind, Kind::Lock(lock));
}

#[test]
fn text_that_is_not_toml() {
    check(
        "a = \n[b\n",
        &[
            "1:5 not valid TOML: string values must be quoted, expected literal string",
            "2:3 not valid TOML: unclosed table, expected `]`",
        ],
    );
    check(
        "[groups.g]\nweight = 1\nweight = 2",
        &["3:1 not valid TOML: duplicate key"],
    );
}

#[test]
fn a_workload_without_tasks() {
    check(
        "",
        &["1:1 `groups` is missing from a workload / allowed: tables \
             `[groups.NAME]` with tasks in them"],
    );
    check(
        "[groups.g]",
        &["1:1 the workload has no tasks / write `[[groups.NAME.tasks]]`"],
    );
    check(
        "[[tasks]]\nkind = \"spin\"\n[groups.g]\n",
        &["1:3 tasks belong to a group / write `[[groups.NAME.tasks]]`"],
    );
}

#[test]
fn top_level_values() {
    check(
        "duration = 5\nwarm_up = \"soon\"\nthreads = 0\nseed = -1\nio = \"of\"\n\
         groups.g.tasks = [{ kind = \"spin\" }]",
        &[
            "1:12 `duration` has the wrong type: integer / allowed: a string such as \"10ms\", \
             from 10ms to 24h (units: ns, us, µs, ms, s, min, h)",
            "2:11 `warm_up = \"soon\"` is not a duration / allowed: a string such as \"10ms\", \
             from 0s to 24h (units: ns, us, µs, ms, s, min, h)",
            "3:11 `threads = 0` is out of range / allowed: an integer from 1 to 1024",
            "4:8 `seed = -1` is out of range / allowed: an integer from 0 to 9223372036854775807",
            "5:6 `io = \"of\"` is not known / allowed: `shared` or `dedicated`",
        ],
    );
}

#[test]
fn unknown_keys_name_their_neighbours() {
    let allowed = "allowed: `duration`, `warm_up`, `seed`, `threads`, `io`, `groups`";
    check(
        "warmup = \"1s\"\nelephants = 3\ngroups.g.tasks = [{ kind = \"spin\" }]",
        &[
            &format!("1:1 unknown key `warmup` in a workload / did you mean `warm_up`? {allowed}"),
            &format!("2:1 unknown key `elephants` in a workload / {allowed}"),
        ],
    );
    check_group(
        "wieght = 3",
        &[
            "3:1 unknown key `wieght` in group `/g` / did you mean `weight`? allowed: `weight`, \
           `order`, `class`, `priority`, `nice`, `slice`, `tasks`, `groups`",
        ],
    );
    check_task(
        "kind = \"spin\"\npol = \"1ms\"",
        &[
            "3:1 unknown key `pol` in a `spin` task / did you mean `poll`? allowed: `kind`, \
           `count`, `poll`, `pause`",
        ],
    );
}

#[test]
fn later_knobs_are_named() {
    let remove = "is not supported yet / remove it from the file";
    for knob in [
        "quota",
        "period",
        "burst",
        "uclamp_min",
        "uclamp_max",
        "preempt",
        "idle",
    ] {
        check_group(&format!("{knob} = 1"), &[&format!("3:1 `{knob}` {remove}")]);
    }
    check_task(
        "kind = \"spin\"\nuclamp_min = 1",
        &[&format!("3:1 `uclamp_min` {remove}")],
    );
    check(
        "preempt = 1\ngroups.g.tasks = [{ kind = \"spin\" }]",
        &[&format!("1:1 `preempt` {remove}")],
    );
}

#[test]
fn group_values() {
    check_group(
        "weight = 10001\norder = \"fari\"\nnice = 20\nslice = \"101ms\"",
        &[
            "3:10 `weight = 10001` is out of range / allowed: an integer from 1 to 10000",
            "4:9 `order = \"fari\"` is not known / did you mean `fair`? allowed: `fifo` or `fair`",
            "5:8 `nice = 20` is out of range / allowed: an integer from -20 to 19",
            "6:9 `slice = \"101ms\"` is out of range / allowed: a string such as \"10ms\", from \
             100us to 100ms (units: ns, us, µs, ms, s, min, h)",
        ],
    );
    check_group(
        "weight = 99999999999999999999",
        &[
            "3:10 `weight = 99999999999999999999` is out of range / allowed: an integer from 1 \
             to 10000",
        ],
    );
    check_group(
        "weight = 1.5",
        &["3:10 `weight` has the wrong type: float / allowed: an integer from 1 to 10000"],
    );
}

#[test]
fn priorities_belong_to_realtime() {
    check_group(
        "class = \"realtime\"",
        &[
            "1:9 `priority` is missing beside `class = \"realtime\"` / allowed: an integer from \
             1 to 99",
        ],
    );
    check_group(
        "priority = 3",
        &[
            "3:12 `priority` belongs to `class = \"realtime\"` / remove it, or use `weight` to \
             share the CPU",
        ],
    );
    check_group(
        "class = \"realtime\"\npriority = 100",
        &["4:12 `priority = 100` is out of range / allowed: an integer from 1 to 99"],
    );
}

#[test]
fn settings_of_tasks_need_tasks() {
    let below = "[groups.p.groups.c]\ntasks = [{ kind = \"spin\" }]";
    let set = "set it in the groups below that have tasks";
    check(
        &format!("[groups.p]\nweight = 3\nclass = \"idle\"\nslice = \"1ms\"\n{below}"),
        &[
            &format!("3:1 `class` has no effect: group `/p` has no tasks of its own / {set}"),
            &format!("4:1 `slice` has no effect: group `/p` has no tasks of its own / {set}"),
        ],
    );
    let load = "[[groups.s.tasks]]\nkind = \"http\"\nload_group = \"/p\"";
    let loaded = Document::from_text(&format!("[groups.p]\nclass = \"idle\"\n{below}\n{load}"));
    assert_eq!(loaded.workload.groups[0].class, Class::Idle);
}

#[test]
fn group_names_can_stand_in_paths() {
    let allowed = "allowed: 1 to 64 letters, digits, `_`, `-` and `.`, not beginning with `.`";
    for name in ["a/b", "", ".hidden", "two words", "é"] {
        check(
            &format!("[[groups.\"{name}\".tasks]]\nkind = \"spin\""),
            &[&format!("1:10 `{name}` is not a group name / {allowed}")],
        );
    }
    check(
        "groups = 3",
        &[
            "1:10 `groups` has the wrong type: integer / allowed: a table, such as \
        `[groups.NAME]`",
        ],
    );
    check(
        "[groups]\nweight = 3\n[[groups.g.tasks]]\nkind = \"spin\"",
        &["2:1 `weight` in `groups` is not a table / allowed: tables, such as `[groups.weight]`"],
    );
}

#[test]
fn tasks_need_a_kind_and_what_the_kind_needs() {
    let kinds = "`hash`, `compress`, `http`, `tick`, `spin` or `lock`";
    check_task(
        "count = 3",
        &[&format!(
            "1:1 `kind` is missing from a task / allowed: {kinds}"
        )],
    );
    check_task(
        "kind = \"spn\"",
        &[&format!(
            "2:8 `kind = \"spn\"` is not known / did you mean `spin`? allowed: {kinds}"
        )],
    );
    check_task(
        "kind = \"tick\"",
        &["1:1 `every` is missing from a `tick` task / allowed: a string such as \"10ms\""],
    );
    for kind in ["hash", "compress"] {
        check_task(
            &format!("kind = \"{kind}\""),
            &[&format!(
                "1:1 `files` is missing from a `{kind}` task / allowed: an array of paths, \
                 directories \
             and patterns"
            )],
        );
        check_task(
            &format!("kind = \"{kind}\"\nfiles = []"),
            &["3:9 `files` has the wrong type: array / allowed: an array of strings, not empty"],
        );
    }
    check(
        "groups.g.tasks = 3",
        &[
            "1:18 `tasks` has the wrong type: integer / allowed: an array of tables, such as \
         `[[…tasks]]` or `[{ … }]`",
        ],
    );
}

#[test]
fn task_values() {
    check_task(
        "kind = \"spin\"\ncount = 0\npoll = \"0s\"",
        &[
            "3:9 `count = 0` is out of range / allowed: an integer from 1 to 100000",
            "4:8 `poll = \"0s\"` is out of range / allowed: a string such as \"10ms\", from 1us \
             to 10s \
         (units: ns, us, µs, ms, s, min, h)",
        ],
    );
    check_task(
        "kind = \"hash\"\nfiles = [\"a\"]\nchunk = \"1B\"",
        &[
            "4:9 `chunk = \"1B\"` is out of range / allowed: a string such as \"64KiB\", from \
             64 to \
         16777216 bytes (units: B, kB, MB, GB, KiB, MiB, GiB)",
        ],
    );
    check_task(
        "kind = \"spin\"\ncount = 100000\n[[groups.h.tasks]]\nkind = \"http\"\n\
                connections = 10000\ncount = 100",
        &["1:1 the workload starts 3100100 tasks / allowed: at most 1000000"],
    );
}

#[test]
fn references_to_groups_are_checked() {
    let http = "kind = \"http\"\nload_group = ";
    check_task(
        &format!("{http}\"/h\""),
        &["3:14 there is no group `/h` / did you mean `/g`? allowed: `/g`"],
    );
    check_task(
        &format!("{http}3"),
        &["3:14 `load_group` has the wrong type: integer / allowed: a string"],
    );
}

#[test]
fn files_are_found_read_and_reported() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("created");
        std::fs::write(path, bytes).expect("written");
    };
    write("in/a.txt", b"alpha");
    write("in/deep/b.txt", b"beta");
    write("in/deep/c.rs", b"gamma");
    write("in/.hidden/d.txt", b"delta");
    write("in/empty.txt", b"");
    let load = |files: &str| {
        let text = format!("groups.g.tasks = [{{ kind = \"hash\", files = {files} }}]");
        write("w.toml", text.as_bytes());
        let document = Document::read(&directory.path().join("w.toml")).expect("valid");
        document.load_files().map(|loaded| {
            let inputs = loaded.inputs(0, 0).expect("a kind with files");
            inputs
                .iter()
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                .collect()
        })
    };
    let check_found = |files: &str, expected: &[&str]| {
        let found: Vec<String> = load(files).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, expected, "{files}");
    };
    check_found("[\"in\"]", &["alpha", "beta", "gamma"]);
    check_found("[\"in/**/*.txt\"]", &["alpha", "beta"]);
    check_found(
        "[\"in/deep/?.rs\", \"in/a.txt\", \"in/*.txt\"]",
        &["alpha", "gamma"],
    );
    let check_missing = |files: &str, message: &str| {
        let error = load(files).expect_err(files).to_string();
        assert!(error.contains(message), "{error}");
        assert!(
            error.contains("w.toml:1:") && error.contains("1 error in"),
            "{error}"
        );
    };
    check_missing("[\"in/a.txt\", \"nowhere\"]", "there is no file `");
    check_missing("[\"in/*.zip\"]", "no file matches `in/*.zip`");
    check_missing("[\"in/a***b\"]", "`in/a***b` is not a pattern");
    check_missing("[\"in/empty.txt\"]", "the files are all empty");
}

/// The annotated list of all keys.
const REFERENCE: &str = include_str!("../../../../examples/reference.toml");

#[test]
fn the_reference_shows_the_defaults() {
    let is_default = |line: &&str| {
        let comment = line.split_once(" # ").map_or("", |(_, comment)| comment);
        let is_marked =
            comment.trim().starts_with("needed") || comment.trim().starts_with("example");
        line.contains(" = ") && !line.starts_with('#') && !is_marked
    };
    let dropped = REFERENCE.lines().filter(is_default).count();
    // Blank lines keep every place in the file where it was.
    let blank = |line: &str| " ".repeat(line.len());
    let lines = REFERENCE.lines().map(|l| {
        if is_default(&l) {
            blank(l)
        } else {
            l.to_owned()
        }
    });
    let without: Vec<String> = lines.collect();
    assert!(dropped > 20, "only {dropped} lines show defaults");
    let (whole, without) = (
        Document::from_text(REFERENCE),
        Document::from_text(&without.join("\n")),
    );
    assert_eq!(without.workload, whole.workload);
}

#[test]
fn the_reference_has_every_key() {
    let mut texts = vec!["zz = 1".to_owned(), "[groups.g]\nzz = 1".to_owned()];
    for kind in ["hash", "compress", "http", "tick", "spin", "lock"] {
        texts.push(format!("[[groups.g.tasks]]\nkind = \"{kind}\"\nzz = 1"));
    }
    for text in texts {
        let error = parse::workload(Path::new("w.toml"), &text).expect_err("unknown key");
        let error = error.to_string();
        let allowed = error
            .lines()
            .skip_while(|line| !line.contains("unknown key `zz`"))
            .find_map(|line| line.split_once("= allowed: "))
            .map(|(_, allowed)| allowed)
            .expect("the allowed keys are named");
        for key in allowed.split(", ").map(|key| key.trim_matches('`')) {
            let is_there = REFERENCE.lines().any(|line| {
                line.starts_with(&format!("{key} = "))
                    || line.starts_with(&format!("[{key}."))
                    || line.starts_with('[') && line.contains(&format!(".{key}"))
            });
            assert!(is_there, "`{key}` is not in the reference: {text}");
        }
    }
}
