//! One file per command.

pub(crate) mod conformance;
pub(crate) mod ps;
pub(crate) mod run;
