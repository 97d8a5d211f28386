//! [`CgroupMounts`]: the mounted control group hierarchies, parsed from `/proc/self/mountinfo`.

use std::path::{Component, Path, PathBuf};

use crate::control;
use crate::error::CgroupError;
use crate::hierarchy::CgroupVersion;
use crate::path::GroupPath;

/// A mounted hierarchy, or the mounted part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupMount {
    /// The mount point.
    pub point: PathBuf,
    /// The group at the mount point: usually the root; a container may see only its own group.
    pub root: PathBuf,
}

impl CgroupMount {
    /// The folder of a group.
    ///
    /// # Errors
    /// If the group is not below the part that is mounted here.
    pub fn folder(&self, path: &GroupPath) -> Result<PathBuf, CgroupError> {
        let absolute = Path::new("/").join(path.as_str());
        match absolute.strip_prefix(&self.root) {
            Ok(rest) if rest.as_os_str().is_empty() => Ok(self.point.clone()),
            Ok(rest) => Ok(self.point.join(rest)),
            Err(_) => Err(CgroupError::Outside {
                path: path.clone(),
                root: self.root.clone(),
            }),
        }
    }
}

/// All mounted control group hierarchies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupMounts {
    entries: Vec<MountEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct MountEntry {
    mount: CgroupMount,
    version: CgroupVersion,
    /// Whether this is the machine's hierarchy, seen from within a cgroup namespace.
    is_machine: bool,
    /// The mount options; in v1 they name the hierarchy's controllers.
    options: Vec<String>,
}

impl CgroupMounts {
    /// Reads the mount table as this process sees it. `root` is the machine's root folder: `/`, or a folder that stands
    /// for it.
    ///
    /// # Errors
    /// If the mount table cannot be read.
    pub fn read(root: &Path) -> Result<Self, CgroupError> {
        let text = control::read(&root.join("proc/self/mountinfo"))?;
        Ok(Self::parse(&text, root))
    }

    /// The same, with paths of groups counted from the root of the machine's hierarchy, for a process that may run in a
    /// cgroup namespace of its own, as pods do.
    ///
    /// # Errors
    /// If the mount table cannot be read.
    pub fn read_of_machine(root: &Path) -> Result<Self, CgroupError> {
        let text = control::read(&root.join("proc/self/mountinfo"))?;
        Ok(Self::parse_with(&text, root, is_root_group))
    }

    /// Parses the text of the mount table.
    #[must_use]
    pub fn parse(text: &str, root: &Path) -> Self {
        Self::parse_with(text, root, |_, _| false)
    }

    /// Parses the text of the mount table. `is_root_group` says of a folder above the cgroup namespace whether it is the
    /// root of its hierarchy.
    fn parse_with(
        text: &str,
        root: &Path,
        is_root_group: impl Fn(&Path, CgroupVersion) -> bool,
    ) -> Self {
        let mut entries: Vec<MountEntry> = Vec::new();
        for line in text.lines() {
            let Some((mut mount, kind, options)) = fields(line) else {
                continue;
            };
            let below = mount.point.strip_prefix("/").unwrap_or(&mount.point);
            mount.point = root.join(below);
            // A later mount on the same folder hides an earlier one.
            entries.retain(|entry| entry.mount.point != mount.point);
            let version = match kind {
                "cgroup" => CgroupVersion::V1,
                "cgroup2" => CgroupVersion::V2,
                _ => continue,
            };
            // In a cgroup namespace the machine's whole hierarchy has a root such as `/../..`, and `/` is the group of
            // the namespace. Other groups above the namespace have no path.
            let is_machine =
                is_above_namespace(&mount.root) && is_root_group(&mount.point, version);
            if is_machine {
                mount.root = PathBuf::from("/");
            }
            if !mount.root.starts_with("/..") {
                entries.push(MountEntry {
                    mount,
                    version,
                    is_machine,
                    options: options.split(',').map(str::to_owned).collect(),
                });
            }
        }
        // A mount of the whole hierarchy is preferred to a mount of a part.
        entries.sort_by_key(|entry| (!entry.is_machine, entry.mount.root != Path::new("/")));
        Self { entries }
    }

    /// The v1 hierarchy of a controller.
    #[must_use]
    pub fn v1(&self, controller: &str) -> Option<&CgroupMount> {
        let found = self.entries.iter().find(|entry| {
            entry.version == CgroupVersion::V1
                && entry.options.iter().any(|option| option == controller)
        });
        found.map(|entry| &entry.mount)
    }

    /// The unified hierarchy of v2.
    #[must_use]
    pub fn v2(&self) -> Option<&CgroupMount> {
        let found = self
            .entries
            .iter()
            .find(|entry| entry.version == CgroupVersion::V2);
        found.map(|entry| &entry.mount)
    }
}

/// Whether the root of a mount is an ancestor of this process's cgroup namespace.
fn is_above_namespace(root: &Path) -> bool {
    let mut components = root.components().skip(1).peekable();
    components.peek().is_some() && components.all(|one| one == Component::ParentDir)
}

/// Whether a mounted folder is the root of its hierarchy: only other groups of v2 have a type, and only the root of v1 a
/// release agent.
fn is_root_group(folder: &Path, version: CgroupVersion) -> bool {
    match version {
        CgroupVersion::V1 => folder.join("release_agent").exists(),
        CgroupVersion::V2 => {
            folder.join("cgroup.controllers").exists() && !folder.join("cgroup.type").exists()
        }
    }
}

/// The mount, the kind of file system and its options, from one line:
/// `36 35 98:0 ROOT POINT rw,noatime shared:1 - KIND SOURCE OPTIONS`.
fn fields(line: &str) -> Option<(CgroupMount, &str, &str)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut kind = kind.split(' ');
    let (kind, _source, options) = (kind.next()?, kind.next()?, kind.next().unwrap_or(""));
    let mount = CgroupMount {
        root: unescaped(root).into(),
        point: unescaped(point).into(),
    };
    Some((mount, kind, options))
}

/// Decodes the kernel's octal escapes of blanks, line ends and backslashes.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|code| u8::from_str_radix(code, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                plain.push(char::from(code));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> CgroupMounts {
        CgroupMounts::parse(text, Path::new("/"))
    }

    #[test]
    fn each_controller_is_found_where_it_is_mounted() {
        let hybrid = parse(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw master:2 shared:3 - cgroup2 cgroup2 rw\n",
        );
        let point = |mount: Option<&CgroupMount>| mount.map(|mount| mount.point.clone());
        let expected = |text: &str| Some(PathBuf::from(text));
        assert_eq!(
            point(hybrid.v1("cpuset")),
            expected("/sys/fs/cgroup/cpuset")
        );
        assert_eq!(
            point(hybrid.v1("cpu")),
            expected("/sys/fs/cgroup/cpu,cpuacct")
        );
        assert_eq!(point(hybrid.v1("memory")), None);
        assert_eq!(point(hybrid.v2()), expected("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn a_hidden_mount_is_not_used() {
        let mounts = parse(
            "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             2 0 0:2 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n",
        );
        assert_eq!(mounts.v2(), None);
    }

    #[test]
    fn a_whole_hierarchy_is_preferred_to_a_part_of_it() {
        let mounts = parse(
            "1 0 0:1 /jobs /mnt/jobs rw - cgroup2 cgroup2 rw\n\
             2 0 0:1 /../.. /mnt/outside rw - cgroup2 cgroup2 rw\n\
             3 0 0:1 / /mnt/all\\040groups rw - cgroup2 cgroup2 rw\n",
        );
        let found = mounts.v2().expect("one of the three");
        assert_eq!(found.point, Path::new("/mnt/all groups"));
    }

    #[test]
    fn the_machines_hierarchy_is_found_from_within_a_cgroup_namespace() {
        let text = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             2 0 0:1 /../../other /mnt/other rw - cgroup2 cgroup2 rw\n\
             3 0 0:1 /.. /mnt/parent rw - cgroup2 cgroup2 rw\n\
             4 0 0:1 /../../.. /host/cgroup rw - cgroup2 cgroup2 rw\n";
        let whole = |folder: &Path, _| folder == Path::new("/host/cgroup");
        let mounts = CgroupMounts::parse_with(text, Path::new("/"), whole);
        let found = mounts.v2().expect("a mount");
        assert_eq!(found.point, Path::new("/host/cgroup"));
        assert_eq!(found.root, Path::new("/"));
        let folder = found.folder(&GroupPath::parse("/kubepods").expect("a path"));
        assert_eq!(folder.expect("below"), Path::new("/host/cgroup/kubepods"));
        let seen = parse(text).v2().map(|mount| mount.point.clone());
        assert_eq!(seen.as_deref(), Some(Path::new("/sys/fs/cgroup")));
    }

    #[test]
    fn the_root_of_a_hierarchy_is_known_by_its_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| std::fs::write(folder.path().join(name), "").expect("written");
        assert!(!is_root_group(folder.path(), CgroupVersion::V1));
        assert!(!is_root_group(folder.path(), CgroupVersion::V2));
        file("cgroup.controllers");
        assert!(is_root_group(folder.path(), CgroupVersion::V2));
        file("cgroup.type");
        assert!(!is_root_group(folder.path(), CgroupVersion::V2));
        file("release_agent");
        assert!(is_root_group(folder.path(), CgroupVersion::V1));
    }

    #[test]
    fn a_group_outside_the_mounted_part_has_no_folder() {
        let mount = CgroupMount {
            point: "/sys/fs/cgroup".into(),
            root: "/jobs".into(),
        };
        let folder = |text| mount.folder(&GroupPath::parse(text).expect("a path"));
        assert_eq!(folder("/jobs").expect("the part itself"), mount.point);
        assert_eq!(
            folder("/jobs/a").expect("a group in it"),
            mount.point.join("a")
        );
        for outside in ["/", "/other/a", "/jobs-too"] {
            let rejected = folder(outside);
            assert!(
                matches!(rejected, Err(CgroupError::Outside { .. })),
                "{outside}: {rejected:?}"
            );
        }
    }

    #[test]
    fn malformed_lines_are_ignored() {
        for text in [
            "",
            "\n",
            "1 2 3",
            " - ",
            "1 0 0:1 / /x rw -",
            "a b c d e - cgroup2",
        ] {
            assert_eq!(parse(text), CgroupMounts::default(), "{text:?}");
        }
        assert_eq!(unescaped("a\\04"), "a\\04");
        assert_eq!(unescaped("\\ä\\377x"), "\\ä\\377x");
    }
}
