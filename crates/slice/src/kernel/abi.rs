//! Numbers of the kernel's binary interface (`include/uapi/linux/rseq.h`, `prctl.h`, `auxvec.h`).
#![allow(dead_code, reason = "not every platform uses all of them")]

/// `offsetof(struct rseq, cpu_id)`: the CPU, or a negative number if not registered.
pub(crate) const CPU_ID_OFFSET: usize = 4;
/// `offsetof(struct rseq, rseq_cs)`.
pub(crate) const RSEQ_CS_OFFSET: usize = 8;
/// `offsetof(struct rseq, slice_ctrl.request)`.
pub(crate) const REQUEST_OFFSET: usize = 28;
/// `offsetof(struct rseq, slice_ctrl.granted)`.
pub(crate) const GRANTED_OFFSET: usize = 29;
/// `offsetof(struct rseq, end)` of the first version with the extension; the shortest registration
/// that can have it.
pub(crate) const EXTENDED_LEN: u32 = 33;
/// The length of the original registration, which cannot have the extension.
pub(crate) const LEGACY_LEN: u32 = 32;

/// `AT_RSEQ_FEATURE_SIZE`: the length that the kernel can fill.
pub(crate) const AT_RSEQ_FEATURE_SIZE: u64 = 27;
/// `AT_RSEQ_ALIGN`: the alignment that a registration longer than the original must have.
pub(crate) const AT_RSEQ_ALIGN: u64 = 28;

/// `RSEQ_FLAG_UNREGISTER`.
pub(crate) const UNREGISTER: i32 = 1;

/// `PR_RSEQ_SLICE_EXTENSION`.
pub(crate) const PR_RSEQ_SLICE_EXTENSION: i32 = 79;
/// `PR_RSEQ_SLICE_EXTENSION_SET`.
pub(crate) const SLICE_EXTENSION_SET: u64 = 2;
/// `PR_RSEQ_SLICE_EXT_ENABLE`.
pub(crate) const SLICE_EXT_ENABLE: u64 = 1;

/// `__NR_rseq_slice_yield`, the same on all architectures.
pub(crate) const SYS_RSEQ_SLICE_YIELD: i64 = 471;

/// No registration.
pub(crate) const ENXIO: i32 = 6;
/// Bad arguments, or a kernel that does not know the operation.
pub(crate) const EINVAL: i32 = 22;
/// No such system call.
pub(crate) const ENOSYS: i32 = 38;
/// The kernel's internal "not supported", which reaches user space here: off at boot, not compiled
/// in, or a legacy registration.
pub(crate) const ENOTSUPP: i32 = 524;
