//! Comparing the journal with everything that a runtime has, and repairing toward the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::NoPreference;
use pinfold_core::ledger::GrantedCpus;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_devices::align::AlignedPod;
use pinfold_kube::pod::PodObject;

use super::guest::{Guest, Sandbox};
use super::{Node, Plugins, Rejected, Strangers, Update, admit, stand_in};
use crate::journaled_ledger::JournaledLedgerError;
use pinfold_journal::PodOrigin;
use pinfold_journal::Timestamp;

/// Something that was not as the journal says, and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A pod of the journal does not run any more: what it held is free.
    Gone(PodUid),
    /// A pod or container that nobody knew was decided about as if it had come now.
    Adopted(PodUid),
    /// A pod or container that nobody knew goes on with what is shared, for this reason.
    Shares {
        /// Which.
        pod: PodUid,
        /// Why.
        why: String,
    },
    /// The kubelet has pinned this pod, which keeps its CPUs until it ends.
    Pinned {
        /// Which.
        pod: PodUid,
        /// Its CPUs.
        cpus: CpuSet,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::Gone(pod) => {
                write!(
                    f,
                    "pod {pod} ended while nobody looked; what it held is free"
                )
            }
            Remark::Adopted(pod) => write!(f, "pod {pod} runs and was not known; it is now"),
            Remark::Shares { pod, why } => {
                write!(f, "pod {pod} runs and was not known; it shares CPUs: {why}")
            }
            Remark::Pinned { pod, cpus } => {
                write!(
                    f,
                    "pod {pod} keeps CPUs {cpus}, which the kubelet gave it, until it ends"
                )
            }
        }
    }
}

impl Node {
    /// The runtime tells everything it has. What every container may use, and what was not as the journal says.
    ///
    /// # Errors
    /// If a repair could not be written down.
    pub fn synchronize(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        guests: Vec<Guest>,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<(Vec<Update>, Vec<Remark>), JournaledLedgerError> {
        let mut remarks = Vec::new();
        self.release_the_gone(&pods, &guests, now, &mut remarks)?;
        self.meet_all(pods, guests, plugins, now, remarks)
    }

    /// The same where the kubelet gives out devices: `beside` are those of pods that nobody knows yet, whose CPUs and
    /// memory go where they are.
    ///
    /// # Errors
    /// If a repair could not be written down.
    pub fn synchronize_beside(
        &mut self,
        mut pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        guests: Vec<Guest>,
        mut beside: BTreeMap<PodUid, AlignedPod>,
        now: Timestamp,
    ) -> Result<(Vec<Update>, Vec<Remark>), JournaledLedgerError> {
        let mut remarks = Vec::new();
        self.release_the_gone(&pods, &guests, now, &mut remarks)?;
        for (sandbox, pod) in &mut pods {
            let Some(aligned) = beside.remove(&sandbox.uid) else {
                continue;
            };
            if let (Some(object), false) = (pod.as_deref(), self.lives_here(&sandbox.uid)) {
                for (resource, devices) in aligned.offers {
                    self.journaled.set_devices(&resource, Some(devices), now)?;
                }
                *pod = Some(Arc::new(PodObject {
                    pod: aligned.pod,
                    ..object.clone()
                }));
            }
        }
        let uids: Vec<PodUid> = pods
            .iter()
            .map(|(sandbox, _)| sandbox.uid.clone())
            .collect();
        let outcome = self.meet_all(pods, guests, &mut NoPreference, now, remarks)?;
        for uid in &uids {
            if !self.lives_here(uid) {
                self.withdraw_devices(uid, now)?;
            }
        }
        Ok(outcome)
    }

    fn meet_all(
        &mut self,
        pods: Vec<(Sandbox, Option<Arc<PodObject>>)>,
        guests: Vec<Guest>,
        plugins: Plugins<'_>,
        now: Timestamp,
        mut remarks: Vec<Remark>,
    ) -> Result<(Vec<Update>, Vec<Remark>), JournaledLedgerError> {
        self.sandboxes.clear();
        self.guests.retain(|_, guest| guest.is_outside());
        // Whoever had to share once does so until it is started again: it is not asked about every time.
        let shared = std::mem::take(&mut self.sharing);
        self.owed.clear();
        // Whoever has CPUs already comes before those who have yet to get some.
        let (pinned, others): (Vec<_>, Vec<_>) = pods
            .into_iter()
            .partition(|(sandbox, _)| self.pins.pods.contains_key(&sandbox.uid));
        for (sandbox, specification) in pinned.into_iter().chain(others) {
            let specification = specification.as_deref();
            if shared.contains(&sandbox.id) && !self.lives_here(&sandbox.uid) {
                self.sharing.insert(sandbox.id.clone());
                self.sandboxes.insert(sandbox.id.clone(), sandbox);
                continue;
            }
            self.meet(&sandbox, specification, plugins, now, &mut remarks)?;
            self.sandboxes.insert(sandbox.id.clone(), sandbox);
        }
        for guest in guests {
            let guest = self.meet_container(guest, plugins, now, &mut remarks)?;
            self.guests.insert(guest.id.clone(), guest);
        }
        Ok((self.updates(), remarks))
    }

    fn release_the_gone(
        &mut self,
        pods: &[(Sandbox, Option<Arc<PodObject>>)],
        guests: &[Guest],
        now: Timestamp,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), JournaledLedgerError> {
        let mut alive: BTreeSet<PodUid> = pods.iter().map(|(pod, _)| pod.uid.clone()).collect();
        alive.extend(guests.iter().map(|guest| stand_in(&guest.pod, &guest.name)));
        let notes = self.journaled.records();
        let stays = |pod: &PodUid| {
            let note = notes.get(pod);
            note.is_some_and(|note| note.origin == PodOrigin::Api)
        };
        let residents = self.journaled.ledger().state().residents().keys();
        let gone = residents.filter(|pod| !alive.contains(*pod) && !stays(pod));
        for pod in gone.cloned().collect::<Vec<_>>() {
            self.journaled.release(&pod, now)?;
            self.withdraw_devices(&pod, now)?;
            remarks.push(Remark::Gone(pod));
        }
        Ok(())
    }

    /// A pod that runs.
    fn meet(
        &mut self,
        sandbox: &Sandbox,
        specification: Option<&PodObject>,
        plugins: Plugins<'_>,
        now: Timestamp,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), JournaledLedgerError> {
        let uid = &sandbox.uid;
        if self.lives_here(uid) || self.has_stand_ins(uid) {
            return Ok(());
        }
        if let Some(cpus) = self.pins.pods.get(uid).cloned() {
            return self.keep_pinned(sandbox, &cpus, now, remarks);
        }
        if self.strangers == Strangers::Share {
            let why = "that is how strangers are treated here".to_owned();
            remarks.push(Remark::Shares {
                pod: uid.clone(),
                why,
            });
            self.sharing.insert(sandbox.id.clone());
            return Ok(());
        }
        let outcome = self.take_in(sandbox, specification, plugins, now);
        if outcome.is_err() {
            self.sharing.insert(sandbox.id.clone());
        }
        self.remark(uid, outcome, remarks)
    }

    /// Whether the containers of a pod live here each by itself.
    fn has_stand_ins(&self, pod: &PodUid) -> bool {
        let prefix = stand_in(pod, &"".into());
        let mut after = self
            .journaled
            .ledger()
            .state()
            .residents()
            .range(prefix.clone()..);
        let next = after.next();
        next.is_some_and(|(resident, _)| resident.as_str().starts_with(prefix.as_str()))
    }

    /// A container that runs.
    fn meet_container(
        &mut self,
        guest: Guest,
        plugins: Plugins<'_>,
        now: Timestamp,
        remarks: &mut Vec<Remark>,
    ) -> Result<Guest, JournaledLedgerError> {
        let alone = stand_in(&guest.pod, &guest.name);
        let known = self.lives_here(&alone);
        let shares = guest.clone();
        match self.take_in_container(guest, plugins, now) {
            Ok(mut guest) => {
                if !known && guest.resident == alone {
                    remarks.push(Remark::Adopted(alone));
                }
                // Whatever it was told once: it is told again.
                guest.told = None;
                Ok(guest)
            }
            Err(rejected) => {
                self.remark(&alone, Err(rejected), remarks)?;
                Ok(shares)
            }
        }
    }

    fn remark(
        &self,
        pod: &PodUid,
        outcome: Result<(), Rejected>,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), JournaledLedgerError> {
        match outcome {
            Ok(()) if self.lives_here(pod) => remarks.push(Remark::Adopted(pod.clone())),
            Ok(()) => {}
            Err(Rejected::Journal(error @ JournaledLedgerError::Journal(_))) => return Err(error),
            Err(rejected) => remarks.push(Remark::Shares {
                pod: pod.clone(),
                why: rejected.to_string(),
            }),
        }
        Ok(())
    }

    /// A pod that the kubelet pinned keeps its CPUs.
    fn keep_pinned(
        &mut self,
        sandbox: &Sandbox,
        cpus: &GrantedCpus,
        now: Timestamp,
        remarks: &mut Vec<Remark>,
    ) -> Result<(), JournaledLedgerError> {
        let mut all = CpuSet::new();
        cpus.values().for_each(|cpus| all |= cpus);
        let container = |name: &ContainerName| Container {
            name: name.clone(),
            restartable: false,
            requests: ResourceList::new(),
            limits: ResourceList::new(),
        };
        let pod = Arc::new(Pod {
            uid: sandbox.uid.clone(),
            name: sandbox.full_name(),
            init_containers: Vec::new(),
            containers: cpus.keys().map(container).collect(),
            pod_requests: None,
            pod_limits: None,
        });
        let note = admit::note(PodOrigin::Kubelet, &sandbox.labels, &sandbox.annotations);
        let told = format!("keeps CPUs {all}, which the kubelet gave it");
        match self.journaled.grant(&pod, cpus, note, told, now) {
            Ok(()) => remarks.push(Remark::Pinned {
                pod: sandbox.uid.clone(),
                cpus: all,
            }),
            Err(error @ JournaledLedgerError::Journal(_)) => return Err(error),
            Err(error) => {
                self.sharing.insert(sandbox.id.clone());
                remarks.push(Remark::Shares {
                    pod: sandbox.uid.clone(),
                    why: format!("the kubelet gave it CPUs {all}, but {error}"),
                });
            }
        }
        Ok(())
    }
}
