//! containerd and runc from Debian packages, unpacked into a folder of their own, and a newer
//! containerd from its sources: nothing is installed, and the system's package lists stay as they
//! are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nri::api::Events;

use crate::programs::{self, said_by, succeed};
use crate::report::say;

/// A container runtime to test with.
pub(crate) struct Release {
    /// What checks are named after.
    pub(crate) name: &'static str,
    origin: Origin,
    /// The events of NRI it should be known to know.
    pub(crate) events: Events,
    /// Which form its configuration has.
    pub(crate) config: ConfigVersion,
}

/// Where a runtime comes from.
enum Origin {
    /// A package of this release of Debian.
    Debian(&'static str),
    /// This version of the Go module, built here once.
    Go(&'static str),
}

/// The form of containerd's configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigVersion {
    /// Of containerd 1.
    Two,
    /// Of containerd 2.
    Three,
}

/// NRI in its early days (0.6), and as it is (0.12). Versions do not move: a stable release, and a tag.
pub(crate) const RELEASES: [Release; 2] = [
    Release {
        name: "containerd 1.7",
        origin: Origin::Debian("trixie"),
        events: Events::SINCE_THE_BEGINNING,
        config: ConfigVersion::Two,
    },
    Release {
        name: "containerd 2.3",
        origin: Origin::Go("v2.3.4"),
        events: Events::ALL,
        config: ConfigVersion::Three,
    },
];

/// The programs of a release, unpacked.
pub(crate) struct Programs {
    /// Where `containerd`, its shim and `ctr` are.
    pub(crate) containerd: PathBuf,
    pub(crate) runc: PathBuf,
    /// The image of all pods; `None` if it is to be made.
    pub(crate) image: Option<PathBuf>,
}

/// Fetches what is not here yet.
pub(crate) fn fetch(release: &Release) -> Result<Programs, String> {
    let folder = programs::tools();
    Ok(Programs {
        containerd: match release.origin {
            Origin::Debian(suite) => unpacked(&folder, "containerd", suite)?.join("usr/bin"),
            Origin::Go(version) => built(&folder, version)?,
        },
        runc: unpacked(&folder, "runc", "bookworm")?.join("usr/sbin/runc"),
        image: None,
    })
}

/// Builds containerd from the Go module registry; takes minutes, once.
fn built(folder: &Path, version: &str) -> Result<PathBuf, String> {
    let target = folder.join(format!("containerd-{version}"));
    for program in ["containerd-shim-runc-v2", "ctr", "containerd"] {
        if target.join(program).exists() {
            continue;
        }
        say(format_args!("building {program} {version}"));
        let package = format!("github.com/containerd/containerd/v2/cmd/{program}@{version}");
        succeed(
            Command::new("go")
                .args(["install", &package])
                .env("GOBIN", &target)
                .env("CGO_ENABLED", "0"),
        )?;
    }
    Ok(target)
}

/// A kernel that is newer than the one of most machines.
pub(crate) fn kernel() -> Result<PathBuf, String> {
    let folder = unpacked(&programs::tools(), KERNEL, "trixie")?.join("boot");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz-")
    };
    files
        .find(is_kernel)
        .ok_or_else(|| format!("{} has no kernel", folder.display()))
}

/// The package whose one dependency is the package of the kernel.
const KERNEL: &str = "linux-image-amd64";

fn unpacked(folder: &Path, package: &str, suite: &str) -> Result<PathBuf, String> {
    let target = folder.join(format!("{package}-{suite}"));
    if target.exists() {
        return Ok(target);
    }
    say(format_args!("fetching {package} of Debian {suite}"));
    let apt = folder.join("apt").join(suite);
    let partial = [
        apt.join("lists/partial"),
        apt.join("cache/archives/partial"),
    ];
    for path in &partial {
        fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let mirror = mirror()?;
    write(
        &apt.join("sources.list"),
        &format!(
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n"
        ),
    )?;
    let shown = apt.display();
    write(
        &apt.join("apt.conf"),
        &format!(
            "Dir::Etc::sourcelist \"{shown}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::State::lists \"{shown}/lists\";\nDir::Cache \"{shown}/cache\";\n\
             Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n"
        ),
    )?;
    let get = |arguments: &[&str]| {
        let mut get = Command::new("apt-get");
        get.arg("-qq")
            .args(arguments)
            .env("APT_CONFIG", apt.join("apt.conf"))
            .current_dir(&apt);
        succeed(&mut get)
    };
    get(&["update"])?;
    let mut depends = Command::new("apt-cache");
    depends
        .args(["depends", "--important", package])
        .env("APT_CONFIG", apt.join("apt.conf"));
    let needed = match package {
        KERNEL => said_by(&mut depends)?,
        _ => String::new(),
    };
    let needed = needed.split_whitespace().last().unwrap_or(package);
    get(&["download", needed])?;
    let archive = fs::read_dir(&apt)
        .map_err(|error| format!("{shown}: {error}"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| format!("{shown}: no package was downloaded"))?;
    // Under another name first, so that half of a package never counts as all of it.
    let unfinished = folder.join(format!("{package}-{suite}.unfinished"));
    let _ = fs::remove_dir_all(&unfinished);
    succeed(
        Command::new("dpkg-deb")
            .arg("-x")
            .arg(&archive)
            .arg(&unfinished),
    )?;
    fs::rename(&unfinished, &target).map_err(|error| format!("{}: {error}", target.display()))?;
    let _ = fs::remove_dir_all(&apt);
    Ok(target)
}

/// Where this system gets its packages from.
fn mirror() -> Result<String, String> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(SITE)"]);
    let output = targets
        .output()
        .map_err(|error| format!("apt-get: {error}"))?;
    let sites = String::from_utf8_lossy(&output.stdout);
    let debian = sites.lines().find(|site| site.ends_with("/debian"));
    debian.map(str::to_owned).ok_or_else(|| {
        "apt-get names no Debian mirror: the suite needs a Debian system with package lists"
            .to_owned()
    })
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
