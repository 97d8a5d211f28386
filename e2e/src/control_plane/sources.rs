//! The programs of a control plane, built once from their sources: no registry has them ready.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::programs::{self, succeed};
use crate::report::say;

/// The versions of everything.
const MODULES: &str = include_str!("../../control-plane/go.mod");

/// Where each program is in its sources.
const PACKAGES: [(&str, &str); 5] = [
    ("etcd", "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
];

/// The program of the plugin, built from the sources of this workspace.
pub(crate) const PLUGIN: &str = "pinfold-kube-scheduler";

/// Builds kube-scheduler with our plugin, unless the sources have not changed; the program.
pub(crate) fn build_plugin() -> Result<PathBuf, String> {
    let sources = programs::workspace().join("scheduler-plugin");
    let mut content = DefaultHasher::new();
    for file in ["go.mod", "main.go", "pinfold", "proto"] {
        hash(&sources.join(file), &mut content)?;
    }
    let target = programs::tools().join(format!("{PLUGIN}-{:016x}", content.finish()));
    if !target.exists() {
        say(format_args!("building {PLUGIN}"));
        go_build(&sources, &target, ".", "")?;
    }
    Ok(target)
}

/// Hashes a file, or all files of a folder.
fn hash(path: &Path, content: &mut DefaultHasher) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    if !path.is_dir() {
        fs::read(path).map_err(wrong)?.hash(content);
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(wrong)?.flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files.iter().try_for_each(|file| hash(file, content))
}

fn go_build(modules: &Path, target: &Path, package: &str, flags: &str) -> Result<(), String> {
    let mut build = Command::new("go");
    build
        .current_dir(modules)
        // Without symbols links are quicker, and guests that load a program from memory have less to load.
        .arg("build")
        .arg(format!("-ldflags=-s -w {flags}"))
        .arg("-o")
        .arg(target)
        .arg(package)
        .env("CGO_ENABLED", "0");
    succeed(&mut build)
}

/// The flag with which programs report the version of Kubernetes that go.mod names: charts demand a version of servers.
fn version_flag() -> String {
    let mut words = MODULES.split_whitespace();
    words.find(|word| *word == "k8s.io/kubernetes");
    let version = words.next().unwrap_or_default();
    format!("-X k8s.io/component-base/version.gitVersion={version}")
}

/// Builds those that are not there yet; the folder they are in. Takes many minutes of CPU time, once.
pub(crate) fn build(names: &[&str]) -> Result<PathBuf, String> {
    let mut versions = DefaultHasher::new();
    MODULES.hash(&mut versions);
    version_flag().hash(&mut versions);
    let folder = programs::tools().join(format!("control-plane-{:016x}", versions.finish()));
    for name in names {
        let known = PACKAGES.iter().find(|(own, _)| own == name);
        let (_, package) = known.ok_or_else(|| format!("the package of {name} is unknown"))?;
        let target = folder.join(name);
        if target.exists() {
            continue;
        }
        say(format_args!("building {name}"));
        let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane");
        go_build(&modules, &target, package, &version_flag())?;
    }
    Ok(folder)
}
