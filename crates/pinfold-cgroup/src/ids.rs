//! [`IdSet`]: the common interface of CPU sets and memory node sets, so that one plan of writes serves both.

use std::fmt::{Debug, Display};
use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::error::CgroupError;

/// A set of CPUs or memory nodes that a group confines its processes to.
pub(crate) trait IdSet: Clone + PartialEq + Debug + Display {
    /// The control file with the configured set, in both versions.
    const FILE: &'static str;

    /// Reads a control file that lists such a set.
    fn read(path: &Path) -> Result<Self, CgroupError>;

    /// Whether the set is empty.
    fn is_empty_set(&self) -> bool;

    /// Whether it is a subset of `other`.
    fn is_subset_of(&self, other: &Self) -> bool;

    /// The union of both sets.
    fn union(&self, other: &Self) -> Self;

    /// The intersection of both sets.
    fn intersection(&self, other: &Self) -> Self;

    /// The members that are not in `other`.
    fn without(&self, other: &Self) -> Self;
}

impl IdSet for CpuSet {
    const FILE: &'static str = "cpuset.cpus";

    fn read(path: &Path) -> Result<Self, CgroupError> {
        control::read_cpus(path)
    }

    fn is_empty_set(&self) -> bool {
        self.is_empty()
    }

    fn is_subset_of(&self, other: &Self) -> bool {
        self.is_subset(other)
    }

    fn union(&self, other: &Self) -> Self {
        self | other
    }

    fn intersection(&self, other: &Self) -> Self {
        self & other
    }

    fn without(&self, other: &Self) -> Self {
        self - other
    }
}

impl IdSet for NodeSet {
    const FILE: &'static str = "cpuset.mems";

    fn read(path: &Path) -> Result<Self, CgroupError> {
        control::read_mems(path)
    }

    fn is_empty_set(&self) -> bool {
        self.is_empty()
    }

    fn is_subset_of(&self, other: &Self) -> bool {
        self.is_subset(*other)
    }

    fn union(&self, other: &Self) -> Self {
        *self | *other
    }

    fn intersection(&self, other: &Self) -> Self {
        *self & *other
    }

    fn without(&self, other: &Self) -> Self {
        *self - *other
    }
}
