//! [`JournalNode`] and [`AgentNode`]: one node at any moment of its journal.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pinfold_agent_api::{AgentStatus, DriftStatus, JournalPage};
use pinfold_core::decision::Assignment;
use pinfold_core::ledger::Ledger;
use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_journal::{JournalEntry, JournalEvent, Timestamp};
use pinfold_page::{ApiRequest, ApiResponse, PageApi};
use pinfold_render::layout::MachineLayout;
use pinfold_render::svg::{self, Caption};
use serde::Deserialize;
use serde_json::{Value, json};

use super::pool_load::PoolLoad;
use super::timeline::{Known, Moment, Note, Timeline, pod_of};
use crate::agent_client::{AgentClient, RequestError};
use crate::exit::Failure;
use crate::{input, journal_replay, node};

/// The shortest time between two requests to the agent.
const REFRESH: Duration = Duration::from_millis(250);
/// The longest time that the agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most entries that are kept of an agent. Beyond, its journal is read again, which is shorter.
const MOST_ENTRIES: usize = 200_000;
/// The most pages of entries that are read at a time.
const MOST_PAGES: usize = 400;

/// What is known of a node.
struct NodeRecord {
    name: String,
    machine: Machine,
    /// The occupancy now.
    now: Occupancy,
    entries: Vec<JournalEntry>,
    timeline: Timeline,
    /// Counts how often the timeline was begun again. What a page knows of another one is worth nothing.
    epoch: u64,
    /// The agent's status; none for a journal.
    status: Option<AgentStatus>,
    /// How busy the shared pool is; nothing for a journal.
    load: PoolLoad,
}

impl NodeRecord {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        let number = |name| {
            request
                .parameter(name)
                .and_then(|text| text.parse::<u64>().ok())
        };
        match request.path {
            "info" => ApiResponse::json(&json!({
                "mode": "node",
                "version": env!("CARGO_PKG_VERSION"),
                "picture_style": svg::style_sheet(),
                "node": self.name,
                "live": self.status.is_some(),
                "lanes": lanes(&self.machine),
            })),
            "timeline" => {
                let known = Known {
                    entry: number("after").unwrap_or(0),
                    pods: number("pods")
                        .and_then(|pods| usize::try_from(pods).ok())
                        .unwrap_or(0),
                    revision: number("revision").unwrap_or(0),
                };
                let known = known.of(number("epoch") == Some(self.epoch));
                let mut news = self.timeline.after(known);
                if let Some(fields) = news.as_object_mut() {
                    fields.insert("epoch".to_owned(), self.epoch.into());
                }
                ApiResponse::json(&news)
            }
            "node" => ApiResponse::json(&self.at(number("entry"))),
            "entry" => match number("number").and_then(|number| self.entry(number)) {
                Some(entry) => ApiResponse::json(entry),
                None => ApiResponse::error(404, "the journal has no such entry any more"),
            },
            _ => ApiResponse::not_found(),
        }
    }

    fn entry(&self, number: u64) -> Option<&JournalEntry> {
        let found = self
            .entries
            .binary_search_by_key(&number, |entry| entry.number);
        found.ok().and_then(|index| self.entries.get(index))
    }

    /// The picture after an entry, or now.
    fn at(&self, entry: Option<u64>) -> Value {
        let past = entry.map(|entry| self.timeline.occupancy(entry, &self.machine, &self.now));
        let occupancy = past.as_ref().unwrap_or(&self.now);
        let subtitle = match (entry, &self.status) {
            (Some(entry), _) => format!("after journal entry {entry}"),
            (None, Some(status)) => format!(
                "now, mode {}, topology {} per {}",
                status.mode, status.topology_policy, status.topology_scope
            ),
            (None, None) => "after the last journal entry".to_owned(),
        };
        let caption = Caption {
            title: &self.name,
            subtitle: &subtitle,
            distances: None,
        };
        let layout = MachineLayout::new(&self.machine, occupancy);
        json!({
            "picture": svg::draw(&layout, occupancy, caption),
            "occupancy": occupancy,
            "status": self.status.as_ref().map(|status| json!({
                "mode": status.mode,
                "problems": status.problems,
                "runtime_connected": status.runtime_connected,
                "generation": status.generation,
                "drift": status.drift,
                "best_effort_cpus": status.best_effort_cpus,
            })),
            "load": entry.is_none().then_some(self.load.measured()).flatten(),
        })
    }
}

/// The CPUs in the order of lanes, each with its NUMA node, L3 cache and core.
fn lanes(machine: &Machine) -> Vec<Value> {
    let empty = Occupancy::default();
    let layout = MachineLayout::new(machine, &empty);
    let mut lanes = Vec::new();
    for node in &layout.nodes {
        for (index, cache) in node.caches.iter().enumerate() {
            let cache_id = cache.id.map_or(index, |id| id as usize);
            for core in &cache.cores {
                for cpu in &core.cpus {
                    lanes.push(json!([cpu.id, node.id, cache_id, core.id]));
                }
            }
        }
    }
    lanes
}

/// The node of a journal file.
pub(crate) struct JournalNode(NodeRecord);

impl JournalNode {
    /// Reads a journal once.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let history = journal_replay::history(path)?;
        let bad = |error: &dyn std::fmt::Display| {
            Failure::BadInput(format!("{}: {error}", path.display()))
        };
        let mut ledger = history.ledger(path).map_err(|error| bad(&error))?;
        let (machine, now) = (ledger.rules().machine().clone(), ledger.occupancy());
        let mut first = history.entries.len();
        for (index, entry) in history.entries.iter().enumerate().rev() {
            let undone = entry.change.as_ref().map(|change| ledger.undo(change));
            if undone.is_some_and(|undone| undone.is_err()) {
                break;
            }
            first = index;
        }
        let mut timeline = Timeline::default();
        let (before, entries) = history.entries.split_at(first);
        before.iter().for_each(|entry| timeline.mark(entry));
        let begin = before.last().or(entries.first()).map(Moment::of);
        let begin = begin.map(|begin| Moment {
            entry: begin.entry.saturating_sub(u64::from(before.is_empty())),
            ..begin
        });
        all(&mut timeline, &ledger, begin.unwrap_or_default());
        for entry in entries {
            timeline.mark(entry);
            if let Some(change) = &entry.change {
                ledger.apply(change).map_err(|error| bad(&error))?;
            }
            let at = Moment::of(entry);
            match (&entry.event, pod_of(&entry.event)) {
                (JournalEvent::Rejected(_), _) => {}
                (_, Some(uid)) => {
                    timeline.set(uid, &entry.pod_name, at, ledger.assignment(uid));
                }
                (_, None) => all(&mut timeline, &ledger, at),
            }
        }
        Ok(Self(NodeRecord {
            name: short_name(path),
            machine: Machine::clone(&machine),
            now,
            entries: history.entries,
            timeline,
            epoch: 1,
            status: None,
            load: PoolLoad::default(),
        }))
    }
}

/// The file and its folder: `pinfold/journal`.
fn short_name(path: &Path) -> String {
    let parts: Vec<_> = path.components().rev().take(2).collect();
    let short: PathBuf = parts.into_iter().rev().collect();
    short.display().to_string()
}

/// Records what every pod of a ledger holds.
fn all(timeline: &mut Timeline, ledger: &Ledger, at: Moment) {
    for uid in timeline.holders() {
        if ledger.assignment(&uid).is_none() {
            timeline.set(&uid, "", at, None);
        }
    }
    for admitted in ledger.admitted_pods() {
        let uid = &admitted.pod.uid;
        timeline.set(uid, &admitted.pod.name, at, ledger.assignment(uid));
    }
}

impl PageApi for JournalNode {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        self.0.answer(request)
    }
}

/// The node of a running agent.
pub(crate) struct AgentNode {
    agent: AgentClient,
    record: Mutex<AgentRecord>,
}

struct AgentRecord {
    node: NodeRecord,
    /// Counts changes.
    generation: u64,
    refreshed: Instant,
    /// Why the agent does not answer.
    failure: Option<String>,
}

impl AgentNode {
    /// Asks the agent once, and reads the machine, which is this one.
    pub(crate) fn open(agent: AgentClient) -> Result<Self, Failure> {
        let agent = agent.within(PATIENCE);
        let status: AgentStatus = agent.get("/v1/status")?;
        let machine = node::kubelet_machine(&input::hardware("this")?)?;
        let mut record = AgentRecord {
            node: NodeRecord {
                name: status.node.clone(),
                machine,
                now: status.occupancy.clone(),
                entries: Vec::new(),
                timeline: Timeline::default(),
                epoch: 1,
                status: Some(status),
                load: PoolLoad::default(),
            },
            generation: 1,
            refreshed: Instant::now(),
            failure: None,
        };
        record.read_entries(&agent)?;
        Ok(Self {
            agent,
            record: Mutex::new(record),
        })
    }

    /// The record, asked for again if it is old.
    fn fresh<T>(&self, read: impl FnOnce(&AgentRecord) -> T) -> T {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.refreshed.elapsed() >= REFRESH {
            record.refresh(&self.agent);
            record.refreshed = Instant::now();
        }
        read(&record)
    }
}

impl AgentRecord {
    fn refresh(&mut self, agent: &AgentClient) {
        let failure = match self.read(agent) {
            Ok(changed) => {
                self.generation += u64::from(changed);
                None
            }
            Err(error) => Some(Failure::from(error).to_string()),
        };
        self.generation += u64::from(failure != self.failure);
        self.failure = failure;
    }

    /// Reads what is new; false if nothing is.
    fn read(&mut self, agent: &AgentClient) -> Result<bool, RequestError> {
        let status: AgentStatus = agent.get("/v1/status")?;
        let is_busier = self.node.load.measure(&status.occupancy.shared);
        if self.node.status.as_ref() == Some(&status) && self.failure.is_none() {
            return Ok(is_busier);
        }
        let time = Timestamp::now().as_millisecond();
        let known = self.node.status.as_ref().and_then(|status| status.drift);
        let has_drifted = |now: DriftStatus| {
            let known = known.unwrap_or(now);
            now.repaired > known.repaired || now.drifted_containers > known.drifted_containers
        };
        if status.drift.is_some_and(has_drifted) {
            self.node.timeline.note(Note::Drift, time);
        }
        let last = self.node.entries.last().map_or(0, |entry| entry.number);
        // The state of an agent may be deleted, after which its journal begins again.
        if status.generation < last || self.node.entries.len() > MOST_ENTRIES {
            self.node.entries.clear();
            self.node.timeline = Timeline::default();
            self.node.epoch += 1;
        }
        self.node.now.clone_from(&status.occupancy);
        self.node.status = Some(status);
        self.read_entries(agent)?;
        if self.failure.is_some() {
            self.node.timeline.note(Note::Back, time);
        }
        Ok(true)
    }

    fn read_entries(&mut self, agent: &AgentClient) -> Result<(), RequestError> {
        let node = &mut self.node;
        for _ in 0..MOST_PAGES {
            let last = node.entries.last().map_or(0, |entry| entry.number);
            let page: JournalPage = agent.get(&format!("/v1/journal?after={last}"))?;
            // Numbers ascend: whatever else the agent sends would be read without end.
            let new = page.entries.into_iter().filter(|one| one.number > last);
            let before = node.entries.len();
            for entry in new {
                node.timeline.mark(&entry);
                follow(&mut node.timeline, &entry);
                node.entries.push(entry);
            }
            if node.entries.len() == before {
                break;
            }
        }
        let time = Timestamp::now().as_millisecond();
        node.timeline.reconcile(&node.now, time);
        Ok(())
    }
}

/// What an entry of an agent says about its pod, from its decision.
fn follow(timeline: &mut Timeline, entry: &JournalEntry) {
    let at = Moment::of(entry);
    match &entry.event {
        JournalEvent::Admitted(uid) => {
            let decision = entry.decision.as_ref();
            let admitted = decision.and_then(|decision| decision.pointer("/result/admitted"));
            let held = admitted.and_then(|held| Assignment::deserialize(held).ok());
            timeline.set(uid, &entry.pod_name, at, held);
        }
        JournalEvent::Released(uid) => timeline.set(uid, &entry.pod_name, at, None),
        _ => {}
    }
}

impl PageApi for AgentNode {
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse {
        self.fresh(|record| match &record.failure {
            Some(failure) if request.path != "info" => ApiResponse::error(502, failure),
            _ => record.node.answer(request),
        })
    }

    fn generation(&self) -> Option<u64> {
        Some(self.fresh(|record| record.generation))
    }
}
