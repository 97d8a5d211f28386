//! Reads the objects of files of any size: snapshots of clusters.

use std::io::{Cursor, Read};
use std::path::Path;

use pinfold_kube::manifest::{self, Document, stream};

use crate::exit::Failure;
use crate::manifest_files;
use crate::source::{self, Source};

/// JSON up to this size is read as a whole, for the positions of errors.
const LOCATED_JSON: usize = 2 << 20;

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
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_json = first == Some(&b'{');
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
