//! Reads the objects of files of any size: snapshots of clusters.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use pinfold_kube::diagnostic::Diagnostics;
use pinfold_kube::manifest::{self, Document, stream};
use pinfold_kube::objects::ClusterObjects;

use crate::exit::Failure;
use crate::manifest_files;
use crate::source::{self, Source};
use crate::warning_cap::WarningCap;

/// JSON up to this size is read as a whole, for the positions of errors.
const LOCATED_JSON: usize = 2 << 20;
/// The first bytes of UTF-8 text from some Windows programs.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The most errors that are reported about the objects of a file.
const MAX_ERRORS: usize = 50;

/// Passes all objects of a file or of the files of a directory to `take`. Returns the files.
///
/// JSON files may have 2 GiB and 500,000 objects: larger ones than 2 MiB are read object by object, and errors about them
/// name the object instead of the line. YAML files may have 8 MiB.
///
/// # Errors
/// If a file cannot be read, or `take` fails.
pub fn read(
    path: &Path,
    take: &mut dyn FnMut(&Source, &Document) -> Result<(), Failure>,
) -> Result<Vec<Source>, Failure> {
    let files = manifest_files::find(path, false)?;
    files.iter().map(|file| read_one(file, take)).collect()
}

/// The objects of several files or directories, without pods that have terminated, and the files.
///
/// # Errors
/// If a file cannot be read, an object is invalid, or two pods have the same uid.
pub fn read_cluster(
    paths: &[PathBuf],
    warned: &mut WarningCap,
) -> Result<(ClusterObjects, Vec<Source>), Failure> {
    let mut objects = ClusterObjects::default();
    let mut sources = Vec::new();
    for path in paths {
        let mut errors = Diagnostics(Vec::new());
        let files = read(path, &mut |source, document| {
            match objects.add_object(document) {
                Ok(warnings) => warned.add_all(source, &warnings),
                Err(Diagnostics(found)) => errors.0.extend(found),
            }
            match errors.0.len() < MAX_ERRORS {
                true => Ok(()),
                false => Err(source.failure(&errors)),
            }
        })?;
        if let (Some(source), false) = (files.first(), errors.0.is_empty()) {
            return Err(source.failure(&errors));
        }
        sources.extend(files);
    }
    objects.pods.retain(|pod| !pod.constraints.finished);
    if let Some(source) = sources.first() {
        let checked = objects.check_uids(&source.name);
        checked.map_err(|findings| source.failure(&findings))?;
    }
    Ok((objects, sources))
}

fn read_one(
    path: &Path,
    take: &mut dyn FnMut(&Source, &Document) -> Result<(), Failure>,
) -> Result<Source, Failure> {
    let name = source::name(path);
    let failure = |error| Failure::BadInput(format!("cannot read {name}: {error}"));
    let mut from = source::open(path).map_err(failure)?;
    let mut bytes = Vec::new();
    let limit = manifest::MAX_BYTES as u64 + 1;
    (&mut from)
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(failure)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    if !is_json && bytes.len() > manifest::MAX_BYTES {
        return Err(Failure::BadInput(format!(
            "{name}: expected at most {} MiB of YAML, found more: `kubectl get -o json` writes JSON, which may have 2 GiB",
            manifest::MAX_BYTES >> 20
        )));
    }
    if is_json && bytes.len() > LOCATED_JSON {
        let source = Source {
            name,
            bytes: Vec::new(),
        };
        let mut taken = Ok(());
        let mut take = |document: Document| {
            taken = take(&source, &document);
            taken.is_ok()
        };
        let read = stream::read_json(&source.name, Cursor::new(bytes).chain(from), &mut take);
        taken?;
        read.map_err(|findings| source.failure(&findings))?;
        return Ok(source);
    }
    let source = Source { name, bytes };
    let documents = manifest::read(&source.name, &source.bytes);
    for document in &documents.map_err(|findings| source.failure(&findings))? {
        take(&source, document)?;
    }
    Ok(source)
}
