//! A CRI-O with folders and sockets of its own, built once from the Go module registry.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::container_runtime::ContainerRuntime;
use crate::containerd::cri::Cri;
use crate::containerd::packages::write;
use crate::containerd::{IMAGE, make_image, remove_empty_groups};
use crate::programs::{self, said_by, succeed};
use crate::report::say;

/// The version of the Go module.
pub(super) const VERSION: &str = "1.34.0";

/// CRI-O, and what it needs to start again.
pub(super) struct Crio {
    program: PathBuf,
    folder: PathBuf,
    cgroup: String,
    child: Option<Child>,
}

impl Crio {
    /// Prepares everything in an empty folder and starts it. `runc` runs its containers.
    pub(super) fn start(folder: &Path, runc: &Path) -> Result<(Self, Cri), String> {
        programs::install_crio_tools()?;
        let built = built()?;
        fs::create_dir_all(folder.join("plugins")).map_err(|error| error.to_string())?;
        write(
            &folder.join("policy.json"),
            r#"{"default": [{"type": "insecureAcceptAnything"}]}"#,
        )?;
        write(
            &folder.join("crio.conf"),
            &configuration(folder, &built.join("pinns"), runc),
        )?;
        import_image(folder)?;
        let mut crio = Self {
            program: built.join("crio"),
            folder: folder.to_owned(),
            cgroup: format!("/pinfold-e2e-crio-{}", std::process::id()),
            child: None,
        };
        crio.start_again()?;
        let cri = crio.connect()?;
        crio.wait_for(&cri)?;
        Ok((crio, cri))
    }
}

impl ContainerRuntime for Crio {
    fn connect(&self) -> Result<Cri, String> {
        Cri::connect(&self.folder.join("crio.sock"), &self.cgroup, IMAGE)
    }

    fn start_again(&mut self) -> Result<(), String> {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.map_err(|error| format!("{}: {error}", self.log().display()))?;
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(self.folder.join("crio.conf"))
            .arg("--config-dir")
            .arg(self.folder.join("crio.conf.d"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its containers belong to conmon, so nothing is lost.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn nri_socket(&self) -> PathBuf {
        self.folder.join("nri.sock")
    }

    fn cgroup(&self) -> &str {
        &self.cgroup
    }

    fn prefix(&self) -> &'static str {
        "crio-"
    }

    fn log(&self) -> PathBuf {
        self.folder.join("crio.log")
    }
}

impl Drop for Crio {
    fn drop(&mut self) {
        self.stop();
        remove_empty_groups(&self.cgroup);
        unmount(&self.folder);
    }
}

/// Unmounts what is mounted below a folder: namespaces and root file systems of pods.
fn unmount(folder: &Path) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let below: Vec<&str> = points
        .filter(|point| Path::new(point).starts_with(folder))
        .collect();
    for point in below.into_iter().rev() {
        let _ = succeed(Command::new("umount").args(["-l", point]));
    }
}

/// Builds CRI-O; takes minutes, once.
fn built() -> Result<PathBuf, String> {
    let target = programs::tools().join(format!("cri-o-v{VERSION}"));
    if target.exists() {
        return Ok(target);
    }
    say(format_args!("building CRI-O {VERSION}"));
    let module = format!("github.com/cri-o/cri-o@v{VERSION}");
    let mut download = Command::new("go");
    let downloaded = said_by(download.args(["mod", "download", "-json", &module]))?;
    let downloaded: Value =
        serde_json::from_str(&downloaded).map_err(|error| format!("{module}: {error}"))?;
    let read_only = downloaded["Dir"].as_str().ok_or("go names no folder")?;
    // Under another name first, so that half of a build never counts as all of it.
    let unfinished = programs::tools().join(format!("cri-o-v{VERSION}.{}", std::process::id()));
    let sources = unfinished.join("sources");
    fs::create_dir_all(&unfinished).map_err(|error| error.to_string())?;
    succeed(
        Command::new("cp")
            .args(["--recursive", "--no-preserve=mode"])
            .arg(read_only)
            .arg(&sources),
    )?;
    succeed(Command::new("make").arg("-C").arg(sources.join("pinns")))?;
    let tags = "containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper,\
                containers_image_ostree_stub";
    succeed(
        Command::new("go")
            .current_dir(&sources)
            .env("GOFLAGS", "-mod=mod")
            .args(["build", "-tags", tags, "-ldflags=-s -w", "-o"])
            .arg(unfinished.join("crio"))
            .arg("./cmd/crio"),
    )?;
    let moved = fs::rename(sources.join("bin/pinns"), unfinished.join("pinns"));
    moved.map_err(|error| format!("pinns: {error}"))?;
    fs::remove_dir_all(&sources).map_err(|error| error.to_string())?;
    fs::rename(&unfinished, &target).map_err(|error| error.to_string())?;
    Ok(target)
}

/// Copies the image of all pods into CRI-O's storage.
fn import_image(folder: &Path) -> Result<(), String> {
    let image = make_image(&folder.join("image"))?;
    let storage = folder.display();
    succeed(
        Command::new("skopeo")
            .arg("--policy")
            .arg(folder.join("policy.json"))
            .arg("copy")
            .arg(format!("docker-archive:{}", image.display()))
            .arg(format!(
                "containers-storage:[vfs@{storage}/root+{storage}/run]{IMAGE}"
            )),
    )
}

/// Everything in the folder, no other control groups, and no profiles that this kernel may lack.
fn configuration(folder: &Path, pinns: &Path, runc: &Path) -> String {
    let (folder, pinns, runc) = (folder.display(), pinns.display(), runc.display());
    format!(
        r#"[crio]
root = "{folder}/root"
runroot = "{folder}/run"
storage_driver = "vfs"
log_dir = "{folder}/logs"
version_file = "{folder}/version"
clean_shutdown_file = "{folder}/clean"
[crio.api]
listen = "{folder}/crio.sock"
stream_port = "0"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
drop_infra_ctr = true
namespaces_dir = "{folder}/namespaces"
pinns_path = "{pinns}"
hooks_dir = []
apparmor_profile = ""
container_exits_dir = "{folder}/exits"
container_attach_socket_dir = "{folder}/attach"
[crio.runtime.runtimes.runc]
runtime_path = "{runc}"
runtime_root = "{folder}/runc"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{IMAGE}"
signature_policy = "{folder}/policy.json"
[crio.network]
network_dir = "{folder}/cni"
plugin_dirs = ["{folder}/cni"]
[crio.nri]
enable_nri = true
nri_listen = "{folder}/nri.sock"
nri_plugin_dir = "{folder}/plugins"
nri_plugin_config_dir = "{folder}/plugins.conf"
"#
    )
}
