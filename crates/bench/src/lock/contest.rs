//! One spin lock and those who contend for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Config;
use super::figures::Distribution;
use super::spin::{Held, Lock, Word};
use crate::work::{Pace, Steps};

/// While a contender spins it looks at the clock once in so many turns.
const TURNS_PER_CLOCK_READING: u32 = 1_024;

/// Watches what the scheduler does to one contender, around one attempt to take the lock.
///
/// The order of calls is `enter`, then either `exit` (somebody else was faster) or `acquired`,
/// `releasing`, `exit`.
pub trait Contender {
    /// Comes before the attempt, outside of any section.
    fn enter(&mut self);

    /// Starts to watch whether the CPU is taken away: the lock is held.
    fn acquired(&mut self);

    /// Stops watching: the lock is about to be released.
    fn releasing(&mut self);

    /// Comes after the release, outside of any section; returns what happened.
    fn exit(&mut self) -> Exit;
}

/// What happened to a contender between `enter` and `exit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Whether the CPU was taken away between `acquired` and `releasing`.
    pub is_preempted: bool,
    /// What became of the request for time.
    pub grant: Grant,
}

/// What became of a request for time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// None was given, because none was needed or none was asked for.
    None,
    /// Time was given, the section ended in it, and the CPU was then given up.
    Yielded,
    /// Time was given and was over, or was withdrawn, before the section ended.
    Expired,
}

/// The lock, the counter and the end of one round; shared by its contenders.
#[derive(Debug)]
pub struct Contest {
    lock: Word,
    /// Written only by the holder of the lock.
    counter: AtomicU64,
    is_over: AtomicBool,
    begin: Instant,
    deadline: Instant,
    contenders: usize,
    section: Steps,
    outside: Steps,
}

impl Contest {
    /// Begins a round: its time runs from now.
    pub(crate) fn begin(config: &Config, pace: Pace, lock: Lock) -> Contest {
        let begin = Instant::now();
        Contest {
            lock: Word::new(lock),
            counter: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            begin,
            deadline: begin + config.duration(),
            contenders: config.contenders(),
            section: pace.steps(config.section()),
            outside: pace.steps(config.outside()),
        }
    }

    /// Returns how many contenders there are to be.
    pub fn contenders(&self) -> usize {
        self.contenders
    }

    /// Returns for how long the round has been going on.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Returns how often the lock was taken, as the counter has it.
    pub(crate) fn counter(&self) -> u64 {
        self.counter.load(Ordering::Acquire)
    }

    /// Contends for the lock until the round is over. Every contender calls this once. The first
    /// to come takes the lock at least once, however late it comes.
    ///
    /// While it holds the lock it reads the clock twice. Where that is a system call (no vDSO
    /// clock), the kernel ends an extension there.
    pub fn contend(&self, contender: &mut impl Contender) -> Tally {
        let mut tally = Tally::new();
        loop {
            let asked = Instant::now();
            let Some(held) = self.acquire(contender, &mut tally) else {
                return tally;
            };
            contender.acquired();
            let taken = Instant::now();
            self.section.run();
            let number = self.counter.load(Ordering::Relaxed) + 1;
            self.counter.store(number, Ordering::Relaxed);
            let done = Instant::now();
            contender.releasing();
            drop(held);
            let exit = contender.exit();
            tally.add(taken - asked, done - taken, exit);
            self.end_if_due(done);
            // With the counter where it left it, this contender alone would take the lock again
            // and again, and nobody would contend.
            if !self.spin_while(|| self.counter.load(Ordering::Relaxed) == number) {
                return tally;
            }
            self.outside.run();
        }
    }

    /// Takes the lock; returns none when the round is over instead. Tries only when the lock looks
    /// free: who waits for a lock has no reason to keep its CPU.
    fn acquire(&self, contender: &mut impl Contender, tally: &mut Tally) -> Option<Held<'_>> {
        loop {
            if !self.spin_while(|| self.lock.is_locked()) {
                return None;
            }
            contender.enter();
            if let Some(held) = self.lock.try_lock() {
                return Some(held);
            }
            tally.add_grant(contender.exit().grant);
        }
    }

    /// Spins while `must_wait`; returns false as soon as the round is over.
    fn spin_while(&self, must_wait: impl Fn() -> bool) -> bool {
        let mut turns = 0_u32;
        while !self.is_over.load(Ordering::Relaxed) {
            if !must_wait() {
                return true;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS_PER_CLOCK_READING) {
                self.end_if_due(Instant::now());
            }
            std::hint::spin_loop();
        }
        false
    }

    fn end_if_due(&self, now: Instant) {
        if now >= self.deadline {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }
}

/// What one contender saw in one round.
#[derive(Clone, Debug)]
pub struct Tally {
    pub(crate) waits: Distribution,
    pub(crate) holds: Distribution,
    pub(crate) preempted: u64,
    pub(crate) yielded: u64,
    pub(crate) expired: u64,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            waits: Distribution::new(),
            holds: Distribution::new(),
            preempted: 0,
            yielded: 0,
            expired: 0,
        }
    }

    fn add(&mut self, wait: Duration, hold: Duration, exit: Exit) {
        self.waits.record(wait);
        self.holds.record(hold);
        self.preempted += u64::from(exit.is_preempted);
        self.add_grant(exit.grant);
    }

    fn add_grant(&mut self, grant: Grant) {
        self.yielded += u64::from(grant == Grant::Yielded);
        self.expired += u64::from(grant == Grant::Expired);
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.waits.merge(&other.waits);
        self.holds.merge(&other.holds);
        self.preempted += other.preempted;
        self.yielded += other.yielded;
        self.expired += other.expired;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripted exits, and a check of the order of calls.
    struct Script {
        exits: Vec<Exit>,
        calls: Vec<&'static str>,
    }

    impl Contender for Script {
        fn enter(&mut self) {
            self.calls.push("enter");
        }
        fn acquired(&mut self) {
            self.calls.push("acquired");
        }
        fn releasing(&mut self) {
            self.calls.push("releasing");
        }
        fn exit(&mut self) -> Exit {
            self.calls.push("exit");
            self.exits.pop().expect("one exit too many")
        }
    }

    fn contest(duration: Duration) -> Contest {
        let config = Config::new()
            .with_section(Duration::ZERO)
            .with_duration(duration);
        Contest::begin(&config, Pace::measure(), Lock::Plain)
    }

    #[test]
    fn a_contender_alone_gets_one_turn_and_ends_in_time() {
        let contest = contest(Duration::from_millis(1));
        let exit = Exit {
            is_preempted: true,
            grant: Grant::Yielded,
        };
        let mut script = Script {
            exits: vec![exit],
            calls: Vec::new(),
        };
        let tally = contest.contend(&mut script);
        assert_eq!(script.calls, ["enter", "acquired", "releasing", "exit"]);
        assert_eq!((tally.preempted, tally.yielded, tally.expired), (1, 1, 0));
        assert_eq!((tally.waits.count(), contest.counter()), (1, 1));
        assert!(contest.elapsed() >= Duration::from_millis(1));
    }

    #[test]
    fn grants_are_counted_by_what_became_of_them() {
        let mut tally = Tally::new();
        for grant in [Grant::None, Grant::Yielded, Grant::Expired, Grant::Expired] {
            tally.add_grant(grant);
        }
        let mut sum = Tally::new();
        sum.merge(&tally);
        sum.merge(&tally);
        assert_eq!((sum.yielded, sum.expired, sum.preempted), (2, 4, 0));
    }

    #[test]
    fn every_acquisition_is_counted_once() {
        let contest = contest(Duration::from_millis(5));
        let tallies: Vec<Tally> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let exits = Exit {
                            is_preempted: false,
                            grant: Grant::None,
                        };
                        contest.contend(&mut Always(exits))
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let sum: u64 = tallies.iter().map(|tally| tally.waits.count()).sum();
        assert_eq!(sum, contest.counter());
    }

    struct Always(Exit);

    impl Contender for Always {
        fn enter(&mut self) {}
        fn acquired(&mut self) {}
        fn releasing(&mut self) {}
        fn exit(&mut self) -> Exit {
            self.0
        }
    }
}
