//! The optional parts, and what cargo features builds with and without them have.

use super::Place;

/// An optional part: its key, and how to leave it out of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The name of its key.
    pub(super) key: &'static str,
    /// The cargo feature without which it is not in a build; none if it always is.
    pub(super) feature: Option<&'static str>,
    /// Cargo features that need that one, and so go with it.
    pub(super) needed_by: &'static [&'static str],
    /// Whether it lies in the core.
    pub(super) is_in_core: bool,
}

const fn part(key: &'static str, feature: &'static str) -> Part {
    Part {
        key,
        feature: Some(feature),
        needed_by: &[],
        is_in_core: false,
    }
}

/// The key that the runtime has on while any part is in use.
pub(super) const COMBINED: &str = "optional";

/// Every part; a test compares with what the runtime says.
pub(super) const PARTS: [Part; 8] = [
    Part {
        feature: None,
        ..part(COMBINED, "")
    },
    Part {
        needed_by: &["fair-order", "statistics", "realtime", "bandwidth"],
        ..part("groups", "groups")
    },
    part("fair_order", "fair-order"),
    part("statistics", "statistics"),
    part("tracing", "trace"),
    part("preempt", "preempt"),
    Part {
        is_in_core: true,
        ..part("realtime", "realtime")
    },
    Part {
        is_in_core: true,
        ..part("bandwidth", "bandwidth")
    },
];

/// Cargo features of this crate with which the loops of a place are in a build, and no optional
/// part that can be left out. Static keys stay.
fn base(place: Place) -> &'static [&'static str] {
    if place.is_runtime() {
        &["runtime", "static-keys"]
    } else {
        &["static-keys"]
    }
}

/// Returns the parts on whose keys the loops of a place have branches.
pub(super) fn of(place: Place) -> impl Iterator<Item = Part> {
    let parts = PARTS.into_iter();
    parts.filter(move |part| place.is_runtime() || part.is_in_core)
}

/// Returns the cargo features of the build for a place that has every part.
pub(super) fn features_with_all(place: Place) -> Vec<&'static str> {
    let features = of(place).filter_map(|part| part.feature);
    base(place).iter().copied().chain(features).collect()
}

/// Returns the cargo features of the build without a part; `None` if it cannot be left out.
pub(super) fn features_without(place: Place, part: Part) -> Option<Vec<&'static str>> {
    let out = part.feature?;
    let mut features = features_with_all(place);
    features.retain(|feature| *feature != out && !part.needed_by.contains(feature));
    Some(features)
}

/// Returns the cargo features of the build without any part that can be left out.
pub(super) fn features_without_any(place: Place) -> Vec<&'static str> {
    base(place).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_part_goes_with_it() {
        let all = features_with_all(Place::Runtime);
        assert_eq!(all.len(), 2 + 7);
        let without = |key| {
            let part = PARTS.into_iter().find(|part| part.key == key);
            features_without(Place::Runtime, part.expect("a part"))
        };
        let few = Some(vec!["runtime", "static-keys", "trace", "preempt"]);
        assert_eq!(without("groups"), few);
        assert_eq!(without("tracing").map(|features| features.len()), Some(8));
        assert_eq!(without(COMBINED), None);
        let core = ["static-keys", "realtime", "bandwidth"];
        assert_eq!(features_with_all(Place::Wake), core);
    }

    #[test]
    fn the_parts_of_the_core_are_those_with_keys_there() {
        let of_core: Vec<&str> = of(Place::Wake).map(|part| part.key).collect();
        let keys = evenkeel_core::keys::KEYS.iter().map(|key| key.name());
        assert_eq!(of_core, keys.collect::<Vec<_>>());
    }

    #[cfg(feature = "runtime")]
    #[test]
    fn the_parts_are_those_that_the_runtime_lists() {
        let keys = evenkeel::keys::list();
        let keys = keys.iter().map(|key| (key.name, key.feature));
        let parts = PARTS
            .iter()
            .map(|part| (part.key, part.feature.unwrap_or("")));
        assert_eq!(parts.collect::<Vec<_>>(), keys.collect::<Vec<_>>());
    }
}
