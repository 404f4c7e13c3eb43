//! What the kernel offers a scheduler.

use std::fmt;
use std::io;

use super::sys;

/// Whether the kernel has the barriers that patching running code needs.
#[derive(Debug)]
pub enum Membarrier {
    /// It answers with a set of commands that contains the one that patching needs.
    SyncCore,
    /// It answers with this set, without that command.
    Without(u32),
    /// It refuses to answer.
    Refused(io::Error),
}

/// Asks for the commands of `membarrier`. Changes nothing.
pub fn membarrier() -> Membarrier {
    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE` of `linux/membarrier.h`.
    const SYNC_CORE: u32 = 1 << 5;
    match sys::membarrier_query() {
        Ok(commands) if commands & SYNC_CORE != 0 => Membarrier::SyncCore,
        Ok(commands) => Membarrier::Without(commands),
        Err(error) => Membarrier::Refused(error),
    }
}

impl Membarrier {
    /// Returns whether code can be patched with it.
    pub fn is_available(&self) -> bool {
        matches!(self, Membarrier::SyncCore)
    }
}

impl fmt::Display for Membarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Membarrier::SyncCore => f.write_str("private expedited sync-core"),
            Membarrier::Without(commands) => {
                write!(f, "no private expedited sync-core (commands {commands:#x})")
            }
            Membarrier::Refused(error) => write!(f, "membarrier refused: {}", error),
        }
    }
}

/// Whether the kernel clamps the utilization of threads.
#[derive(Debug)]
pub enum Uclamp {
    /// `sched_setattr` knows the clamps.
    Accepted,
    /// The kernel is older than the clamps: its `sched_attr` has this many bytes.
    TooOld(usize),
    /// It knows the flags but was built without clamps, or the system refused a call.
    Refused(io::Error),
}

/// Asks whether `sched_setattr` takes clamps, by a request whose least exceeds its greatest. A
/// kernel that has clamps finds that out (`EINVAL`); one that was built without refuses the flags
/// before that (`EOPNOTSUPP`). A valid request would tell no more, and it would switch clamps on
/// for the whole machine until the next boot (kernel: `uclamp_validate` and its key
/// `sched_uclamp_used`).
pub fn uclamp() -> Uclamp {
    /// Bytes of `sched_attr` from the kernel that has clamps on (`SCHED_ATTR_SIZE_VER1`).
    const WITH_CLAMPS: usize = 56;
    match sys::sched_attr_size() {
        Ok(size) if size < WITH_CLAMPS => return Uclamp::TooOld(size),
        Err(error) => return Uclamp::Refused(error),
        Ok(_) => {}
    }
    match sys::set_impossible_clamps() {
        Ok(()) => Uclamp::Refused(io::Error::other(
            "the system accepts impossible clamps, so it does not look at them",
        )),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Uclamp::Accepted,
        Err(error) => Uclamp::Refused(error),
    }
}

impl Uclamp {
    /// Returns whether clamps can be passed on to the kernel.
    pub fn is_available(&self) -> bool {
        matches!(self, Uclamp::Accepted)
    }
}

impl fmt::Display for Uclamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uclamp::Accepted => f.write_str("sched_setattr accepts clamps"),
            Uclamp::TooOld(size) => {
                write!(
                    f,
                    "the kernel is older than clamps (sched_attr of {size} bytes)"
                )
            }
            Uclamp::Refused(error) => {
                write!(f, "sched_setattr refuses clamps: {}", error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_one_line() {
        let denied = || io::Error::from_raw_os_error(1);
        let answers = [
            Membarrier::SyncCore.to_string(),
            Membarrier::Without(0x1f).to_string(),
            Membarrier::Refused(denied()).to_string(),
            Uclamp::Accepted.to_string(),
            Uclamp::TooOld(48).to_string(),
            Uclamp::Refused(denied()).to_string(),
            membarrier().to_string(),
            uclamp().to_string(),
        ];
        for answer in &answers {
            assert!(!answer.is_empty() && !answer.contains('\n'), "{answer}");
        }
        assert!(
            answers[1].contains("0x1f") && answers[2].contains("os error 1)"),
            "{answers:?}"
        );
        assert!(
            answers[4].contains("48") && answers[5].contains("os error 1)"),
            "{answers:?}"
        );
    }

    #[test]
    fn asking_for_clamps_changes_none() {
        let before = sys::clamps();
        let _ = uclamp();
        assert_eq!(sys::clamps(), before);
    }
}
