//! [`LogLevels`]: which events are logged, by target.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Targets of this workspace begin with this.
const OWN: &str = "pinfold";
/// The most verbose level of targets of other crates that `--log-level` does not name.
const OTHERS: LevelFilter = LevelFilter::WARN;

/// Log levels by target, written `info,h2=debug`: a level for Pinfold's own targets, then exceptions for targets that
/// begin with a name. Other crates log warnings and errors only, unless they are named.
///
/// Levels are `off`, `error`, `warn`, `info` and `debug`. There is no `trace`: at that level HTTP libraries write the
/// contents of requests, credentials included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevels {
    own: LevelFilter,
    targets: Vec<(String, LevelFilter)>,
}

/// Log levels that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogLevelsError {
    /// Not a level.
    #[error("{0:?} is not a log level; expected off, error, warn, info or debug")]
    Level(String),
    /// The part before `=` is not the path of a module.
    #[error(
        "{0:?} is not a log target; expected a crate or module, such as h2 or pinfold_agent::daemon"
    )]
    Target(String),
    /// Two levels without a target.
    #[error("more than one level without a target; write TARGET=LEVEL for all but one")]
    Twice,
}

impl LogLevels {
    /// The filter that lets these events pass.
    pub(super) fn filter(&self) -> Targets {
        Targets::new()
            .with_default(self.own.min(OTHERS))
            .with_target(OWN, self.own)
            .with_targets(self.targets.iter().cloned())
    }
}

impl Default for LogLevels {
    fn default() -> Self {
        Self {
            own: LevelFilter::INFO,
            targets: Vec::new(),
        }
    }
}

impl FromStr for LogLevels {
    type Err = LogLevelsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (mut own, mut targets) = (None, Vec::new());
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((target, level)) => targets.push((parse_target(target)?, parse_level(level)?)),
                None => {
                    if own.replace(parse_level(part)?).is_some() {
                        return Err(LogLevelsError::Twice);
                    }
                }
            }
        }
        let own = own.unwrap_or(LevelFilter::INFO);
        Ok(Self { own, targets })
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.own)?;
        for (target, level) in &self.targets {
            write!(f, ",{target}={level}")?;
        }
        Ok(())
    }
}

fn parse_level(text: &str) -> Result<LevelFilter, LogLevelsError> {
    match text {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => Err(LogLevelsError::Level(text.to_owned())),
    }
}

fn parse_target(text: &str) -> Result<String, LogLevelsError> {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_:-.".contains(c);
    match !text.is_empty() && text.chars().all(is_valid) {
        true => Ok(text.to_owned()),
        false => Err(LogLevelsError::Target(text.to_owned())),
    }
}
