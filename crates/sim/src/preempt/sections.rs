//! The sections of one thread: the count, the request, and the word that it shares with the kernel.
//!
//! It mirrors `evenkeel-slice`, whose state belongs to an OS thread, so that a simulated thread can
//! have one too and anything can come between any two steps:
//!
//! | here | there |
//! |---|---|
//! | [`Sections::add`], [`Sections::ask_kernel`] | `state::begin`, `kernel::word::begin` |
//! | [`Sections::subtract`] | the first half of `state::end` |
//! | [`Sections::withdraw`], [`Sections::is_granted`] | `kernel::word::end` |
//! | [`Sections::take_for_hook`], [`Sections::leave_hook`] | `ThreadState::end_slow` |
//! | [`Sections::request`], [`Sections::force`] | the same of `ThreadState` |
//! | [`Sections::interrupt`] | the kernel's `__rseq_grant_slice_extension` |
//! | [`Sections::end_grant`] | the kernel's `rseq_syscall_enter_work` |
//!
//! `tests/sections.rs` runs both side by side.

/// What a section is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A short one, as `evenkeel_slice::enter` begins it.
    Slice,
    /// One in which a lock is held.
    Lock,
    /// One of the runtime's own, which is never forced.
    Runtime,
}

impl Kind {
    /// Returns how long a section may hold off the loss of the CPU, in ns; `None`: to its end.
    pub const fn deadline_ns(self) -> Option<u64> {
        match self {
            Self::Slice => Some(50_000),
            Self::Lock => Some(5_000_000),
            Self::Runtime => None,
        }
    }
}

/// What the kernel does at an interrupt after which somebody else ought to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The thread goes on, for as long as an extension takes at most.
    Granted,
    /// The thread is switched; it had no grant.
    Switched,
    /// The thread is switched, and its grant is taken back.
    Revoked,
}

/// The sections of one thread.
#[derive(Clone, Debug, Default)]
pub struct Sections {
    /// Open sections by kind.
    open: [u32; 3],
    has_request: bool,
    is_in_hook: bool,
    /// The two bytes of the kernel's word, and the kernel's own idea of the second one.
    wants: bool,
    granted: bool,
    in_force: bool,
    counts: Counts,
}

/// How many requests a thread has had, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that met a section.
    pub requests: u64,
    /// Of these, served at its end.
    pub extended: u64,
    /// Of these, forced.
    pub forced: u64,
}

impl Sections {
    /// Begins a section; returns whether it is the outermost one.
    pub fn add(&mut self, kind: Kind) -> bool {
        let is_outermost = self.is_outside();
        self.open[kind as usize] += 1;
        is_outermost
    }

    /// Requests an extension, at the beginning of an outermost section.
    pub fn ask_kernel(&mut self) {
        if !self.wants && !self.granted {
            self.wants = true;
        }
    }

    /// Sets the request byte whatever the word is: for careless drivers.
    pub fn ask_kernel_again(&mut self) {
        self.wants = true;
    }

    /// Drops the count at the end of a section; returns whether that was the outermost one.
    pub fn subtract(&mut self, kind: Kind) -> bool {
        let open = &mut self.open[kind as usize];
        *open = open.saturating_sub(1);
        self.is_outside()
    }

    /// Clears the request byte, at the end of an outermost section.
    pub fn withdraw(&mut self) {
        self.wants = false;
    }

    /// Reads the granted byte.
    pub fn is_granted(&self) -> bool {
        self.granted
    }

    /// Returns whether the request byte is set.
    pub fn wants(&self) -> bool {
        self.wants
    }

    /// Returns whether a grant is in force.
    pub fn is_in_force(&self) -> bool {
        self.in_force
    }

    /// Takes the request for the hook, unless it runs.
    pub fn take_for_hook(&mut self) -> bool {
        let is_taken = self.has_request && !self.is_in_hook;
        if is_taken {
            self.has_request = false;
            self.is_in_hook = true;
            self.counts.extended += 1;
        }
        is_taken
    }

    /// Notes that the hook has returned.
    pub fn leave_hook(&mut self) {
        self.is_in_hook = false;
    }

    /// Returns whether the thread is in no section.
    pub fn is_outside(&self) -> bool {
        self.open == [0; 3]
    }

    /// Returns how many sections of a kind are open.
    pub fn nr_open(&self, kind: Kind) -> u32 {
        self.open[kind as usize]
    }

    /// Returns the greatest kind of the open sections.
    pub fn kind(&self) -> Option<Kind> {
        let kinds = [Kind::Runtime, Kind::Lock, Kind::Slice];
        kinds.into_iter().find(|&kind| self.nr_open(kind) > 0)
    }

    /// Requests that the end of the section call the hook; returns whether there is a section.
    pub fn request(&mut self) -> bool {
        if self.is_outside() {
            return false;
        }
        self.counts.requests += u64::from(!self.has_request);
        self.has_request = true;
        true
    }

    /// Returns whether a request is pending.
    pub fn has_request(&self) -> bool {
        self.has_request
    }

    /// Takes the request because the deadline has passed; returns whether there was one.
    pub fn force(&mut self) -> bool {
        let is_taken = std::mem::take(&mut self.has_request);
        self.counts.forced += u64::from(is_taken);
        is_taken
    }

    /// Returns the numbers of requests so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Is the kernel's part at an interrupt after which somebody else ought to run.
    pub fn interrupt(&mut self) -> Verdict {
        if self.in_force {
            self.end_grant();
            return Verdict::Revoked;
        }
        if !self.wants {
            return Verdict::Switched;
        }
        (self.wants, self.granted, self.in_force) = (false, true, true);
        Verdict::Granted
    }

    /// Ends a grant: by the yield, at its expiry, or at any other system call. Returns whether one
    /// was in force.
    pub fn end_grant(&mut self) -> bool {
        let was_in_force = std::mem::take(&mut self.in_force);
        if was_in_force {
            (self.wants, self.granted) = (false, false);
        }
        was_in_force
    }
}
