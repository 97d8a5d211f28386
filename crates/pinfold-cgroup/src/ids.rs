//! [`Ids`]: what sets of CPUs and sets of memory nodes have in common, so that one plan serves both.

use std::fmt::{Debug, Display};
use std::path::Path;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::node_set::NodeSet;

use crate::control;
use crate::error::CgroupError;

/// A set that a group confines its processes to.
pub(crate) trait Ids: Clone + PartialEq + Debug + Display {
    /// The file that holds it, in both generations.
    const FILE: &'static str;

    /// Reads a file that lists such a set.
    fn read(path: &Path) -> Result<Self, CgroupError>;

    /// Whether it has no member.
    fn none(&self) -> bool;

    /// Whether `other` has all its members.
    fn is_within(&self, other: &Self) -> bool;

    /// The members of both together.
    fn and(&self, other: &Self) -> Self;

    /// The members that both have.
    fn common(&self, other: &Self) -> Self;

    /// The members that `other` does not have.
    fn without(&self, other: &Self) -> Self;
}

impl Ids for CpuSet {
    const FILE: &'static str = "cpuset.cpus";

    fn read(path: &Path) -> Result<Self, CgroupError> {
        control::read_cpus(path)
    }

    fn none(&self) -> bool {
        self.is_empty()
    }

    fn is_within(&self, other: &Self) -> bool {
        self.is_subset(other)
    }

    fn and(&self, other: &Self) -> Self {
        self | other
    }

    fn common(&self, other: &Self) -> Self {
        self & other
    }

    fn without(&self, other: &Self) -> Self {
        self - other
    }
}

impl Ids for NodeSet {
    const FILE: &'static str = "cpuset.mems";

    fn read(path: &Path) -> Result<Self, CgroupError> {
        control::read_mems(path)
    }

    fn none(&self) -> bool {
        self.is_empty()
    }

    fn is_within(&self, other: &Self) -> bool {
        self.is_subset(*other)
    }

    fn and(&self, other: &Self) -> Self {
        *self | *other
    }

    fn common(&self, other: &Self) -> Self {
        *self & *other
    }

    fn without(&self, other: &Self) -> Self {
        *self - *other
    }
}
