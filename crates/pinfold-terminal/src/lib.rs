//! What every program of ours does at a terminal.
//!
//! | | |
//! |---|---|
//! | failures and exit codes | [`exit`] |
//! | files named on the command line, and errors that show the line | [`source`] |
//! | results on standard output as text, JSON or YAML | [`output`] |
//! | a progress bar on standard error | [`progress`] |
//! | shell completions and man pages | [`manual`] |

pub mod exit;
pub mod manual;
pub mod output;
pub mod progress;
pub mod source;

pub use exit::{Failure, REJECTED};
pub use output::Format;
pub use source::Source;
