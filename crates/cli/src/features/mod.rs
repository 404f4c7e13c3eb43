//! `evenkeel features`: what this build and this machine have.
//!
//! | module | what it does |
//! |---|---|
//! | `listing` | gathers everything |
//! | `keys` | the static keys |
//! | `text` | writes it for people |

mod keys;
mod listing;
mod text;

use std::io::{self, Write as _};

use evenkeel_core::features;

use crate::args::FeaturesArgs;
use listing::Listing;

/// Why the features could not be switched or printed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FeaturesError {
    /// `--set` names a feature that does not exist.
    #[error("error: --set \"{given}\": {source}")]
    Unknown {
        /// What was given.
        given: String,
        /// Which word is wrong, and what may have been meant.
        source: evenkeel_core::Error,
    },
    /// `--set` asks for another value than the constant of this build.
    #[error(
        "error: --set \"{given}\": {source}, such as by\n    \
         cargo run --release --features sched-debug -- features --set \"{given}\""
    )]
    Constant {
        /// What was given.
        given: String,
        /// Which feature it is.
        source: evenkeel_core::Error,
    },
    /// The system refuses to have code changed.
    #[error("error: --set \"{given}\": {source}")]
    Refused {
        /// What was given.
        given: String,
        /// Which key, and the system's answer.
        source: evenkeel_core::Error,
    },
    /// The results cannot be printed.
    #[error("error: cannot print the features: {0}")]
    Print(#[from] io::Error),
}

impl FeaturesError {
    /// Whether the command line is wrong, for this build at least.
    pub(crate) fn is_usage(&self) -> bool {
        match self {
            Self::Unknown { .. } | Self::Constant { .. } => true,
            Self::Refused { .. } | Self::Print(_) => false,
        }
    }
}

/// Runs `evenkeel features`: switches what `--set` says, in this process alone, and prints.
///
/// # Errors
///
/// A feature is unknown or cannot be switched; nothing is printed then. Or standard output cannot
/// be written to.
pub(crate) fn run(args: &FeaturesArgs) -> Result<(), FeaturesError> {
    // All together: either all are switched or none is.
    set(&args.set.join(" "))?;
    let mut stdout = io::stdout().lock();
    if args.text {
        writeln!(stdout, "{}", features::state())?;
        return Ok(stdout.flush()?);
    }
    let listing = Listing::gather();
    if args.json {
        serde_json::to_writer_pretty(&mut stdout, &listing).map_err(io::Error::from)?;
        writeln!(stdout)?;
        return Ok(stdout.flush()?);
    }
    Ok(text::write(&listing, stdout)?)
}

/// Switches scheduler features of this process.
///
/// # Errors
///
/// As [`evenkeel_core::features::set`]; nothing has changed.
pub(crate) fn set(text: &str) -> Result<(), FeaturesError> {
    features::set(text).map_err(|source| {
        let given = text.to_owned();
        if source.is_unknown_feature() {
            FeaturesError::Unknown { given, source }
        } else if source.is_not_compiled() {
            FeaturesError::Constant { given, source }
        } else {
            FeaturesError::Refused { given, source }
        }
    })
}
