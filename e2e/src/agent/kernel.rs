//! What the kernel lets containers use, by its own files.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

/// Where control groups are.
pub(crate) struct Groups {
    cpuset: PathBuf,
    cpu: PathBuf,
    unified: bool,
}

/// What the kernel lets a container use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its first process.
    pub(crate) process: String,
    /// `Cpus_allowed_list` of its first process.
    pub(crate) cpus: CpuSet,
    /// `Mems_allowed_list` of its first process.
    pub(crate) mems: NodeSet,
    /// `cpuset.cpus` of its group.
    pub(crate) group_cpus: CpuSet,
    /// Whether CPU time is limited in its group.
    pub(crate) limited: bool,
}

impl Groups {
    /// Of this machine, cgroup v1 or v2.
    pub(crate) fn find() -> Self {
        let root = Path::new("/sys/fs/cgroup");
        let unified = root.join("cgroup.controllers").exists();
        let of = |controller: &str| match unified {
            true => root.to_owned(),
            false => root.join(controller),
        };
        Self {
            cpuset: of("cpuset"),
            cpu: of("cpu"),
            unified,
        }
    }

    /// The folder of a group, by its path as runtimes write it.
    pub(crate) fn cpuset(&self, group: &str) -> PathBuf {
        self.cpuset.join(group.trim_start_matches('/'))
    }

    /// What it lets a container in this group use.
    pub(crate) fn look(&self, group: &str) -> Result<Seen, String> {
        let cpuset = self.cpuset(group);
        let process = read(&cpuset.join("cgroup.procs"))?;
        let process = process
            .lines()
            .next()
            .ok_or_else(|| format!("{group} has no process"))?;
        let status = read(&Path::new("/proc").join(process).join("status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        Ok(Seen {
            process: process.to_owned(),
            cpus: cpus(&field("Cpus_allowed_list:"))?,
            mems: nodes(&field("Mems_allowed_list:"))?,
            group_cpus: cpus(&read(&cpuset.join("cpuset.cpus"))?)?,
            limited: self.is_limited(group)?,
        })
    }

    /// Whether a group has a limit on CPU time.
    pub(crate) fn is_limited(&self, group: &str) -> Result<bool, String> {
        let folder = self.cpu.join(group.trim_start_matches('/'));
        match self.unified {
            true => Ok(!read(&folder.join("cpu.max"))?.starts_with("max")),
            false => Ok(!read(&folder.join("cpu.cfs_quota_us"))?.starts_with('-')),
        }
    }

    /// Makes a pod's group as the kubelet does, with a limit on the CPU time of all its containers.
    pub(crate) fn make_pod(&self, group: &str, quota: i64, period: i64) -> Result<(), String> {
        let mut folder = self.cpu.clone();
        for part in group.split('/').filter(|part| !part.is_empty()) {
            if self.unified {
                let controllers = folder.join("cgroup.subtree_control");
                write(&controllers, "+cpu +cpuset +memory +pids")?;
            }
            folder.push(part);
            if !folder.exists() {
                let failed = |error| format!("{}: {error}", folder.display());
                fs::create_dir(&folder).map_err(failed)?;
            }
        }
        match self.unified {
            true => write(&folder.join("cpu.max"), &format!("{quota} {period}")),
            false => {
                write(&folder.join("cpu.cfs_period_us"), &period.to_string())?;
                write(&folder.join("cpu.cfs_quota_us"), &quota.to_string())
            }
        }
    }
}

fn cpus(list: &str) -> Result<CpuSet, String> {
    let list = list.trim();
    list.parse().map_err(|error| format!("{list:?}: {error}"))
}

fn nodes(list: &str) -> Result<NodeSet, String> {
    let ids = cpus(list)?;
    let nodes = NodeSet::from_ids(ids.iter().map(|id| i64::from(id.get())));
    nodes.map_err(|error| format!("{list:?}: {error}"))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
