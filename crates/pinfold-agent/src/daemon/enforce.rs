//! What containers may use, told to the runtime and written to control groups.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nri::Handle;
use pinfold_cgroup::{CpuTime, GroupPath, Hierarchy};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::name::ContainerId;
use pinfold_kube::state::CpuManagerState;
use pinfold_standalone::confine_process;

use super::partitions::Partitions;
use super::witness::Told;
use crate::allowance::{Allowance, Quota};
use crate::config::{CgroupsConfig, DirectWrites};
use crate::drift::{self, Culprit, Evidence, Outcome, Patience, Spec, Watch, Watched, Who};
use crate::metrics::catalogue;
use crate::node::{Guest, Node, Update};
use crate::runtime::{self, lock};
use pinfold_journal::PinnedProcess;

/// Tells the runtime and the control groups.
pub(super) struct Enforcer {
    pub(super) node: Arc<Mutex<Node>>,
    pub(super) handle: Option<Handle>,
    /// `None` if control groups are not to be written, or there are none.
    pub(super) hierarchy: Option<Hierarchy>,
    pub(super) config: Mutex<CgroupsConfig>,
    pub(super) partitions: Partitions,
    pub(super) told: Arc<Told>,
    /// Whoever writes: nobody is repaired while others are told.
    pub(super) writing: Mutex<()>,
}

/// The number of the last thing that every container had been told at the last look.
pub(super) type Tellings = BTreeMap<ContainerId, u64>;

impl Enforcer {
    /// Control groups as configured.
    pub(super) fn hierarchy(config: &CgroupsConfig, told: &Told) -> Option<Hierarchy> {
        if config.direct_writes == DirectWrites::Never {
            return None;
        }
        match Hierarchy::find(Path::new("/")) {
            Ok(hierarchy) => Some(hierarchy),
            Err(error) => {
                told.problem("cgroups", Some(error.to_string()));
                None
            }
        }
    }

    /// What is configured now.
    pub(super) fn config(&self) -> CgroupsConfig {
        let config = self.config.lock();
        config.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this is configured.
    pub(super) fn reconfigure(&self, new: CgroupsConfig) {
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Tells whatever comes, until nobody can have anything to tell any more.
    pub(super) fn run(&self, updates: &Receiver<Vec<Update>>) {
        while let Ok(first) = updates.recv() {
            // Only the last word on each container counts.
            let mut latest: BTreeMap<String, Allowance> = BTreeMap::new();
            for update in first.into_iter().chain(updates.try_iter().flatten()) {
                latest.insert(update.container, update.allowance);
            }
            let updates = latest.into_iter().map(|(container, allowance)| Update {
                container,
                allowance,
            });
            self.tell(&updates.collect::<Vec<_>>());
            self.part();
        }
    }

    /// Makes partitions of CPUs that are somebody's own, if that is wanted.
    fn part(&self) {
        let wanted = self.partitions.wanted(&lock(&self.node));
        if let Some(hierarchy) = &self.hierarchy {
            self.partitions.enforce(hierarchy, &wanted, &self.told);
        }
    }

    /// Tells the runtime, and the control groups what the runtime cannot be told.
    fn tell(&self, updates: &[Update]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let (outside, inside): (Vec<&Update>, Vec<&Update>) =
            updates.iter().partition(|update| update.is_outside());
        let failed = self.tell_runtime(&inside);
        let direct = self.config().direct_writes;
        let directly = |update: &&Update| {
            direct == DirectWrites::Always
                || failed.contains(&update.container)
                || update.allowance.quota == Quota::Lifted
        };
        let inside = inside.into_iter().filter(directly);
        for update in inside.chain(outside) {
            let (process, group) = {
                let node = lock(&self.node);
                let guest = node.guests().find(|guest| guest.id == update.container);
                let process = guest.and_then(Guest::process).cloned();
                (process, guest.and_then(group_of))
            };
            if let Some(process) = process {
                self.confine(&process, &update.allowance);
            } else if let Some(group) = group {
                self.write(&group, &update.allowance);
            }
        }
    }

    /// Keeps a process to what it may use, unless it has ended.
    fn confine(&self, held: &PinnedProcess, allowance: &Allowance) {
        if !held.is_alive() {
            return;
        }
        let confined = confine_process(held.process, &allowance.cpus);
        if let Err(error) = confined
            && held.is_alive()
        {
            self.told.log.warn("not-written", &[("why", &error)]);
        }
    }

    /// Keeps all processes to what they may use, whoever changed that meanwhile.
    fn confine_all(&self) {
        let held: Vec<(PinnedProcess, Allowance)> = {
            let node = lock(&self.node);
            let held = node.guests();
            let held = held.filter_map(|guest| Some((guest.process()?, guest.told()?)));
            held.map(|(held, told)| (held.clone(), told.clone()))
                .collect()
        };
        for (held, allowance) in held {
            self.confine(&held, &allowance);
        }
    }

    /// The containers that the runtime could not be told about.
    fn tell_runtime(&self, updates: &[&Update]) -> Vec<String> {
        if updates.is_empty() {
            return Vec::new();
        }
        let wanted = updates.iter().map(|one| runtime::update(one)).collect();
        let outcome = self
            .handle
            .as_ref()
            .map(|all| all.update_containers(wanted));
        match outcome {
            Some(Ok(failed)) => failed.into_iter().map(|one| one.container_id).collect(),
            Some(Err(error)) => {
                let count = updates.len();
                let about = [
                    ("containers", &count as &dyn std::fmt::Display),
                    ("why", &error),
                ];
                self.told.log.warn("not-updated", &about);
                updates.iter().map(|one| one.container.clone()).collect()
            }
            None => updates.iter().map(|one| one.container.clone()).collect(),
        }
    }

    fn write(&self, group: &GroupPath, allowance: &Allowance) {
        let Some(hierarchy) = &self.hierarchy else {
            return;
        };
        let online = lock(&self.node)
            .journaled()
            .ledger()
            .rules()
            .machine()
            .online()
            .clone();
        let migrate = Some(self.config().migrate_memory);
        match drift::enforce(hierarchy, group, allowance, &online, migrate) {
            Ok(_) => {}
            Err(error) if error.is_vanished() => {}
            Err(error) => self.told.log.warn("not-written", &[("why", &error)]),
        }
    }

    /// Looks at every container, and repairs what drifted. Whoever was told something else since the last
    /// look has time until the next one: runtimes carry out what they are told after they were told.
    pub(super) fn round(
        &self,
        watch: &mut Watch,
        before: &mut Tellings,
        kubelet: Option<CpuManagerState>,
    ) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.confine_all();
        let Some(hierarchy) = &self.hierarchy else {
            return;
        };
        self.part();
        let (containers, changes, online) = {
            let node = lock(&self.node);
            let containers: Vec<Watched> = node.guests().filter_map(watched).collect();
            let changes = node
                .guests()
                .map(|guest| (guest.id.as_str().into(), guest.changes()));
            let online: CpuSet = node.journaled().ledger().rules().machine().online().clone();
            (containers, changes.collect::<Tellings>(), online)
        };
        let evidence = Evidence { online, kubelet };
        let counted = Culprit::ALL.map(|culprit| watch.tally(culprit).drifted);
        let is_settled = |watched: &Watched| {
            let node = lock(&self.node);
            let mut guests = node.guests();
            let guest = guests.find(|guest| *guest.id == *watched.who.id.as_str());
            let last = guest.map(Guest::changes).filter(|&number| number > 0);
            last.is_some() && last == before.get(&watched.who.id).copied()
        };
        let now = Instant::now();
        let round = watch.round_of(hierarchy, &containers, &evidence, now, &is_settled);
        *before = changes;
        let metrics = &self.told.metrics;
        for (culprit, counted) in Culprit::ALL.into_iter().zip(counted) {
            let more = watch.tally(culprit).drifted.saturating_sub(counted);
            metrics.add(&catalogue::DRIFT, &[culprit.word()], more);
        }
        let lasting = round.drifts.iter();
        let lasting = lasting.filter(|(_, outcome)| !matches!(outcome, Outcome::Repaired));
        let lasting = u32::try_from(lasting.count()).unwrap_or(u32::MAX);
        metrics.set(&catalogue::DRIFTED, &[], f64::from(lasting));
        for (drift, outcome) in &round.drifts {
            let outcome = match outcome {
                Outcome::Repaired => "repaired".to_owned(),
                Outcome::HeldBack(_) => "left alone for a while".to_owned(),
                Outcome::Beyond => "nothing to be done".to_owned(),
                Outcome::Failed(error) => format!("not repaired: {error}"),
                Outcome::Ended => "it ended meanwhile".to_owned(),
            };
            let about = [
                ("what", drift as &dyn std::fmt::Display),
                ("outcome", &outcome),
            ];
            self.told.log.warn("drift", &about);
        }
        for (who, error) in &round.unseen {
            let about = [("who", who as &dyn std::fmt::Display), ("why", error)];
            self.told.log.warn("unseen", &about);
        }
        let fight = round.fights.first().map(ToString::to_string);
        if fight.is_some() || watch.fights() == 0 {
            self.told.problem("fight", fight);
        }
    }
}

pub(super) fn group_of(guest: &Guest) -> Option<GroupPath> {
    GroupPath::of_container(&guest.cgroup).ok()
}

/// A container as drift looks at it; `None` if it is left alone.
fn watched(guest: &Guest) -> Option<Watched> {
    let asked = &guest.asked;
    let quota = asked.cpu_quota.and_then(|quota| u64::try_from(quota).ok());
    let period = asked.cpu_period.unwrap_or(CpuTime::USUAL_PERIOD);
    Some(Watched {
        who: Who {
            id: guest.id.as_str().into(),
            pod: guest.pod.clone(),
            container: guest.name.clone(),
        },
        group: group_of(guest)?,
        expected: guest.told()?.clone(),
        spec: Spec {
            cpus: asked
                .cpus
                .parse()
                .ok()
                .filter(|cpus: &CpuSet| !cpus.is_empty()),
            mems: None,
            cpu_time: asked.cpu_quota.map(|_| CpuTime { quota, period }),
        },
    })
}

/// A watch with the patience for a kubelet that reconciles.
pub(super) fn watch(config: &CgroupsConfig) -> Watch {
    Watch::new(Patience::default(), Some(config.migrate_memory))
}
