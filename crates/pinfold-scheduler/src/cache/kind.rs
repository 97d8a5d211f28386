//! [`Kind`]: whose rules decide on a node, and what is known of it.
//!
//! The first of these that says something decides:
//!
//! | | kind |
//! |---|---|
//! | the node's label `pinfold.dev/dialect` | as it says |
//! | the annotation `pinfold.dev/node-state` of its report | as it says |
//! | a report that lists CPUs in Koordinator's words | Koordinator |
//! | any other NodeResourceTopology | kubelet |
//! | a Numatopology | Volcano |
//! | nothing | unknown |

use pinfold_kube::cluster::DialectName;

use super::node::NodeRecord;

/// Whose rules decide on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Its kubelet's, rebuilt from its report.
    Kubelet,
    /// Koordinator's.
    Koordinator,
    /// Volcano's.
    Volcano,
    /// Nothing is known about its NUMA nodes.
    #[default]
    Unknown,
    /// What it reports cannot be understood.
    Unreadable,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [
        Kind::Kubelet,
        Kind::Koordinator,
        Kind::Volcano,
        Kind::Unknown,
        Kind::Unreadable,
    ];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kubelet => "kubelet",
            Kind::Koordinator => "koordinator",
            Kind::Volcano => "volcano",
            Kind::Unknown => "unknown",
            Kind::Unreadable => "unreadable",
        }
    }

    /// The kind of that name, as a label says it.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        let said = [
            Kind::Kubelet,
            Kind::Koordinator,
            Kind::Volcano,
            Kind::Unknown,
        ];
        said.into_iter().find(|kind| kind.name() == word)
    }

    /// The kind of a node.
    #[must_use]
    pub fn of(record: &NodeRecord) -> Self {
        if let Some(said) = record.node.as_ref().and_then(|node| node.label) {
            return said;
        }
        match record.report.as_ref().map(|report| &report.what) {
            Some(Ok(report)) => match report.kubelet.state().map(|state| state.dialect) {
                Some(DialectName::Koordinator) => Kind::Koordinator,
                Some(DialectName::Kubelet | DialectName::SchedulerPlugins) => Kind::Kubelet,
                Some(DialectName::Volcano) => Kind::Volcano,
                None if report.lists_cpus => Kind::Koordinator,
                None => Kind::Kubelet,
            },
            Some(Err(_)) => Kind::Unreadable,
            None => match record.numa.as_ref().map(|numa| &numa.what) {
                Some(Ok(_)) => Kind::Volcano,
                Some(Err(_)) => Kind::Unreadable,
                None => Kind::Unknown,
            },
        }
    }
}
