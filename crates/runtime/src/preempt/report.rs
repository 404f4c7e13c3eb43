//! Reports of polls that take too long: who, for how long, and where in the code.
//!
//! Where a limit is set ([`Builder::report_long_polls`](crate::Builder::report_long_polls)) each
//! carrier notes when its poll began. A thread of its own, the reporter, looks at those notes while
//! any worker is awake. It signals a thread whose poll is over the limit; the handler there writes
//! the return addresses of its stack into the carrier's [`Note`], and the reporter turns them into
//! text. Unlike the monitor it allocates and prints, so it can be held up by a poll that is parked
//! inside the allocator; nothing waits for it.
//!
//! A thread that is blocked in the kernel is not signalled, since not every system call goes on
//! after that: such a poll is reported without a backtrace.
//!
//! The handler walks the stack with the unwinder of the C++ runtime, which in a signal handler
//! relies on glibc 2.35 or later (`_dl_find_object` takes no lock).

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::carrier::Carrier;
use super::crew::Roster;
use super::{Config, sys};
use crate::clock;
use crate::context;
use crate::group::{Event, GroupInner};
use crate::shared::Shared;
use crate::task::Meta;

/// Most frames that are noted.
const MAX_FRAMES: usize = 64;
/// Shortest time between two looks.
const MIN_PERIOD: Duration = Duration::from_millis(1);
/// Longest time between two looks.
const MAX_PERIOD: Duration = Duration::from_millis(100);
/// Looks with all workers asleep after which the reporter sleeps.
const QUIET_LOOKS: u32 = 4;
/// Most sites that are remembered; later ones are reported each time.
const MAX_SITES: usize = 4096;

/// Nothing was asked.
const IDLE: u8 = 0;
/// The handler is to write.
const ASKED: u8 = 1;
/// It has written.
const WRITTEN: u8 = 2;
/// The poll was reported, or need not be.
const DONE: u8 = 3;

/// What a carrier notes about its poll, and its handler about where that is.
pub(crate) struct Note {
    /// When the poll began, in ns; 0 while there is none, or nobody reports.
    began_ns: AtomicU64,
    /// Time for which it was parked, in ns.
    parked_ns: AtomicU64,
    /// When it was parked, in ns; 0 while it is not.
    parked_since_ns: AtomicU64,
    state: AtomicU8,
    /// What the addresses are of: the functions of the task's wakers, one set for each type of
    /// future.
    site: AtomicUsize,
    /// A counted reference.
    group: AtomicPtr<GroupInner>,
    nr_frames: AtomicU32,
    frames: [AtomicUsize; MAX_FRAMES],
}

impl Note {
    pub(super) fn new() -> Self {
        Self {
            began_ns: AtomicU64::new(0),
            parked_ns: AtomicU64::new(0),
            parked_since_ns: AtomicU64::new(0),
            state: AtomicU8::new(DONE),
            site: AtomicUsize::new(0),
            group: AtomicPtr::new(ptr::null_mut()),
            nr_frames: AtomicU32::new(0),
            frames: [const { AtomicUsize::new(0) }; MAX_FRAMES],
        }
    }

    /// A poll begins on this carrier.
    pub(crate) fn begin(&self) {
        self.parked_ns.store(0, Ordering::Relaxed);
        self.began_ns.store(clock::now_ns(), Ordering::Relaxed);
        // What the handler wrote about an earlier poll is still to be fetched.
        let _ = self
            .state
            .compare_exchange(DONE, IDLE, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The poll has ended; returns how long it took, without the time for which it was parked.
    pub(crate) fn end(&self) -> u64 {
        let began_ns = self.began_ns.swap(0, Ordering::Relaxed);
        if began_ns == 0 {
            return 0;
        }
        for state in [IDLE, ASKED] {
            let _ = self
                .state
                .compare_exchange(state, DONE, Ordering::AcqRel, Ordering::Relaxed);
        }
        self.age_ns(began_ns, clock::now_ns())
    }

    /// The poll is parked from now on, or no longer. Async-signal-safe.
    pub(crate) fn set_parked(&self, is_parked: bool) {
        if self.began_ns.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now_ns = clock::now_ns();
        if is_parked {
            self.parked_since_ns.store(now_ns, Ordering::Relaxed);
        } else {
            let since_ns = self.parked_since_ns.swap(0, Ordering::Relaxed);
            let parked_ns = now_ns.saturating_sub(since_ns);
            self.parked_ns.fetch_add(parked_ns, Ordering::Relaxed);
        }
    }

    fn age_ns(&self, began_ns: u64, now_ns: u64) -> u64 {
        let age_ns = now_ns.saturating_sub(began_ns);
        age_ns.saturating_sub(self.parked_ns.load(Ordering::Relaxed))
    }

    /// Returns how long the poll takes by now, if it is on no queue.
    fn running_ns(&self, now_ns: u64) -> Option<u64> {
        let began_ns = self.began_ns.load(Ordering::Relaxed);
        let is_parked = self.parked_since_ns.load(Ordering::Relaxed) != 0;
        (began_ns != 0 && !is_parked).then(|| self.age_ns(began_ns, now_ns))
    }
}

/// In the handler: writes down where this thread is, if that was asked; returns whether it was.
pub(super) fn write_note(note: &Note) -> bool {
    let is_asked = note.state.load(Ordering::Acquire) == ASKED;
    if is_asked {
        context::with_raw_task(|meta| write_note_of(note, meta));
    }
    is_asked
}

#[allow(unsafe_code)]
fn write_note_of(note: &Note, meta: &Meta) {
    let group = meta.group.get();
    // SAFETY: groups live in `Arc`s, and the task being polled keeps its group alive.
    unsafe { Arc::increment_strong_count(group) };
    note.group.store(group.cast_mut(), Ordering::Relaxed);
    note.site.store(meta.site(), Ordering::Relaxed);
    let mut nr_frames = 0;
    // SAFETY: "unsynchronized" concerns other users of the crate's caches for names, which tracing
    // does not touch.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            note.frames[nr_frames].store(frame.ip() as usize, Ordering::Relaxed);
            nr_frames += 1;
            nr_frames < MAX_FRAMES
        });
    }
    note.nr_frames.store(nr_frames as u32, Ordering::Relaxed);
    note.state.store(WRITTEN, Ordering::Release);
}

/// Counts a poll that was over the limit, at its end.
pub(crate) fn end_poll(note: &Note, meta: &Meta) {
    let limit_ns = meta.shared_ref().preempt.config().report_limit_ns();
    if note.end() > limit_ns {
        meta.group_ref().count_event(Event::OverLimit);
    }
}

impl Config {
    /// The limit for reports, in ns; `u64::MAX` where nothing is reported.
    pub(super) fn report_limit_ns(&self) -> u64 {
        let limit = self.report_limit;
        limit.map_or(u64::MAX, |limit| limit.as_nanos() as u64)
    }
}

/// Where the reporter sleeps while no worker is awake.
pub(crate) struct Reporter {
    awake: AtomicU32,
}

impl Reporter {
    pub(super) fn new() -> Self {
        Self {
            awake: AtomicU32::new(1),
        }
    }

    /// Makes it look again.
    pub(super) fn post(&self) {
        if self.awake.load(Ordering::SeqCst) == 0 && self.awake.swap(1, Ordering::SeqCst) == 0 {
            sys::futex_wake(&self.awake);
        }
    }

    /// Sleeps until posted, unless `is_needed` after that was announced.
    fn sleep(&self, is_needed: impl Fn() -> bool) {
        self.awake.store(0, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
        if is_needed() {
            self.awake.store(1, Ordering::SeqCst);
        }
        while self.awake.load(Ordering::Acquire) == 0 {
            sys::futex_wait(&self.awake, 0);
        }
    }
}

/// The body of the reporter's thread.
pub(super) fn report(roster: &Arc<Roster>, limit: Duration) {
    let shared = &roster[0].shared;
    let period = (limit / 4).clamp(MIN_PERIOD, MAX_PERIOD);
    let is_over = || shared.life.is_abandoned.load(Ordering::Acquire);
    let never = AtomicU32::new(0);
    let mut sites = HashMap::new();
    let mut quiet = 0;
    while !is_over() {
        sys::futex_wait_for(&never, 0, Some(period));
        let is_any_awake = look(shared, limit, &mut sites);
        quiet = if is_any_awake { 0 } else { quiet + 1 };
        if quiet >= QUIET_LOOKS {
            let reporter = &shared.preempt.reporter;
            reporter.sleep(|| is_over() || !shared.idle.all_parked());
            quiet = 0;
        }
    }
}

/// Looks at every carrier; returns whether there is a reason to look again.
fn look(shared: &Shared, limit: Duration, sites: &mut HashMap<usize, u64>) -> bool {
    let now_ns = clock::now_ns();
    let limit_ns = limit.as_nanos() as u64;
    let mut is_any_awake = !shared.idle.all_parked();
    for carrier in shared.preempt.crew.carriers() {
        let note = &carrier.note;
        let Some(age_ns) = note.running_ns(now_ns) else {
            fetch(note, limit_ns, sites);
            continue;
        };
        is_any_awake = true;
        if age_ns > limit_ns && note.state.load(Ordering::Acquire) == IDLE {
            ask(shared, carrier, age_ns);
        }
        fetch(note, age_ns, sites);
    }
    is_any_awake
}

/// Has a carrier's handler write, or reports that the thread is blocked.
fn ask(shared: &Shared, carrier: &Carrier, age_ns: u64) {
    let Some(tid) = carrier.tid() else { return };
    let state = &carrier.note.state;
    let is_blocked = sys::is_blocked(tid) == Some(true);
    let next = if is_blocked { DONE } else { ASKED };
    let asked = state.compare_exchange(IDLE, next, Ordering::AcqRel, Ordering::Relaxed);
    if asked.is_err() {
        return;
    }
    if is_blocked {
        tracing::warn!(
            target: "evenkeel::report",
            thread = tid,
            took_ms = age_ns / 1_000_000,
            "a poll blocks its thread in the kernel"
        );
    } else {
        sys::send_signal(tid, shared.preempt.config().signal);
    }
}

/// Reports what a handler has written.
#[allow(unsafe_code)]
fn fetch(note: &Note, age_ns: u64, sites: &mut HashMap<usize, u64>) {
    if note.state.load(Ordering::Acquire) != WRITTEN {
        return;
    }
    let group = note.group.swap(ptr::null_mut(), Ordering::Relaxed);
    let site = note.site.load(Ordering::Relaxed);
    let nr_frames = note.nr_frames.load(Ordering::Relaxed) as usize;
    let frames = note.frames[..nr_frames.min(MAX_FRAMES)].iter();
    let frames: Vec<usize> = frames.map(|ip| ip.load(Ordering::Relaxed)).collect();
    note.state.store(DONE, Ordering::Release);
    // SAFETY: the handler made this counted reference, and it was taken once.
    let Some(group) = (unsafe { (!group.is_null()).then(|| Arc::from_raw(group)) }) else {
        return;
    };
    if sites.len() < MAX_SITES {
        let seen = sites.entry(site).or_insert(0);
        *seen += 1;
        if *seen > 1 {
            return;
        }
    }
    tracing::warn!(
        target: "evenkeel::report",
        group = group.path(),
        took_ms = age_ns / 1_000_000,
        backtrace = text(&frames),
        "a poll takes long; polls of this kind of task are not reported again"
    );
}

/// Turns return addresses into names and places, from the code that was interrupted to the poll
/// function of the task.
fn text(frames: &[usize]) -> String {
    let mut lines = Vec::new();
    // The outermost frame has the address 0.
    for &ip in frames.iter().filter(|&&ip| ip > 0) {
        // A return address is behind the call. With inlining one address has several names.
        backtrace::resolve((ip - 1) as *mut _, |symbol| lines.push(line(symbol)));
    }
    let is_handler = |line: &String| line.contains("preempt::switch::on_signal");
    let begin = lines.iter().rposition(is_handler).map_or(0, |at| at + 1);
    let is_poll = |line: &String| line.contains("evenkeel::task::future");
    let end = lines[begin..].iter().position(is_poll);
    let own = &lines[begin..end.map_or(lines.len(), |end| begin + end)];
    own.iter()
        .filter(|line| !line.is_empty())
        .fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
}

/// Names a function and its place; empty where nothing is known.
fn line(symbol: &backtrace::Symbol) -> String {
    let Some(name) = symbol.name() else {
        return String::new();
    };
    match (symbol.filename(), symbol.lineno()) {
        (Some(file), Some(line)) => format!("{name:#} at {}:{line}", file.display()),
        _ => format!("{name:#}"),
    }
}
