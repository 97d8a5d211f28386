//! [`GroupPath`]: the name of a group, from whatever form a runtime tells it in.
//!
//! | form | example | means |
//! |---|---|---|
//! | cgroupfs | `/kubepods/burstable/podUID/ID` | itself |
//! | systemd | `kubepods-burstable-podU_I_D.slice:cri-containerd:ID` | `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope` |
//!
//! A slice's name says which slices it lies in: each dash is one level. So dashes inside a pod's uid become
//! underscores, as the kubelet's `ToSystemd` and systemd's own rule for nested slices have it.

use std::fmt;

mod kubernetes;

pub use kubernetes::Driver;

/// No path of the kernel is longer, and no name in it.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

const SLICE: &str = ".slice";

/// Where a group lies below the root of its hierarchy: names separated by `/`, none of which leads upwards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPath(String);

/// Text that names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A path that leads out of its hierarchy.
    #[error("{0:?} leads upwards: a group is named from the root down")]
    Upwards(String),
    /// A path that is nothing but the root.
    #[error("{0:?} is the root and not a container's group")]
    Root(String),
    /// Longer than the kernel takes.
    #[error("a path of {0} bytes, or a name in it, is longer than the kernel takes")]
    TooLong(usize),
    /// A character that no name can have.
    #[error("{0:?} has a character that no name of a group can have")]
    Character(String),
    /// A slice that systemd would reject.
    #[error("{0:?} is no name of a slice: names joined by single dashes, and .slice")]
    Slice(String),
}

impl GroupPath {
    /// The root of a hierarchy.
    #[must_use]
    pub fn root() -> Self {
        Self(String::new())
    }

    /// Reads a path as the kernel writes it.
    ///
    /// # Errors
    /// If it leads upwards, or no kernel would take it.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > LONGEST_PATH {
            return Err(PathError::TooLong(text.len()));
        }
        if text.contains(['\0', '\n']) {
            return Err(PathError::Character(text.to_owned()));
        }
        let mut path = String::with_capacity(text.len());
        for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
            if name == ".." {
                return Err(PathError::Upwards(text.to_owned()));
            }
            if name.len() > LONGEST_NAME {
                return Err(PathError::TooLong(name.len()));
            }
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
        }
        Ok(Self(path))
    }

    /// Reads what a runtime calls a container's group, in either form.
    ///
    /// # Errors
    /// If it is the root, leads upwards, or neither the kernel nor systemd would take it.
    pub fn of_container(text: &str) -> Result<Self, PathError> {
        let mut parts = text.splitn(3, ':');
        let path = match (parts.next(), parts.next(), parts.next()) {
            (Some(slice), Some(prefix), Some(name)) => {
                if [slice, prefix, name].iter().any(|part| part.contains('/')) {
                    return Err(PathError::Character(text.to_owned()));
                }
                let slice = match slice {
                    // Where runc puts a container that nobody placed.
                    "" => Self::slice("system.slice")?,
                    slice => Self::slice(slice)?,
                };
                let unit = match name.ends_with(SLICE) {
                    true => name.to_owned(),
                    false => format!("{prefix}-{name}.scope"),
                };
                Self::parse(&format!("{slice}/{unit}"))?
            }
            _ => Self::parse(text)?,
        };
        match path.is_root() {
            true => Err(PathError::Root(text.to_owned())),
            false => Ok(path),
        }
    }

    /// The path of a slice: it lies in every slice whose name it begins with.
    ///
    /// # Errors
    /// If systemd would reject the name.
    pub fn slice(name: &str) -> Result<Self, PathError> {
        let malformed = || PathError::Slice(name.to_owned());
        let stem = name.strip_suffix(SLICE).ok_or_else(malformed)?;
        if stem == "-" {
            return Ok(Self::root());
        }
        if stem.contains('/') || stem.split('-').any(str::is_empty) {
            return Err(malformed());
        }
        if name.len() > LONGEST_NAME {
            return Err(PathError::TooLong(name.len()));
        }
        let ends = stem.match_indices('-').map(|(at, _)| at);
        let path: Vec<String> = ends
            .chain([stem.len()])
            .map(|end| format!("{}{SLICE}", &stem[..end]))
            .collect();
        Self::parse(&path.join("/"))
    }

    /// The names from the root down, joined by `/`, without one at the start.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The group right above; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/').unwrap_or(0);
        Some(Self(self.0[..end].to_owned()))
    }

    /// The group called `name` right below.
    ///
    /// # Errors
    /// If no group can be called so.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        if name.contains('/') || matches!(name, "" | ".") {
            return Err(PathError::Character(name.to_owned()));
        }
        Self::parse(&format!("{self}/{name}"))
    }

    /// The groups above it, from the root down.
    #[must_use]
    pub fn ancestors(&self) -> Vec<Self> {
        if self.is_root() {
            return Vec::new();
        }
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        [0].into_iter()
            .chain(ends)
            .map(|end| Self(self.0[..end].to_owned()))
            .collect()
    }
}

impl fmt::Display for GroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
