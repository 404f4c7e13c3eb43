//! The key of the branch with which this crate finds out whether patching works.

use crate::StaticKey;

/// Always true. Its one branch gives `true` unarmed and, against the rule for all other keys,
/// `false` armed: so its value tells whether a core, or a translator of machine code that stands
/// for one, executes what was written.
pub(crate) static PROBE: StaticKey = StaticKey::new_true("evenkeel_static_key::probe");
