//! [`Recorder`]: what the peers decided and wrote, as vectors that `make test` replays (`conformance/peers`).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::programs::workspace;
use crate::report::say;

/// Makes a run replace the vectors of the themes that it runs.
const RECORD: &str = "PINFOLD_E2E_PEERS_RECORD";

/// The lines of each file.
pub(crate) struct Recorder {
    is_wanted: bool,
    files: BTreeMap<&'static str, Vec<String>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            is_wanted: std::env::var(RECORD).is_ok_and(|value| !value.is_empty()),
            files: BTreeMap::new(),
        }
    }

    /// Adds a line to a file, such as `koord-scheduler`.
    pub(crate) fn add(&mut self, file: &'static str, line: &Value) {
        if self.is_wanted {
            self.files.entry(file).or_default().push(line.to_string());
        }
    }

    /// Writes the files.
    pub(crate) fn write(&self) -> Result<(), String> {
        let folder = workspace().join("conformance/peers");
        for (name, lines) in &self.files {
            let path = folder.join(format!("{name}.jsonl.gz"));
            let failed = |error: std::io::Error| format!("{}: {error}", path.display());
            fs::create_dir_all(&folder).map_err(failed)?;
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            for line in lines {
                writeln!(encoder, "{line}").map_err(failed)?;
            }
            let bytes = encoder.finish().map_err(failed)?;
            say(format_args!(
                "recorded {}: {} lines, {} bytes",
                path.display(),
                lines.len(),
                bytes.len()
            ));
            fs::write(&path, bytes).map_err(failed)?;
        }
        Ok(())
    }
}
