//! [`ReportedDialect`]: whose rules decide on a node. The first row that applies decides:
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

use super::node::NodeEntry;

/// Whose rules decide on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportedDialect {
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

impl ReportedDialect {
    /// Every dialect.
    pub const ALL: [ReportedDialect; 5] = [
        ReportedDialect::Kubelet,
        ReportedDialect::Koordinator,
        ReportedDialect::Volcano,
        ReportedDialect::Unknown,
        ReportedDialect::Invalid,
    ];

    /// The name in labels and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ReportedDialect::Kubelet => "kubelet",
            ReportedDialect::Koordinator => "koordinator",
            ReportedDialect::Volcano => "volcano",
            ReportedDialect::Unknown => "unknown",
            ReportedDialect::Invalid => "invalid",
        }
    }

    /// Parses the value of the label `pinfold.dev/dialect`.
    #[must_use]
    pub fn from_label(value: &str) -> Option<Self> {
        let allowed = [
            ReportedDialect::Kubelet,
            ReportedDialect::Koordinator,
            ReportedDialect::Volcano,
            ReportedDialect::Unknown,
        ];
        allowed.into_iter().find(|dialect| dialect.name() == value)
    }

    /// The dialect of a node.
    #[must_use]
    pub fn of(record: &NodeEntry) -> Self {
        if let Some(dialect) = record.node.as_ref().and_then(|node| node.dialect_label) {
            return dialect;
        }
        match record.report.as_ref().map(|report| &report.parsed) {
            Some(Ok(report)) => match report.kubelet.state().map(|state| state.dialect) {
                Some(DialectName::Koordinator) => ReportedDialect::Koordinator,
                Some(DialectName::Kubelet | DialectName::SchedulerPlugins) => {
                    ReportedDialect::Kubelet
                }
                Some(DialectName::Volcano) => ReportedDialect::Volcano,
                None if report.lists_cpus => ReportedDialect::Koordinator,
                None => ReportedDialect::Kubelet,
            },
            Some(Err(_)) => ReportedDialect::Invalid,
            None => match record.numa.as_ref().map(|numa| &numa.parsed) {
                Some(Ok(_)) => ReportedDialect::Volcano,
                Some(Err(_)) => ReportedDialect::Invalid,
                None => ReportedDialect::Unknown,
            },
        }
    }
}
