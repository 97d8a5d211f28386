//! [`JournalReplay`]: the entries of an agent's journal as steps of a simulation.

use std::path::Path;
use std::sync::Arc;

use pinfold_core::device::AdvertisedDevices;
use pinfold_core::ledger::{Edit, Ledger, LedgerState};
use pinfold_core::name::{PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_journal::JournalEvent;
use pinfold_journal::{JournalEntry, JournalError, JournalHistory};

use crate::exit::Failure;
use crate::node::SimulatedNode;
use crate::simulation::SimulationStep;

/// The decisions of an agent's journal, to be repeated.
pub(crate) struct JournalReplay {
    /// The node, without pods.
    pub(crate) node: SimulatedNode,
    /// The ledger's state before the first step.
    pub(crate) start: LedgerState,
    /// The pods that steps refer to.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// The lists of devices that steps refer to; `None` for a device plugin that disconnected.
    pub(crate) offers: Vec<(ResourceName, Option<AdvertisedDevices>)>,
    /// The journal's entries as steps.
    pub(crate) steps: Vec<SimulationStep>,
}

/// Reads a journal. A damaged one is invalid input, one that cannot be opened an environment failure.
pub(crate) fn history(path: &Path) -> Result<JournalHistory, Failure> {
    JournalHistory::read(path).map_err(|error| match error {
        JournalError::Damaged { .. } | JournalError::Version { .. } => {
            Failure::BadInput(error.to_string())
        }
        _ => Failure::Environment(error.to_string()),
    })
}

/// The node of a journal, and its ledger after the last entry.
pub(crate) fn last_state(path: &Path) -> Result<(SimulatedNode, Ledger), Failure> {
    let ledger = history(path)?.ledger(path);
    let ledger =
        ledger.map_err(|error| Failure::BadInput(format!("{}: {error}", path.display())))?;
    Ok((SimulatedNode::from_rules(ledger.rules().clone()), ledger))
}

impl JournalReplay {
    /// Reads the entries since the rules last changed. Older decisions cannot be repeated under the present rules.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let history = history(path)?;
        let bad = |error: &dyn std::fmt::Display| {
            Failure::BadInput(format!("{}: {error}", path.display()))
        };
        let mut ledger = history.ledger(path).map_err(|error| bad(&error))?;
        let rules = ledger.rules().clone();
        let changes_rules =
            |entry: &JournalEntry| matches!(entry.event, JournalEvent::RulesChanged);
        let from = history.entries.iter().rposition(changes_rules);
        let entries = history.entries.get(from.map_or(0, |at| at + 1)..);
        let entries = entries.unwrap_or_default();
        for entry in entries.iter().rev() {
            if let Some(change) = &entry.change {
                ledger.undo(change).map_err(|error| bad(&error))?;
            }
        }
        let mut replay = Self {
            node: SimulatedNode::from_rules(rules),
            start: ledger.state().clone(),
            pods: Vec::new(),
            offers: Vec::new(),
            steps: Vec::new(),
        };
        replay.pods = admitted_pods(&ledger);
        for entry in entries {
            replay.step(entry);
        }
        Ok(replay)
    }

    /// Adds the step that an entry records. Entries that do not name a pod or container are left out.
    fn step(&mut self, entry: &JournalEntry) {
        let step = match &entry.event {
            JournalEvent::Admitted(_) | JournalEvent::Rejected(_) => pod_of(entry).map(|pod| {
                self.pods.push(pod);
                SimulationStep::Add(self.pods.len() - 1)
            }),
            JournalEvent::Released(uid) => self.find(uid).map(SimulationStep::Remove),
            JournalEvent::ContainerStarted(uid, name) => self.find(uid).and_then(|pod| {
                let mut containers = self.pods.get(pod)?.all_containers();
                let container = containers.position(|container| container.name == *name)?;
                Some(SimulationStep::StartOne { pod, container })
            }),
            JournalEvent::DevicesChanged(_) => self.offer_of(entry),
            JournalEvent::Pinned(..)
            | JournalEvent::RulesChanged
            | JournalEvent::BestEffortLimited => None,
        };
        self.steps.extend(step);
    }

    /// The last pod with that uid: a uid can occur again after its pod was removed.
    fn find(&self, uid: &PodUid) -> Option<usize> {
        self.pods.iter().rposition(|pod| pod.uid == *uid)
    }

    fn offer_of(&mut self, entry: &JournalEntry) -> Option<SimulationStep> {
        let edits = &entry.change.as_ref()?.edits;
        let offer = edits.iter().find_map(|edit| match edit {
            Edit::AdvertisedDevices {
                resource, after, ..
            } => Some((resource.clone(), after.clone())),
            _ => None,
        })?;
        self.offers.push(offer);
        Some(SimulationStep::Offer(self.offers.len() - 1))
    }
}

/// The pod of an admission. A rejected pod is in the entry, an admitted one in the entry's change.
fn pod_of(entry: &JournalEntry) -> Option<Arc<Pod>> {
    let admitted = || {
        let edits = &entry.change.as_ref()?.edits;
        edits.iter().find_map(|edit| match edit {
            Edit::Pod {
                after: Some(resident),
                ..
            } => Some(resident.pod.clone()),
            _ => None,
        })
    };
    entry.pod.clone().or_else(admitted)
}

fn admitted_pods(ledger: &Ledger) -> Vec<Arc<Pod>> {
    let admitted = ledger.admitted_pods().into_iter();
    admitted.map(|admitted| admitted.pod.clone()).collect()
}

#[cfg(test)]
mod tests {
    use pinfold_agent::JournaledLedger;
    use pinfold_core::device::{Device, NoPreference};
    use pinfold_core::ledger::Rules;
    use pinfold_core::settings::{CpuManagerPolicy, Settings};
    use pinfold_journal::FILE;
    use pinfold_journal::{JournalLimits, JournalPodRecord, Timestamp};

    use super::*;
    use crate::simulation::{Simulation, SimulationPlan};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn rules(policy: &str) -> Arc<Rules> {
        let hardware = pinfold_hardware::open("2 sockets, 4 cores, smt2").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("all of it");
        let settings = Settings {
            topology_policy: policy.parse().expect("a policy"),
            cpu_policy: CpuManagerPolicy::Static,
            reserved_cpu: Some("2".parse().expect("a quantity")),
            ..Settings::default()
        };
        Arc::new(Rules::new(machine.into(), settings).expect("rules"))
    }

    /// A pod with an init container that needs more than the rest.
    fn pod(uid: &str, cpus: u32, gpus: u32) -> Arc<Pod> {
        let container = |name: &str, cpus: u32| {
            let amounts = serde_json::json!({
                "cpu": cpus.to_string(), "memory": "64Mi", "vendor.com/gpu": gpus.to_string(),
            });
            serde_json::json!({"name": name, "requests": amounts, "limits": amounts})
        };
        let pod = serde_json::json!({
            "uid": uid,
            "name": format!("tests/{uid}"),
            "init_containers": [container("init", cpus + 1)],
            "containers": [container("main", cpus)],
        });
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    }

    /// Releases a pod, if it is admitted.
    fn release(journaled: &mut JournaledLedger, uid: &str) {
        let uid = uid.into();
        if journaled.ledger().assignment(&uid).is_some() {
            journaled.release(&uid, NOW).expect("written");
        }
    }

    /// Admits, starts, rejects and releases pods, and changes devices.
    fn make_history(journaled: &mut JournaledLedger, round: u32) {
        let gpu = ResourceName::from("vendor.com/gpu");
        let device = |node| Device {
            numa: Some(vec![node]),
            healthy: true,
        };
        let devices = [("gpu0", 0), ("gpu1", 1), ("gpu2", 0)];
        let devices = devices.map(|(id, node)| (id.into(), device(node)));
        journaled
            .set_devices(&gpu, Some(devices.into()), NOW)
            .expect("written");
        for (uid, cpus, gpus) in [
            ("a", 2, 1),
            ("b", 3, 1),
            ("c", 9, 0),
            ("d", 2, 1),
            ("e", 1, 1),
        ] {
            let pod = pod(&format!("{uid}{round}"), cpus, gpus);
            let decision = journaled
                .admit(&pod, JournalPodRecord::default(), &mut NoPreference, NOW)
                .expect("written");
            if decision.is_admitted() {
                journaled
                    .start_container(&pod.uid, &"main".into(), NOW)
                    .expect("written");
            }
            if uid == "b" {
                release(journaled, &format!("a{round}"));
            }
        }
        release(journaled, &format!("b{round}"));
        journaled.set_devices(&gpu, None, NOW).expect("written");
    }

    fn replay(folder: &Path) -> (Vec<JournalEntry>, Simulation) {
        let path = folder.join(FILE);
        let recorded = JournalReplay::read(&path).expect("a journal");
        let plan = SimulationPlan {
            replayed: Some(&recorded.start),
            offers: &recorded.offers,
            ..SimulationPlan::new(&recorded.pods, &recorded.steps)
        };
        let simulation = plan.run_on(&recorded.node).expect("a simulation");
        (history(&path).expect("a journal").entries, simulation)
    }

    /// The decisions in the journal, in order.
    fn decisions(entries: &[JournalEntry]) -> Vec<String> {
        let decided = entries.iter().filter(|entry| {
            matches!(
                entry.event,
                JournalEvent::Admitted(_) | JournalEvent::Rejected(_)
            )
        });
        decided
            .map(|entry| format!("{}: {}", entry.pod_name, entry.message))
            .collect()
    }

    fn decided(simulation: &Simulation) -> Vec<String> {
        let added = simulation.events.iter().filter(|event| event.step == "add");
        let name = |event: &crate::simulation::StepEvent| event.pod.clone().unwrap_or_default();
        added
            .map(|event| format!("{}: {}", name(event), event.message))
            .collect()
    }

    fn check(folder: &Path, journaled: &JournaledLedger) {
        let (entries, simulation) = replay(folder);
        assert!(!decisions(&entries).is_empty());
        assert_eq!(decided(&simulation), decisions(&entries));
        assert_eq!(
            simulation.ledger.occupancy(),
            journaled.ledger().occupancy()
        );
    }

    #[test]
    fn a_replayed_journal_makes_the_same_decisions() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("agent");
        let rules = rules("single-numa-node");
        let mut journaled =
            JournaledLedger::open(&folder, rules, JournalLimits::default()).expect("a journal");
        make_history(&mut journaled, 1);
        check(&folder, &journaled);
    }

    #[test]
    fn a_replayed_journal_without_its_oldest_entries_makes_the_same_decisions() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("agent");
        let limits = JournalLimits {
            entries: 20,
            ..JournalLimits::default()
        };
        let mut journaled =
            JournaledLedger::open(&folder, rules("restricted"), limits).expect("a journal");
        for round in 0..4 {
            make_history(&mut journaled, round);
        }
        let first = history(&folder.join(FILE)).expect("a journal").entries;
        assert!(
            first.first().is_some_and(|entry| entry.number > 1),
            "it was shortened"
        );
        check(&folder, &journaled);
    }
}
