//! A model of the flip protocol: every interleaving of flips, references, arming and branches.
//!
//! Run it with
//! `RUSTFLAGS="--cfg loom" cargo test -p evenkeel-static-key --test loom --release`.
//!
//! Code is modelled by one boolean a kind of site and core: whether the core executes the armed
//! form. A core goes on executing what it has fetched until it is made to synchronise; that is the
//! worst that hardware may do. Arming reaches a core at once, or never.
#![cfg(loom)]
#![allow(dead_code, reason = "the model leaves out the lock-free accessors")]

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
}

#[path = "../src/state.rs"]
mod state;

use state::{Attempt, RefError, State, Text};

/// Cores that execute sites: the main thread's is 0.
const CORES: usize = 3;

/// One key with an `unlikely` and a `likely` site (indexed by the value of falling through).
struct Machine {
    state: State,
    lock: Mutex<Patched>,
    /// Whether core `c` executes the armed form of site `s`: `fetched[c][s]`.
    fetched: [[AtomicBool; 2]; CORES],
}

/// What the lock guards: the code as it lies in memory, and what patching does in this model.
#[derive(Default)]
struct Patched {
    armed: [bool; 2],
    is_stale: bool,
    denies_sync: bool,
    forgets_sync: bool,
}

#[derive(Debug, PartialEq)]
struct Denied;

struct Code<'a> {
    patched: &'a mut Patched,
    fetched: &'a [[AtomicBool; 2]; CORES],
}

impl Text for Code<'_> {
    type Error = Denied;

    fn disarm(&mut self, value: bool) -> Result<(), Denied> {
        let site = usize::from(value);
        if !self.patched.armed[site] && !self.patched.is_stale {
            return Ok(());
        }
        self.patched.is_stale = true;
        self.patched.armed[site] = false;
        if self.patched.denies_sync {
            return Err(Denied);
        }
        if !self.patched.forgets_sync {
            for core in self.fetched {
                core[site].store(false, Ordering::Relaxed);
            }
        }
        self.patched.is_stale = false;
        Ok(())
    }
}

impl Machine {
    /// Makes a machine whose key has the value `value` and whose sites are armed for it.
    fn new(value: bool) -> Arc<Self> {
        let word = AtomicU32::new(State::initial_word(value));
        let machine = Self {
            state: State::from_parts(AtomicBool::new(value), word),
            lock: Mutex::new(Patched::default()),
            fetched: std::array::from_fn(|_| std::array::from_fn(|_| AtomicBool::new(false))),
        };
        machine.arm();
        Arc::new(machine)
    }

    fn locked<T>(&self, flip: impl FnOnce(&State, &mut Code<'_>) -> T) -> T {
        let mut patched = self.lock.lock().expect("no thread panics in the model");
        let fetched = &self.fetched;
        let patched = &mut patched;
        flip(&self.state, &mut Code { patched, fetched })
    }

    /// Arms the sites that fall through for the present value; all cores see that at once.
    fn arm(&self) {
        self.locked(|state, code| {
            let site = usize::from(state.is_on());
            code.patched.armed[site] = true;
            for core in code.fetched {
                core[site].store(true, Ordering::Relaxed);
            }
        });
    }

    /// Executes both sites on `core`. The relaxed load may give the armed form even after the cores
    /// were made to synchronise, unless this thread has learnt of that.
    fn branches(&self, core: usize) -> [bool; 2] {
        [false, true].map(|value| {
            let fetched = &self.fetched[core][usize::from(value)];
            if fetched.load(Ordering::Relaxed) {
                value
            } else {
                self.state.is_on()
            }
        })
    }

    fn set(&self, value: bool) -> Result<(), Denied> {
        self.locked(|state, code| match value {
            true => state.enable_locked(code),
            false => state.disable_locked(code),
        })
    }

    fn inc(&self) {
        let taken = match self.state.try_inc() {
            Attempt::Done => Ok(()),
            Attempt::NeedsLock => self.locked(|state, code| state.inc_locked(code)),
            Attempt::Refused => Err(RefError::Overflow),
        };
        assert_eq!(taken, Ok(()));
    }

    fn dec(&self) {
        let dropped = match self.state.try_dec() {
            Attempt::Done => Ok(()),
            Attempt::NeedsLock => self.locked(|state, code| state.dec_locked(code)),
            Attempt::Refused => Err(RefError::Underflow),
        };
        assert_eq!(dropped, Ok(()));
    }

    /// Checks that nothing holds the key on and that no site says that it is.
    fn check_off(&self) {
        assert_eq!(self.state.references(), 0);
        assert_eq!((self.state.is_on(), self.branches(0)), (false, [false; 2]));
        assert_eq!(self.state.try_dec(), Attempt::Refused);
    }
}

/// A thread flips the key; another looks whether the flip has returned and executes both sites.
fn flip_and_observe(value: bool, forgets_sync: bool) {
    loom::model(move || {
        let machine = Machine::new(!value);
        machine.locked(|_, code| code.patched.forgets_sync = forgets_sync);
        let returned = Arc::new(AtomicBool::new(false));
        let flipper = {
            let (machine, returned) = (machine.clone(), returned.clone());
            thread::spawn(move || {
                machine.set(value).expect("nothing is denied");
                returned.store(true, Ordering::Release);
            })
        };
        let has_returned = returned.load(Ordering::Acquire);
        let seen = machine.branches(0);
        if has_returned {
            assert_eq!(seen, [value; 2]);
        }
        flipper.join().expect("no panic");
        assert_eq!(machine.branches(0), [value; 2]);
    });
}

#[test]
fn branches_after_a_flip_see_it() {
    flip_and_observe(true, false);
    flip_and_observe(false, false);
}

/// The control: without synchronising the cores the model must find the stale branch.
#[test]
#[should_panic(expected = "left == right")]
fn the_model_notices_a_missing_sync() {
    flip_and_observe(true, true);
}

/// What was written before `enable` is seen by whoever a branch tells that the key is on.
#[test]
fn a_true_branch_carries_what_came_before() {
    loom::model(|| {
        let machine = Machine::new(false);
        let prepared = Arc::new(AtomicU32::new(0));
        let flipper = {
            let (machine, prepared) = (machine.clone(), prepared.clone());
            thread::spawn(move || {
                prepared.store(7, Ordering::Relaxed);
                machine.set(true).expect("nothing is denied");
            })
        };
        if machine.branches(0)[0] {
            assert_eq!(prepared.load(Ordering::Relaxed), 7);
        }
        flipper.join().expect("no panic");
    });
}

#[test]
fn references_keep_the_key_on_and_balance() {
    loom::model(|| {
        let machine = Machine::new(false);
        let users = [1, 2].map(|core| {
            let machine = machine.clone();
            thread::spawn(move || {
                machine.inc();
                assert_eq!(machine.branches(core), [true; 2]);
                machine.dec();
            })
        });
        for user in users {
            user.join().expect("no panic");
        }
        machine.check_off();
    });
}

#[test]
fn arming_between_flips_does_no_harm() {
    loom::model(|| {
        let machine = Machine::new(false);
        let user = {
            let machine = machine.clone();
            thread::spawn(move || {
                machine.inc();
                assert_eq!(machine.branches(1), [true; 2]);
                machine.dec();
            })
        };
        machine.arm();
        user.join().expect("no panic");
        machine.arm();
        machine.check_off();
    });
}

#[test]
fn a_deferred_drop_races_with_a_new_reference() {
    loom::model(|| {
        let machine = Machine::new(false);
        machine.inc();
        assert_eq!(machine.state.linger(|| ()), Attempt::Done);
        let expirer = {
            let machine = machine.clone();
            thread::spawn(move || {
                let expired = machine.locked(|state, code| state.expire_locked(code));
                assert_eq!(expired, Ok(()));
            })
        };
        machine.inc();
        assert_eq!(machine.branches(0), [true; 2]);
        expirer.join().expect("no panic");
        assert_eq!(
            (machine.state.references(), machine.branches(0)),
            (1, [true; 2])
        );
        machine.dec();
        machine.check_off();
    });
}

#[test]
fn a_denied_flip_changes_nothing_and_can_be_repeated() {
    loom::model(|| {
        let machine = Machine::new(false);
        machine.locked(|_, code| code.patched.denies_sync = true);
        let observer = {
            let machine = machine.clone();
            thread::spawn(move || assert_eq!(machine.branches(1), [false; 2]))
        };
        assert_eq!(machine.set(true), Err(Denied));
        assert_eq!(
            machine.set(true),
            Err(Denied),
            "a second try must not pass without a sync"
        );
        observer.join().expect("no panic");
        machine.locked(|_, code| code.patched.denies_sync = false);
        machine.check_off();
        assert_eq!(machine.set(true), Ok(()));
        assert_eq!(machine.branches(0), [true; 2]);
    });
}
