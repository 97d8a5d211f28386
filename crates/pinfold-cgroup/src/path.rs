//! [`GroupPath`]: the path of a group, parsed from either form that runtimes use.
//!
//! | form | example | path |
//! |---|---|---|
//! | cgroupfs | `/kubepods/burstable/podUID/ID` | the same |
//! | systemd | `kubepods-burstable-podU_I_D.slice:cri-containerd:ID` | `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope` |
//!
//! A slice's name contains its parents: each dash is one level. So dashes inside a pod's uid become underscores, as in
//! the kubelet's `ToSystemd` and systemd's rule for nested slices.

use std::fmt;

mod kubernetes;

/// The kernel's limits on the length of a path and of a name in it.
const LONGEST_PATH: usize = 4096;
const LONGEST_NAME: usize = 255;

const SLICE: &str = ".slice";
/// Name endings of the units of systemd that have a group.
const UNITS: [&str; 3] = [SLICE, ".scope", ".service"];

/// The path of a group below the root of its hierarchy: names separated by `/`, without `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupPath(String);

/// Errors of parsing a group's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path contains `..`.
    #[error("{0:?} contains \"..\": a group is named from the root down")]
    Upwards(String),
    /// The path is the root.
    #[error("{0:?} is the root and not a container's group")]
    Root(String),
    /// The path, or a name in it, exceeds the kernel's limit.
    #[error("a path of {0} bytes, or a name in it, is longer than the kernel allows")]
    TooLong(usize),
    /// A name contains a character that the kernel does not allow.
    #[error("{0:?} has a character that a group's name cannot contain")]
    Character(String),
    /// The slice's name is not valid for systemd.
    #[error("{0:?} is not the name of a slice: names joined by single dashes, and .slice")]
    Slice(String),
}

impl GroupPath {
    /// The root of a hierarchy.
    #[must_use]
    pub fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path as the kernel prints it.
    ///
    /// # Errors
    /// If it contains `..`, or the kernel would reject it.
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

    /// Parses a container runtime's name of a group, in the cgroupfs or the systemd form.
    ///
    /// # Errors
    /// If it is the root, contains `..`, or the kernel or systemd would reject it.
    pub fn of_container(text: &str) -> Result<Self, PathError> {
        let mut parts = text.splitn(3, ':');
        let path = match (parts.next(), parts.next(), parts.next()) {
            (Some(slice), Some(prefix), Some(name)) => {
                if [slice, prefix, name].iter().any(|part| part.contains('/')) {
                    return Err(PathError::Character(text.to_owned()));
                }
                let slice = match slice {
                    // runc's default slice.
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

    /// The path of a slice, through all its parent slices.
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

    /// The names from the root down, joined by `/`, without a leading `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the root of the hierarchy.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The last name; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The systemd unit whose group this is; `None` if it is no unit's, such as a group that a service made below its
    /// own. systemd applies a unit's properties to its group again whenever it is reloaded.
    #[must_use]
    pub fn systemd_unit(&self) -> Option<&str> {
        let (parents, name) = self.0.rsplit_once('/').unwrap_or(("", &self.0));
        let below_slices = parents.is_empty() || parents.split('/').all(|one| one.ends_with(SLICE));
        let is_unit = UNITS.iter().any(|kind| name.ends_with(kind));
        (below_slices && is_unit).then_some(name)
    }

    /// The parent group; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let end = self.0.rfind('/').unwrap_or(0);
        Some(Self(self.0[..end].to_owned()))
    }

    /// The child group called `name`.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        if name.contains('/') || matches!(name, "" | ".") {
            return Err(PathError::Character(name.to_owned()));
        }
        Self::parse(&format!("{self}/{name}"))
    }

    /// The ancestors, from the root down.
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
