//! What the kernel says about a process: memory, context switches, CPU time.

use std::collections::BTreeMap;
use std::io;

/// Returns a field of `/proc/self/status` that is given in kB, in bytes.
///
/// # Errors
///
/// When the file cannot be read or has no such field.
pub fn status_bytes(field: &str) -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    number(&status, field).map(|kilobytes| kilobytes * 1024)
}

/// Returns a field of `/proc/meminfo`, memory of the whole machine, in bytes.
///
/// # Errors
///
/// When the file cannot be read or has no such field.
pub fn machine_bytes(field: &str) -> io::Result<u64> {
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    number(&memory, field).map(|kilobytes| kilobytes * 1024)
}

/// Returns the CPU time that the only thread of process `pid` has used, in nanoseconds.
///
/// # Errors
///
/// When the process does not exist, or the kernel keeps no account.
pub fn cpu_time_of(pid: u32) -> io::Result<u64> {
    let account = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let used = account.split_whitespace().next();
    used.and_then(|used| used.parse().ok())
        .ok_or_else(|| io::Error::other("no number in the scheduler's account"))
}

/// Context switches of one thread since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Name of the thread.
    pub name: String,
    /// Times the thread stopped by itself: each is followed by a wake-up.
    pub voluntary: u64,
    /// Times the kernel gave the CPU to somebody else.
    pub involuntary: u64,
}

/// Returns the context switches of every thread of process `pid`, by thread number.
///
/// # Errors
///
/// When the process does not exist. A thread that ends meanwhile is left out.
pub fn switches(pid: u32) -> io::Result<BTreeMap<String, Switches>> {
    let mut threads = BTreeMap::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let entry = entry?;
        if let Ok(status) = std::fs::read_to_string(entry.path().join("status")) {
            threads.insert(
                entry.file_name().to_string_lossy().into_owned(),
                parse(&status)?,
            );
        }
    }
    Ok(threads)
}

/// Returns what `after` has more than `before`, for each thread that has more.
pub fn switches_since(
    before: &BTreeMap<String, Switches>,
    after: &BTreeMap<String, Switches>,
) -> BTreeMap<String, Switches> {
    let mut more = BTreeMap::new();
    for (thread, now) in after {
        let then = before.get(thread).cloned().unwrap_or_default();
        let voluntary = now.voluntary - then.voluntary;
        let involuntary = now.involuntary - then.involuntary;
        if voluntary + involuntary > 0 {
            let name = now.name.clone();
            more.insert(
                thread.clone(),
                Switches {
                    name,
                    voluntary,
                    involuntary,
                },
            );
        }
    }
    more
}

/// Returns the CPU time of the calling process, user and system together, in nanoseconds.
pub fn cpu_time_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn parse(status: &str) -> io::Result<Switches> {
    let name = status.lines().find_map(|line| line.strip_prefix("Name:"));
    Ok(Switches {
        name: name.unwrap_or("").trim().to_owned(),
        voluntary: number(status, "voluntary_ctxt_switches")?,
        involuntary: number(status, "nonvoluntary_ctxt_switches")?,
    })
}

fn number(status: &str, field: &str) -> io::Result<u64> {
    let value = |line: &str| {
        line.strip_prefix(field)?
            .strip_prefix(':')
            .map(str::to_owned)
    };
    let value = status.lines().find_map(value);
    value
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| io::Error::other(format!("no `{field}` in the status file")))
}

#[cfg(test)]
mod tests {
    //! A status file as the kernel writes it, and this process's own.
    use super::*;

    const STATUS: &str = "Name:\tworker 1\nVmRSS:\t    12 kB\n\
        voluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";

    #[test]
    fn status_is_parsed() {
        let expected = Switches {
            name: "worker 1".to_owned(),
            voluntary: 7,
            involuntary: 3,
        };
        assert_eq!(parse(STATUS).expect("parses"), expected);
        assert_eq!(number(STATUS, "VmRSS").expect("parses"), 12);
        assert!(number(STATUS, "VmHWM").is_err());
    }

    #[test]
    fn only_threads_that_ran_are_reported() {
        let switches = |voluntary| Switches {
            name: String::new(),
            voluntary,
            involuntary: 0,
        };
        let before = BTreeMap::from([("1".to_owned(), switches(5)), ("2".to_owned(), switches(5))]);
        let mut after = before.clone();
        after.insert("2".to_owned(), switches(7));
        after.insert("3".to_owned(), switches(1));
        let more = switches_since(&before, &after);
        let counts: Vec<(&str, u64)> = more
            .iter()
            .map(|(thread, s)| (thread.as_str(), s.voluntary))
            .collect();
        assert_eq!(counts, [("2", 2), ("3", 1)]);
    }

    #[test]
    fn a_thread_that_waits_is_counted() {
        let pid = std::process::id();
        let before = switches(pid).expect("a process has threads");
        // Reads the output of a child process until it ends, and so waits.
        let program = std::env::current_exe().expect("the test has a file");
        let child = std::process::Command::new(program).arg("--list").output();
        assert!(child.expect("the child runs").status.success());
        let after = switches(pid).expect("a process has threads");
        let more = switches_since(&before, &after);
        assert!(more.values().map(|thread| thread.voluntary).sum::<u64>() > 0);
    }

    #[test]
    fn this_process_is_readable() {
        assert!(status_bytes("VmRSS").expect("a process has memory") > 0);
        assert!(
            !switches(std::process::id())
                .expect("a process has threads")
                .is_empty()
        );
        assert!(cpu_time_ns() > 0);
        assert!(machine_bytes("MemTotal").expect("a machine has memory") > 0);
        assert!(cpu_time_of(std::process::id()).is_ok());
    }
}
