//! [`Node`]: what runs on this node, what each container may use, and what that was decided from.
//!
//! ```text
//! runtime ─► pod_comes, container_comes ─► JournaledLedger (ledger, journal) ─► Allowance for it, Updates for others
//!            container_started, pod_stops, container_goes             (pools shrink and grow)
//!            synchronize ─► everything compared with the journal, and repaired toward it
//! person  ─► admit, release
//! ```
//!
//! No runtime and no control group is touched here: what comes out is for others to carry out. Everything is on disk
//! before it comes out.
//!
//! A pod whose specification is known (from the API server, or because somebody asked for it here first) is decided
//! about as a whole, when its sandbox is made. Otherwise there is only what the runtime is asked: under the
//! kubelet's rules each container is then decided about by itself, as with scope `container`; under Koordinator's the
//! sandbox speaks for the pod.

use pinfold_core::decision::Decision;
use pinfold_core::device::{DevicesByResource, NoPreference, PreferredAllocation};
use pinfold_core::koordinator::pools::Pools;
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_devices::align::{self, AlignedPod};
use pinfold_kube::pod::PodObject;
use std::collections::{BTreeMap, BTreeSet};

use crate::allowance::Allowance;
use crate::journaled_ledger::{JournaledLedger, JournaledLedgerError, RulesChange};
use pinfold_journal::Timestamp;
use pinfold_journal::{PinnedProcess, PodOrigin};

mod admit;
mod allow;
mod guest;
mod koordinator;
mod owed;
mod synchronize;
mod takeover;
mod tally;
#[cfg(test)]
mod tests;

pub use guest::{Asked, Guest, Sandbox};
pub use koordinator::Koordinator;
pub use synchronize::Remark;
pub use takeover::KubeletPins;
pub use tally::{Kind, Tally};

/// Whose rules decide.
#[derive(Clone, Debug)]
pub enum Rulebook {
    /// The kubelet's: those of the ledger.
    Kubelet,
    /// Koordinator's.
    Koordinator(Box<Koordinator>),
}

/// What becomes of containers that run and that nobody knows anything about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strangers {
    /// They are decided about as if they came now. Who is rejected goes on running with what is shared.
    #[default]
    Adopt,
    /// They go on running with what is shared.
    Share,
}

/// Everything that runs here.
#[derive(Debug)]
pub struct Node {
    journaled: JournaledLedger,
    rulebook: Rulebook,
    strangers: Strangers,
    pins: KubeletPins,
    sandboxes: BTreeMap<String, Sandbox>,
    guests: BTreeMap<String, Guest>,
    /// The sandboxes of pods that run without having been let in: they share CPUs.
    sharing: BTreeSet<String>,
    /// Who left without that being written down yet.
    owed: BTreeSet<PodUid>,
    /// How many things containers were told.
    tellings: u64,
    rejected: u64,
    tally: Tally,
    hands_off: bool,
}

/// What a container may use from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The runtime's id of it.
    pub container: String,
    /// What it may use.
    pub allowance: Allowance,
}

impl Update {
    /// Whether no runtime knows the container: it is a control group or process that others made.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.container.starts_with('/')
    }
}

/// Why a pod or container may not run here.
#[derive(Debug, thiserror::Error)]
pub enum Rejected {
    /// The rules say no.
    #[error("{told}")]
    Rules {
        /// Why, in one sentence.
        told: String,
        /// The decision with its facts, where the ledger made one.
        decision: Option<Box<Decision>>,
    },
    /// It could not be decided or written down.
    #[error(transparent)]
    Journal(#[from] JournaledLedgerError),
    /// The runtime speaks of a sandbox that it never told of.
    #[error("the runtime has not told of sandbox {0}; is another plugin in the way?")]
    UnknownSandbox(String),
}

/// Someone whose opinion counts when devices are chosen.
pub type Plugins<'a> = &'a mut dyn PreferredAllocation;

impl Node {
    /// A node that goes on with its journal: control groups and processes that were held are held again.
    #[must_use]
    pub fn new(
        journaled: JournaledLedger,
        rulebook: Rulebook,
        strangers: Strangers,
        pins: KubeletPins,
    ) -> Self {
        let mut guests = BTreeMap::new();
        for (pod, record) in journaled.records() {
            let groups = record.cgroups.iter();
            let groups = groups.map(|(group, container)| Guest::outside(group, pod, container));
            let processes = record.processes.iter();
            let processes = processes.map(|held| Guest::of_process(held, pod));
            let outside = groups.chain(processes);
            guests.extend(outside.map(|guest| (guest.id.clone(), guest)));
        }
        let mut node = Self {
            journaled,
            rulebook,
            strangers,
            pins,
            sandboxes: BTreeMap::new(),
            guests,
            sharing: BTreeSet::new(),
            owed: BTreeSet::new(),
            tellings: 0,
            rejected: 0,
            tally: Tally::default(),
            hands_off: false,
        };
        // What they may use is what is compared with; nobody needs to be told yet.
        drop(node.updates());
        node
    }

    /// The same, with somebody else who sets what containers may use: it is decided and written down, and nobody told.
    #[must_use]
    pub fn hands_off(mut self) -> Self {
        self.hands_off = true;
        self
    }

    /// The ledger and its journal.
    #[must_use]
    pub fn journaled(&self) -> &JournaledLedger {
        &self.journaled
    }

    /// The same, to change how the node is run or what plugins offer.
    pub fn journaled_mut(&mut self) -> &mut JournaledLedger {
        &mut self.journaled
    }

    /// From now on running containers that nobody knows are treated so.
    pub fn treat_strangers(&mut self, strangers: Strangers) {
        self.strangers = strangers;
    }

    /// What the kubelet has pinned by now. Pods that are here already stay what they are.
    pub fn learn_pins(&mut self, pins: KubeletPins) {
        self.pins = pins;
    }

    /// The containers that run.
    pub fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.guests.values()
    }

    /// A pod, by the runtime's id of its sandbox.
    #[must_use]
    pub fn sandbox(&self, id: &str) -> Option<&Sandbox> {
        self.sandboxes.get(id)
    }

    /// What was asked for and what came of it, in numbers.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether a pod holds something here, or could.
    #[must_use]
    pub fn is_here(&self, pod: &PodUid) -> bool {
        self.lives_here(pod)
    }

    /// Whether the runtime has a sandbox of a pod.
    #[must_use]
    pub fn has_sandbox_of(&self, pod: &PodUid) -> bool {
        self.sandboxes.values().any(|sandbox| sandbox.uid == *pod)
    }

    /// How many pods and containers were rejected.
    #[must_use]
    pub fn rejections(&self) -> u64 {
        self.rejected
    }

    /// Koordinator's pools of the moment, where its rules decide.
    pub fn pools_now(&mut self) -> Option<Pools> {
        self.pools()
    }

    /// A sandbox was made though its pod may not run here by the rules: it shares CPUs.
    pub fn pod_shares(&mut self, sandbox: Sandbox) {
        self.sharing.insert(sandbox.id.clone());
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
    }

    /// A sandbox is being made. What others may use from now on.
    ///
    /// # Errors
    /// If the pod may not run here.
    pub fn pod_comes(
        &mut self,
        sandbox: Sandbox,
        specification: Option<&PodObject>,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<Vec<Update>, Rejected> {
        let outcome = self.take_in(&sandbox, specification, plugins, now);
        self.rejected += u64::from(outcome.is_err());
        outcome?;
        self.sandboxes.insert(sandbox.id.clone(), sandbox);
        Ok(self.updates())
    }

    /// The same for a pod that the kubelet has given devices: its CPUs and memory go where they are.
    ///
    /// # Errors
    /// If the pod may not run here.
    pub fn pod_comes_with_devices(
        &mut self,
        sandbox: Sandbox,
        specification: &PodObject,
        beside: AlignedPod,
        now: Timestamp,
    ) -> Result<Vec<Update>, Rejected> {
        for (resource, devices) in beside.offers {
            self.journaled.set_devices(&resource, Some(devices), now)?;
        }
        let aligned = PodObject {
            pod: beside.pod,
            ..specification.clone()
        };
        let uid = sandbox.uid.clone();
        let outcome = self.pod_comes(sandbox, Some(&aligned), &mut NoPreference, now);
        if outcome.is_err() {
            self.withdraw_devices(&uid, now)?;
        }
        outcome
    }

    /// What the kubelet gave to a pod that is gone is nothing to the ledger any more.
    fn withdraw_devices(
        &mut self,
        pod: &PodUid,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let pool = self.journaled.ledger().state().pool();
        let of_pod = |resource: &&ResourceName| align::is_own_resource(resource, pod);
        let gone: Vec<ResourceName> = pool.resources().filter(of_pod).cloned().collect();
        for resource in gone {
            self.journaled.set_devices(&resource, None, now)?;
        }
        Ok(())
    }

    /// The devices that a container was given here.
    #[must_use]
    pub fn devices(&self, pod: &PodUid, container: &ContainerName) -> DevicesByResource {
        let devices = self.journaled.ledger().state().devices();
        devices
            .container(pod, container)
            .cloned()
            .unwrap_or_default()
    }

    /// A container is being created: what it may use (`None`: it is left alone), and what others may use.
    ///
    /// # Errors
    /// If it may not run here.
    pub fn container_comes(
        &mut self,
        guest: Guest,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<(Option<Allowance>, Vec<Update>), Rejected> {
        let outcome = self.take_in_container(guest, plugins, now);
        self.rejected += u64::from(outcome.is_err());
        let guest = outcome?;
        let allowance = guest.told.clone();
        self.guests.insert(guest.id.clone(), guest);
        Ok((allowance, self.updates()))
    }

    /// Somebody asks the runtime to change a container: what it may use whatever they ask (`None`: let them).
    pub fn container_changes(&mut self, id: &str) -> Option<Allowance> {
        self.guests.get(id)?.told.clone()
    }

    /// A container started: what init containers before it held is free. What others may use from now on.
    ///
    /// # Errors
    /// If that could not be written down.
    pub fn container_started(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        let Some(guest) = self.guests.get_mut(id) else {
            return Ok(Vec::new());
        };
        self.tellings = self.tellings.saturating_add(1);
        guest.changes = self.tellings;
        let residents = self.journaled.ledger().state().residents();
        let resident = residents.get(&guest.resident);
        let is_its_own = resident.is_some_and(|here| here.pod.container(&guest.name).is_some());
        if !is_its_own {
            return Ok(Vec::new());
        }
        let (pod, name) = (guest.resident.clone(), guest.name.clone());
        self.journaled.start_container(&pod, &name, now)?;
        Ok(self.updates())
    }

    /// A container ended or is gone. What others may use from now on.
    ///
    /// # Errors
    /// If that could not be written down.
    pub fn container_goes(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        if let Some(guest) = self.guests.remove(id)
            && guest.resident != guest.pod
        {
            let another = |other: &Guest| other.resident == guest.resident;
            if !self.guests.values().any(another) {
                self.let_go(&guest.resident, now)?;
            }
        }
        Ok(self.updates())
    }

    /// A sandbox is being stopped: its pod ends, unless another sandbox of it was made since. What others may use from
    /// now on.
    ///
    /// # Errors
    /// If that could not be written down.
    pub fn pod_stops(
        &mut self,
        id: &str,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        let Some(sandbox) = self.sandboxes.remove(id) else {
            return Ok(Vec::new());
        };
        self.sharing.remove(id);
        let gone = self.guests.extract_if(.., |_, guest| guest.sandbox == id);
        let mut residents: Vec<PodUid> = gone.map(|(_, guest)| guest.resident).collect();
        residents.sort_unstable();
        residents.dedup();
        let goes_on = self
            .sandboxes
            .values()
            .any(|other| other.uid == sandbox.uid);
        if !goes_on && !residents.contains(&sandbox.uid) {
            residents.push(sandbox.uid.clone());
        }
        residents.retain(|resident| *resident != sandbox.uid || !goes_on);
        let mut outcome = Ok(());
        for resident in residents {
            outcome = outcome.and(self.let_go(&resident, now));
        }
        outcome.map(|()| self.updates())
    }

    /// Somebody asks for a pod here: it stays until it is released.
    ///
    /// # Errors
    /// If it is rejected, could not be decided or written down.
    pub fn admit(
        &mut self,
        pod: &PodObject,
        plugins: Plugins<'_>,
        now: Timestamp,
    ) -> Result<(Option<Decision>, Vec<Update>), Rejected> {
        let outcome = self.take_in_pod(pod, PodOrigin::Api, plugins, now);
        self.rejected += u64::from(matches!(outcome, Err(Rejected::Rules { .. })));
        Ok((outcome?, self.updates()))
    }

    /// Has a control group that no runtime knows use what a container of a pod was given, from now on and after a
    /// restart. What that is; `None` if it is left alone.
    ///
    /// # Errors
    /// If there is no such container, or that could not be written down.
    pub fn hold(
        &mut self,
        group: &str,
        pod: &PodUid,
        name: &ContainerName,
        now: Timestamp,
    ) -> Result<Option<Allowance>, JournaledLedgerError> {
        self.journaled.pin_cgroup(pod, name, group, now)?;
        Ok(self.holds(Guest::outside(group, pod, name)))
    }

    /// The same for a process, with what it starts. Others of the pod that are not `alive` any more are forgotten.
    ///
    /// # Errors
    /// If there is no such container, or that could not be written down.
    pub fn hold_process(
        &mut self,
        held: &PinnedProcess,
        pod: &PodUid,
        alive: &dyn Fn(&PinnedProcess) -> bool,
        now: Timestamp,
    ) -> Result<Option<Allowance>, JournaledLedgerError> {
        self.journaled.pin_process(pod, held, alive, now)?;
        self.guests.retain(|_, guest| {
            let process = guest.process().filter(|_| guest.pod == *pod);
            process.is_none_or(alive)
        });
        Ok(self.holds(Guest::of_process(held, pod)))
    }

    fn holds(&mut self, mut guest: Guest) -> Option<Allowance> {
        guest.told = self.allowance(&guest);
        let allowance = guest.told.clone();
        self.guests.insert(guest.id.clone(), guest);
        allowance
    }

    /// What a container of a pod may use, whether it runs or not; `None` if it is left alone.
    pub fn allowed(&mut self, pod: &PodUid, name: &ContainerName) -> Option<Allowance> {
        self.allowance(&Guest::outside("", pod, name))
    }

    /// The node is run otherwise from now on. What everybody may use then.
    ///
    /// # Errors
    /// If the plan is not possible any more, or could not be written down.
    pub fn amend(
        &mut self,
        plan: RulesChange,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        self.journaled.apply_rules_change(plan, now)?;
        if let Rulebook::Koordinator(book) = &mut self.rulebook {
            **book = book.under(self.journaled.ledger().rules());
        }
        Ok(self.updates())
    }

    /// A pod that somebody asked for is not needed any more.
    ///
    /// # Errors
    /// If it is not here, or that could not be written down.
    pub fn release(
        &mut self,
        pod: &PodUid,
        now: Timestamp,
    ) -> Result<Vec<Update>, JournaledLedgerError> {
        self.journaled.release(pod, now)?;
        let outside = |guest: &Guest| guest.is_outside() && guest.pod == *pod;
        self.guests.retain(|_, guest| !outside(guest));
        Ok(self.updates())
    }
}

/// The id under which the ledger knows a container of a pod that nobody knows the specification of.
fn stand_in(pod: &PodUid, container: &ContainerName) -> PodUid {
    format!("{pod}/{container}").into()
}
