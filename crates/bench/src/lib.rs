//! Experiments that both the program `evenkeel` and small static programs run.
//!
//! Each experiment is a module that measures, and returns figures that print themselves as a table
//! and as JSON; nothing here prints.
#![deny(unsafe_code)]

pub mod lock;
