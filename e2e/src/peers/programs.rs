//! The peers' programs, built once from their sources by the Go modules in `e2e/peers`, which name exact versions.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::programs::{said_by, succeed, tools};
use crate::report::say;

/// A program of a peer.
pub(crate) struct Program {
    /// Its name.
    pub(crate) name: &'static str,
    /// The folder below `e2e/peers` of the Go module that requires it.
    pub(crate) module: &'static str,
    /// Where it is in its sources.
    pub(crate) package: &'static str,
    /// Whether it links C libraries.
    pub(crate) uses_c: bool,
}

impl Program {
    /// The program, built if it is not there yet. Takes minutes of CPU time, once for every content of `go.mod`.
    pub(crate) fn build(&self) -> Result<PathBuf, String> {
        let module = module(self.module);
        let path = module.join("go.mod");
        let versions =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut hasher = DefaultHasher::new();
        versions.hash(&mut hasher);
        let folder = tools().join(format!("{}-{:016x}", self.module, hasher.finish()));
        let built = folder.join(self.name);
        if built.exists() {
            return Ok(built);
        }
        say(format_args!("building {}", self.name));
        // Another run may be building it too: the program appears when it is complete.
        let new = folder.join(format!("{}.{}", self.name, std::process::id()));
        let mut go = Command::new("go");
        go.current_dir(module)
            // With these tags, programs with C libraries share the compiled packages of those without.
            .args(["build", "-tags=netgo,osusergo", "-ldflags=-s -w", "-o"])
            .arg(&new)
            .arg(self.package)
            .env("CGO_ENABLED", if self.uses_c { "1" } else { "0" });
        succeed(&mut go)?;
        fs::rename(&new, &built).map_err(|error| format!("{}: {error}", built.display()))?;
        Ok(built)
    }
}

/// The folder of a required module's sources, such as `github.com/koordinator-sh/koordinator`: its definitions of custom
/// resources are there.
pub(crate) fn sources(module_folder: &str, required: &str) -> Result<PathBuf, String> {
    let mut go = Command::new("go");
    go.current_dir(module(module_folder))
        .args(["mod", "download", "-json", required]);
    let text = said_by(&mut go)?;
    let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{go:?}: {error}"))?;
    let folder = answer["Dir"].as_str();
    folder
        .map(PathBuf::from)
        .ok_or_else(|| format!("{go:?}: no folder in {text}"))
}

fn module(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}
