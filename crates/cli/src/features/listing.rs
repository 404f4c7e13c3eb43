//! Gathers what `evenkeel features` prints.

use std::fmt::Display;

use evenkeel_core::features::{CAN_SET, FEATURES, state};
use serde::Serialize;

use super::keys::{self, Key, Patching};

/// Everything that `evenkeel features` prints. The JSON output is this type, field by field; later
/// versions add fields and rename none.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Listing {
    /// The scheduler's features.
    pub(crate) features: Features,
    /// Whether code can be patched here.
    pub(crate) patching: Patching,
    /// The static keys, by name.
    pub(crate) keys: Vec<Key>,
    /// What the kernel offers.
    pub(crate) machine: Machine,
}

/// The scheduler's features.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Features {
    /// Whether this build can switch them; otherwise they are constants.
    pub(crate) can_set: bool,
    /// The kernel's form: `NAME NO_NAME ...`.
    pub(crate) text: String,
    /// Each of them.
    pub(crate) list: Vec<Feature>,
}

/// One scheduler feature.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Feature {
    /// The name.
    pub(crate) name: &'static str,
    /// Whether it is on.
    pub(crate) is_on: bool,
    /// Whether it is on at the start.
    pub(crate) default: bool,
    /// What it does.
    pub(crate) doc: &'static str,
}

/// What the kernel offers a scheduler of tasks.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// More time for a thread in a critical section.
    pub(crate) slice_extension: Offer,
    /// Barriers on other threads' CPUs, which patching running code needs.
    pub(crate) membarrier: Offer,
    /// Hints to the frequency governor and to the choice of a CPU.
    pub(crate) uclamp: Offer,
}

/// One thing that a kernel offers or not.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Offer {
    /// Whether it is there.
    pub(crate) is_available: bool,
    /// The answer of the kernel in words.
    pub(crate) status: String,
}

impl Offer {
    fn new(is_available: bool, status: &impl Display) -> Self {
        let status = status.to_string();
        Self {
            is_available,
            status,
        }
    }
}

impl Listing {
    /// Looks at everything. Arms the branches of all keys, as a runtime does when it is built.
    pub(crate) fn gather() -> Self {
        let patching = Patching::arm();
        Self {
            features: Features::gather(),
            patching,
            keys: keys::gather(),
            machine: Machine::gather(),
        }
    }
}

impl Features {
    fn gather() -> Self {
        let list = FEATURES.iter().map(|feature| Feature {
            name: feature.name(),
            is_on: feature.is_on(),
            default: feature.default(),
            doc: feature.doc(),
        });
        Self {
            can_set: CAN_SET,
            text: state().to_string(),
            list: list.collect(),
        }
    }
}

impl Machine {
    fn gather() -> Self {
        let slice = evenkeel_slice::kernel::Options::new().enable();
        let membarrier = evenkeel_bench::machine::membarrier();
        let uclamp = evenkeel_bench::machine::uclamp();
        Self {
            slice_extension: Offer::new(slice.is_enabled(), &slice),
            membarrier: Offer::new(membarrier.is_available(), &membarrier),
            uclamp: Offer::new(uclamp.is_available(), &uclamp),
        }
    }
}
