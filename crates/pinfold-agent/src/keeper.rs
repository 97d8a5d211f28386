//! [`Keeper`]: the one owner of a node's ledger. What it returns is on disk.
//!
//! Every call decides in memory, writes one transaction, and only then returns. If the write fails, the ledger is taken
//! back to exactly what it was, and the caller hears that nothing was done.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{AdmissionResult, Decision};
use pinfold_core::device::{AdvertisedDevices, PreferredAllocation};
use pinfold_core::ledger::{
    Admission, Change, GrantError, GrantedCpus, Ledger, LedgerError, Rules,
};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_render::{explain, placement};

use pinfold_journal::{
    Base, Entry, HeldProcess, Journal, JournalError, Limits, Note, Timestamp, What,
};

mod compare;
mod plan;

pub use compare::{Difference, Repair, Running};
pub use plan::{Fate, Plan, PlanError};

/// The ledger of a node and its journal.
#[derive(Debug)]
pub struct Keeper {
    ledger: Ledger,
    notes: BTreeMap<PodUid, Note>,
    journal: Journal,
    /// Bytes at the end of the journal that were cut off when it was opened.
    torn: u64,
    /// Why the journal could not be shortened, if so. It is tried again after the next change.
    unshortened: Option<JournalError>,
    /// Why the last change could not be written down, if so.
    unwritten: Option<String>,
    /// Whether writes fail as on a full disk.
    #[cfg(test)]
    disk_is_full: bool,
}

/// Why something was not done. The ledger and the journal are as they were.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The request makes no sense here.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The pod cannot have the CPUs that were chosen for it.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// It could not be written down.
    #[error("nothing was done, because it could not be written down: {0}")]
    Journal(#[from] JournalError),
    /// The plan cannot be carried out.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl Keeper {
    /// Opens the journal in `folder` and rebuilds the ledger from it. A new journal begins with an empty node under
    /// `rules`; another one goes on under the rules it was written under: see [`Keeper::compare`] and
    /// [`Keeper::plan`] for how to get from those to `rules`.
    ///
    /// # Errors
    /// If the journal cannot be opened, or what it says does not add up.
    pub fn open(folder: &Path, rules: Arc<Rules>, limits: Limits) -> Result<Self, KeeperError> {
        let (mut journal, history) = Journal::open(folder, limits)?;
        let (ledger, notes, torn) = match history {
            Some(history) => {
                let ledger = history.ledger(&journal.path())?;
                (ledger, history.notes(), history.torn)
            }
            None => {
                let (ledger, notes) = (Ledger::new(rules), BTreeMap::new());
                journal.begin(base(&ledger, &notes, 0))?;
                (ledger, notes, 0)
            }
        };
        Ok(Self {
            ledger,
            notes,
            journal,
            torn,
            unshortened: None,
            unwritten: None,
            #[cfg(test)]
            disk_is_full: false,
        })
    }

    /// Who holds what.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is remembered about the pods on the node, beside what they hold.
    #[must_use]
    pub fn notes(&self) -> &BTreeMap<PodUid, Note> {
        &self.notes
    }

    /// How many bytes of history and state are in the journal.
    #[must_use]
    pub fn journal_length(&self) -> u64 {
        self.journal.length()
    }

    /// The number of the last entry in the journal: it only ever grows.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.journal.last()
    }

    /// Why the journal could not be shortened when it last should have been; `None` if it could. Nothing is lost by it.
    #[must_use]
    pub fn unshortened(&self) -> Option<&JournalError> {
        self.unshortened.as_ref()
    }

    /// Bytes at the end of the journal that were no whole change when it was opened, and were put aside. Nobody was
    /// told that what they said was done.
    #[must_use]
    pub fn torn(&self) -> u64 {
        self.torn
    }

    /// Why the last change could not be written down; `None` if it could.
    #[must_use]
    pub fn unwritten(&self) -> Option<&str> {
        self.unwritten.as_deref()
    }

    /// Whether nothing can be written any more until the journal is opened anew.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.journal.is_broken()
    }

    /// Whether the disk is full from now on.
    #[cfg(test)]
    pub(crate) fn fail_to_write(&mut self, fails: bool) {
        self.disk_is_full = fails;
    }

    /// Finds out whether changes can be written down again after one could not.
    pub fn try_again(&mut self) {
        if self.unwritten.is_some() && self.journal.try_again().is_ok() {
            self.unwritten = None;
        }
    }

    /// Decides whether `pod` may run here. Rejections are written down too.
    ///
    /// # Errors
    /// If the pod makes no sense here, or the decision could not be written down.
    pub fn admit(
        &mut self,
        pod: &Arc<Pod>,
        note: Note,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, KeeperError> {
        self.admit_after(pod, note, "", plugins, now)
    }

    /// The same after something else was tried; `before` says what came of that.
    ///
    /// # Errors
    /// If the pod makes no sense here, or the decision could not be written down.
    pub fn admit_after(
        &mut self,
        pod: &Arc<Pod>,
        note: Note,
        before: &str,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, KeeperError> {
        let admission = self.ledger.admit(pod, plugins)?;
        self.decided(pod, admission, note, before, now)
    }

    /// Lets `pod` in by the rules, with exactly the CPUs that a scheduler chose for it.
    ///
    /// # Errors
    /// If it cannot have these CPUs, which is not written down: it is to be decided without them. Or if it could not be
    /// written down.
    pub fn admit_with(
        &mut self,
        pod: &Arc<Pod>,
        cpus: &CpuSet,
        note: Note,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, KeeperError> {
        let admission = self.ledger.admit_with_cpus(pod, cpus, plugins)?;
        let told = format!("CPUs {cpus}, as its scheduler chose");
        self.decided(pod, admission, note, &told, now)
    }

    /// Writes down what the ledger decided.
    fn decided(
        &mut self,
        pod: &Arc<Pod>,
        admission: Admission,
        note: Note,
        before: &str,
        now: Timestamp,
    ) -> Result<Decision, KeeperError> {
        let decision = admission.decision;
        let (what, told) = match &decision.result {
            AdmissionResult::Admitted(assignment) => (
                What::Admitted(pod.uid.clone()),
                placement::placement(assignment),
            ),
            AdmissionResult::Rejected(_) => (
                What::Rejected(pod.uid.clone()),
                explain::one_line(&decision),
            ),
        };
        let told = match before {
            "" => told,
            before => format!("{before}; {told}"),
        };
        let facts = serde_json::to_value(&decision);
        let mut entry = self.entry(now, what, told, admission.change);
        entry.name.clone_from(&pod.name);
        entry.pod = (!decision.is_admitted()).then(|| pod.clone());
        // Facts are for people; a pod is not turned away for want of them.
        entry.decision = facts.ok();
        entry.note = decision.is_admitted().then(|| note.clone());
        self.write(entry)?;
        if decision.is_admitted() {
            self.notes.insert(pod.uid.clone(), note);
        }
        Ok(decision)
    }

    /// Lets `pod` in with CPUs that somebody else chose; `told` says who, in one sentence.
    ///
    /// # Errors
    /// If it cannot have them, or it could not be written down.
    pub fn grant(
        &mut self,
        pod: &Arc<Pod>,
        cpus: &GrantedCpus,
        note: Note,
        told: String,
        now: Timestamp,
    ) -> Result<(), KeeperError> {
        let change = self.ledger.grant(pod, cpus)?;
        let what = What::Admitted(pod.uid.clone());
        let mut entry = self.entry(now, what, told, Some(change));
        entry.name.clone_from(&pod.name);
        entry.note = Some(note.clone());
        self.write(entry)?;
        self.notes.insert(pod.uid.clone(), note);
        Ok(())
    }

    /// Writes down that `pod` was turned away before the ledger was asked; `told` says why.
    ///
    /// # Errors
    /// If it could not be written down.
    pub fn reject(
        &mut self,
        pod: &Arc<Pod>,
        told: String,
        now: Timestamp,
    ) -> Result<(), KeeperError> {
        let mut entry = self.entry(now, What::Rejected(pod.uid.clone()), told, None);
        entry.name.clone_from(&pod.name);
        entry.pod = Some(pod.clone());
        self.write(entry)
    }

    /// A control group that no runtime knows is held to what a container of `pod` has from now on.
    ///
    /// # Errors
    /// If there is no such pod or container, or it could not be written down.
    pub fn hold(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        group: &str,
        now: Timestamp,
    ) -> Result<(), KeeperError> {
        self.hold_with(
            pod,
            container,
            &format!("control group {group}"),
            now,
            |note| {
                note.groups.insert(group.to_owned(), container.clone());
            },
        )
    }

    /// The same for a process. Those of the pod that are not `alive` any more are forgotten.
    ///
    /// # Errors
    /// If there is no such pod or container, or it could not be written down.
    pub fn hold_process(
        &mut self,
        pod: &PodUid,
        held: &HeldProcess,
        alive: &dyn Fn(&HeldProcess) -> bool,
        now: Timestamp,
    ) -> Result<(), KeeperError> {
        let what = format!("process {}", held.process.pid);
        self.hold_with(pod, &held.container, &what, now, |note| {
            let others = |other: &HeldProcess| other.process != held.process && alive(other);
            note.processes.retain(others);
            note.processes.push(held.clone());
        })
    }

    fn hold_with(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        thing: &str,
        now: Timestamp,
        change: impl FnOnce(&mut Note),
    ) -> Result<(), KeeperError> {
        let Some(resident) = self.ledger.state().admitted_pods().get(pod) else {
            return Err(LedgerError::NotAdmitted(pod.clone()).into());
        };
        if resident.pod.container(container).is_none() {
            let (pod, container) = (pod.clone(), container.clone());
            return Err(LedgerError::NoSuchContainer { pod, container }.into());
        }
        let before = self.notes.get(pod).cloned().unwrap_or_default();
        let mut note = before.clone();
        change(&mut note);
        if note == before {
            return Ok(());
        }
        let what = What::Held(pod.clone(), container.clone());
        let told = format!("{thing} is held to what container {container} has");
        let mut entry = self.entry(now, what, told, None);
        entry.name = self.name(pod);
        entry.note = Some(note.clone());
        self.write(entry)?;
        self.notes.insert(pod.clone(), note);
        Ok(())
    }

    /// A container of `pod` started. Whether that freed anything.
    ///
    /// # Errors
    /// If there is no such pod or container, or it could not be written down.
    pub fn start(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        now: Timestamp,
    ) -> Result<bool, KeeperError> {
        let name = self.name(pod);
        let Some(change) = self.ledger.start(pod, container)? else {
            return Ok(false);
        };
        let what = What::Started(pod.clone(), container.clone());
        let told =
            format!("container {container} started; what init containers before it held is free");
        let mut entry = self.entry(now, what, told, Some(change));
        entry.name = name;
        self.write(entry)?;
        Ok(true)
    }

    /// `pod` left: everything it held is free again.
    ///
    /// # Errors
    /// If it is not here, or it could not be written down.
    pub fn release(&mut self, pod: &PodUid, now: Timestamp) -> Result<(), KeeperError> {
        let name = self.name(pod);
        let change = self.ledger.release(pod)?;
        let what = What::Released(pod.clone());
        let mut entry = self.entry(now, what, "left".to_owned(), Some(change));
        entry.name = name;
        self.write(entry)?;
        self.notes.remove(pod);
        Ok(())
    }

    /// The plugin of `resource` offers these devices now; `None` if it is gone. Whether that changed anything.
    ///
    /// # Errors
    /// If it could not be written down.
    pub fn offer(
        &mut self,
        resource: &ResourceName,
        devices: Option<AdvertisedDevices>,
        now: Timestamp,
    ) -> Result<bool, KeeperError> {
        let told = match &devices {
            Some(devices) => format!("{resource}: {} devices on offer", devices.len()),
            None => format!("{resource}: its plugin is gone"),
        };
        let Some(change) = self.ledger.set_devices(resource.clone(), devices) else {
            return Ok(false);
        };
        let entry = self.entry(now, What::Offered(resource.clone()), told, Some(change));
        self.write(entry)?;
        Ok(true)
    }

    /// Carries out a plan as one transaction: from now on the node is run by its rules.
    ///
    /// # Errors
    /// If the plan was made for an earlier moment, leaves somebody without a place, or could not be written down.
    pub fn apply(&mut self, plan: Plan, now: Timestamp) -> Result<(), KeeperError> {
        let told = plan.told();
        let ledger = plan.into_ledger(self.generation())?;
        let entry = self.entry(now, What::Amended, told, None);
        let base = base(&ledger, &self.notes, entry.number);
        let written = self.journal.write_with(entry, Some(base));
        self.remember(&written);
        written?;
        self.ledger = ledger;
        self.shorten();
        Ok(())
    }

    fn name(&self, pod: &PodUid) -> String {
        let resident = self.ledger.state().admitted_pods().get(pod);
        resident.map_or_else(String::new, |resident| resident.pod.name.clone())
    }

    fn entry(&self, at: Timestamp, what: What, told: String, change: Option<Change>) -> Entry {
        Entry {
            number: self.journal.last().saturating_add(1),
            at,
            what,
            name: String::new(),
            told,
            change,
            note: None,
            pod: None,
            decision: None,
        }
    }

    /// Writes down what was just decided, or takes it back.
    fn write(&mut self, entry: Entry) -> Result<(), KeeperError> {
        let change = entry.change.clone();
        let written = self.write_to_journal(entry);
        self.remember(&written);
        if let Err(error) = written {
            if let Some(change) = &change {
                self.ledger
                    .undo(change)
                    .expect("the last change of a ledger can be taken back");
            }
            return Err(error.into());
        }
        self.shorten();
        Ok(())
    }

    fn write_to_journal(&mut self, entry: Entry) -> Result<(), JournalError> {
        #[cfg(test)]
        if self.disk_is_full {
            return Err(JournalError::File {
                what: "write to",
                path: self.journal.path(),
                error: std::io::ErrorKind::StorageFull.into(),
            });
        }
        self.journal.write(entry)
    }

    fn remember(&mut self, written: &Result<(), JournalError>) {
        self.unwritten = written.as_ref().err().map(ToString::to_string);
    }

    /// Shortens the journal if it is long. The change before it is on disk, so a failure is only remembered.
    fn shorten(&mut self) {
        if self.journal.is_long() {
            let base = base(&self.ledger, &self.notes, self.journal.last());
            self.unshortened = self.journal.shorten(base).err();
        }
    }
}

fn base(ledger: &Ledger, notes: &BTreeMap<PodUid, Note>, number: u64) -> Base {
    Base {
        number,
        machine: ledger.rules().machine().clone(),
        settings: ledger.rules().settings().clone(),
        state: ledger.state().clone(),
        notes: notes.clone(),
    }
}
