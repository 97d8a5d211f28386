//! [`LogArgs`]: the log options of a daemon.

use clap::ValueEnum;
use pinfold_daemon::logging::{self, LogFormat, LogLevels};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: LineFormat,
    /// Log level: off, error, warn, info or debug; with exceptions by target, such as info,h2=debug
    #[arg(long, value_name = "LEVEL[,TARGET=LEVEL...]", default_value_t)]
    log_level: LogLevels,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum LineFormat {
    /// key=value pairs
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

impl LogArgs {
    /// Logs to standard error from now on.
    pub(crate) fn init(&self) -> Result<(), impl std::error::Error + use<>> {
        let format = match self.log_format {
            LineFormat::Text => LogFormat::Text,
            LineFormat::Json => LogFormat::Json,
        };
        logging::init(format, &self.log_level)
    }
}
