//! The loops: what enters and leaves the scheduler again and again.

use std::fmt;

use super::Error;

/// Where the scheduler is entered and left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The core: a task wakes on an empty run queue, is picked, and blocks.
    Wake,
    /// The core: the only task of a run queue yields and is picked again.
    Yield,
    /// The runtime: the only task yields, in the root group, so that no groups are in use.
    Runtime,
    /// The runtime: the only task yields, in a group of its own.
    Group,
}

impl Place {
    /// Every place, in the order of reports.
    pub const ALL: [Place; 4] = [Place::Wake, Place::Yield, Place::Runtime, Place::Group];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Place::Wake => "core-wake",
            Place::Yield => "core-yield",
            Place::Runtime => "runtime",
            Place::Group => "runtime-group",
        }
    }

    /// Returns what one round of the loop is.
    pub fn doc(self) -> &'static str {
        match self {
            Place::Wake => "run queue of the core: enqueue, pick and block the only task",
            Place::Yield => "run queue of the core: put and pick the only task",
            Place::Runtime => "runtime of one worker: yield_now of the only task",
            Place::Group => "runtime of one worker: yield_now of the only task, in its own group",
        }
    }

    /// Returns whether the loop needs the runtime.
    pub fn is_runtime(self) -> bool {
        matches!(self, Place::Runtime | Place::Group)
    }

    /// Finds a place by its name.
    ///
    /// # Errors
    /// There is none of that name; the error lists those that there are.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let found = Place::ALL.into_iter().find(|place| place.name() == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = Place::ALL.iter().map(|place| place.name()).collect();
            Error::usage("place", name, names.join(", "))
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
