//! [`NodeDialect`]: whose rules decide on a node. The first row that applies decides:
//!
//! | the node has | dialect |
//! |---|---|
//! | the label `pinfold.dev/dialect` | its value |
//! | the annotation `pinfold.dev/node-state` on its NodeResourceTopology | its value |
//! | a NodeResourceTopology with Koordinator's CPU topology annotation | Koordinator |
//! | any other NodeResourceTopology | kubelet |
//! | a Numatopology | Volcano |
//! | none of these | unknown |

use pinfold_kube::cluster::DialectName;

use super::node::CachedNode;

/// Whose rules decide on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeDialect {
    /// The kubelet's, predicted from its report.
    Kubelet,
    /// Koordinator's.
    Koordinator,
    /// Volcano's.
    Volcano,
    /// No report: only the sums of requests are checked.
    #[default]
    Unknown,
    /// The report cannot be used.
    Invalid,
}

impl NodeDialect {
    /// Every dialect.
    pub const ALL: [NodeDialect; 5] = [
        NodeDialect::Kubelet,
        NodeDialect::Koordinator,
        NodeDialect::Volcano,
        NodeDialect::Unknown,
        NodeDialect::Invalid,
    ];

    /// The name in labels and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            NodeDialect::Kubelet => "kubelet",
            NodeDialect::Koordinator => "koordinator",
            NodeDialect::Volcano => "volcano",
            NodeDialect::Unknown => "unknown",
            NodeDialect::Invalid => "invalid",
        }
    }

    /// Parses the value of the label `pinfold.dev/dialect`.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        let allowed = [
            NodeDialect::Kubelet,
            NodeDialect::Koordinator,
            NodeDialect::Volcano,
            NodeDialect::Unknown,
        ];
        allowed.into_iter().find(|dialect| dialect.name() == value)
    }

    /// The dialect of a node.
    #[must_use]
    pub fn of(record: &CachedNode) -> Self {
        if let Some(dialect) = record.node.as_ref().and_then(|node| node.dialect_label) {
            return dialect;
        }
        match record.report.as_ref().map(|report| &report.parsed) {
            Some(Ok(report)) => match report.kubelet.state().map(|state| state.dialect) {
                Some(DialectName::Koordinator) => NodeDialect::Koordinator,
                Some(DialectName::Kubelet | DialectName::SchedulerPlugins) => NodeDialect::Kubelet,
                Some(DialectName::Volcano) => NodeDialect::Volcano,
                None if report.lists_cpus => NodeDialect::Koordinator,
                None => NodeDialect::Kubelet,
            },
            Some(Err(_)) => NodeDialect::Invalid,
            None => match record.numa.as_ref().map(|numa| &numa.parsed) {
                Some(Ok(_)) => NodeDialect::Volcano,
                Some(Err(_)) => NodeDialect::Invalid,
                None => NodeDialect::Unknown,
            },
        }
    }
}
