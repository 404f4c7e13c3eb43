//! Measuring subjects against each other, and what may be said about the samples.
//!
//! **Guarantee.** Two series of samples that differ by nothing but noise that is independent from
//! run to run are called different in no more than about 5 of 100 comparisons; a test does it with
//! 100. What drifts over the measurement (frequency, neighbours, temperature) meets all subjects
//! alike, because their runs are interleaved, and cancels, because only runs of the same round are
//! divided by each other.
//!
//! **Mechanism, as of now.** [`measure`] runs every subject once per round, in an order that
//! rotates from round to round, after a warm-up that is not counted. [`Comparison`] takes the
//! median of the ratios of each round, and a bootstrap over the rounds gives an interval that
//! covers the true median in 95 % of all cases (the percentile method: Efron and Tibshirani, An
//! Introduction to the Bootstrap, chapter 13). [`NoiseMeter`] counts what disturbed the
//! measurement meanwhile.
//!
//! # Examples
//! ```
//! use evenkeel_bench::stats::{Better, Comparison, Metric, Series};
//!
//! const TIME: Metric = Metric::sampled("time", "ns", Better::Lower);
//! let series = |name: &str, samples: &[f64]| Series::new(name, TIME, samples.to_vec());
//! let fast = series("fast", &[10.0, 11.0, 10.0, 10.5, 10.2, 10.1, 10.3]);
//! let slow = series("slow", &[20.0, 22.0, 20.0, 21.0, 20.4, 20.2, 20.6]);
//! let comparison = Comparison::of(&fast, &slow).expect("there are samples");
//! assert_eq!(comparison.ratio, 2.0); // above 1: better for the first one
//! assert!(comparison.significant);
//! ```

mod bootstrap;
mod compare;
mod measure;
mod noise;
mod random;
mod report;
mod summary;
mod table;

pub use compare::{Comparison, MIN_PAIRS};
pub use measure::{Measured, Plan, Step, Subject, measure};
pub use noise::{MAX_STEAL_PERCENT, Noise, NoiseMeter};
pub use random::Random;
pub use report::Report;
pub use summary::{Better, Metric, Series, Summary, median, quantile};
pub use table::{Table, number};
