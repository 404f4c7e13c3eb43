//! The crate's one error type.

use std::fmt;
use std::io;

use crate::preempt::Level;

/// What went wrong in building a runtime or in changing a group.
///
/// The type is opaque; the `is_*` predicates tell the kinds apart and `Display` names the knob,
/// what was given and what is allowed.
pub struct Error(Box<Kind>);

/// A kind of error, with what its message needs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Kind {
    #[error("{knob}: {given} is not allowed; allowed: {allowed}")]
    InvalidValue {
        knob: &'static str,
        given: String,
        allowed: &'static str,
    },
    #[error("group {path}: the name is taken")]
    NameTaken { path: String },
    #[error("group {path}: busy: {tasks} tasks and {children} child groups remain")]
    Busy {
        path: String,
        tasks: u64,
        children: usize,
    },
    #[error("group {path}: was removed")]
    Removed { path: String },
    #[error("group /: the root group has no weight and no quota, and cannot be removed")]
    Root,
    #[error("there is no evenkeel runtime on this thread")]
    NoRuntime,
    #[error(
        "signal {signal} has a handler already; preemption at level Park needs one of its own: \
         choose another with `Builder::preempt_signal`"
    )]
    SignalTaken { signal: i32 },
    #[error("group {path}: level {given:?} is above that of the runtime, {allowed:?}")]
    Level {
        path: String,
        given: Level,
        allowed: Level,
    },
    #[error("not in this build: it needs the cargo feature `{feature}` of the package `evenkeel`")]
    NotCompiled { feature: &'static str },
    #[error("{0}")]
    Key(Box<dyn std::error::Error + Send + Sync>),
    #[error("the runtime has as many threads as it may have")]
    TooManyThreads,
    #[error("{what}: {source}")]
    Os { what: String, source: io::Error },
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Self(Box::new(kind))
    }

    pub(crate) fn invalid(
        knob: &'static str,
        given: impl fmt::Display,
        allowed: &'static str,
    ) -> Self {
        Self::new(Kind::InvalidValue {
            knob,
            given: given.to_string(),
            allowed,
        })
    }

    pub(crate) fn key(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::new(Kind::Key(Box::new(error)))
    }

    /// Turns an error of the core about a setting of a group into ours.
    pub(crate) fn core(knob: &'static str, error: evenkeel_core::Error) -> Self {
        Self::of_part("realtime", knob, error)
    }

    /// Turns an error of the core about a part with a cargo feature into ours.
    pub(crate) fn of_part(
        feature: &'static str,
        knob: &'static str,
        error: evenkeel_core::Error,
    ) -> Self {
        if error.is_not_compiled() {
            Self::new(Kind::NotCompiled { feature })
        } else if error.is_key() {
            Self::key(error)
        } else {
            Self::invalid(knob, error, "see the core's message")
        }
    }

    pub(crate) fn os(what: impl Into<String>, source: io::Error) -> Self {
        Self::new(Kind::Os {
            what: what.into(),
            source,
        })
    }

    /// Returns whether a knob was given a value outside its range.
    #[must_use]
    pub fn is_invalid_value(&self) -> bool {
        matches!(*self.0, Kind::InvalidValue { .. })
    }

    /// Returns whether a sibling group already has the name.
    #[must_use]
    pub fn is_name_taken(&self) -> bool {
        matches!(*self.0, Kind::NameTaken { .. })
    }

    /// Returns whether a group could not be removed because tasks or child groups remain in it.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(*self.0, Kind::Busy { .. })
    }

    /// Returns whether the group was removed before the call.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        matches!(*self.0, Kind::Removed { .. })
    }

    /// Returns whether the call was refused because it would remove the root group, or give it a
    /// weight or a quota.
    #[must_use]
    pub fn is_root(&self) -> bool {
        matches!(*self.0, Kind::Root)
    }

    /// Returns whether the thread is in no runtime.
    #[must_use]
    pub fn is_no_runtime(&self) -> bool {
        matches!(*self.0, Kind::NoRuntime)
    }

    /// Returns whether the signal for preemption has a handler that is not ours.
    #[must_use]
    pub fn is_signal_taken(&self) -> bool {
        matches!(*self.0, Kind::SignalTaken { .. })
    }

    /// Returns whether a group was given a level of preemption above its runtime's.
    #[must_use]
    pub fn is_level(&self) -> bool {
        matches!(*self.0, Kind::Level { .. })
    }

    /// Returns whether something was asked for that this build does not have: a cargo feature of
    /// this package is off.
    #[must_use]
    pub fn is_not_compiled(&self) -> bool {
        matches!(*self.0, Kind::NotCompiled { .. })
    }

    /// Returns whether an optional part could not be turned on, because the operating system
    /// refuses to have code changed (see `evenkeel_static_key::disarm_all` for before a sandbox),
    /// or because a debugger's breakpoint lies there. It is off as before.
    #[must_use]
    pub fn is_key(&self) -> bool {
        matches!(*self.0, Kind::Key(_))
    }

    /// Returns whether the operating system refused something (a thread, a descriptor, an affinity
    /// mask).
    #[must_use]
    pub fn is_os(&self) -> bool {
        matches!(*self.0, Kind::Os { .. })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            Kind::Os { source, .. } => Some(source),
            Kind::Key(error) => Some(&**error),
            _ => None,
        }
    }
}
