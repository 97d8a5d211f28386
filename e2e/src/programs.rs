//! What the suites need on this machine: programs of ours, QEMU, a kernel, busybox.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::report::say;

/// Where the sources are.
pub(crate) fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where programs and logs of guests go.
pub(crate) fn folder() -> PathBuf {
    workspace().join("target/guest")
}

/// Where programs of others go that are fetched or built once. Checkouts share them: some take many minutes.
pub(crate) fn tools() -> PathBuf {
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    match cache.filter(|cache| cache.is_absolute()) {
        Some(cache) => cache.join("pinfold-e2e"),
        None => workspace().join("target/e2e-tools"),
    }
}

/// The command line.
pub(crate) const PINFOLD: &str = "pinfold";
/// The kubectl plugin.
pub(crate) const PLUGIN: &str = "kubectl-pinfold";
/// The node agent.
pub(crate) const AGENT: &str = "pinfold-agent";
/// The engine of the scheduler.
pub(crate) const SCHEDULER: &str = "pinfold-scheduler";

/// Builds one of our programs in the dev profile. Its package has the same name.
pub(crate) fn debug_program(name: &str) -> Result<PathBuf, String> {
    build(&["-p", name], &format!("debug/{name}"))
}

/// Builds one of our programs in the release profile.
pub(crate) fn release_program(name: &str) -> Result<PathBuf, String> {
    build(&["-p", name, "--release"], &format!("release/{name}"))
}

fn build(what: &[&str], built: &str) -> Result<PathBuf, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(workspace());
    // `cargo run` sets these for this program. Build scripts that read them would run again, and their crates be rebuilt.
    let own = [
        "CARGO_MANIFEST_DIR",
        "CARGO_MANIFEST_PATH",
        "CARGO_MANIFEST_LINKS",
    ];
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || own.contains(&&*text) {
            build.env_remove(&name);
        }
    }
    succeed(build.args(["build", "--quiet"]).args(what))?;
    Ok(workspace().join("target").join(built))
}

/// Builds one of our programs and strips it, to be copied into a guest.
pub(crate) fn stripped_program(name: &str) -> Result<PathBuf, String> {
    strip(&debug_program(name)?)
}

/// This very program, stripped, to be copied into a guest.
pub(crate) fn stripped_e2e() -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    strip(&own)
}

/// Builds an example of one of our crates and strips it, to be copied into a guest.
pub(crate) fn stripped_example(package: &str, name: &str) -> Result<PathBuf, String> {
    let built = format!("debug/examples/{name}");
    strip(&build(&["-p", package, "--example", name], &built)?)
}

/// A copy of a program without symbols: the initrd of a guest is a third of the size.
fn strip(program: &Path) -> Result<PathBuf, String> {
    let name = program.file_name().ok_or("a program has a name")?;
    let folder = folder();
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stripped = folder.join(name);
    // Another suite may be about to run the one that is there.
    let new = folder.join(format!("new-{:?}", thread::current().id()));
    succeed(Command::new("strip").arg("-o").arg(&new).arg(program))?;
    fs::rename(&new, &stripped).map_err(|error| format!("{}: {error}", stripped.display()))?;
    Ok(stripped)
}

/// Whether an ELF file of 64 bits names a program that loads its libraries.
pub(crate) fn needs_loader(elf: &[u8]) -> bool {
    const INTERPRETER: u64 = 3;
    let number = |at: usize, len: usize| -> Option<u64> {
        let bytes = elf.get(at..at.checked_add(len)?)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        )
    };
    let header = |index: u64| -> Option<u64> {
        let at = number(0x20, 8)?.checked_add(index.checked_mul(number(0x36, 2)?)?)?;
        number(usize::try_from(at).ok()?, 4)
    };
    let count = number(0x38, 2).unwrap_or(0);
    count == 0 || (0..count).any(|index| header(index).is_none_or(|kind| kind == INTERPRETER))
}

/// Debian's package of busybox: the shell of emulated machines, and the image of all pods.
const BUSYBOX: (&str, &str) = ("/bin/busybox", "busybox-static");

/// Installs what an emulated machine needs and is not here yet.
pub(crate) fn install_emulator() -> Result<(), String> {
    install(&[BUSYBOX, ("/usr/bin/qemu-system-x86_64", "qemu-system-x86")])?;
    match crate::guest::kernel() {
        Ok(_) => Ok(()),
        Err(_) => install(&[("", "linux-image-amd64")]),
    }
}

/// Installs busybox if it is not here yet.
pub(crate) fn install_busybox() -> Result<(), String> {
    install(&[BUSYBOX])
}

/// Installs busybox and the plugins of container networks if they are not here yet.
pub(crate) fn install_networking() -> Result<(), String> {
    install(&[
        BUSYBOX,
        ("/usr/lib/cni/bridge", "containernetworking-plugins"),
        ("/usr/sbin/ip", "iproute2"),
    ])
}

/// Installs what watches CRI-O's containers and what fills its storage if they are not here yet.
pub(crate) fn install_crio_tools() -> Result<(), String> {
    install(&[("/usr/bin/conmon", "conmon"), ("/usr/bin/skopeo", "skopeo")])
}

/// Installs the program that tests alerting rules if it is not here yet.
pub(crate) fn install_promtool() -> Result<(), String> {
    install(&[("/usr/bin/promtool", "prometheus")])
}

/// Installs the browser, what drives it, and npm if they are not here yet.
pub(crate) fn install_browser() -> Result<(), String> {
    install(&[
        ("/usr/bin/chromium", "chromium"),
        ("/usr/bin/chromedriver", "chromium-driver"),
        ("/usr/bin/npm", "npm"),
    ])
}

/// Installs the packages of files that are not here.
fn install(files: &[(&str, &str)]) -> Result<(), String> {
    let missing = files.iter().filter(|(file, _)| !Path::new(file).exists());
    let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    say(format_args!("installing {}", missing.join(", ")));
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        apt
    };
    succeed(apt().arg("update"))?;
    let options = ["install", "-y", "--no-install-recommends"];
    succeed(apt().args(options).args(missing))
}

/// Runs a command; its error output is the error.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    said_by(command).map(drop)
}

/// The output of a command; its error output is the error.
pub(crate) fn said_by(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!(
            "{shown}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
