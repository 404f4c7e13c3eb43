//! The static keys, and whether their branches can be patched here.

use serde::Serialize;

/// One static key.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Key {
    /// The name.
    pub(crate) name: &'static str,
    /// Whether its part is in this build.
    pub(crate) is_compiled: bool,
    /// Whether it is on.
    pub(crate) is_on: bool,
    /// How many users hold it on.
    pub(crate) references: u32,
    /// Branches on it in this program.
    pub(crate) sites: usize,
    /// Those of them that are patched.
    pub(crate) patched_sites: usize,
    /// The cargo feature that its part comes with; empty if it always does.
    pub(crate) feature: &'static str,
    /// What happens only while it is on.
    pub(crate) guards: &'static str,
    /// Who turns it on.
    pub(crate) turned_on_by: &'static str,
}

/// Lists every key of runtime and core.
pub(crate) fn gather() -> Vec<Key> {
    let keys = evenkeel::keys::list().into_iter().map(|key| Key {
        name: key.name,
        is_compiled: key.is_compiled,
        is_on: key.is_on,
        references: key.references,
        sites: key.sites,
        patched_sites: key.patched_sites,
        feature: key.feature,
        guards: key.guards,
        turned_on_by: key.turned_on_by,
    });
    keys.collect()
}

/// Whether branches can be patched in the running program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Patching {
    /// How many branches are patched, those on scheduler features included; 0 if none can be.
    pub(crate) patched_sites: usize,
    /// Why some or all cannot be; absent if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl Patching {
    /// Patches all branches that can be, as a runtime does when it is built.
    pub(crate) fn arm() -> Self {
        let armed = evenkeel_static_key::arm_all();
        Self {
            patched_sites: evenkeel_static_key::keys()
                .map(|key| key.patched_sites)
                .sum(),
            error: armed.err().map(|error| error.to_string()),
        }
    }
}
