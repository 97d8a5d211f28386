//! How values of a configuration are written, so that they read back as themselves.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serializer;

/// A path, or `none`.
///
/// # Errors
/// If the serializer has one.
pub fn path_or_none<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => to.collect_str(&path.display()),
        None => to.serialize_str("none"),
    }
}

/// What is shown as text, or `none`.
///
/// # Errors
/// If the serializer has one.
pub fn shown_or_none<S: Serializer, T: fmt::Display>(
    value: &Option<T>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_str("none"),
    }
}

/// What is shown as text.
///
/// # Errors
/// If the serializer has one.
pub fn shown<S: Serializer, T: fmt::Display>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

/// A duration: whole seconds, or nanoseconds.
///
/// # Errors
/// If the serializer has one.
pub fn duration<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
    match value.subsec_nanos() {
        0 => to.collect_str(&format_args!("{}s", value.as_secs())),
        _ => to.collect_str(&format_args!("{}ns", value.as_nanos())),
    }
}
