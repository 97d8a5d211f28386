//! [`LogArgs`]: the flags `--log-format` and `--log-level`.

use clap::ValueEnum;
use tracing::dispatcher::SetGlobalDefaultError;

use crate::logging::{self, LogFormat, LogLevels};

/// The flags `--log-format` and `--log-level`.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// The format of log lines
    #[arg(long, value_enum, default_value_t)]
    log_format: LineFormat,
    /// The log level: off, error, warn, info or debug; then exceptions by target, such as info,h2=debug
    #[arg(long, value_name = "LEVEL[,TARGET=LEVEL...]", default_value_t)]
    log_level: LogLevels,
}

/// The format of log lines.
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
    ///
    /// # Errors
    /// If a subscriber was installed before.
    pub fn init(&self) -> Result<(), SetGlobalDefaultError> {
        let format = match self.log_format {
            LineFormat::Text => LogFormat::Text,
            LineFormat::Json => LogFormat::Json,
        };
        logging::init(format, &self.log_level)
    }
}
