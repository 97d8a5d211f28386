//! [`JournaledLedger`]: a node's ledger whose every change is written to the journal.
//!
//! Each method changes the ledger in memory, writes one journal transaction and returns after the write is on disk. If
//! the write fails, the change to the ledger is undone and the method returns an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{AdmissionResult, Decision};
use pinfold_core::device::{AdvertisedDevices, NoPreference, PreferredAllocation};
use pinfold_core::ledger::{
    Admission, Change, GrantError, GrantedCpus, Ledger, LedgerError, Rules,
};
use pinfold_core::name::{ContainerName, PodUid, ResourceName};
use pinfold_core::pod::Pod;
use pinfold_render::{explain, placement};

use pinfold_journal::{
    Compaction, EntryReader, Journal, JournalEntry, JournalError, JournalEvent, JournalLimits,
    JournalPodRecord, JournalSnapshot, PinnedProcess, SpaceMaker, Timestamp, WrittenCompaction,
};

mod rules_change;

use rules_change::same;
pub use rules_change::{PodOutcome, RulesChange, RulesChangeError};

/// A node's ledger together with its journal.
#[derive(Debug)]
pub struct JournaledLedger {
    ledger: Ledger,
    records: BTreeMap<PodUid, JournalPodRecord>,
    journal: Journal,
    /// Bytes of an incomplete transaction that were cut off the journal when it was opened.
    truncated_bytes: u64,
    /// Error of the last compaction of the journal. Compaction is retried after the next change.
    compaction_error: Option<JournalError>,
    /// Whether compaction waits for [`JournaledLedger::begin_compaction`].
    defers_compaction: bool,
    /// Error of the last journal write.
    write_error: Option<String>,
    /// Makes journal writes fail as on a full disk.
    #[cfg(test)]
    disk_is_full: bool,
}

/// Errors of changing a [`JournaledLedger`]. Neither the ledger nor the journal has changed.
#[derive(Debug, thiserror::Error)]
pub enum JournaledLedgerError {
    /// The ledger rejected the request, for example because it does not hold the pod.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The CPUs that were chosen for the pod are not available.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// The journal could not be written.
    #[error("nothing was changed, because the journal could not be written: {0}")]
    Journal(#[from] JournalError),
    /// A rules change cannot be applied.
    #[error(transparent)]
    RulesChange(#[from] RulesChangeError),
}

impl JournaledLedger {
    /// Opens the journal in `folder` and rebuilds the ledger from it. A new journal starts with an empty node and
    /// `rules`. An existing journal keeps the rules that it was written with; [`JournaledLedger::plan_rules_change`] plans
    /// the change to `rules`.
    ///
    /// # Errors
    /// If the journal cannot be opened, or its entries contradict each other.
    pub fn open(
        folder: &Path,
        rules: Arc<Rules>,
        limits: JournalLimits,
    ) -> Result<Self, JournalError> {
        let (mut journal, state) = Journal::open(folder, limits)?;
        let (ledger, records, truncated_bytes) = match state {
            Some(state) => (state.ledger, state.records, state.truncated_bytes),
            None => {
                let (ledger, records) = (Ledger::new(rules), BTreeMap::new());
                journal.write_first_snapshot(snapshot(&ledger, &records, 0))?;
                (ledger, records, 0)
            }
        };
        Ok(Self {
            ledger,
            records,
            journal,
            truncated_bytes,
            compaction_error: None,
            defers_compaction: false,
            write_error: None,
            #[cfg(test)]
            disk_is_full: false,
        })
    }

    /// The ledger: the CPUs, memory and devices that each pod holds.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Records of the pods in the ledger: origin, labels and annotations, and processes pinned through the API.
    #[must_use]
    pub fn records(&self) -> &BTreeMap<PodUid, JournalPodRecord> {
        &self.records
    }

    /// Size of the journal in bytes, without preallocated space.
    #[must_use]
    pub fn journal_length(&self) -> u64 {
        self.journal.length()
    }

    /// How many times transactions were synced to disk since the journal was opened.
    #[must_use]
    pub fn journal_syncs(&self) -> u64 {
        self.journal.syncs()
    }

    /// Number of the last journal entry. It increases with every change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.journal.last_number()
    }

    /// Error of the last compaction of the journal; `None` if it succeeded. A failed compaction loses no data.
    #[must_use]
    pub fn compaction_error(&self) -> Option<&JournalError> {
        self.compaction_error.as_ref()
    }

    /// Bytes of an incomplete transaction at the end of the journal, which were moved to another file when the journal
    /// was opened. The change that they describe was never reported as done.
    #[must_use]
    pub fn truncated_bytes(&self) -> u64 {
        self.truncated_bytes
    }

    /// Error of the last journal write; `None` if it succeeded.
    #[must_use]
    pub fn write_error(&self) -> Option<&str> {
        self.write_error.as_deref()
    }

    /// Whether the journal must be reopened before it can be written again.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.journal.is_broken()
    }

    /// Makes journal writes fail as on a full disk, or succeed again.
    #[cfg(test)]
    pub(crate) fn fail_to_write(&mut self, fails: bool) {
        self.disk_is_full = fails;
    }

    /// Reads the ledger from the journal again, after a panic in the middle of a change.
    ///
    /// # Errors
    /// If the journal cannot be read; the ledger is unchanged then.
    pub fn reload(&mut self) -> Result<(), JournalError> {
        self.end_batch()?;
        let state = self.journal.reread()?;
        (self.ledger, self.records) = (state.ledger, state.records);
        Ok(())
    }

    /// At most `limit` journal entries after the one with this number, to be read later.
    ///
    /// # Errors
    /// If the journal file cannot be opened.
    pub fn entries_after(&self, number: u64, limit: usize) -> Result<EntryReader, JournalError> {
        self.journal.entries_after(number, limit)
    }

    /// The folder in which [`Journal::probe_disk`] shows whether the disk has space again; `None` if the last write
    /// succeeded, or no write can succeed any more.
    #[must_use]
    pub fn folder_to_probe(&self) -> Option<PathBuf> {
        let failed = self.write_error.is_some() && !self.is_broken();
        failed.then(|| self.journal.folder().to_owned())
    }

    /// Clears the last write error: the disk has space again.
    pub fn clear_write_error(&mut self) {
        self.write_error = None;
        self.journal.resume_preallocation();
    }

    /// Syncs the journal once for all changes until [`JournaledLedger::end_batch`]. They must have no effect before that.
    pub fn begin_batch(&mut self) {
        self.journal.begin_batch();
    }

    /// Syncs the changes since [`JournaledLedger::begin_batch`] to disk.
    ///
    /// # Errors
    /// If that fails; the journal must be reopened then.
    pub fn end_batch(&mut self) -> Result<(), JournalError> {
        let synced = self.journal.end_batch();
        if let Err(error) = &synced {
            self.write_error = Some(error.to_string());
        }
        synced
    }

    /// What preallocates space of the journal, outside of decisions; `None` if there is enough.
    ///
    /// # Errors
    /// If the journal file cannot be opened once more.
    pub fn space_maker(&self) -> Result<Option<SpaceMaker>, JournalError> {
        self.journal.space_maker()
    }

    /// Admits or rejects `pod`, and journals the decision either way.
    ///
    /// # Errors
    /// If the ledger already holds the pod, or the journal cannot be written.
    pub fn admit(
        &mut self,
        pod: &Arc<Pod>,
        record: JournalPodRecord,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, JournaledLedgerError> {
        self.admit_with_context(pod, record, "", plugins, now)
    }

    /// Admits or rejects `pod` after an earlier attempt to place it failed. `context` says why that attempt failed; the
    /// journal entry's message starts with it.
    ///
    /// # Errors
    /// If the ledger already holds the pod, or the journal cannot be written.
    pub fn admit_with_context(
        &mut self,
        pod: &Arc<Pod>,
        record: JournalPodRecord,
        context: &str,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, JournaledLedgerError> {
        let admission = self.ledger.admit(pod, plugins)?;
        self.journal_admission(pod, admission, record, context, now)
    }

    /// Admits `pod` with exactly the CPUs that a scheduler chose for it.
    ///
    /// # Errors
    /// If these CPUs are not available, which is not journaled: the caller then admits the pod without them. Or if the
    /// journal cannot be written.
    pub fn admit_with_cpus(
        &mut self,
        pod: &Arc<Pod>,
        cpus: &CpuSet,
        record: JournalPodRecord,
        plugins: &mut dyn PreferredAllocation,
        now: Timestamp,
    ) -> Result<Decision, JournaledLedgerError> {
        let admission = self.ledger.admit_with_cpus(pod, cpus, plugins)?;
        let context = format!("CPUs {cpus}, as its scheduler chose");
        self.journal_admission(pod, admission, record, &context, now)
    }

    /// Journals an admission or rejection by the ledger.
    fn journal_admission(
        &mut self,
        pod: &Arc<Pod>,
        admission: Admission,
        record: JournalPodRecord,
        context: &str,
        now: Timestamp,
    ) -> Result<Decision, JournaledLedgerError> {
        let decision = admission.decision;
        let (event, message) = match &decision.result {
            AdmissionResult::Admitted(assignment) => (
                JournalEvent::Admitted(pod.uid.clone()),
                placement::placement(assignment),
            ),
            AdmissionResult::Rejected(_) => (
                JournalEvent::Rejected(pod.uid.clone()),
                explain::one_line(&decision),
            ),
        };
        let message = match context {
            "" => message,
            context => format!("{context}; {message}"),
        };
        let facts = serde_json::to_value(&decision);
        let mut entry = self.entry(now, event, message, admission.change);
        entry.pod_name.clone_from(&pod.name);
        entry.pod = (!decision.is_admitted()).then(|| pod.clone());
        // The facts only explain the decision: failing to serialize them does not reject the pod.
        entry.decision = facts.ok();
        entry.record = decision.is_admitted().then(|| record.clone());
        self.write(entry)?;
        if decision.is_admitted() {
            self.records.insert(pod.uid.clone(), record);
        }
        Ok(decision)
    }

    /// Admits `pod` with CPUs that were chosen outside the ledger. `message` says by which component.
    ///
    /// # Errors
    /// If these CPUs are not available, or the journal cannot be written.
    pub fn grant(
        &mut self,
        pod: &Arc<Pod>,
        cpus: &GrantedCpus,
        record: JournalPodRecord,
        message: String,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let record = JournalPodRecord {
            granted: true,
            ..record
        };
        let change = self.ledger.grant(pod, cpus)?;
        let event = JournalEvent::Admitted(pod.uid.clone());
        let mut entry = self.entry(now, event, message, Some(change));
        entry.pod_name.clone_from(&pod.name);
        entry.record = Some(record.clone());
        self.write(entry)?;
        self.records.insert(pod.uid.clone(), record);
        Ok(())
    }

    /// Replaces `containers`, which were admitted one by one before the spec of their pod arrived, by the pod as a whole, in
    /// one journal transaction. Returns false and changes nothing if they would not keep exactly their CPUs.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn join_containers(
        &mut self,
        containers: &[PodUid],
        pod: &Arc<Pod>,
        record: JournalPodRecord,
        now: Timestamp,
    ) -> Result<bool, JournaledLedgerError> {
        let held = self.ledger.state().cpus().containers();
        let held = containers.iter().filter_map(|uid| held.get(uid));
        let held: GrantedCpus = held
            .flatten()
            .map(|(name, own)| (name.clone(), own.clone()))
            .collect();
        let mut cpus = CpuSet::new();
        held.values().for_each(|own| cpus |= own);
        let mut joined = self.ledger.clone();
        let mut records = self.records.clone();
        for container in containers {
            joined.release(container)?;
            records.remove(container);
        }
        // A container that runs gets no devices any more.
        let pool = self.ledger.state().pool();
        let requests = |resource: &ResourceName| {
            let mut containers = pod.all_containers();
            containers.any(|one| one.limits.contains_key(resource))
        };
        let requested = pool.resources().filter(|resource| requests(resource));
        let requested: Vec<ResourceName> = requested.cloned().collect();
        for resource in &requested {
            joined.set_devices(resource.clone(), None);
        }
        let admitted = match cpus.is_empty() {
            true => joined
                .admit(pod, &mut NoPreference)
                .map_err(GrantError::from),
            false => joined.admit_with_cpus(pod, &cpus, &mut NoPreference),
        };
        for resource in requested {
            let devices = pool.devices(&resource).cloned();
            joined.set_devices(resource, devices);
        }
        let is_admitted = admitted.is_ok_and(|admission| admission.decision.is_admitted());
        let after = joined.state().cpus();
        let keeps =
            |(name, own): (&ContainerName, &CpuSet)| after.container(&pod.uid, name) == Some(own);
        if !is_admitted || joined.exclusive_cpus(&pod.uid) != cpus || !held.iter().all(keeps) {
            return Ok(false);
        }
        records.insert(pod.uid.clone(), record.clone());
        let message = format!("CPUs {cpus}, which its containers held before its spec arrived");
        let mut entry = self.entry(now, JournalEvent::Admitted(pod.uid.clone()), message, None);
        entry.pod_name.clone_from(&pod.name);
        entry.record = Some(record);
        self.write_replaced(entry, joined, records)?;
        Ok(true)
    }

    /// Replaces the spec of a pod whose resources were changed in place, in one journal transaction. Returns false and changes
    /// nothing if the pod would not hold exactly what it holds now.
    ///
    /// # Errors
    /// If the ledger does not hold the pod, or the journal cannot be written.
    pub fn replace_spec(
        &mut self,
        pod: &Arc<Pod>,
        message: String,
        now: Timestamp,
    ) -> Result<bool, JournaledLedgerError> {
        let held = self.ledger.assignment(&pod.uid);
        let mut replaced = self.ledger.clone();
        replaced.release(&pod.uid)?;
        let admission = replaced.admit(pod, &mut NoPreference)?;
        let keeps = held.zip(replaced.assignment(&pod.uid));
        if !admission.decision.is_admitted() || !keeps.is_some_and(|(now, then)| same(&now, &then))
        {
            return Ok(false);
        }
        let mut entry = self.entry(now, JournalEvent::Admitted(pod.uid.clone()), message, None);
        entry.pod_name.clone_from(&pod.name);
        entry.record = self.records.get(&pod.uid).cloned();
        self.write_replaced(entry, replaced, self.records.clone())?;
        Ok(true)
    }

    /// Writes an entry together with a ledger and records that replace those before.
    fn write_replaced(
        &mut self,
        entry: JournalEntry,
        ledger: Ledger,
        records: BTreeMap<PodUid, JournalPodRecord>,
    ) -> Result<(), JournaledLedgerError> {
        let snapshot = snapshot(&ledger, &records, entry.number);
        let written = self.write_to_journal(entry, Some(snapshot));
        self.record_write_result(&written);
        written?;
        (self.ledger, self.records) = (ledger, records);
        self.compact_if_needed();
        Ok(())
    }

    /// Journals the rejection of a `pod` that was rejected without consulting the ledger. `message` is the reason.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn reject(
        &mut self,
        pod: &Arc<Pod>,
        message: String,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let event = JournalEvent::Rejected(pod.uid.clone());
        let mut entry = self.entry(now, event, message, None);
        entry.pod_name.clone_from(&pod.name);
        entry.pod = Some(pod.clone());
        self.write(entry)
    }

    /// Journals that best-effort pods have fewer CPUs than without the load of others, or all of them again.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn record_best_effort_limit(
        &mut self,
        message: String,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let entry = self.entry(now, JournalEvent::BestEffortLimited, message, None);
        self.write(entry)
    }

    /// Records that a control group outside the container runtime is pinned to the CPUs of a container of `pod`.
    ///
    /// # Errors
    /// If the ledger has no such pod or container, or the journal cannot be written.
    pub fn pin_cgroup(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        group: &str,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let target = format!("control group {group}");
        self.update_record(pod, container, &target, now, |record| {
            record.cgroups.insert(group.to_owned(), container.clone());
        })
    }

    /// Records that a process is pinned to the CPUs of a container of `pod`, and removes records of the pod's processes
    /// for which `alive` returns false.
    ///
    /// # Errors
    /// If the ledger has no such pod or container, or the journal cannot be written.
    pub fn pin_process(
        &mut self,
        pod: &PodUid,
        pinned: &PinnedProcess,
        alive: &dyn Fn(&PinnedProcess) -> bool,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let target = format!("process {}", pinned.process.pid);
        self.update_record(pod, &pinned.container, &target, now, |record| {
            let same = |other: &&PinnedProcess| other.process == pinned.process;
            let before = record.processes.iter().find(same);
            let mut pinned = pinned.clone();
            if let Some(before) = before {
                // It is pinned already: its affinity is the one that the agent set.
                pinned.affinity = before.affinity.clone();
            }
            let others = |other: &PinnedProcess| other.process != pinned.process && alive(other);
            record.processes.retain(others);
            record.processes.push(pinned);
        })
    }

    fn update_record(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        target: &str,
        now: Timestamp,
        update: impl FnOnce(&mut JournalPodRecord),
    ) -> Result<(), JournaledLedgerError> {
        let Some(resident) = self.ledger.state().admitted_pods().get(pod) else {
            return Err(LedgerError::NotAdmitted(pod.clone()).into());
        };
        if resident.pod.container(container).is_none() {
            let (pod, container) = (pod.clone(), container.clone());
            return Err(LedgerError::NoSuchContainer { pod, container }.into());
        }
        let before = self.records.get(pod).cloned().unwrap_or_default();
        let mut record = before.clone();
        update(&mut record);
        if record == before {
            return Ok(());
        }
        let event = JournalEvent::Pinned(pod.clone(), container.clone());
        let message = format!("{target} is pinned to the CPUs of container {container}");
        let mut entry = self.entry(now, event, message, None);
        entry.pod_name = self.pod_name(pod);
        entry.record = Some(record.clone());
        self.write(entry)?;
        self.records.insert(pod.clone(), record);
        Ok(())
    }

    /// Records that a container of `pod` started. Returns whether this released resources of init containers before it.
    ///
    /// # Errors
    /// If the ledger has no such pod or container, or the journal cannot be written.
    pub fn start_container(
        &mut self,
        pod: &PodUid,
        container: &ContainerName,
        now: Timestamp,
    ) -> Result<bool, JournaledLedgerError> {
        let pod_name = self.pod_name(pod);
        let Some(change) = self.ledger.start(pod, container)? else {
            return Ok(false);
        };
        let event = JournalEvent::ContainerStarted(pod.clone(), container.clone());
        let message = format!(
            "container {container} started; resources of init containers before it are released"
        );
        let mut entry = self.entry(now, event, message, Some(change));
        entry.pod_name = pod_name;
        self.write(entry)?;
        Ok(true)
    }

    /// Releases everything that `pod` holds.
    ///
    /// # Errors
    /// If the ledger does not hold the pod, or the journal cannot be written.
    pub fn release(&mut self, pod: &PodUid, now: Timestamp) -> Result<(), JournaledLedgerError> {
        let pod_name = self.pod_name(pod);
        let change = self.ledger.release(pod)?;
        let event = JournalEvent::Released(pod.clone());
        let mut entry = self.entry(now, event, "released".to_owned(), Some(change));
        entry.pod_name = pod_name;
        self.write(entry)?;
        self.records.remove(pod);
        Ok(())
    }

    /// Sets the devices that the plugin of `resource` advertises; `None` if the plugin has disconnected. Returns whether
    /// the ledger changed.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn set_devices(
        &mut self,
        resource: &ResourceName,
        devices: Option<AdvertisedDevices>,
        now: Timestamp,
    ) -> Result<bool, JournaledLedgerError> {
        let message = match &devices {
            Some(devices) => format!("{resource}: {} devices advertised", devices.len()),
            None => format!("{resource}: its device plugin has disconnected"),
        };
        let Some(change) = self.ledger.set_devices(resource.clone(), devices) else {
            return Ok(false);
        };
        let event = JournalEvent::DevicesChanged(resource.clone());
        let entry = self.entry(now, event, message, Some(change));
        self.write(entry)?;
        Ok(true)
    }

    /// Applies a planned rules change as one journal transaction.
    ///
    /// # Errors
    /// If the ledger has changed since the plan was made, a pod has no placement under the new rules, or the journal
    /// cannot be written.
    pub fn apply_rules_change(
        &mut self,
        change: RulesChange,
        now: Timestamp,
    ) -> Result<(), JournaledLedgerError> {
        let message = change.summary();
        let (ledger, records) = change.into_ledger(self.generation())?;
        let entry = self.entry(now, JournalEvent::RulesChanged, message, None);
        self.write_replaced(entry, ledger, records)
    }

    fn pod_name(&self, pod: &PodUid) -> String {
        let resident = self.ledger.state().admitted_pods().get(pod);
        resident.map_or_else(String::new, |resident| resident.pod.name.clone())
    }

    fn entry(
        &self,
        time: Timestamp,
        event: JournalEvent,
        message: String,
        change: Option<Change>,
    ) -> JournalEntry {
        JournalEntry {
            number: self.journal.last_number().saturating_add(1),
            time,
            event,
            pod_name: String::new(),
            message,
            change,
            record: None,
            pod: None,
            decision: None,
        }
    }

    /// Journals the change that the ledger has just made, or undoes it if the write fails.
    fn write(&mut self, entry: JournalEntry) -> Result<(), JournaledLedgerError> {
        let change = entry.change.clone();
        let written = self.write_to_journal(entry, None);
        self.record_write_result(&written);
        if let Err(error) = written {
            if let Some(change) = &change {
                self.ledger
                    .undo(change)
                    .expect("the last change of a ledger can be undone");
            }
            return Err(error.into());
        }
        self.compact_if_needed();
        Ok(())
    }

    fn write_to_journal(
        &mut self,
        entry: JournalEntry,
        snapshot: Option<JournalSnapshot>,
    ) -> Result<(), JournalError> {
        #[cfg(test)]
        if self.disk_is_full {
            return Err(JournalError::File {
                operation: "write to",
                path: self.journal.path(),
                error: std::io::ErrorKind::StorageFull.into(),
            });
        }
        self.journal.write_with_snapshot(entry, snapshot)
    }

    fn record_write_result(&mut self, written: &Result<(), JournalError>) {
        self.write_error = written.as_ref().err().map(ToString::to_string);
    }

    /// Leaves compaction to [`JournaledLedger::begin_compaction`]: the runtime waits while a decision is journaled.
    pub fn defer_compaction(&mut self) {
        self.defers_compaction = true;
    }

    /// Compacts the journal after a change, unless that is deferred.
    fn compact_if_needed(&mut self) {
        if !self.defers_compaction {
            self.compact();
        }
    }

    /// Compacts the journal if it exceeds its limits. All changes are on disk already, so a failure is only recorded.
    fn compact(&mut self) {
        if let Some(compaction) = self.begin_compaction() {
            let written = compaction.and_then(Compaction::write);
            self.finish_compaction(written);
        }
    }

    /// Begins a compaction if the journal exceeds its limits. The caller writes it, which takes long and needs no access to
    /// the ledger, and passes it to [`JournaledLedger::finish_compaction`].
    #[must_use]
    pub fn begin_compaction(&self) -> Option<Result<Compaction, JournalError>> {
        if !self.journal.needs_compaction() {
            return None;
        }
        let snapshot = snapshot(&self.ledger, &self.records, self.journal.last_number());
        Some(self.journal.begin_compaction(snapshot))
    }

    /// Replaces the journal by the compacted one. A failure loses no data and is recorded; after some the journal cannot be
    /// written any more.
    pub fn finish_compaction(&mut self, written: Result<WrittenCompaction, JournalError>) {
        let finished = written.and_then(|new| self.journal.finish_compaction(new));
        if let Err(error) = &finished
            && self.is_broken()
        {
            self.write_error = Some(error.to_string());
        }
        self.compaction_error = finished.err();
    }
}

fn snapshot(
    ledger: &Ledger,
    records: &BTreeMap<PodUid, JournalPodRecord>,
    number: u64,
) -> JournalSnapshot {
    JournalSnapshot {
        number,
        machine: ledger.rules().machine().clone(),
        settings: ledger.rules().settings().clone(),
        state: ledger.state().clone(),
        records: records.clone(),
    }
}
