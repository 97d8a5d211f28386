//! A containerd with folders and sockets of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::container_runtime::ContainerRuntime;
use crate::programs::{install_busybox, succeed};
use cri::Cri;
use packages::{ConfigVersion, Programs, write};

pub(crate) mod cri;
mod messages;
pub(crate) mod packages;

/// The image of all pods.
pub(crate) const IMAGE: &str = "localhost/e2e:1";
const IMAGE_SCRIPT: &str = include_str!("../scripts/image.sh");

/// How long anything may take that a busy machine delays, emulated ones included.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// A containerd, and what it needs to start again.
pub(crate) struct Containerd {
    programs: Programs,
    folder: PathBuf,
    cgroup: String,
    child: Option<Child>,
}

impl Containerd {
    /// Prepares everything in an empty folder and starts it.
    pub(crate) fn start(
        programs: Programs,
        config: ConfigVersion,
        folder: &Path,
    ) -> Result<(Self, Cri), String> {
        fs::create_dir_all(folder.join("plugins")).map_err(|error| error.to_string())?;
        let text = configuration(config, folder, &programs.runc);
        write(&folder.join("config.toml"), &text)?;
        let mut containerd = Containerd {
            programs,
            folder: folder.to_owned(),
            cgroup: format!("/pinfold-e2e-{}", std::process::id()),
            child: None,
        };
        containerd.start_again()?;
        let cri = containerd.connect()?;
        containerd.wait_for(&cri)?;
        containerd.import_image()?;
        Ok((containerd, cri))
    }
}

impl ContainerRuntime for Containerd {
    fn connect(&self) -> Result<Cri, String> {
        Cri::connect(&self.folder.join("containerd.sock"), &self.cgroup, IMAGE)
    }

    fn start_again(&mut self) -> Result<(), String> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .map_err(|error| format!("{}: {error}", self.log().display()))?;
        let binary = self.programs.containerd.join("containerd");
        let path = std::env::var("PATH").unwrap_or_default();
        let child = Command::new(&binary)
            .arg("--config")
            .arg(self.folder.join("config.toml"))
            .env(
                "PATH",
                format!("{}:{path}", self.programs.containerd.display()),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", binary.display()))?;
        self.child = Some(child);
        Ok(())
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Its pods belong to shims, so nothing is lost.
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
        ""
    }

    fn log(&self) -> PathBuf {
        self.folder.join("containerd.log")
    }
}

impl Containerd {
    /// Where plugins are that it starts itself.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.folder.join("plugins")
    }

    /// The CPUs in the control group of a container.
    pub(crate) fn cgroup_cpus(&self, container: &str) -> Result<String, String> {
        let below = format!("{}/{container}/cpuset.cpus", &self.cgroup[1..]);
        let roots = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"];
        let found = roots
            .iter()
            .find_map(|root| fs::read_to_string(Path::new(root).join(&below)).ok());
        found
            .map(|text| text.trim().to_owned())
            .ok_or_else(|| format!("no control group {below}"))
    }

    fn import_image(&self) -> Result<(), String> {
        let image = match &self.programs.image {
            Some(image) => image.clone(),
            None => make_image(&self.folder.join("image"))?,
        };
        succeed(
            Command::new(self.programs.containerd.join("ctr"))
                .arg("--address")
                .arg(self.folder.join("containerd.sock"))
                .args(["--namespace", "k8s.io", "images", "import", "--no-unpack"])
                .arg(image),
        )
    }
}

/// Makes the image that all pods are of, as a file in a folder.
pub(crate) fn make_image(folder: &Path) -> Result<PathBuf, String> {
    install_busybox()?;
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    succeed(
        Command::new("sh")
            .args(["-c", IMAGE_SCRIPT, "image.sh"])
            .arg(folder)
            .arg(IMAGE),
    )?;
    Ok(folder.join("image.tar"))
}

impl Drop for Containerd {
    fn drop(&mut self) {
        self.stop();
        remove_empty_groups(&self.cgroup);
    }
}

/// Removes the control groups below one that are empty, which is what removed pods leave behind.
pub(crate) fn remove_empty_groups(group: &str) {
    let mounts = fs::read_dir("/sys/fs/cgroup");
    for root in mounts.into_iter().flatten().flatten() {
        remove_groups(&root.path().join(&group[1..]));
    }
    remove_groups(&Path::new("/sys/fs/cgroup").join(&group[1..]));
}

/// Removes control groups without processes, from the leaves to the root.
pub(crate) fn remove_groups(group: &Path) {
    for below in fs::read_dir(group).into_iter().flatten().flatten() {
        if below.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&below.path());
        }
    }
    let _ = fs::remove_dir(group);
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            return Err(format!("waited {PATIENCE:?} until {what}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// containerd's own choice where the kernel lets us: not in guests, whose kernels come without it.
fn snapshotter(folder: &Path) -> &'static str {
    let trial = folder.join("overlay");
    let [lower, upper, work, merged] =
        ["lower", "upper", "work", "merged"].map(|it| trial.join(it));
    for folder in [&lower, &upper, &work, &merged] {
        let _ = fs::create_dir_all(folder);
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let mut mount = Command::new("mount");
    mount.args(["-t", "overlay", "-o", &options, "overlay"]);
    let mounted =
        succeed(mount.arg(&merged)).and_then(|()| succeed(Command::new("umount").arg(&merged)));
    let _ = fs::remove_dir_all(&trial);
    match mounted {
        Ok(()) => "overlayfs",
        Err(_) => "native",
    }
}

/// Set where the machine is emulated.
const EMULATED: &str = "PINFOLD_E2E_EMULATED";

/// Everything in the folder; no snapshots of kernels, no other control groups, no touching of the
/// kernel's OOM scores.
fn configuration(version: ConfigVersion, folder: &Path, runc: &Path) -> String {
    let snapshotter = snapshotter(folder);
    // Seconds of an emulated machine are short: what is in time elsewhere is not there.
    let patience = match std::env::var_os(EMULATED) {
        Some(_) => "plugin_registration_timeout = \"2m\"\nplugin_request_timeout = \"2m\"\n",
        None => "",
    };
    let (folder, runc) = (folder.display(), runc.display());
    let common = format!(
        r#"
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[ttrpc]
address = "{folder}/containerd.sock.ttrpc"
[plugins."io.containerd.nri.v1.nri"]
disable = false
disable_connections = false
socket_path = "{folder}/nri.sock"
plugin_path = "{folder}/plugins"
plugin_config_path = "{folder}/plugins.conf"
{patience}"#
    );
    let runtime = |section: &str| {
        format!(
            r#"
[plugins."{section}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{section}".containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
[plugins."{section}".cni]
bin_dir = "{folder}/cni"
conf_dir = "{folder}/cni"
"#
        )
    };
    match version {
        ConfigVersion::Two => format!(
            r#"version = 2
{common}
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
{}"#,
            runtime("io.containerd.grpc.v1.cri")
        ),
        ConfigVersion::Three => format!(
            r#"version = 3
{common}
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
{}"#,
            runtime("io.containerd.cri.v1.runtime")
        ),
    }
}
