//! [`Tree`]: the files a machine is read from, in a directory or in a recording.
//!
//! Readers ask for paths relative to the root (`sys/devices/system/cpu/online`) and get text or `None`. What they read
//! can be kept, which makes a recording.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::error::HardwareError;

/// Limit of the size of a file; `/proc/cpuinfo` of 4096 CPUs has about 8 MB.
pub(crate) const LARGEST_FILE: u64 = 16 << 20;
/// Limit of the entries of a directory.
const MOST_ENTRIES: usize = 1 << 16;

/// The recorded content of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeEntry {
    /// A file with this text.
    File(String),
    /// A symbolic link to a target with this name.
    Link(String),
    /// A path that exists and whose content was not read.
    Present,
}

pub(crate) type TreeEntries = BTreeMap<String, TreeEntry>;

/// The source that a machine is read from.
#[derive(Debug)]
pub(crate) enum Tree {
    /// A directory of the file system.
    Directory {
        /// `/`, or the canonical path of a copied tree.
        root: PathBuf,
        /// The entries read so far, if they are to be recorded.
        recorded: Option<RefCell<TreeEntries>>,
    },
    /// The entries of a recording.
    Recorded(TreeEntries),
}

impl Tree {
    /// A tree in a directory.
    pub(crate) fn directory(root: &Path) -> Result<Self, HardwareError> {
        let root = root
            .canonicalize()
            .map_err(|error| HardwareError::Unreadable {
                path: root.to_owned(),
                error,
            })?;
        Ok(Self::Directory {
            root,
            recorded: None,
        })
    }

    /// A tree in a directory that records what is read.
    pub(crate) fn recording(root: &Path) -> Result<Self, HardwareError> {
        match Self::directory(root)? {
            Self::Directory { root, .. } => Ok(Self::Directory {
                root,
                recorded: Some(RefCell::default()),
            }),
            recorded => Ok(recorded),
        }
    }

    /// The recorded entries.
    pub(crate) fn into_entries(self) -> TreeEntries {
        match self {
            Self::Directory { recorded, .. } => {
                recorded.map(RefCell::into_inner).unwrap_or_default()
            }
            Self::Recorded(entries) => entries,
        }
    }

    /// The root, for messages.
    pub(crate) fn root(&self) -> String {
        match self {
            Self::Directory { root, .. } if root == Path::new("/") => String::new(),
            Self::Directory { root, .. } => root.display().to_string(),
            Self::Recorded(_) => "the recording".to_owned(),
        }
    }

    /// The text of a file; `None` if it does not exist, is not readable or too large.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        self.read_lines(path, |_| true)
    }

    /// The lines of a file that match; the others are neither returned nor recorded.
    pub(crate) fn read_lines(&self, path: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
        let text = match self {
            Self::Recorded(entries) => match entries.get(path)? {
                TreeEntry::File(text) => text.clone(),
                TreeEntry::Link(_) | TreeEntry::Present => return None,
            },
            Self::Directory { root, .. } => read_file(&inside(root, path)?)?,
        };
        let text: String = text
            .split_inclusive('\n')
            .filter(|line| wanted(line))
            .collect();
        self.record(path, || TreeEntry::File(text.clone()));
        Some(text)
    }

    /// The name of a symbolic link's target.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let name = match self {
            Self::Recorded(entries) => match entries.get(path)? {
                TreeEntry::Link(name) => name.clone(),
                TreeEntry::File(_) | TreeEntry::Present => return None,
            },
            Self::Directory { root, .. } => {
                let target = std::fs::read_link(root.join(path)).ok()?;
                target.file_name()?.to_str()?.to_owned()
            }
        };
        self.record(path, || TreeEntry::Link(name.clone()));
        Some(name)
    }

    /// The names in a directory that match, sorted as text.
    pub(crate) fn names(&self, path: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let names = match self {
            Self::Recorded(entries) => recorded_names(entries, path),
            Self::Directory { root, .. } => inside(root, path)
                .and_then(|path| path.read_dir().ok())
                .map(|entries| {
                    entries
                        .take(MOST_ENTRIES)
                        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                        .collect()
                })
                .unwrap_or_default(),
        };
        let names: Vec<String> = names.into_iter().filter(|name| wanted(name)).collect();
        for name in &names {
            self.record(&format!("{path}/{name}"), || TreeEntry::Present);
        }
        names
    }

    /// The numbers of the entries `prefix0`, `prefix1`, ..., ascending.
    pub(crate) fn numbers(&self, path: &str, prefix: &str) -> Vec<u32> {
        let number = |name: &str| {
            let digits = name.strip_prefix(prefix)?;
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u32>().ok()).flatten()
        };
        let mut numbers: Vec<u32> = self
            .names(path, |name| number(name).is_some())
            .iter()
            .filter_map(|name| number(name))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    fn record(&self, path: &str, entry: impl FnOnce() -> TreeEntry) {
        if let Self::Directory {
            recorded: Some(recorded),
            ..
        } = self
        {
            let mut recorded = recorded.borrow_mut();
            match recorded.get(path) {
                None | Some(TreeEntry::Present) => {
                    recorded.insert(path.to_owned(), entry());
                }
                Some(TreeEntry::File(_) | TreeEntry::Link(_)) => {}
            }
        }
    }
}

/// The file of a path; `None` if links lead out of a copied tree.
fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let path = root.join(path);
    if root == Path::new("/") {
        return Some(path);
    }
    let path = path.canonicalize().ok()?;
    path.starts_with(root).then_some(path)
}

fn read_file(path: &Path) -> Option<String> {
    // Opening a pipe would wait for a writer.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > LARGEST_FILE {
        return None;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The distinct first components of all paths below `path`, without visiting deeper ones.
fn recorded_names(entries: &TreeEntries, path: &str) -> BTreeSet<String> {
    let prefix = format!("{path}/");
    let mut names = BTreeSet::new();
    let mut from = prefix.clone();
    while let Some((found, _)) = entries
        .range::<str, _>((Bound::Included(from.as_str()), Bound::Unbounded))
        .next()
    {
        let Some(rest) = found.strip_prefix(&prefix) else {
            break;
        };
        let name = rest.split('/').next().unwrap_or(rest);
        // The next candidate is the first path that is not below this name: `0` follows `/`.
        from = if rest.len() == name.len() {
            format!("{prefix}{name}\0")
        } else {
            format!("{prefix}{name}0")
        };
        if !name.is_empty() {
            names.insert(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_names_are_those_of_one_level() {
        let entries: TreeEntries = ["a/b/c", "a/b", "a/b-1/x", "a/b0", "a/d/e/f", "ab/z"]
            .map(|path| (path.to_owned(), TreeEntry::Present))
            .into();
        let names: Vec<String> = recorded_names(&entries, "a").into_iter().collect();
        assert_eq!(names, ["b", "b-1", "b0", "d"]);
        assert!(recorded_names(&entries, "nothing").is_empty());
    }

    #[test]
    fn links_out_of_a_copied_tree_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("pinfold-{}-links", std::process::id()));
        let root = folder.join("root");
        std::fs::create_dir_all(root.join("sys")).expect("a temporary folder");
        std::fs::write(root.join("sys/inside"), "in").expect("a file");
        std::fs::write(folder.join("outside"), "out").expect("a file");
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(target, root.join("sys").join(name)).expect("a link");
        };
        link("inside", "near");
        link("../../outside", "far");
        link("/dev/zero", "endless");
        link("loop", "loop");
        let tree = Tree::directory(&root).expect("the tree");
        assert_eq!(tree.read("sys/near").as_deref(), Some("in"));
        for name in ["far", "endless", "loop", "missing"] {
            assert_eq!(tree.read(&format!("sys/{name}")), None, "{name}");
        }
        assert_eq!(
            tree.link("sys/far").as_deref(),
            Some("outside"),
            "its name is no secret"
        );
        std::fs::remove_dir_all(&folder).expect("it was there");
    }
}
