//! The suite on this very machine, with cgroup v1 or v2.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use pinfold_core::cpu_set::CpuSet;

use crate::programs;
use crate::report::{Report, Runs, Stop, equal};
use crate::transcript::Transcript;
use crate::{control_groups, crashes};

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
    let pinfold = programs::stripped_program(programs::PINFOLD)?;
    let before = before(&pinfold)?;
    let folder = std::env::temp_dir().join(format!("pinfold-e2e-host-{}", std::process::id()));
    let said = in_folder(&folder, &pinfold, &before);
    let _ = fs::remove_dir_all(&folder);
    let said = said.map_err(|error| format!("{}: {error}", folder.display()))?;
    crashes::check(report, "host", &said, &before.all, said.section("nodes")?);
    report.theme("host: control groups", Runs::Must, |report| {
        needs_root()?;
        Ok(control_groups(report)?)
    });
    report.theme("host: without root", Runs::Must, |report| {
        needs_root()?;
        let folder =
            std::env::temp_dir().join(format!("pinfold-e2e-nobody-{}", std::process::id()));
        let checked = as_nobody(&folder, &pinfold, &before);
        let _ = fs::remove_dir_all(&folder);
        report.check("host: a user who is not root is held by affinity", checked);
        Ok(())
    });
    Ok(())
}

fn needs_root() -> Result<(), Stop> {
    match fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        true => Ok(()),
        false => Err(Stop::Skip("needs root".to_owned())),
    }
}

/// Changes groups of its own in the machine's hierarchy, cgroup v1 or v2.
fn control_groups(report: &mut Report) -> Result<(), String> {
    let program = control_groups::program()?;
    let output = Command::new(&program).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let version = if unified { "cgroup v2" } else { "cgroup v1" };
    let said = String::from_utf8_lossy(&output.stdout);
    control_groups::check(report, "host", version, &said);
    Ok(())
}

/// The user and group that own nothing.
const NOBODY: u32 = 65534;

/// Runs something as a user who may not make control groups.
fn as_nobody(folder: &Path, pinfold: &Path, before: &Before) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", folder.display());
    let runtime = folder.join("runtime");
    fs::create_dir_all(&runtime).map_err(failed)?;
    fs::copy(pinfold, folder.join("pinfold")).map_err(failed)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    std::os::unix::fs::chown(&runtime, Some(NOBODY), Some(NOBODY)).map_err(failed)?;
    let run = |runtime: Option<&Path>| {
        let mut command = Command::new("setpriv");
        command
            .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")])
            .arg("--clear-groups")
            .arg(folder.join("pinfold"))
            .args(["run", "--cpus", "1", "--memory", "16Mi", "--"])
            .args([
                "sh",
                "-c",
                "grep Cpus_allowed_list /proc/self/status | cut -f2",
            ])
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::null());
        if let Some(runtime) = runtime {
            command.env("XDG_RUNTIME_DIR", runtime);
        }
        command
            .output()
            .map_err(|error| format!("setpriv: {error}"))
    };

    let homeless = run(None)?;
    equal(
        "exit code without XDG_RUNTIME_DIR",
        homeless.status.code(),
        Some(3),
    )?;
    let said = String::from_utf8_lossy(&homeless.stderr).into_owned();
    equal("it is named", said.contains("XDG_RUNTIME_DIR"), true)?;

    let held = run(Some(&runtime))?;
    let said = String::from_utf8_lossy(&held.stderr).into_owned();
    equal(&format!("exit code ({said})"), held.status.code(), Some(0))?;
    equal(
        &format!("what is not enforced is said ({said})"),
        said.contains("pinned by CPU affinity and memory policy only"),
        true,
    )?;
    let cpus: CpuSet = String::from_utf8_lossy(&held.stdout)
        .trim()
        .parse()
        .map_err(|error| format!("allowed CPUs: {error}"))?;
    equal("CPUs of the command", cpus.len(), 1)?;
    equal(
        "none of them reserved",
        cpus.is_disjoint(&before.reserved),
        true,
    )?;
    for (path, mode) in [("pinfold", 0o700), ("pinfold/runs.json", 0o600)] {
        let found = fs::metadata(runtime.join(path)).map_err(failed)?;
        equal(path, found.mode() & 0o777, mode)?;
        equal(path, found.uid(), NOBODY)?;
    }
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
