//! Whether the kernel takes part on a thread, and the reason if not.

use std::fmt;

use super::abi::{EINVAL, ENOSYS, ENOTSUPP, ENXIO};

/// Tells whether the kernel extends slices for a thread's sections, and if not, why.
///
/// [`Display`](fmt::Display) gives the reason in one line, with the call and its errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// The thread has not looked: [`Options::enable`](super::Options::enable) was not called, or
    /// the thread has had no section since.
    NotAsked,
    /// In force, in the area that the C library registered.
    EnabledInLibcArea,
    /// In force, in an area that this crate registered.
    EnabledInOwnArea,
    /// Not Linux on x86-64 or AArch64.
    Unsupported,
    /// The kernel does not know the extension.
    NoExtension,
    /// The thread has no registration, and was not to make one.
    NotRegistered,
    /// The C library's registration is the legacy one of 32 bytes, and was not to be replaced.
    LegacyRegistration,
    /// The kernel knows the extension but has it off: at boot, or not compiled in.
    SwitchedOff,
    /// The kernel has no restartable sequences.
    NoSyscall,
    /// Somebody who is not the C library has registered an area that this crate does not know.
    ForeignRegistration,
    /// The kernel wants a longer or more strictly aligned area than this crate has.
    AreaTooSmall,
    /// The system refused `rseq` with this errno.
    RseqFailed(u16),
    /// The system refused `prctl` with this errno.
    PrctlFailed(u16),
}

/// The variants without a number, each at the place that [`Status::code`] gives it.
const PLAIN: [Status; 11] = [
    Status::NotAsked,
    Status::EnabledInLibcArea,
    Status::EnabledInOwnArea,
    Status::Unsupported,
    Status::NoExtension,
    Status::NotRegistered,
    Status::LegacyRegistration,
    Status::SwitchedOff,
    Status::NoSyscall,
    Status::ForeignRegistration,
    Status::AreaTooSmall,
];
const RSEQ_FAILED: u32 = 1 << 16;
const PRCTL_FAILED: u32 = 2 << 16;

#[allow(
    dead_code,
    reason = "kept per thread only where there is a kernel to ask"
)]
impl Status {
    /// Returns a number for an atomic to hold; [`Status::from_code`] undoes it. `NotAsked` is 0.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::RseqFailed(errno) => RSEQ_FAILED | u32::from(errno),
            Self::PrctlFailed(errno) => PRCTL_FAILED | u32::from(errno),
            plain => PLAIN.iter().position(|&one| one == plain).unwrap_or(0) as u32,
        }
    }

    pub(super) fn from_code(code: u32) -> Self {
        match code & !0xffff {
            RSEQ_FAILED => Self::RseqFailed(code as u16),
            PRCTL_FAILED => Self::PrctlFailed(code as u16),
            _ => PLAIN.get(code as usize).copied().unwrap_or(Self::NotAsked),
        }
    }

    /// Returns what an errno of the `prctl` that switches the extension on tells.
    pub(super) fn from_prctl(errno: i32) -> Self {
        match errno {
            EINVAL => Self::NoExtension,
            ENXIO => Self::NotRegistered,
            ENOTSUPP => Self::SwitchedOff,
            other => Self::PrctlFailed(u16::try_from(other).unwrap_or(u16::MAX)),
        }
    }

    /// Returns what an errno of the system call `rseq` tells.
    pub(super) fn from_rseq(errno: i32) -> Self {
        match errno {
            ENOSYS => Self::NoSyscall,
            other => Self::RseqFailed(u16::try_from(other).unwrap_or(u16::MAX)),
        }
    }
}

impl Status {
    /// Tells whether the kernel takes part.
    pub fn is_enabled(self) -> bool {
        matches!(self, Self::EnabledInLibcArea | Self::EnabledInOwnArea)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAsked => "this thread has not asked for the kernel's rseq slice extension",
            Self::EnabledInLibcArea => {
                "the kernel extends slices (rseq area registered by the C library)"
            }
            Self::EnabledInOwnArea => {
                "the kernel extends slices (rseq area registered by evenkeel-slice)"
            }
            Self::Unsupported => "no rseq slice extension on this operating system or processor",
            Self::NoExtension => "the kernel has no rseq slice extension (prctl 79: EINVAL 22)",
            Self::NotRegistered => "no rseq area registered (prctl 79: ENXIO 6)",
            Self::LegacyRegistration => {
                "the C library's rseq registration is the legacy one of 32 bytes (prctl 79: \
                 ENOTSUPP 524): start with GLIBC_TUNABLES=glibc.pthread.rseq=0, or have it replaced"
            }
            Self::SwitchedOff => {
                "the kernel's rseq slice extension is off at boot or not compiled in (prctl 79: \
                 ENOTSUPP 524)"
            }
            Self::NoSyscall => "the kernel has no restartable sequences (rseq: ENOSYS 38)",
            Self::ForeignRegistration => {
                "another library has registered an rseq area that is not known here"
            }
            Self::AreaTooSmall => "the kernel asks for a larger rseq area than evenkeel-slice has",
            Self::RseqFailed(errno) => return write!(f, "rseq was refused (errno {errno})"),
            Self::PrctlFailed(errno) => return write!(f, "prctl 79 was refused (errno {errno})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_are_distinct() {
        let numbered = [1, 22, u16::MAX].map(|n| [Status::RseqFailed(n), Status::PrctlFailed(n)]);
        let all: Vec<Status> = PLAIN
            .into_iter()
            .chain(numbered.into_iter().flatten())
            .collect();
        for &status in &all {
            assert_eq!(Status::from_code(status.code()), status);
            assert!(!status.to_string().is_empty());
        }
        let codes: std::collections::HashSet<u32> = all.iter().map(|s| s.code()).collect();
        let texts: std::collections::HashSet<String> = all.iter().map(Status::to_string).collect();
        assert_eq!((codes.len(), texts.len()), (all.len(), all.len()));
        assert_eq!(Status::from_code(0), Status::NotAsked);
    }

    #[test]
    fn the_four_errors_are_told_apart() {
        let check = |status: Status, expected: Status, text: &str| {
            assert_eq!(status, expected);
            assert!(status.to_string().contains(text), "{status}");
        };
        check(Status::from_prctl(22), Status::NoExtension, "EINVAL 22");
        check(Status::from_prctl(6), Status::NotRegistered, "ENXIO 6");
        check(Status::from_prctl(524), Status::SwitchedOff, "ENOTSUPP 524");
        check(Status::from_rseq(38), Status::NoSyscall, "ENOSYS 38");
        check(Status::from_prctl(1), Status::PrctlFailed(1), "errno 1");
        check(Status::from_rseq(22), Status::RseqFailed(22), "errno 22");
        let legacy = Status::LegacyRegistration.to_string();
        assert!(
            legacy.contains("32 bytes") && legacy.contains("524"),
            "{legacy}"
        );
    }
}
