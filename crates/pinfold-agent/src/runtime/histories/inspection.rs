//! What the [model](super::model) reads of a played node.

use std::collections::BTreeMap;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::DevicesByResource;
use pinfold_core::ledger::{AuditFinding, LedgerState};
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;

use super::Step;
use super::api_server::ApiServer;
use super::played_node::{Phase, PlayedContainer, PlayedNode, State};
use super::pod_specs::total_milli;
use crate::node::{ManagedNode, PodStatus};
use crate::runtime::lock;

impl PlayedNode {
    fn with_node_mut<T>(&self, read: impl FnOnce(&mut ManagedNode) -> T) -> Option<T> {
        let (plugin, _) = self.agent.as_ref()?;
        Some(read(&mut lock(&plugin.node)))
    }

    fn with_node<T>(&self, read: impl FnOnce(&ManagedNode) -> T) -> Option<T> {
        let (plugin, _) = self.agent.as_ref()?;
        Some(read(&lock(&plugin.node)))
    }

    /// Whether the agent runs.
    pub(super) fn is_managed(&self) -> bool {
        self.agent.is_some()
    }

    /// Whether the agent pins containers. Before the takeover the kubelet does.
    pub(super) fn is_pinning(&self) -> bool {
        self.phase == Phase::Agent
    }

    /// The CPUs of running containers that the kubelet assigned, while its state file is there.
    pub(super) fn pinned_by_kubelet(&self) -> BTreeMap<String, CpuSet> {
        let pinned = self.running().filter(|container| {
            let pod = self.kubelet.assigned.get(&container.pod);
            container.has_cpus && pod.is_some_and(|pod| pod.contains_key(&container.name))
        });
        let pinned = pinned.map(|container| (container.id.clone(), container.cpus.clone()));
        pinned.collect()
    }

    /// The CPUs of a pod in the kubelet's state file.
    pub(super) fn kubelet_cpus(&self, uid: &str) -> CpuSet {
        let containers = self.kubelet.assigned.get(uid).into_iter().flatten();
        containers.fold(CpuSet::new(), |all, (_, cpus)| &all | cpus)
    }

    pub(super) fn state(&self) -> Option<LedgerState> {
        self.with_node(|node| node.journaled().ledger().state().clone())
    }

    pub(super) fn audit(&self) -> Vec<AuditFinding> {
        self.with_node(|node| node.journaled().ledger().audit())
            .unwrap_or_default()
    }

    /// Whether the CPU manager policy is `static`.
    pub(super) fn has_cpu_manager(&self) -> bool {
        self.with_node(|node| node.journaled().ledger().rules().has_exclusive_cpus())
            .unwrap_or(true)
    }

    /// The CPUs of a container without exclusive ones, which are none of other pods': without a CPU manager all CPUs.
    pub(super) fn shared_cpus(&self, container: &PlayedContainer) -> CpuSet {
        if !self.setup.koordinator {
            return self.shared_pool();
        }
        let pool = self.with_node_mut(|node| {
            let pools = node.koordinator_pools().expect("Koordinator's rules");
            let pool = pinfold_cluster::koordinator::pools::union(&pools.shared);
            match pool.is_empty() {
                true => node.journaled().ledger().rules().reserved_cpus(),
                false => pool,
            }
        });
        let held = self.with_node(|node| {
            let ledger = node.journaled().ledger();
            let pods = ledger.state().admitted_pods().keys();
            let others = pods.filter(|uid| **uid != container.pod);
            others.fold(CpuSet::new(), |all, uid| &all | &ledger.exclusive_cpus(uid))
        });
        &pool.unwrap_or_default() - &held.unwrap_or_default()
    }

    /// The memory nodes of a container in the ledger; `None` if any node will do.
    pub(super) fn memory_nodes(&self, container: &PlayedContainer) -> Option<NodeSet> {
        let alone: PodUid = format!("{}/{}", container.pod, container.name).into();
        self.with_node(|node| {
            let memory = node.journaled().ledger().state().memory();
            let blocks = memory.blocks(&container.pod, &container.name);
            let blocks = blocks.or_else(|| memory.blocks(&alone, &container.name));
            let nodes = blocks.into_iter().flatten();
            let nodes = nodes.fold(NodeSet::EMPTY, |all, block| all | block.nodes);
            (!nodes.is_empty()).then_some(nodes)
        })?
    }

    /// The CPUs of containers without exclusive ones. Without a CPU manager these are all CPUs.
    fn shared_pool(&self) -> CpuSet {
        let shared = self.with_node(|node| {
            let ledger = node.journaled().ledger();
            if !ledger.rules().has_exclusive_cpus() {
                return ledger.rules().machine().online().clone();
            }
            match ledger.state().cpus().shared() {
                shared if shared.is_empty() => ledger.rules().reserved_cpus(),
                shared => shared.clone(),
            }
        });
        shared.unwrap_or_default()
    }

    /// The CPUs that the rules in force allow pods to hold.
    pub(super) fn assignable_cpus(&self) -> CpuSet {
        let rules = self.with_node(|node| node.journaled().ledger().rules().clone());
        rules.map_or_else(CpuSet::new, |rules| {
            rules.machine().online() - &rules.reserved_cpus()
        })
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &PlayedContainer> {
        let containers = self.containers.iter();
        containers.filter(|container| container.state == State::Running)
    }

    /// The exclusive CPUs of a container in the ledger, whether its pod was admitted as a whole or not.
    pub(super) fn exclusive_cpus(&self, container: &PlayedContainer) -> Option<CpuSet> {
        let alone: PodUid = format!("{}/{}", container.pod, container.name).into();
        self.with_node(|node| {
            let cpus = node.journaled().ledger().state().cpus();
            let own = cpus.container(&container.pod, &container.name);
            own.or_else(|| cpus.container(&alone, &container.name))
                .or_else(|| cpus.container(&container.pod, &"*".into()))
                .cloned()
        })?
    }

    /// Whether the ledger lacks the CPUs that the kubelet assigned to a container because the disk was full.
    pub(super) fn awaits_kubelet_cpus(
        &self,
        container: &PlayedContainer,
        own: Option<&CpuSet>,
    ) -> bool {
        let assigned = self.kubelet.assigned.get(&container.pod);
        let assigned = assigned.and_then(|pod| pod.get(&container.name));
        self.pending && assigned.is_some_and(|assigned| Some(assigned) != own)
    }

    /// The CPUs that a container with CPUs of its own needs, in thousandths: by Koordinator's rules those of its whole pod.
    pub(super) fn needed_milli(&self, container: &PlayedContainer) -> u64 {
        if !self.setup.koordinator {
            return container.milli;
        }
        let mut digits = container.pod.as_str().chars().skip(1);
        let number = digits.next().and_then(|digit| digit.to_digit(10));
        total_milli(number.expect("the number of its spec") as usize)
    }

    /// The containers that run, and those that the runtime is creating: it may have their CPUs already. The kubelet changes
    /// the latter before a takeover.
    fn present(&self) -> impl Iterator<Item = &PlayedContainer> {
        let containers = self.containers.iter();
        containers.filter(|container| match container.state {
            State::Running => true,
            State::Creating | State::Created => !self.setup.takeover,
            State::Stopped => false,
        })
    }

    /// What containers hold exclusively. While the agent is down: what they held when it was killed.
    pub(super) fn held_by_containers(&self) -> BTreeMap<String, (CpuSet, DevicesByResource)> {
        if !self.is_managed() {
            let is_present = |id: &str| self.present().any(|container| container.id == id);
            let held = self.held_at_kill.iter().filter(|(id, _)| is_present(id));
            return held.map(|(id, held)| (id.clone(), held.clone())).collect();
        }
        let held = self.present().filter_map(|container| {
            let cpus = self.exclusive_cpus(container)?;
            let devices = self.with_node(|node| node.devices(&container.pod, &container.name))?;
            Some((container.id.clone(), (cpus, devices)))
        });
        held.collect()
    }

    /// The number of CPUs that the running containers of a pod have for themselves.
    pub(super) fn own_cpus(&self, pod: u8) -> usize {
        let uid = &self.pods[usize::from(pod)].uid;
        let own = self.running().filter(|one| one.pod.as_str() == uid);
        own.filter_map(|container| self.exclusive_cpus(container))
            .map(|cpus| cpus.len())
            .sum()
    }

    /// Whether the agent has the container.
    pub(super) fn knows(&self, container: &PlayedContainer) -> bool {
        self.with_node(|node| node.container(&container.id).is_some())
            .unwrap_or(true)
    }

    /// Whether the runtime has a sandbox of a pod, stopped or not.
    pub(super) fn has_sandbox_of(&self, uid: &str) -> bool {
        let pod = self.pods.iter().find(|pod| pod.uid == uid);
        pod.is_some_and(|pod| !pod.sandboxes.is_empty())
    }

    /// Whether the agent has seen that the API server has the pod, and the pod goes on.
    pub(super) fn is_active(&self, uid: &str) -> bool {
        let goes_on = self.pods.iter().any(|pod| pod.uid == uid && !pod.ended);
        let seen = |api: &mut ApiServer| api.seen.get(uid).map(|(_, status)| *status);
        let is_seen = self.api.with(seen) == Some(PodStatus::Active);
        self.setup.api_server && goes_on && is_seen
    }

    /// Exclusive CPUs of the pods that were admitted as a whole and go on.
    pub(super) fn held_by_active(&self) -> BTreeMap<String, CpuSet> {
        let held = self.with_node(|node| {
            let ledger = node.journaled().ledger();
            let pods = ledger.state().admitted_pods().keys();
            let held = pods.map(|uid| (uid.to_string(), ledger.exclusive_cpus(uid)));
            held.filter(|(uid, _)| self.is_active(uid)).collect()
        });
        held.unwrap_or_default()
    }

    /// Pods that ended and hold resources. With an API server and on a full disk they may do so until the next check.
    pub(super) fn ended_but_held(&self, step: Step) -> Vec<String> {
        let delivered = self.api.with(|api| api.listed && api.events.is_empty());
        let checked = step == Step::Check && delivered;
        if self.pending || (self.setup.api_server && !checked) {
            return Vec::new();
        }
        let held = self.with_node(|node| {
            let pods = node.journaled().ledger().state().admitted_pods();
            pods.keys().map(ToString::to_string).collect::<Vec<_>>()
        });
        let alive = |uid: &str| {
            let uid = uid.split('/').next().unwrap_or(uid);
            self.pods.iter().any(|pod| pod.uid == uid && !pod.ended)
        };
        let held = held.unwrap_or_default().into_iter();
        let may_run = |uid: &str| self.may_run(uid.split('/').next().unwrap_or(uid));
        held.filter(|uid| !alive(uid) && !may_run(uid)).collect()
    }
}
