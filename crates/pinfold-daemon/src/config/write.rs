//! Serialization of configuration values. The parser reads them back unchanged.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serializer;

/// Writes a path or `none`.
///
/// # Errors
/// If the serializer fails.
pub fn path_or_none<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.collect_str(&path.display()),
        None => to.serialize_str("none"),
    }
}

/// Writes the value's `Display` text or `none`.
///
/// # Errors
/// If the serializer fails.
pub fn display_or_none<S: Serializer, T: fmt::Display>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_str("none"),
    }
}

/// Writes the value's `Display` text.
///
/// # Errors
/// If the serializer fails.
pub fn display<S: Serializer, T: fmt::Display>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// Writes a duration in whole seconds if possible, else in nanoseconds.
///
/// # Errors
/// If the serializer fails.
pub fn duration<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    match value.subsec_nanos() {
        0 => to.collect_str(&format_args!("{}s", value.as_secs())),
        _ => to.collect_str(&format_args!("{}ns", value.as_nanos())),
    }
}
