//! [`LogArgs`]: the flags `--log-format` and `--log-level`.

use crate::logs::{Level, Log, LogFormat};
use clap::ValueEnum;

/// The flags `--log-format` and `--log-level`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct LogArgs {
    /// The format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: Lines,
    /// The least severe events that are logged
    #[arg(long, value_enum, default_value_t)]
    log_level: Least,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// `key=value`
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// The least severe events that are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Least {
    /// Everything
    Debug,
    /// Normal operation
    #[default]
    Info,
    /// Recoverable problems
    Warn,
    /// Failures
    Error,
}

impl LogArgs {
    /// The log on standard error.
    #[must_use]
    pub fn log(self) -> Log {
        let format = match self.log_format {
            Lines::Text => LogFormat::Text,
            Lines::Json => LogFormat::Json,
        };
        let least = match self.log_level {
            Least::Debug => Level::Debug,
            Least::Info => Level::Info,
            Least::Warn => Level::Warn,
            Least::Error => Level::Error,
        };
        Log::stderr(format, least)
    }
}
