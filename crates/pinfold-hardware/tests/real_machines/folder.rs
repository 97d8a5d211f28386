//! Finds and unpacks the recorded machines.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder with the machines.
pub(crate) struct Folder(PathBuf);

/// An unpacked machine, removed on drop.
pub(crate) struct Unpacked(PathBuf);

impl Folder {
    pub(crate) fn find() -> Option<Self> {
        let beside = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/topologies/hwloc"
        );
        let folder = std::env::var_os("PINFOLD_HWLOC_TOPOLOGIES").unwrap_or_else(|| beside.into());
        let folder = PathBuf::from(folder);
        if folder.join("linux").is_dir() {
            return Some(Self(folder));
        }
        let message = format!(
            "SKIPPED: no machines in {}; set PINFOLD_HWLOC_TOPOLOGIES to compare with hwloc",
            folder.display()
        );
        let required = std::env::var("PINFOLD_REQUIRE_TOPOLOGIES").is_ok_and(|value| value == "1");
        assert!(!required, "{message}");
        // Written, not printed: the test harness hides what passing tests print.
        let _ = writeln!(std::io::stderr(), "\n{message}");
        None
    }

    pub(crate) fn read(&self, path: &str) -> String {
        let path = self.0.join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The machines of one kind with their expected values, by name.
    pub(crate) fn machines(&self, kind: &str) -> Vec<(String, Value)> {
        let entries = fs::read_dir(self.0.join(kind)).expect("the folder of a kind");
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|file| file.strip_suffix(".expected.json").map(str::to_owned))
            .collect();
        names.sort();
        assert!(!names.is_empty(), "no machines in {kind}");
        let expected = |name: String| {
            let json = self.read(&format!("{kind}/{name}.expected.json"));
            let json =
                serde_json::from_str(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
            (name, json)
        };
        names.into_iter().map(expected).collect()
    }

    pub(crate) fn unpack(&self, name: &str) -> Unpacked {
        let unique = format!("pinfold-{}-{name}", std::process::id());
        // A hundred thousand small files: unpacked in memory if there is room.
        let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let mut targets = places.iter().map(|place| place.join(&unique));
        let target = targets.find(|target| fs::create_dir(target).is_ok());
        let unpacked = Unpacked(target.expect("a place for temporary files"));
        let tarball = self.0.join(format!("linux/{name}.tar.bz2"));
        let tar = Command::new("tar")
            .arg("-xjf")
            .arg(&tarball)
            .arg("-C")
            .arg(&unpacked.0)
            .status();
        assert!(tar.expect("tar runs").success(), "{name}: tar failed");
        // Some dumps keep the read-only modes of sysfs, which only root can read through.
        let _ = Command::new("chmod")
            .arg("-R")
            .arg("u+rwX")
            .arg(&unpacked.0)
            .status();
        unpacked
    }
}

impl Unpacked {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
