//! Compares the journal with the containers that run, and names a repair for every difference. The caller does the
//! repairs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Rules;
use pinfold_core::name::{ContainerName, PodUid};

use super::JournaledLedger;

/// The containers that run now, by pod, with the CPUs that each is allowed to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPods {
    /// Pods with their containers. A pod may have no running container yet.
    pub pods: BTreeMap<PodUid, BTreeMap<ContainerName, CpuSet>>,
}

/// A difference between the journal and the running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalDifference {
    /// The journal ended with an incomplete transaction. Its change was never reported as done.
    TailLost {
        /// Bytes that were cut off and moved to another file.
        bytes: u64,
    },
    /// A pod of the journal does not run.
    NotRunning(PodUid),
    /// A pod or container runs that is not in the journal.
    Unknown {
        /// The pod.
        pod: PodUid,
        /// The container; `None` if the journal does not have the pod either.
        container: Option<ContainerName>,
        /// Exclusive CPUs of other containers that it is allowed to use.
        trespass: CpuSet,
    },
    /// A container is allowed to use other CPUs than its assigned ones.
    WrongCpus {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The assigned CPUs.
        recorded: CpuSet,
        /// The CPUs that it is allowed to use.
        found: CpuSet,
    },
    /// CPUs of the journal's machine are missing or offline.
    CpusMissing {
        /// The CPUs.
        cpus: CpuSet,
        /// The pods that hold some of them.
        holders: Vec<PodUid>,
    },
    /// The machine differs otherwise: more CPUs, other memory or other NUMA nodes.
    MachineChanged,
    /// The settings differ.
    SettingsChanged,
}

/// The repair of a difference: it changes the node to match the journal, or the journal to match a changed machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRepair {
    /// No repair is needed; the difference is only reported.
    None,
    /// Call [`JournaledLedger::release`].
    Release(PodUid),
    /// Set the CPUs of a container.
    Pin {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// Call [`JournaledLedger::admit`], and pin the pod's containers to the shared pool until then.
    Admit {
        /// The pod.
        pod: PodUid,
        /// The shared pool.
        until_then: CpuSet,
    },
    /// Call [`JournaledLedger::plan_rules_change`] and [`JournaledLedger::apply_rules_change`] with the present rules.
    ChangeRules,
}

impl JournaledLedger {
    /// All differences between the journal and the node, in the order in which to repair them. `now` are the present
    /// machine and settings.
    #[must_use]
    pub fn compare(&self, running: &ObservedPods, now: &Rules) -> Vec<JournalDifference> {
        let mut found = Vec::new();
        if self.truncated_bytes > 0 {
            let bytes = self.truncated_bytes;
            found.push(JournalDifference::TailLost { bytes });
        }
        let state = self.ledger.state();
        let pods = state.admitted_pods().keys();
        let not_running = pods.filter(|pod| !running.pods.contains_key(*pod));
        found.extend(not_running.cloned().map(JournalDifference::NotRunning));
        self.compare_rules(now, &mut found);
        for (pod, containers) in &running.pods {
            self.compare_pod(pod, containers, &mut found);
        }
        found
    }

    /// The repair of a difference.
    #[must_use]
    pub fn repair(&self, difference: &JournalDifference) -> JournalRepair {
        match difference {
            JournalDifference::TailLost { .. } => JournalRepair::None,
            JournalDifference::NotRunning(pod) => JournalRepair::Release(pod.clone()),
            JournalDifference::Unknown { pod, .. } => JournalRepair::Admit {
                pod: pod.clone(),
                until_then: self.ledger.state().cpus().shared().clone(),
            },
            JournalDifference::WrongCpus {
                pod,
                container,
                recorded,
                ..
            } => JournalRepair::Pin {
                pod: pod.clone(),
                container: container.clone(),
                cpus: recorded.clone(),
            },
            JournalDifference::CpusMissing { .. }
            | JournalDifference::MachineChanged
            | JournalDifference::SettingsChanged => JournalRepair::ChangeRules,
        }
    }

    fn compare_pod(
        &self,
        pod: &PodUid,
        containers: &BTreeMap<ContainerName, CpuSet>,
        found: &mut Vec<JournalDifference>,
    ) {
        let Some(resident) = self.ledger.state().admitted_pods().get(pod) else {
            let mut used = CpuSet::new();
            containers.values().for_each(|cpus| used |= cpus);
            return found.push(self.unknown(pod, None, &used));
        };
        for (container, cpus) in containers {
            if resident.pod.container(container).is_none() {
                found.push(self.unknown(pod, Some(container.clone()), cpus));
                continue;
            }
            let recorded = self.recorded(pod, container);
            if recorded != cpus {
                found.push(JournalDifference::WrongCpus {
                    pod: pod.clone(),
                    container: container.clone(),
                    recorded: recorded.clone(),
                    found: cpus.clone(),
                });
            }
        }
    }

    /// The CPUs that a container should use: its exclusive CPUs, else the shared pool.
    fn recorded(&self, pod: &PodUid, container: &ContainerName) -> &CpuSet {
        let cpus = self.ledger.state().cpus();
        cpus.container(pod, container)
            .unwrap_or_else(|| cpus.shared())
    }

    fn unknown(
        &self,
        pod: &PodUid,
        container: Option<ContainerName>,
        used: &CpuSet,
    ) -> JournalDifference {
        let shared = self.ledger.state().cpus().shared();
        JournalDifference::Unknown {
            pod: pod.clone(),
            container,
            trespass: &(used & self.ledger.rules().machine().online()) - shared,
        }
    }

    fn compare_rules(&self, now: &Rules, found: &mut Vec<JournalDifference>) {
        let then = self.ledger.rules();
        let lost = then.machine().online() - now.machine().online();
        if !lost.is_empty() {
            let cpus = self.ledger.state().cpus();
            let pods: BTreeSet<&PodUid> =
                cpus.containers().keys().chain(cpus.pods().keys()).collect();
            let holds = |pod: &&PodUid| {
                let mut own = cpus.containers_of(pod);
                if let Some(whole) = cpus.pod(pod) {
                    own |= whole;
                }
                !own.is_disjoint(&lost)
            };
            found.push(JournalDifference::CpusMissing {
                holders: pods.into_iter().filter(holds).cloned().collect(),
                cpus: lost,
            });
        } else if then.machine() != now.machine() {
            found.push(JournalDifference::MachineChanged);
        }
        if then.settings() != now.settings() {
            found.push(JournalDifference::SettingsChanged);
        }
    }
}

impl fmt::Display for JournalDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalDifference::TailLost { bytes } => write!(
                f,
                "the journal ended with an incomplete entry of {bytes} bytes, which was moved to another file"
            ),
            JournalDifference::NotRunning(pod) => {
                write!(f, "pod {pod} is in the journal but does not run")
            }
            JournalDifference::Unknown {
                pod,
                container,
                trespass,
            } => {
                match container {
                    Some(container) => write!(f, "container {container} of pod {pod}")?,
                    None => write!(f, "pod {pod}")?,
                }
                f.write_str(" runs but is not in the journal")?;
                match trespass.is_empty() {
                    true => Ok(()),
                    false => write!(f, ", on exclusive CPUs {trespass} of other containers"),
                }
            }
            JournalDifference::WrongCpus {
                pod,
                container,
                recorded,
                found,
            } => write!(
                f,
                "container {container} of pod {pod} uses CPUs {found} instead of {recorded}"
            ),
            JournalDifference::CpusMissing { cpus, holders } => {
                write!(f, "CPUs {cpus} are missing or offline")?;
                let holders: Vec<&str> = holders.iter().map(PodUid::as_str).collect();
                match holders.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; pods {} hold some of them", holders.join(", ")),
                }
            }
            JournalDifference::MachineChanged => {
                f.write_str("the machine differs from the one in the journal")
            }
            JournalDifference::SettingsChanged => {
                f.write_str("the settings differ from those in the journal")
            }
        }
    }
}
