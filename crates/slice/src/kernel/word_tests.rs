//! A fake kernel, and every order in which it can come between the accesses of a section's ends.

use std::cell::{Cell, RefCell};

use super::{Word, begin, end};

/// What may happen at one point of the protocol.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    Nothing,
    /// An interrupt after which somebody else ought to run.
    Reschedule,
    /// The timer of the grant.
    Expiry,
    /// A system call by code that knows nothing of the section.
    ForeignCall,
    /// A signal handler that has a section of its own, and returns by a system call.
    Handler,
}

const EVENTS: [Event; 5] = [
    Event::Nothing,
    Event::Reschedule,
    Event::Expiry,
    Event::ForeignCall,
    Event::Handler,
];

/// The kernel and the word, as `kernel/rseq.c` and `rseq_entry.h` have it, with the checks of a
/// debugging kernel.
#[derive(Default)]
struct Fake {
    request: Cell<bool>,
    granted: Cell<bool>,
    /// The kernel's own idea of whether a grant is in force.
    in_force: Cell<bool>,
    grants: Cell<u32>,
    /// How grants ended.
    revoked: Cell<u32>,
    aborted: Cell<u32>,
    yielded: Cell<u32>,
    /// Yields that found no grant in force.
    late: Cell<u32>,
    calls: Cell<u32>,
    /// The events to come, the next one last.
    schedule: RefCell<Vec<Event>>,
    /// Whether the thread's count is 0.
    outside: Cell<bool>,
    in_handler: Cell<bool>,
}

fn add(counter: &Cell<u32>) {
    counter.set(counter.get() + 1);
}

impl Fake {
    fn clear(&self, ending: &Cell<u32>) {
        if self.in_force.replace(false) {
            add(ending);
        }
        self.request.set(false);
        self.granted.set(false);
    }

    fn point(&self) {
        let event = self.schedule.borrow_mut().pop().unwrap_or(Event::Nothing);
        match event {
            Event::Nothing => {}
            Event::Reschedule if self.in_force.get() => self.clear(&self.revoked),
            Event::Reschedule if self.request.get() => {
                self.request.set(false);
                self.granted.set(true);
                self.in_force.set(true);
                add(&self.grants);
            }
            // The thread is switched, and comes back some time: its request, of which there is
            // none here, would stay.
            Event::Reschedule => {}
            Event::Expiry if self.in_force.get() => self.clear(&self.revoked),
            Event::Expiry => {}
            Event::ForeignCall => self.foreign_call(),
            Event::Handler => self.handler(),
        }
    }

    fn foreign_call(&self) {
        if self.in_force.get() {
            assert!(self.granted.get() && !self.request.get(), "misuse: SIGSEGV");
            self.clear(&self.aborted);
        }
    }

    /// Inside a section the handler's own is a nested one, which does not touch the word.
    fn handler(&self) {
        if self.outside.get() && !self.in_handler.replace(true) {
            begin(self);
            self.point();
            end(self);
            self.in_handler.set(false);
        }
        self.foreign_call();
    }
}

impl Word for Fake {
    fn set_request(&self, request: bool) {
        self.point();
        self.request.set(request);
    }

    fn is_clear(&self) -> bool {
        self.point();
        !self.request.get() && !self.granted.get()
    }

    fn is_granted(&self) -> bool {
        self.point();
        self.granted.get()
    }

    fn slice_yield(&self) {
        self.point();
        add(&self.calls);
        if self.in_force.get() {
            assert!(self.granted.get() && !self.request.get(), "misuse: SIGSEGV");
            self.clear(&self.yielded);
        } else {
            add(&self.late);
        }
    }
}

/// Runs one section with these events, and checks what must hold whatever they are.
fn check(schedule: Vec<Event>) -> Fake {
    let fake = Fake::default();
    let mut reversed = schedule.clone();
    reversed.reverse();
    fake.schedule.replace(reversed);
    begin(&fake);
    fake.point();
    fake.point();
    fake.outside.set(true);
    let granted = end(&fake);
    let ended = fake.yielded.get() + fake.revoked.get() + fake.aborted.get();
    assert!(!fake.request.get() && !fake.granted.get(), "{schedule:?}");
    assert!(
        !fake.in_force.get(),
        "a grant is not given back: {schedule:?}"
    );
    assert_eq!(fake.grants.get(), ended, "{schedule:?}");
    assert!(fake.calls.get() >= u32::from(granted), "{schedule:?}");
    assert_eq!(fake.calls.get(), fake.yielded.get() + fake.late.get());
    // A handler's section may give the grant back after its thread has read that it has one.
    let handlers = schedule.contains(&Event::Handler);
    assert!(
        handlers || fake.calls.get() <= fake.grants.get(),
        "given back twice: {schedule:?}"
    );
    fake
}

#[test]
fn every_grant_ends_once_whenever_the_kernel_comes() {
    /// One more than there are points without a handler, so that a handler's own have some.
    const POINTS: u32 = 8;
    let base = EVENTS.len();
    let (mut yielded, mut late, mut revoked, mut aborted) = (0, 0, 0, 0);
    for number in 0..base.pow(POINTS) {
        let digit = |point| EVENTS[number / base.pow(point) % base];
        let fake = check((0..POINTS).map(digit).collect());
        yielded += fake.yielded.get();
        late += fake.late.get();
        revoked += fake.revoked.get();
        aborted += fake.aborted.get();
    }
    // The control: each way for a grant to end has come up.
    assert!(yielded > 0 && late > 0 && revoked > 0 && aborted > 0);
}

#[test]
fn it_yields_exactly_when_granted() {
    use Event::{Expiry, ForeignCall, Nothing, Reschedule};
    // Two accesses at the beginning, two points inside, two accesses at the end, and the yield.
    let run = |inside: [Event; 2], last: [Event; 3]| {
        let events = [Nothing; 2].into_iter().chain(inside).chain(last);
        let fake = check(events.collect());
        (fake.grants.get(), fake.calls.get(), fake.yielded.get())
    };
    let none = [Nothing; 3];
    assert_eq!(run([Nothing, Nothing], none), (0, 0, 0));
    assert_eq!(run([Nothing, Reschedule], none), (1, 1, 1));
    assert_eq!(run([Reschedule, Reschedule], none), (1, 0, 0), "revoked");
    assert_eq!(run([Reschedule, Expiry], none), (1, 0, 0), "expired");
    assert_eq!(run([Reschedule, ForeignCall], none), (1, 0, 0), "aborted");
    let before_clearing = [Reschedule, Nothing, Nothing];
    assert_eq!(run([Nothing, Nothing], before_clearing), (1, 1, 1));
    let after_clearing = [Nothing, Reschedule, Nothing];
    assert_eq!(run([Nothing, Nothing], after_clearing), (0, 0, 0));
    let expired_too_late_to_see = [Nothing, Nothing, Expiry];
    assert_eq!(
        run([Reschedule, Nothing], expired_too_late_to_see),
        (1, 1, 0)
    );
}
