//! What needs the network or takes long, once: programs of others, the images, the chart of the commit before.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::node;
use crate::containerd::packages::{self, RELEASES};
use crate::containerd::{make_image, remove_groups};
use crate::control_plane::sources;
use crate::helm::program::Helm;
use crate::programs::{self, said_by, succeed, workspace};
use crate::report::{is_ci, say};

const SCRIPT: &str = "e2e/scripts/host-node.sh";

/// Settings of the kernel that a kubelet changes.
const SYSCTLS: [&str; 3] = [
    "vm/overcommit_memory",
    "kernel/panic",
    "kernel/panic_on_oops",
];

/// Runs the suite in namespaces; its output.
pub(super) fn play() -> Result<String, String> {
    programs::install_networking()?;
    let folder = workspace().join("target/install");
    prepare(&folder)?;
    let before: Vec<(PathBuf, String)> = SYSCTLS
        .iter()
        .map(|name| Path::new("/proc/sys").join(name))
        .map(|path| (path.clone(), fs::read_to_string(&path).unwrap_or_default()))
        .collect();
    let played = play_in_namespaces(&folder);
    for (path, value) in before {
        let _ = fs::write(path, value);
    }
    let group = format!("pinfold-install-{}", std::process::id());
    let roots = fs::read_dir("/sys/fs/cgroup");
    for root in roots.into_iter().flatten().flatten() {
        remove_groups(&root.path().join(&group));
    }
    remove_groups(&Path::new("/sys/fs/cgroup").join(&group));
    played
}

fn play_in_namespaces(folder: &Path) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let group = format!("pinfold-install-{}", std::process::id());
    let log = folder.join("output");
    let output = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    say(format_args!("        the output is in {}", log.display()));
    let mut command = Command::new("unshare");
    command
        .args([
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--uts",
            "--ipc",
        ])
        .arg("--mount-proc")
        .arg("bash")
        .arg(workspace().join(SCRIPT))
        .arg(&group)
        .arg(own)
        .arg("install-inside")
        .arg(folder)
        .env(node::GROUP, &group)
        .stdin(Stdio::null())
        .stdout(output);
    if is_ci() {
        command.env("CI", "true");
    }
    // The report says what failed, and its last line that it is complete.
    command
        .status()
        .map_err(|error| format!("unshare: {error}"))?;
    fs::read_to_string(&log).map_err(|error| format!("{}: {error}", log.display()))
}

/// `bin` has the programs, `previous` a checkout with the chart before the last change, `image.tar` the image of pods.
fn prepare(folder: &Path) -> Result<(), String> {
    let bin = folder.join("bin");
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(&bin).map_err(|error| format!("{}: {error}", bin.display()))?;
    let kubernetes = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
    ];
    let built = sources::build(&kubernetes)?;
    succeed(Command::new("kubectl").args(["version", "--client"])).map_err(|problem| {
        format!("kubectl, which users of a cluster have, is needed: {problem}")
    })?;
    let runtime = packages::fetch(&RELEASES[0])?;
    say("make images");
    let said = said_by(
        super::node::as_user(
            Command::new("bash")
                .arg("-c")
                .arg("time make --silent images"),
        )
        .current_dir(workspace()),
    )?;
    say(said.trim());
    let static_programs = workspace().join("target/programs/amd64");
    let links = [
        ("kubelet", built.join("kubelet")),
        ("helm", Helm::build()?.program),
        ("containerd", runtime.containerd.join("containerd")),
        (
            "containerd-shim-runc-v2",
            runtime.containerd.join("containerd-shim-runc-v2"),
        ),
        ("ctr", runtime.containerd.join("ctr")),
        ("runc", runtime.runc),
        ("kubectl-pinfold", static_programs.join("kubectl-pinfold")),
    ];
    for (name, program) in links {
        let link = bin.join(name);
        symlink(&program, &link).map_err(|error| format!("{}: {error}", link.display()))?;
    }
    make_image(&folder.join("image"))?;
    previous(&folder.join("previous"))
}

/// The manifests and the chart as they were before the last commit that changed them.
fn previous(folder: &Path) -> Result<(), String> {
    let git = |words: &[&str]| said_by(Command::new("git").current_dir(workspace()).args(words));
    let commits = git(&[
        "log",
        "-2",
        "--format=%H",
        "--",
        "deploy/helm",
        "deploy/agent",
        "deploy/crds",
        "deploy/scheduler",
    ])?;
    let commit = commits.lines().nth(1);
    let commit = commit
        .ok_or("expected two commits that change the chart, found fewer: fetch the history")?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let archive = folder.join("deploy.tar");
    let output = format!("--output={}", archive.display());
    git(&["archive", &output, commit, "deploy"])?;
    succeed(
        Command::new("tar")
            .arg("-C")
            .arg(folder)
            .arg("-xf")
            .arg(&archive),
    )
}
