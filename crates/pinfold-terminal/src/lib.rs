//! What every program of ours does at a terminal.
//!
//! | | |
//! |---|---|
//! | the flag `--as` | [`decider`] |
//! | the replicas of a pod that start on each node | [`capacity`] |
//! | what an upgrade of kubelets changes | [`upgrade`] |
//! | failures and exit codes | [`exit`] |
//! | the scheduler's configuration | [`scheduler_config`] |
//! | files named on the command line, and errors that show the line | [`source`] |
//! | control characters in texts from files | [`escape`] |
//! | the manifests of a directory | [`manifest_files`] |
//! | snapshots of clusters | [`object_files`] |
//! | warnings about the objects of a large file | [`warning_cap`] |
//! | results on standard output as text, JSON or YAML | [`output`] |
//! | a progress bar on standard error | [`progress`] |
//! | the address of the web page | [`serving`] |
//! | shell completions and man pages | [`manual`] |

pub mod capacity;
pub mod decider;
pub mod escape;
pub mod exit;
pub mod manifest_files;
pub mod manual;
pub mod object_files;
pub mod output;
pub mod progress;
pub mod scheduler_config;
pub mod serving;
pub mod source;
pub mod upgrade;
pub mod warning_cap;

pub use decider::DeciderArg;
pub use exit::{Failure, REJECTED, Rejected};
pub use output::{ColourChoice, Format};
pub use source::Source;
pub use warning_cap::WarningCap;
