//! [`LogArgs`]: how a daemon writes its log.

use clap::ValueEnum;
use pinfold_daemon::logs::{Level, Log, LogFormat};

#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// How lines of the log are written
    #[arg(long, value_enum, default_value_t)]
    log_format: Lines,
    /// What is worth a line in the log
    #[arg(long, value_enum, default_value_t)]
    log_level: Least,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Lines {
    /// `key=value`
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

/// What is worth a line in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Least {
    /// Everything
    Debug,
    /// What happens on a good day
    #[default]
    Info,
    /// What is not as it should be
    Warn,
    /// What does not work
    Error,
}

impl LogArgs {
    /// To standard error.
    pub(crate) fn log(self) -> Log {
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
