//! The CPUs and NUMA nodes that the control group of the reading process allows.
//!
//! The mount table has the mount point of control groups, `/proc/self/cgroup` (or, before control groups,
//! `/proc/self/cpuset`) the group of this process. A group without cpuset files, or without CPUs in them, has those of
//! its parent.

use crate::hardware::{CgroupKind, CgroupLimits};
use crate::kernel_text::{cpu_list, node_list, trim};
use crate::tree::Tree;

/// The files with the CPUs and the nodes, in order of preference.
struct Files {
    kind: CgroupKind,
    pairs: &'static [(&'static str, &'static str)],
}

const V2: Files = Files {
    kind: CgroupKind::V2,
    pairs: &[("cpuset.cpus.effective", "cpuset.mems.effective")],
};

const V1: Files = Files {
    kind: CgroupKind::V1,
    pairs: &[
        ("cpuset.effective_cpus", "cpuset.effective_mems"),
        ("cpuset.cpus", "cpuset.mems"),
        ("cpus", "mems"),
    ],
};

/// Limit of the depth: a deeper group is read from its ancestor at this depth.
const DEEPEST: usize = 64;

pub(super) fn read(tree: &Tree) -> Option<CgroupLimits> {
    let mounts = tree.read_lines("proc/mounts", |line| {
        line.contains("cgroup") || line.contains("cpuset")
    })?;
    // The groups of the other hierarchies are not needed, and their names may identify a pod or an owner.
    let mine = tree
        .read_lines("proc/self/cgroup", of_cpusets)
        .unwrap_or_default();
    let cpuset = tree.read("proc/self/cpuset").unwrap_or_default();
    let v2 = || {
        let mount = mounts
            .lines()
            .find_map(|line| mount_point(line, |kind, _| kind == "cgroup2"))?;
        let group = mine.lines().find_map(|line| line.strip_prefix("0::"));
        walk(tree, mount, group.unwrap_or(trim(&cpuset)), &V2)
    };
    let v1 = || {
        let mount = mounts.lines().find_map(|line| {
            mount_point(line, |kind, options| {
                let controls_cpusets = options.split(',').any(|option| option == "cpuset");
                kind == "cpuset" || kind == "cgroup" && controls_cpusets
            })
        })?;
        let group = mine.lines().find_map(cpuset_group);
        walk(tree, mount, group.unwrap_or(trim(&cpuset)), &V1)
    };
    v2().or_else(v1)
}

/// Whether a line of `/proc/self/cgroup` is of the unified hierarchy or of the one that controls cpusets.
fn of_cpusets(line: &str) -> bool {
    line.starts_with("0::") || cpuset_group(line).is_some()
}

/// The group in a line of `/proc/self/cgroup` whose hierarchy controls cpusets.
fn cpuset_group(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let controls_cpusets = controllers.split(',').any(|name| name == "cpuset");
    controls_cpusets.then_some(path)
}

/// The mount point in a line of `/proc/mounts`, without the leading slash.
fn mount_point(line: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<&str> {
    let mut fields = line.split(' ');
    let (_, point, kind, options) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    wanted(kind, options).then(|| point.trim_start_matches('/'))
}

/// The CPUs and nodes of the nearest ancestor, or the group itself, that has both.
fn walk(tree: &Tree, mount: &str, group: &str, files: &Files) -> Option<CgroupLimits> {
    let steps: Vec<&str> = group
        .split('/')
        .filter(|step| !step.is_empty())
        .take(DEEPEST)
        .collect();
    // A path outside our cgroup namespace is not mounted here.
    let inside = !steps.contains(&"..");
    let depth = if inside { steps.len() } else { 0 };
    let (mut cpus, mut nodes) = (None, None);
    for depth in (0..=depth).rev() {
        let folder = format!("{mount}/{}", steps[..depth].join("/"));
        let folder = folder.trim_end_matches('/');
        for (cpu_file, node_file) in files.pairs {
            let text = |file: &str| tree.read(&format!("{folder}/{file}"));
            let own_cpus = text(cpu_file).and_then(|text| cpu_list(&text).ok());
            let own_nodes = text(node_file).and_then(|text| node_list(&text).ok());
            cpus = cpus.or(own_cpus.filter(|set| !set.is_empty()));
            nodes = nodes.or(own_nodes.filter(|nodes| !nodes.is_empty()));
            if cpus.is_some() && nodes.is_some() {
                break;
            }
        }
        if cpus.is_some() && nodes.is_some() {
            break;
        }
    }
    Some(CgroupLimits {
        by: files.kind,
        cpus: cpus?,
        nodes: nodes?,
    })
}
