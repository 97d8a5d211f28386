//! A folder with everything that the agent's suite runs, so that it needs neither network nor packages.
//!
//! | file | what it is |
//! |---|---|
//! | `containerd`, `containerd-shim-runc-v2`, `ctr`, `runc` | the container runtime |
//! | `pinfold-agent`, `pinfold` | the programs under test |
//! | `image.tar` | the image of all pods: busybox |
//! | `admission.jsonl.gz`, `topologies.jsonl` | what the real kubelet decided |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::containerd::make_image;
use crate::containerd::packages::{self, ConfigVersion, Programs};
use crate::programs::{self, AGENT, PINFOLD};

/// Names a folder that is ready, instead of one that is made from what is fetched and built.
const READY: &str = "PINFOLD_E2E_PROGRAMS";

/// The folder of this machine, with what is not there yet fetched and built.
pub(crate) fn folder() -> Result<PathBuf, String> {
    if let Some(ready) = std::env::var_os(READY) {
        return Ok(ready.into());
    }
    let folder = programs::workspace().join("target/e2e-agent");
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(&folder).map_err(failed)?;
    let release = packages::RELEASES.last().ok_or("there is no release")?;
    let fetched = packages::fetch(release)?;
    let image = make_image(&programs::folder().join("image"))?;
    let vectors = programs::workspace().join("conformance/kubelet");
    let files = [
        ("containerd", fetched.containerd.join("containerd")),
        (
            "containerd-shim-runc-v2",
            fetched.containerd.join("containerd-shim-runc-v2"),
        ),
        ("ctr", fetched.containerd.join("ctr")),
        ("runc", fetched.runc),
        (PINFOLD, programs::stripped_program(PINFOLD)?),
        (AGENT, programs::stripped_program(AGENT)?),
        ("image.tar", image),
        ("admission.jsonl.gz", vectors.join("admission.jsonl.gz")),
        ("topologies.jsonl", vectors.join("topologies.jsonl")),
    ];
    for (name, from) in files {
        let to = folder.join(name);
        let _ = fs::remove_file(&to);
        fs::copy(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(folder)
}

/// The container runtime of a folder, with the form of its configuration.
pub(crate) fn runtime(folder: &Path) -> Result<(Programs, ConfigVersion), String> {
    let containerd = folder.join("containerd");
    let said = Command::new(&containerd).arg("--version").output();
    let said = said.map_err(|error| format!("{}: {error}", containerd.display()))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.split_whitespace().nth(2).unwrap_or_default();
    let is_old = version.trim_start_matches('v').starts_with("1.");
    let programs = Programs {
        containerd: folder.to_owned(),
        runc: folder.join("runc"),
        image: Some(folder.join("image.tar")),
    };
    Ok(match is_old {
        true => (programs, ConfigVersion::Two),
        false => (programs, ConfigVersion::Three),
    })
}
