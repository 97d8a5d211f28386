//! The suite on this very machine, whatever its control groups are like.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use pinfold_core::cpu_set::CpuSet;

use crate::crashes;
use crate::programs;
use crate::report::{Report, equal};
use crate::transcript::Transcript;

const COMMON: &str = include_str!("../scripts/common.sh");
const SHARED: &str = include_str!("../scripts/shared.sh");
const CRASHES: &str = include_str!("../scripts/crashes.sh");

/// Runs the scripts that need no particular machine.
pub(crate) fn run(report: &mut Report) {
    if let Err(problem) = try_run(report) {
        report.check("host", Err(problem));
    }
}

fn try_run(report: &mut Report) -> Result<(), String> {
    let pinfold = programs::static_pinfold()?;
    let before = before(&pinfold)?;
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-host-{}", std::process::id()));
    let said = in_folder(&folder, &pinfold, &before);
    let _ = fs::remove_dir_all(&folder);
    let said = said.map_err(|error| format!("{}: {error}", folder.display()))?;
    crashes::check(report, "host", &said, &before.all, said.section("nodes")?);
    Ok(())
}

/// This machine with nothing on it.
struct Before {
    all: CpuSet,
    reserved: CpuSet,
}

fn before(pinfold: &Path) -> Result<Before, String> {
    let output = Command::new(pinfold).args(["ps", "-o", "json"]).output();
    let output = output.map_err(|error| format!("{}: {error}", pinfold.display()))?;
    let listing: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    equal(
        "runs before the test",
        &listing["runs"],
        &serde_json::json!([]),
    )?;
    let cpus = |name: &str| -> Result<CpuSet, String> {
        let text = listing["occupancy"][name].as_str().unwrap_or_default();
        text.parse()
            .map_err(|error| format!("{name} CPUs {text:?}: {error}"))
    };
    let before = Before {
        all: cpus("shared")?,
        reserved: cpus("reserved")?,
    };
    match before.all.len() > before.reserved.len() {
        true => Ok(before),
        false => Err("this machine has no CPU to give away: two are needed".to_owned()),
    }
}

fn in_folder(folder: &Path, pinfold: &Path, before: &Before) -> io::Result<Transcript> {
    let notes = folder.join("notes");
    fs::create_dir_all(&notes)?;
    fs::copy(pinfold, folder.join("pinfold"))?;
    let script = folder.join("script.sh");
    let nodes = "section nodes\ngrep Mems_allowed_list /proc/self/status | cut -f2\n";
    fs::write(&script, [COMMON, nodes, SHARED, CRASHES].join("\n"))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let free = before.all.len() - before.reserved.len();
    let output = Command::new("sh")
        .arg(&script)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("T", &notes)
        .env("OWN", "1")
        .env("ALL", free.to_string())
        .stdin(Stdio::null())
        .output()?;
    let mut transcript = Transcript::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        transcript.line(line);
    }
    Ok(transcript)
}
