//! What every program of ours does at a terminal.
//!
//! | | |
//! |---|---|
//! | the flag `--as` | [`decider`] |
//! | failures and exit codes | [`exit`] |
//! | the scheduler's configuration | [`scheduler_config`] |
//! | files named on the command line, and errors that show the line | [`source`] |
//! | results on standard output as text, JSON or YAML | [`output`] |
//! | a progress bar on standard error | [`progress`] |
//! | shell completions and man pages | [`manual`] |

pub mod decider;
pub mod exit;
pub mod manual;
pub mod output;
pub mod progress;
pub mod scheduler_config;
pub mod source;

pub use decider::DeciderArg;
pub use exit::{Failure, REJECTED, Rejected};
pub use output::Format;
pub use source::Source;
