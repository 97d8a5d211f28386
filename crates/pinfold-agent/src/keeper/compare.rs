//! Comparing the journal with what runs: every difference is named, with the repair that brings the node back to the
//! journal. Nothing is repaired here, and nothing silently.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::Rules;
use pinfold_core::name::{ContainerName, PodUid};

use super::Keeper;

/// The containers that run now, by pod, with the CPUs that each may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Pods with their containers. A pod may run without a container yet.
    pub pods: BTreeMap<PodUid, BTreeMap<ContainerName, CpuSet>>,
}

/// Something that is not as the journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The end of the journal was not whole: the last change may be missing. Nobody was told that it was done.
    TailLost {
        /// How much was cut off and put aside.
        bytes: u64,
    },
    /// A pod of the journal does not run.
    Gone(PodUid),
    /// A pod or container runs that the journal does not know.
    Unknown {
        /// The pod.
        pod: PodUid,
        /// The container; `None` for a pod of which nothing is known.
        container: Option<ContainerName>,
        /// The CPUs it may use that others have for themselves.
        trespass: CpuSet,
    },
    /// A container may use other CPUs than it was given.
    OtherCpus {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// What the journal says.
        recorded: CpuSet,
        /// What is so.
        found: CpuSet,
    },
    /// CPUs that the journal's machine has are not there any more.
    CpusGone {
        /// Which.
        cpus: CpuSet,
        /// The pods that hold some of them.
        holders: Vec<PodUid>,
    },
    /// The machine differs otherwise: more CPUs, other memory, other nodes.
    OtherMachine,
    /// The node is to be run otherwise than the journal says.
    OtherSettings,
}

/// What brings the node back to the journal, or the journal to a node that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing to do; for people to know.
    None,
    /// [`Keeper::release`] it.
    Release(PodUid),
    /// Allow the container these CPUs only.
    Pin {
        /// The pod.
        pod: PodUid,
        /// The container.
        container: ContainerName,
        /// The CPUs.
        cpus: CpuSet,
    },
    /// [`Keeper::admit`] the pod, or confine all of it to these CPUs until it is.
    Admit {
        /// The pod.
        pod: PodUid,
        /// The shared pool.
        until_then: CpuSet,
    },
    /// [`Keeper::plan`] and [`Keeper::apply`] for the machine and the settings of now.
    Plan,
}

impl Keeper {
    /// Everything that is not as the journal says, in the order in which it should be repaired. `now` are the machine
    /// and the settings of this moment.
    #[must_use]
    pub fn compare(&self, running: &Running, now: &Rules) -> Vec<Difference> {
        let mut found = Vec::new();
        if self.torn > 0 {
            found.push(Difference::TailLost { bytes: self.torn });
        }
        let state = self.ledger.state();
        let gone = state.admitted_pods().keys();
        let gone = gone.filter(|pod| !running.pods.contains_key(*pod));
        found.extend(gone.cloned().map(Difference::Gone));
        self.compare_rules(now, &mut found);
        for (pod, containers) in &running.pods {
            self.compare_pod(pod, containers, &mut found);
        }
        found
    }

    /// What repairs a difference.
    #[must_use]
    pub fn repair(&self, difference: &Difference) -> Repair {
        match difference {
            Difference::TailLost { .. } => Repair::None,
            Difference::Gone(pod) => Repair::Release(pod.clone()),
            Difference::Unknown { pod, .. } => Repair::Admit {
                pod: pod.clone(),
                until_then: self.ledger.state().cpus().shared().clone(),
            },
            Difference::OtherCpus {
                pod,
                container,
                recorded,
                ..
            } => Repair::Pin {
                pod: pod.clone(),
                container: container.clone(),
                cpus: recorded.clone(),
            },
            Difference::CpusGone { .. } | Difference::OtherMachine | Difference::OtherSettings => {
                Repair::Plan
            }
        }
    }

    fn compare_pod(
        &self,
        pod: &PodUid,
        containers: &BTreeMap<ContainerName, CpuSet>,
        found: &mut Vec<Difference>,
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
                found.push(Difference::OtherCpus {
                    pod: pod.clone(),
                    container: container.clone(),
                    recorded: recorded.clone(),
                    found: cpus.clone(),
                });
            }
        }
    }

    /// The CPUs that a container may use: its own, else the shared pool.
    fn recorded(&self, pod: &PodUid, container: &ContainerName) -> &CpuSet {
        let cpus = self.ledger.state().cpus();
        cpus.container(pod, container)
            .unwrap_or_else(|| cpus.shared())
    }

    fn unknown(&self, pod: &PodUid, container: Option<ContainerName>, used: &CpuSet) -> Difference {
        let shared = self.ledger.state().cpus().shared();
        Difference::Unknown {
            pod: pod.clone(),
            container,
            trespass: &(used & self.ledger.rules().machine().online()) - shared,
        }
    }

    fn compare_rules(&self, now: &Rules, found: &mut Vec<Difference>) {
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
            found.push(Difference::CpusGone {
                holders: pods.into_iter().filter(holds).cloned().collect(),
                cpus: lost,
            });
        } else if then.machine() != now.machine() {
            found.push(Difference::OtherMachine);
        }
        if then.settings() != now.settings() {
            found.push(Difference::OtherSettings);
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::TailLost { bytes } => write!(
                f,
                "the last {bytes} bytes of the journal were not a whole change and were put aside"
            ),
            Difference::Gone(pod) => write!(f, "pod {pod} is in the journal but does not run"),
            Difference::Unknown {
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
                    false => write!(f, ", on CPUs {trespass} that others have for themselves"),
                }
            }
            Difference::OtherCpus {
                pod,
                container,
                recorded,
                found,
            } => write!(
                f,
                "container {container} of pod {pod} may use CPUs {found} instead of {recorded}"
            ),
            Difference::CpusGone { cpus, holders } => {
                write!(f, "CPUs {cpus} are not there any more")?;
                let holders: Vec<&str> = holders.iter().map(PodUid::as_str).collect();
                match holders.is_empty() {
                    true => Ok(()),
                    false => write!(f, "; pods {} hold some of them", holders.join(", ")),
                }
            }
            Difference::OtherMachine => f.write_str("the machine is not the one of the journal"),
            Difference::OtherSettings => f.write_str("the settings are not those of the journal"),
        }
    }
}
