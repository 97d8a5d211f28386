//! [`Timeline`]: which container held what from which journal entry to which, and a mark for every entry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::decision::{Assignment, ContainerAssignment};
use pinfold_core::device::DevicesByResource;
use pinfold_core::hint::Hint;
use pinfold_core::machine::Machine;
use pinfold_core::memory::MemoryBlock;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::occupancy::{DeviceUse, HeldMemory, Holder, MemoryRow, Occupancy};
use pinfold_journal::{JournalEntry, JournalEvent};
use serde::Serialize;
use serde_json::{Value, json};

/// The spans and marks of a journal.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pods: Vec<String>,
    marks: Vec<Mark>,
    spans: Vec<Span>,
    /// The open spans of each pod that holds something, and its index in `pods`.
    open: BTreeMap<PodUid, (usize, Vec<usize>)>,
    /// Containers that started and whose pods were not released since.
    started: BTreeSet<(PodUid, ContainerName)>,
    /// Counts the changes of spans.
    revision: u64,
    /// Whether the state of a running agent was compared.
    is_reconciled: bool,
    /// What the page saw of a running agent that is no entry of its journal, each with its revision.
    notes: VecDeque<(u64, i64, Note)>,
}

/// What is no entry of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Note {
    /// A control group differed from the journal.
    Drift,
    /// The agent answered again after it did not.
    Back,
}

/// The most notes that are kept.
const MOST_NOTES: usize = 1000;

/// What a page knows of a timeline already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The number of the last entry.
    pub(super) entry: u64,
    /// The number of pods.
    pub(super) pods: usize,
    /// The revision of the spans.
    pub(super) revision: u64,
}

impl Known {
    /// The same of this timeline; nothing if it is about another one.
    pub(super) fn of(self, is_this: bool) -> Self {
        match is_this {
            true => self,
            false => Self::default(),
        }
    }
}

/// One entry: its number, the time in milliseconds, the event, and the pod if there is one.
#[derive(Clone, Copy, Debug, Serialize)]
struct Mark(u64, i64, u8, Option<usize>);

/// A moment: the number of an entry and its time in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    pub(super) entry: u64,
    pub(super) time: i64,
}

/// What one container held without a change.
#[derive(Debug)]
struct Span {
    pod: usize,
    held: ContainerAssignment,
    from: Moment,
    to: Option<Moment>,
    /// The revision of the timeline since which the span is so.
    revision: u64,
}

/// The names of the events, by the numbers in marks.
const EVENTS: [&str; 9] = [
    "admitted",
    "rejected",
    "started",
    "pinned",
    "released",
    "devices",
    "settings",
    "limited",
    "restarted",
];
/// The uid of a pod of which only the name is known.
const NAMED: &str = "name:";

impl Moment {
    pub(super) fn of(entry: &JournalEntry) -> Self {
        Self {
            entry: entry.number,
            time: entry.time.as_millisecond(),
        }
    }
}

impl Timeline {
    /// Records an entry.
    pub(super) fn mark(&mut self, entry: &JournalEntry) {
        if let JournalEvent::Released(uid) = &entry.event {
            self.started.retain(|(own, _)| own != uid);
        }
        let event = match &entry.event {
            JournalEvent::Admitted(_) => 0,
            JournalEvent::Rejected(_) => 1,
            JournalEvent::ContainerStarted(uid, container) => {
                match self.started.insert((uid.clone(), container.clone())) {
                    true => 2,
                    false => 8,
                }
            }
            JournalEvent::Pinned(..) => 3,
            JournalEvent::Released(_) => 4,
            JournalEvent::DevicesChanged(_) => 5,
            JournalEvent::RulesChanged => 6,
            JournalEvent::BestEffortLimited => 7,
        };
        let known = pod_of(&entry.event).and_then(|uid| self.open.get(uid));
        let pod = match (known, entry.pod_name.as_str()) {
            (Some((pod, _)), _) => Some(*pod),
            (None, "") => None,
            (None, name) => Some(self.pod(name)),
        };
        let at = Moment::of(entry);
        self.marks.push(Mark(at.entry, at.time, event, pod));
    }

    /// Records what is no entry of the journal, at a time in milliseconds.
    pub(super) fn note(&mut self, note: Note, time: i64) {
        self.revision += 1;
        if self.notes.len() >= MOST_NOTES {
            self.notes.pop_front();
        }
        self.notes.push_back((self.revision, time, note));
    }

    fn pod(&mut self, name: &str) -> usize {
        if self.pods.last().is_none_or(|last| last != name) {
            self.pods.push(name.to_owned());
        }
        self.pods.len() - 1
    }

    /// What a pod holds from a moment on; `None` if nothing any more.
    pub(super) fn set(&mut self, uid: &PodUid, name: &str, at: Moment, held: Option<Assignment>) {
        self.revision += 1;
        let (pod, before) = self.open.remove(uid).unwrap_or((usize::MAX, Vec::new()));
        let mut containers = held.map_or_else(Vec::new, |held| held.containers);
        let mut kept = Vec::new();
        for index in before {
            let Some(span) = self.spans.get_mut(index) else {
                continue;
            };
            match containers.iter().position(|one| *one == span.held) {
                Some(same) => {
                    containers.swap_remove(same);
                    kept.push(index);
                }
                None => (span.to, span.revision) = (Some(at), self.revision),
            }
        }
        if containers.is_empty() && kept.is_empty() {
            return;
        }
        let pod = match pod {
            usize::MAX => self.pod(name),
            known => known,
        };
        for held in containers {
            kept.push(self.spans.len());
            self.spans.push(Span {
                pod,
                held,
                from: at,
                to: None,
                revision: self.revision,
            });
        }
        self.open.insert(uid.clone(), (pod, kept));
    }

    /// The uids of the pods that hold something now.
    pub(super) fn holders(&self) -> Vec<PodUid> {
        self.open.keys().cloned().collect()
    }

    /// Adds what the agent says now and its journal does not: pods that were admitted before its first entry, and CPUs
    /// that changed with the settings. `time` is now, in milliseconds.
    pub(super) fn reconcile(&mut self, now: &Occupancy, time: i64) {
        let first = self
            .marks
            .first()
            .map(|mark| (mark.0.saturating_sub(1), mark.1));
        let (entry, began) = first.unwrap_or((0, time));
        let mut first = Moment { entry, time: began };
        let entry = self.marks.last().map_or(0, |mark| mark.0);
        let last = Moment { entry, time };
        // A pod that was not there the last time came since.
        if std::mem::replace(&mut self.is_reconciled, true) {
            first = last;
        }
        let mut known: BTreeMap<&str, (PodUid, CpuSet)> = BTreeMap::new();
        for (uid, (pod, spans)) in &self.open {
            let held = spans.iter().filter_map(|index| self.spans.get(*index));
            let mut cpus = CpuSet::new();
            held.filter_map(|span| span.held.cpus.as_ref())
                .for_each(|own| cpus |= own);
            let name = self.pods.get(*pod).map_or("", String::as_str);
            known.insert(name, (uid.clone(), cpus));
        }
        let mut changes = Vec::new();
        for (index, holder) in now.holders.iter().enumerate() {
            match known.remove(holder.name.as_str()) {
                Some((_, cpus)) if cpus == holder.cpus => {}
                Some((uid, _)) => changes.push((uid, Some((index, holder)), last)),
                None => {
                    let uid = format!("{NAMED}{}", holder.name).into();
                    changes.push((uid, Some((index, holder)), first));
                }
            }
        }
        let gone = known.into_values().map(|(uid, _)| uid);
        let gone = gone.filter(|uid| uid.as_str().starts_with(NAMED));
        changes.extend(gone.map(|uid| (uid, None, last)));
        for (uid, holder, at) in changes {
            let name = holder.map_or("", |(_, holder)| holder.name.as_str());
            let held = holder.map(|(index, holder)| held_now(index, holder, now));
            self.set(&uid, name, at, held);
        }
    }

    /// What a page does not know yet: entries, pods, and the spans that began or ended, each behind its index.
    pub(super) fn after(&self, known: Known) -> Value {
        let first = self.marks.partition_point(|mark| mark.0 <= known.entry);
        let spans = self.spans.iter().enumerate();
        let spans = spans
            .filter(|(_, span)| span.revision > known.revision)
            .map(|(index, span)| {
                let cpus = span.held.cpus.as_ref().map(CpuSet::to_string);
                let (from, to) = (span.from, span.to.map(|to| to.time));
                json!([
                    index,
                    span.pod,
                    span.held.name,
                    cpus,
                    from.time,
                    to,
                    from.entry
                ])
            });
        let notes = self.notes.iter();
        let notes = notes.filter(|(revision, ..)| *revision > known.revision);
        let notes: Vec<_> = notes.map(|(_, time, note)| (time, note)).collect();
        json!({
            "events": EVENTS,
            "notes": notes,
            "revision": self.revision,
            "first_pod": known.pods.min(self.pods.len()),
            "pods": self.pods.get(known.pods..).unwrap_or_default(),
            "entries": self.marks.get(first..).unwrap_or_default(),
            "spans": spans.collect::<Vec<_>>(),
        })
    }

    /// The occupancy after an entry. What no entry changes is as in `base`.
    pub(super) fn occupancy(&self, entry: u64, machine: &Machine, base: &Occupancy) -> Occupancy {
        let is_there =
            |span: &&Span| span.from.entry <= entry && span.to.is_none_or(|to| to.entry > entry);
        let mut by_pod: BTreeMap<usize, Holder> = BTreeMap::new();
        let mut devices: Vec<DeviceUse> = base.devices.clone();
        let mut holder_of_device = BTreeMap::new();
        for span in self.spans.iter().filter(is_there) {
            let holder = by_pod.entry(span.pod).or_default();
            holder
                .name
                .clone_from(self.pods.get(span.pod).unwrap_or(&String::new()));
            if let Some(cpus) = &span.held.cpus {
                holder.cpus |= cpus;
            }
            for block in span
                .held
                .memory
                .iter()
                .flatten()
                .filter(|block| block.size > 0)
            {
                holder.memory.push(HeldMemory {
                    nodes: block.nodes,
                    resource: block.resource.clone(),
                    bytes: block.size,
                });
            }
            for (resource, ids) in &span.held.devices {
                for id in ids {
                    holder_of_device.insert((resource.clone(), id.to_string()), span.pod);
                }
            }
        }
        let (exclusive, shared_only): (Vec<_>, Vec<_>) =
            by_pod.into_iter().partition(|(pod, holder)| {
                let has_devices = holder_of_device.values().any(|owner| owner == pod);
                !holder.cpus.is_empty() || !holder.memory.is_empty() || has_devices
            });
        let order: Vec<usize> = exclusive.iter().map(|(pod, _)| *pod).collect();
        let holders: Vec<Holder> = exclusive.into_iter().map(|(_, holder)| holder).collect();
        // CPUs that are reserved strictly are not in the shared pool.
        let mut shared = machine.online() - &(&base.reserved - &base.shared);
        holders
            .iter()
            .for_each(|holder| shared = &shared - &holder.cpus);
        for device in &mut devices {
            let owner = holder_of_device.get(&(device.resource.clone(), device.id.clone()));
            device.holder = owner.and_then(|pod| order.iter().position(|own| own == pod));
        }
        Occupancy {
            memory: base
                .memory
                .iter()
                .map(|row| free_memory(row, &holders))
                .collect(),
            shared_only_pods: shared_only.len(),
            reserved: base.reserved.clone(),
            shared,
            devices,
            holders,
        }
    }
}

/// What a pod of an occupancy holds, as one container without a name.
fn held_now(index: usize, holder: &Holder, now: &Occupancy) -> Assignment {
    let memory = holder.memory.iter().map(|held| MemoryBlock {
        resource: held.resource.clone(),
        size: held.bytes,
        nodes: held.nodes,
    });
    let mut devices = DevicesByResource::new();
    for device in now.devices.iter().filter(|one| one.holder == Some(index)) {
        let ids = devices.entry(device.resource.clone()).or_default();
        ids.insert(device.id.as_str().into());
    }
    Assignment {
        containers: vec![ContainerAssignment {
            name: "".into(),
            affinity: Hint {
                mask: None,
                preferred: false,
            },
            cpus: Some(holder.cpus.clone()).filter(|cpus| !cpus.is_empty()),
            memory: Some(memory.collect()),
            devices,
        }],
    }
}

/// A row of memory with what these pods leave of it. A block of several NUMA nodes counts in equal parts.
fn free_memory(row: &MemoryRow, holders: &[Holder]) -> MemoryRow {
    let blocks = holders.iter().flat_map(|holder| &holder.memory);
    let here = blocks.filter(|held| held.resource == row.resource && held.nodes.contains(row.node));
    let held = here.map(|held| held.bytes / (held.nodes.len() as u64).max(1));
    let held = held.fold(0, u64::saturating_add);
    MemoryRow {
        free: row.allocatable.saturating_sub(held),
        ..row.clone()
    }
}

/// The pod of an event.
pub(super) fn pod_of(event: &JournalEvent) -> Option<&PodUid> {
    match event {
        JournalEvent::Admitted(uid)
        | JournalEvent::Rejected(uid)
        | JournalEvent::Released(uid)
        | JournalEvent::ContainerStarted(uid, _)
        | JournalEvent::Pinned(uid, _) => Some(uid),
        JournalEvent::DevicesChanged(_)
        | JournalEvent::RulesChanged
        | JournalEvent::BestEffortLimited => None,
    }
}

#[cfg(test)]
mod tests;
