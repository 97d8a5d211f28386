//! [`open`]: reads a machine from a specification of any kind.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::HardwareError;
use crate::hardware::Hardware;
use crate::record::Recording;
use crate::{from_hwloc_xml, from_sysfs, from_topology_json, presets, synthetic};

/// Limit of the size of a file that describes a machine.
const LARGEST: u64 = 64 << 20;

/// Reads the machine that `spec` specifies.
///
/// | `spec` | machine |
/// |---|---|
/// | empty, or `this` | this machine |
/// | a directory | the tree with `sys` and `proc` in it |
/// | a file | a recording, an XML export of hwloc, JSON of a topology, or a description; detected by its content |
/// | `preset:NAME`, or `NAME` | a known server, see [`presets::PRESETS`] |
/// | anything else | a description, see [`synthetic`] |
///
/// # Errors
/// If there is no such machine, or it cannot be read; see [`HardwareError`].
pub fn open(spec: &str) -> Result<Hardware, HardwareError> {
    let spec = spec.trim();
    if spec.is_empty() || spec == "this" {
        return from_sysfs(Path::new("/"));
    }
    if let Some(name) = spec.strip_prefix("preset:") {
        return presets::read(name.trim());
    }
    let path = Path::new(spec);
    if path.is_dir() {
        return from_sysfs(path);
    }
    if path.is_file() {
        return open_file(path);
    }
    if presets::find(spec).is_none() && looks_like_a_file(spec) {
        // It is missing, or a pipe.
        return open_file(path);
    }
    open_without_files(spec)
}

/// As [`open`], for a specification from elsewhere: this machine, a preset or a description, and never a path.
///
/// # Errors
/// If there is no such machine, or it cannot be read; see [`HardwareError`].
pub fn open_without_files(spec: &str) -> Result<Hardware, HardwareError> {
    let spec = spec.trim();
    if spec.is_empty() || spec == "this" {
        return from_sysfs(Path::new("/"));
    }
    if let Some(name) = spec.strip_prefix("preset:") {
        return presets::read(name.trim());
    }
    if presets::find(spec).is_some() {
        return presets::read(spec);
    }
    if looks_like_a_description(spec) {
        return Ok(synthetic::read(spec)?);
    }
    Err(HardwareError::NoSuchMachine {
        spec: crate::error::excerpt(spec),
        nearest: presets::nearest_name(spec).map(str::to_owned),
    })
}

fn open_file(path: &Path) -> Result<Hardware, HardwareError> {
    let unreadable = |error| HardwareError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(HardwareError::TooMuch {
            what: "bytes in a file that describes a machine",
            found: bytes.len() as u64,
            limit: LARGEST,
        });
    }
    open_bytes(path, &bytes)
}

/// Reads a machine from the content of a file: a recording, an XML export of hwloc, JSON of a topology, or a description.
/// `path` is its name in messages.
///
/// # Errors
/// If it does not describe a machine; see [`HardwareError`].
pub fn open_bytes(path: &Path, bytes: &[u8]) -> Result<Hardware, HardwareError> {
    if Recording::is_one(bytes) {
        return Recording::read(bytes)?.replay();
    }
    if let Some(format) = archive_format(bytes) {
        return Err(HardwareError::Archive {
            path: path.to_owned(),
            format,
        });
    }
    let text = String::from_utf8_lossy(bytes);
    if text.trim_start().starts_with('{') {
        return from_topology_json(&text);
    }
    if text.trim_start().starts_with('<') {
        return from_hwloc_xml(&text);
    }
    Ok(synthetic::read(&text)?)
}

/// The archive format of a file that begins with these bytes.
fn archive_format(bytes: &[u8]) -> Option<&'static str> {
    const FORMATS: [(&[u8], &str); 4] = [
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"PK\x03\x04", "zip"),
    ];
    let is_tar = bytes.get(257..262) == Some(b"ustar");
    let format = FORMATS.iter().find(|(magic, _)| bytes.starts_with(magic));
    is_tar
        .then_some("tar")
        .or(format.map(|&(_, format)| format))
}

/// Whether the text is the name of a file: a path, or a name that ends like files with machines.
fn looks_like_a_file(spec: &str) -> bool {
    const ENDS: [&str; 9] = [
        ".xml", ".json", ".yaml", ".yml", ".machine", ".gz", ".bz2", ".xz", ".tar",
    ];
    let name = spec.to_ascii_lowercase();
    spec.starts_with(['/', '~'])
        || spec.starts_with("./")
        || spec.starts_with("../")
        || ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether the text has blanks or other characters that a path or a misspelt preset does not have.
fn looks_like_a_description(spec: &str) -> bool {
    let starts_with_number = spec.starts_with(|c: char| c.is_ascii_digit());
    let path_like = spec.starts_with(['/', '.', '~']);
    !path_like && (starts_with_number || spec.contains([' ', '=', ':']))
}
