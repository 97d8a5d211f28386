//! [`UnmetAllowances`]: containers that may use other CPUs than the journal has, which no repair could change.

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_kube::pod::PodIdentity;

use crate::http::PodReport;
use crate::kubernetes::CPUS_NOT_APPLIED;
use crate::node::PodWarning;

/// A container that may use other CPUs than those of its allowance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnmetAllowance {
    /// UID that holds its resources in the ledger.
    pub(super) resident: PodUid,
    /// Name of the container.
    pub(super) container: ContainerName,
    /// Its pod; `None` if the pod has just been released.
    pub(super) pod: Option<PodIdentity>,
    /// The CPUs that it may use.
    pub(super) cpus: CpuSet,
    /// The difference, and its cause.
    pub(super) reason: String,
}

/// The unmet allowances at the last scan.
#[derive(Debug, Default)]
pub(super) struct UnmetAllowances(Vec<UnmetAllowance>);

impl UnmetAllowances {
    /// Replaces the list. Returns the events of those that are new or changed.
    pub(super) fn replace(&mut self, new: Vec<UnmetAllowance>) -> Vec<PodWarning> {
        let added = new.iter().filter(|one| !self.0.contains(one));
        let events = added.filter_map(|one| {
            Some(PodWarning {
                pod: one.pod.clone()?,
                reason: CPUS_NOT_APPLIED,
                message: one.reason.clone(),
            })
        });
        let events = events.collect();
        self.0 = new;
        events
    }

    /// The first one in a sentence, with the number of the others; `None` if there is none.
    pub(super) fn problem(&self) -> Option<String> {
        let (first, others) = self.0.split_first()?;
        let others = match others.len() {
            0 => String::new(),
            others => format!(" ({others} more)"),
        };
        Some(format!("{}{others}", first.reason))
    }

    /// Adds the CPUs that containers may really use to a report.
    pub(super) fn add_to(&self, report: &mut PodReport) {
        for unmet in self.0.iter().filter(|one| one.resident == report.uid) {
            let named = report.containers.iter_mut();
            for container in named.filter(|one| one.name == unmet.container) {
                container.effective_cpus = Some(unmet.cpus.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pinfold_core::node_set::NodeSet;

    use super::*;
    use crate::http::ContainerReport;

    fn unmet(cpus: &str) -> UnmetAllowance {
        UnmetAllowance {
            resident: "1".into(),
            container: "web".into(),
            pod: Some(PodIdentity {
                uid: "1".into(),
                name: "default/shop".to_owned(),
            }),
            cpus: cpus.parse().expect("CPUs"),
            reason: format!("CPUs {cpus} instead of 4-5"),
        }
    }

    #[test]
    fn an_unmet_allowance_is_a_problem_until_it_ends_and_one_event_per_change() {
        let mut all = UnmetAllowances::default();
        assert_eq!(all.problem(), None);
        let events = all.replace(vec![unmet("0-3"), unmet("0-3")]);
        assert_eq!(events.len(), 2);
        assert_eq!(
            (events[0].pod.name.as_str(), events[0].reason.name),
            ("default/shop", "CPUsNotApplied")
        );
        let problem = all.problem().expect("a problem");
        assert_eq!(problem, "CPUs 0-3 instead of 4-5 (1 more)");
        assert!(all.replace(vec![unmet("0-3")]).is_empty(), "nothing is new");
        assert_eq!(all.replace(vec![unmet("0")]).len(), 1, "other CPUs");
        all.replace(Vec::new());
        assert_eq!(all.problem(), None);
    }

    #[test]
    fn the_report_of_a_container_has_the_cpus_that_it_may_really_use() {
        let container = |name: &str| ContainerReport {
            name: name.into(),
            cpus: "4-5".parse().expect("CPUs"),
            exclusive_cpus: true,
            effective_cpus: None,
            memory_nodes: NodeSet::EMPTY,
            memory: Vec::new(),
            devices: Vec::new(),
            env: BTreeMap::new(),
            mounts: Vec::new(),
            device_files: Vec::new(),
        };
        let mut report = PodReport {
            uid: "1".into(),
            name: "default/shop".to_owned(),
            opted_out: false,
            containers: vec![container("web"), container("log")],
        };
        let mut all = UnmetAllowances::default();
        all.replace(vec![unmet("0-3")]);
        all.add_to(&mut report);
        let seen = report.containers.iter().map(|one| &one.effective_cpus);
        let expected = "0-3".parse().expect("CPUs");
        assert_eq!(seen.collect::<Vec<_>>(), [&Some(expected), &None]);
    }
}
