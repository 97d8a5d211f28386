//! [`NumaId`]: the kernel's id of a NUMA node.

use std::fmt;

use pinfold_core::node_set::NodeId;
use serde::{Deserialize, Serialize};

/// The kernel's id of a NUMA node, 0 to 1023.
///
/// Some machines have ids beyond what a hint can represent (0 to 63, [`NodeId`]): GPU memory on POWER9 is on nodes 250
/// to
/// 255. They are read and described, and rejected only where a hint needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct NumaId(u16);

impl NumaId {
    /// One more than the largest valid id.
    pub const LIMIT: u32 = 1024;

    /// Checks the range. `None` if `id` is 1024 or more.
    #[must_use]
    pub fn new(id: u32) -> Option<Self> {
        match u16::try_from(id) {
            Ok(small) if id < Self::LIMIT => Some(Self(small)),
            _ => None,
        }
    }

    /// The id as the kernel prints it.
    #[must_use]
    pub fn get(self) -> u32 {
        u32::from(self.0)
    }

    /// The id for hints and decisions; `None` if it is above 63.
    #[must_use]
    pub fn node_id(self) -> Option<NodeId> {
        NodeId::new(i64::from(self.0)).ok()
    }
}

impl TryFrom<u32> for NumaId {
    type Error = String;

    fn try_from(id: u32) -> Result<Self, String> {
        Self::new(id).ok_or_else(|| format!("NUMA node {id}: expected 0 to {}", Self::LIMIT - 1))
    }
}

impl From<NumaId> for u32 {
    fn from(id: NumaId) -> Self {
        id.get()
    }
}

impl fmt::Display for NumaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
