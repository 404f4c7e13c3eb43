//! The one error type of the crate.

use core::fmt;

/// Tells why a key could not be flipped, armed or disarmed.
///
/// Whatever the error, the key keeps the state that it had before the call and every branch keeps
/// giving the value that [`StaticKey::is_enabled`](crate::StaticKey::is_enabled) gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    key: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "the portable build never makes the errors of patching"
)]
pub(crate) enum Kind {
    /// `inc` would exceed the largest reference count.
    Overflow,
    /// `dec` without a matching `inc`.
    Underflow,
    /// The system refused a call that patching needs: which one, and its errno.
    Denied { call: &'static str, errno: i32 },
    /// The first byte of an armed site is neither of the two that we write.
    Foreign { address: usize, byte: u8 },
    /// This build or this environment cannot patch code.
    Unsupported(&'static str),
}

impl Error {
    pub(crate) const fn new(kind: Kind, key: &'static str) -> Self {
        Self { kind, key }
    }

    /// Returns the name of the key that the failed call was about; `"*"` if it was about all keys.
    pub fn key_name(&self) -> &'static str {
        self.key
    }

    /// Tells whether the reference count would have exceeded
    /// [`MAX_REFERENCES`](crate::MAX_REFERENCES).
    pub fn is_overflow(&self) -> bool {
        self.kind == Kind::Overflow
    }

    /// Tells whether a reference was dropped that nobody held.
    pub fn is_underflow(&self) -> bool {
        self.kind == Kind::Underflow
    }

    /// Tells whether the system refused a call that patching needs (`open`, `write`, `membarrier`).
    ///
    /// [`Error::raw_os_error`] has the reason.
    pub fn is_denied(&self) -> bool {
        matches!(self.kind, Kind::Denied { .. })
    }

    /// Tells whether somebody else's byte, such as a debugger's breakpoint, lies on an armed site.
    pub fn is_foreign_code(&self) -> bool {
        matches!(self.kind, Kind::Foreign { .. })
    }

    /// Tells whether this build or environment cannot patch code at all.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.kind, Kind::Unsupported(_))
    }

    /// Returns the errno of the refused call, if the error [is one](Error::is_denied).
    pub fn raw_os_error(&self) -> Option<i32> {
        match self.kind {
            Kind::Denied { errno, .. } => Some(errno),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "static key `{}`: ", self.key)?;
        match self.kind {
            Kind::Overflow => write!(
                f,
                "more than {} references; the allowed range is 0 to {0}",
                crate::MAX_REFERENCES
            ),
            Kind::Underflow => f.write_str("a reference was dropped that nobody held"),
            Kind::Denied { call, errno } => {
                let reason = std::io::Error::from_raw_os_error(errno);
                write!(f, "the system refused {call}: {reason}")
            }
            Kind::Foreign { address, byte } => write!(
                f,
                "byte {byte:#04x} of somebody else (a debugger?) lies on the site at {address:#x}"
            ),
            Kind::Unsupported(why) => write!(f, "code cannot be patched here: {why}"),
        }
    }
}

impl std::error::Error for Error {}
