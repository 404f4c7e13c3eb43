//! Flips two keys as fast as possible while other threads execute their sites.
//!
//! ```text
//! cargo run --release -p evenkeel-static-key --example stress -- --seconds 60 --observers 2
//! cargo run --release -p evenkeel-static-key --example stress -- --control torn
//! ```
//!
//! The first form counts how often a branch that began after a flip had returned, and ended before
//! the next began, gave the old value. It must be never, and it exits with an error otherwise.
//! Sites lie at every offset in a cache line and across page boundaries.
//!
//! The second is the control: in a process of its own a site is changed as one must not do it, five
//! bytes in two pieces. That process must crash; if it does not, this machine's stress proves
//! nothing, and the program exits with an error.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(feature = "portable")))]
#[path = "stress/sites_x86_64.rs"]
mod sites;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(feature = "portable"))))]
#[path = "stress/sites_portable.rs"]
mod sites;

use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_static_key::StaticKey;
use sites::{A, B, FUNCTIONS, torn_writes};

/// What a flipper says about its key: the number of flips begun and ended, so odd during a flip;
/// the key is on after 2, 6, 10, …
static PHASES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static STOP: AtomicBool = AtomicBool::new(false);

/// What an observer counted.
#[derive(Default)]
struct Seen {
    /// Branches that were executed.
    executed: u64,
    /// Branches that began and ended between two flips, by the value they had to give.
    checked: [u64; 2],
    /// Those that gave the other.
    wrong: u64,
}

impl Seen {
    fn check(&mut self, before: u64, after: u64, values: [bool; 2]) {
        self.executed += values.len() as u64;
        if before != after || !before.is_multiple_of(2) {
            return;
        }
        let expected = before % 4 == 2;
        self.checked[usize::from(expected)] += values.len() as u64;
        self.wrong += values.iter().filter(|value| **value != expected).count() as u64;
    }
}

fn observe() -> Seen {
    let mut seen = Seen::default();
    let phases = || [0, 1].map(|key: usize| PHASES[key].load(Ordering::SeqCst));
    while !STOP.load(Ordering::Relaxed) {
        for function in FUNCTIONS {
            let before = phases();
            let values = function();
            let after = phases();
            for key in 0..2 {
                seen.check(before[key], after[key], values[key]);
            }
        }
    }
    seen
}

/// Flips `key` until told to stop; returns the number of flips, and of sites that were armed.
fn flip(index: usize, key: &'static StaticKey) -> (u64, usize) {
    let (mut flips, mut armed) = (0, 0);
    while !STOP.load(Ordering::Relaxed) {
        for value in [true, false] {
            PHASES[index].fetch_add(1, Ordering::SeqCst);
            let flipped = if value { key.enable() } else { key.disable() };
            flipped.expect("nothing denies patching");
            PHASES[index].fetch_add(1, Ordering::SeqCst);
            flips += 1;
            // An error means a build that does not patch; flips of the flag are checked then.
            armed += key.arm().unwrap_or(0);
        }
    }
    (flips, armed)
}

fn describe_sites() {
    const LINE: usize = 64;
    const PAGE: usize = 4096;
    const SITE: usize = 5;
    for key in [&A, &B] {
        let sites = key.sites();
        let crossing = |unit: usize| {
            let crosses = |address: usize| address % unit > unit - SITE;
            sites.iter().filter(|site| crosses(site.address)).count()
        };
        let (lines, pages) = (crossing(LINE), crossing(PAGE));
        println!(
            "key {}: {} sites, {lines} across cache lines, {pages} across pages",
            key.name(),
            sites.len()
        );
    }
}

fn stress(seconds: u64, observers: usize) -> ExitCode {
    match [A.arm(), B.arm()] {
        [Ok(a), Ok(b)] => println!("armed {a} and {b} sites"),
        errors => println!("not armed, flags only: {errors:?}"),
    }
    describe_sites();
    let start = Instant::now();
    let flippers = [(0, &A), (1, &B)].map(|(index, key)| thread::spawn(move || flip(index, key)));
    let observers: Vec<_> = (0..observers).map(|_| thread::spawn(observe)).collect();
    thread::sleep(Duration::from_secs(seconds));
    STOP.store(true, Ordering::Relaxed);
    let [a, b] = flippers.map(|flipper| flipper.join().expect("no panic"));
    let mut all = Seen::default();
    for observer in observers {
        let seen = observer.join().expect("no panic");
        all.executed += seen.executed;
        all.wrong += seen.wrong;
        for (sum, more) in all.checked.iter_mut().zip(seen.checked) {
            *sum += more;
        }
    }
    println!(
        "{:.1} s, {} + {} flips",
        start.elapsed().as_secs_f64(),
        a.0,
        b.0
    );
    // What was armed was disarmed by the next flip, but for the last time.
    println!("{} bytes of code written", 2 * (a.1 + b.1));
    println!("{} branches executed", all.executed);
    println!(
        "{} checked while off, {} while on",
        all.checked[0], all.checked[1]
    );
    println!("{} gave the old value", all.wrong);
    let is_good = all.wrong == 0 && all.checked.iter().all(|checked| *checked > 0);
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the torn writes in a process of its own and reports how it ended.
fn control_torn(seconds: u64) -> ExitCode {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program);
    child.args(["--control", "torn-child", "--seconds", &seconds.to_string()]);
    let status = child.status().expect("this program starts");
    println!("the process with torn writes: {status}");
    if status.code().is_none() {
        println!("it crashed, as it must");
        return ExitCode::SUCCESS;
    }
    println!("it did not crash: the stress proves nothing here");
    ExitCode::FAILURE
}

fn torn_child(seconds: u64) -> ExitCode {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let observer = thread::spawn(observe);
    torn_writes(|| Instant::now() < deadline);
    STOP.store(true, Ordering::Relaxed);
    observer.join().expect("no panic");
    ExitCode::SUCCESS
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let number = |name: &str, default: u64| match value(name).map(str::parse::<u64>) {
        None => default,
        Some(Ok(number)) if number > 0 => number,
        Some(_) => {
            eprintln!("{name} takes a whole number above 0");
            std::process::exit(2);
        }
    };
    let seconds = number("--seconds", 10);
    match value("--control") {
        None => stress(seconds, number("--observers", 2) as usize),
        Some("torn") => control_torn(seconds),
        Some("torn-child") => torn_child(seconds),
        Some(other) => {
            eprintln!("--control takes `torn`, not `{other}`");
            ExitCode::from(2)
        }
    }
}
