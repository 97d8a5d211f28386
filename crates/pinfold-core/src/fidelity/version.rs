//! [`KubeletVersion`]: the minor versions of the kubelet whose decisions are known, and how their rules differ.
//!
//! Every difference is one method of [`Fidelity`], asked at the one place where it matters and listed with its smallest
//! example in `docs/kubelet-differences.md`. Defects that a later version mends are with the other defects.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Fidelity;

/// A minor version of the kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KubeletVersion {
    minor: u8,
}

impl KubeletVersion {
    /// The oldest known version.
    pub const OLDEST: Self = Self { minor: 29 };
    /// The newest known version: newer ones are predicted like this one.
    pub const NEWEST: Self = Self { minor: 37 };
    /// The version that is meant where none is named.
    pub const DEFAULT: Self = Self { minor: 36 };

    /// Every known version, oldest first.
    pub fn known() -> impl Iterator<Item = Self> {
        (Self::OLDEST.minor..=Self::NEWEST.minor).map(|minor| Self { minor })
    }

    /// `1.minor`, for the tables of this crate.
    #[must_use]
    pub const fn minor(minor: u8) -> Self {
        Self { minor }
    }

    /// The version whose rules predict a kubelet that reports `text` (`v1.33.5-eks-1`), and whether the kubelet is newer
    /// than every known one.
    ///
    /// # Errors
    /// If the text is no version, or one that is older than every known one.
    pub fn nearest(text: &str) -> Result<(Self, bool), UnknownKubelet> {
        let found = Self::read(text)?;
        match found {
            _ if found > Self::NEWEST => Ok((Self::NEWEST, true)),
            _ if found < Self::OLDEST => Err(UnknownKubelet::TooOld(text.to_owned())),
            known => Ok((known, false)),
        }
    }

    /// Reads `1.33`, `v1.33.5` or `v1.33.5-eks-1`.
    fn read(text: &str) -> Result<Self, UnknownKubelet> {
        let unreadable = || UnknownKubelet::Unreadable(text.to_owned());
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let minor = numbers.strip_prefix("1.").ok_or_else(unreadable)?;
        let end = minor.find(|c: char| !c.is_ascii_digit());
        let (minor, rest) = minor.split_at(end.unwrap_or(minor.len()));
        if !(rest.is_empty() || rest.starts_with(['.', '+', '-'])) {
            return Err(unreadable());
        }
        let minor = minor.parse().map_err(|_| unreadable())?;
        Ok(Self { minor })
    }
}

impl Default for KubeletVersion {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for KubeletVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl FromStr for KubeletVersion {
    type Err = UnknownKubelet;

    /// Reads a known version.
    fn from_str(text: &str) -> Result<Self, UnknownKubelet> {
        match Self::nearest(text)? {
            (version, false) => Ok(version),
            (_, true) => Err(UnknownKubelet::TooNew(text.to_owned())),
        }
    }
}

impl TryFrom<String> for KubeletVersion {
    type Error = UnknownKubelet;

    fn try_from(text: String) -> Result<Self, UnknownKubelet> {
        text.parse()
    }
}

impl From<KubeletVersion> for String {
    fn from(version: KubeletVersion) -> Self {
        version.to_string()
    }
}

/// A kubelet version whose decisions are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownKubelet {
    /// Not a version.
    #[error("{0:?} is no kubelet version: expected one like 1.33 or v1.33.5")]
    Unreadable(String),
    /// Older than every known version.
    #[error(
        "kubelet {0:?} is older than {oldest}, the oldest version whose decisions are known",
        oldest = KubeletVersion::OLDEST
    )]
    TooOld(String),
    /// Newer than every known version.
    #[error(
        "kubelet {0:?} is newer than {newest}, the newest version whose decisions are known",
        newest = KubeletVersion::NEWEST
    )]
    TooNew(String),
}

/// Declares one method per difference: whether the kubelet's rules are those since the named version.
macro_rules! differences {
    ($($(#[$doc:meta])+ $name:ident since $minor:literal,)+) => {
        impl Fidelity {
            $(
                $(#[$doc])+
                #[must_use]
                pub fn $name(self) -> bool {
                    self.version() >= KubeletVersion::minor($minor)
                }
            )+
        }
    };
}

differences! {
    /// The option `max-allowable-numa-nodes` exists.
    knows_max_numa_nodes since 31,

    /// `full-pcpus-only` with no free core at all has its own text, instead of that for requests of parts of cores.
    names_missing_cores since 32,

    /// Memory on NUMA nodes of which some are used singly and some as a group is refused.
    rejects_mixed_groups since 32,

    /// A memory state file may distribute free and reserved amounts over a group of nodes in another way.
    compares_groups_by_sum since 32,

    /// What a pod holds is released when it is not active any more, even if no other pod was admitted after it.
    releases_last_pod since 32,

    /// The memory manager's policy `BestEffort` is known, though only Windows has it.
    knows_best_effort_memory since 32,

    /// The CPU manager looks at L3 caches.
    sees_caches since 32,

    /// A request for an odd number of CPUs fits into a cache, of whose last core one thread stays free.
    fits_odd_requests_into_caches since 34,

    /// Pod-level resources count, and pods with them get nothing exclusive unless they are managed as a whole.
    sees_pod_level_resources since 34,

    /// State files are read in the newest format first, and a memory state file with checksum 0 is accepted.
    reads_newest_state_first since 36,

    /// The masks of device hints have only NUMA nodes with devices of that resource.
    narrows_device_masks since 36,

    /// State files with entries of pods (format 3 of CPUs, format 2 of memory) are read with the gate
    /// `PodLevelResourceManagers`, which exists.
    reads_pod_entries since 36,

    /// State files have a copy of their content with a checksum of its own, and are read in its format first.
    copies_state since 37,

    /// `align-by-socket` prefers NUMA nodes of one socket when CPUs are distributed over NUMA nodes.
    distributes_within_sockets since 37,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_as_nodes_report_it() {
        for (text, minor) in [
            ("1.29", 29),
            ("v1.33.5", 33),
            ("v1.33.5-eks-3cfe0ce", 33),
            ("v1.36.4+k3s1", 36),
        ] {
            assert_eq!(text.parse(), Ok(KubeletVersion::minor(minor)), "{text}");
        }
        for text in ["", "1", "1.", "2.30", "v1.x", "1.33x", "1.999", "v1.-1"] {
            assert_eq!(
                KubeletVersion::nearest(text),
                Err(UnknownKubelet::Unreadable(text.to_owned())),
            );
        }
    }

    #[test]
    fn a_newer_kubelet_is_predicted_as_the_newest_and_an_older_one_not_at_all() {
        assert_eq!(
            KubeletVersion::nearest("v1.40.0"),
            Ok((KubeletVersion::NEWEST, true))
        );
        assert_eq!(
            KubeletVersion::nearest("v1.37.9"),
            Ok((KubeletVersion::NEWEST, false))
        );
        assert!("1.40".parse::<KubeletVersion>().is_err());
        let old = KubeletVersion::nearest("1.28.15").expect_err("too old");
        assert_eq!(
            old.to_string(),
            "kubelet \"1.28.15\" is older than 1.29, the oldest version whose decisions are known"
        );
    }

    #[test]
    fn a_defect_ends_with_the_version_that_mends_it() {
        let of = |minor| Fidelity::of_kubelet(KubeletVersion::minor(minor));
        assert!(of(36).checks_cores_before_own_cpus() && of(29).checks_cores_before_own_cpus());
        assert!(!of(37).checks_cores_before_own_cpus());
        assert!(of(37).trusts_reusable_cpus());
        assert_eq!(of(36), Fidelity::Exact);
    }
}
