//! Admission of one pod: align its resources on NUMA nodes, then allocate devices, CPUs and memory.
//!
//! Mirrors the topology manager's scopes. Under the policy `none` every container is allocated without hints. In the
//! scope `container` each container is aligned and allocated before the next one; in the scope `pod` the pod is aligned
//! once, and all its containers are allocated with that affinity. The managers give hints and allocate in the same
//! order: devices, CPUs, memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::LedgerEvent;
use super::state::{AdmittedPod, ReusableCpus};
use super::transaction::LedgerTransaction;
use super::{Admission, Ledger};
use crate::cpu::CpuError;
use crate::cpu_set::CpuSet;
use crate::decision::{
    AdmissionResult, Assignment, Decision, Rejection, RejectionReason, ResourceManager,
};
use crate::device::{self, DeviceError, DeviceRequest, PreferredAllocation, ReusableDevices};
use crate::explanation::{Alignment, Cause, Explanation};
use crate::hint::{Hint, ProviderHints};
use crate::memory::{MemoryBasis, MemoryError};
use crate::merge::{self, Budgets, MergeRequest};
use crate::name::ContainerName;
use crate::pod::{Container, Pod};
use crate::policy::TopologyPolicy;
use crate::settings::TopologyScope;

impl Ledger {
    /// Decides about a pod that is not admitted yet, or is admitted again after a restart.
    pub(super) fn decide(
        &mut self,
        pod: &Arc<Pod>,
        plugins: &mut dyn PreferredAllocation,
    ) -> Admission {
        self.decide_without(pod, plugins, None)
    }

    /// The same as if the CPUs `aside` were not in the shared pool.
    pub(super) fn decide_without(
        &mut self,
        pod: &Arc<Pod>,
        plugins: &mut dyn PreferredAllocation,
        aside: Option<&CpuSet>,
    ) -> Admission {
        let ordinal = self.state.generation;
        let mut transaction = LedgerTransaction::new(&self.rules, &mut self.state);
        if let Some(aside) = aside {
            let edit = transaction
                .state
                .cpus
                .set_shared(transaction.state.cpus.shared() - aside);
            transaction.cpu(edit);
        }
        let mut attempt = AdmissionAttempt {
            transaction,
            pod,
            plugins,
            affinities: BTreeMap::new(),
            explanation: Explanation {
                policy: self.rules.policy,
                scope: self.rules.scope,
                ..Explanation::default()
            },
        };
        let outcome = attempt.run();
        let AdmissionAttempt {
            mut transaction,
            affinities,
            explanation,
            ..
        } = attempt;
        let event = match outcome {
            Ok(()) => {
                if !transaction
                    .rules
                    .fidelity()
                    .remembers_reuse_after_admission()
                {
                    transaction.reusable_cpus(None);
                }
                let admitted = AdmittedPod {
                    pod: pod.clone(),
                    ordinal,
                    affinities,
                };
                if let Some(aside) = aside {
                    let edit = transaction
                        .state
                        .cpus
                        .set_shared(transaction.state.cpus.shared() | aside);
                    transaction.cpu(edit);
                }
                transaction.set_pod(&pod.uid, Some(admitted));
                Ok(LedgerEvent::Admitted(pod.uid.clone()))
            }
            Err(rejection) => {
                let keeps = transaction.rules.fidelity().keeps_parts_of_rejected_pods();
                match keeps && aside.is_none() {
                    true => transaction.release_all(&pod.uid),
                    false => transaction.discard(),
                }
                Err(rejection)
            }
        };
        let (event, rejection) = match event {
            Ok(event) => (event, None),
            Err(rejection) => (LedgerEvent::Rejected(pod.uid.clone()), Some(rejection)),
        };
        let change = transaction.finish(event);
        let result = match rejection {
            Some(rejection) => AdmissionResult::Rejected(rejection),
            None => AdmissionResult::Admitted(self.assignment(&pod.uid).unwrap_or_default()),
        };
        let decision = Decision {
            pod: pod.uid.clone(),
            result,
            explanation,
        };
        Admission { decision, change }
    }
}

/// The state of one admission while it runs.
struct AdmissionAttempt<'a> {
    transaction: LedgerTransaction<'a>,
    pod: &'a Arc<Pod>,
    plugins: &'a mut dyn PreferredAllocation,
    affinities: BTreeMap<ContainerName, Hint>,
    explanation: Explanation,
}

impl AdmissionAttempt<'_> {
    fn run(&mut self) -> Result<(), Rejection> {
        let pod = self.pod.clone();
        match (self.transaction.rules.policy, self.transaction.rules.scope) {
            (TopologyPolicy::None, _) => {
                for container in pod.all_containers() {
                    self.allocate(container, Hint::NONE)?;
                }
            }
            (_, TopologyScope::Container) => {
                for container in pod.all_containers() {
                    let hint = self.align(Some(container))?;
                    self.affinities.insert(container.name.clone(), hint);
                    self.allocate(container, hint)?;
                }
            }
            (_, TopologyScope::Pod) => {
                let hint = self.align(None)?;
                for container in pod.all_containers() {
                    self.affinities.insert(container.name.clone(), hint);
                }
                if self.transaction.rules.pod_level.manages(&pod) {
                    return self.allocate_pod(hint);
                }
                for container in pod.all_containers() {
                    self.allocate(container, hint)?;
                }
            }
        }
        Ok(())
    }

    /// Merges the hints of all resources of one container, or of the pod as a whole, into one NUMA affinity.
    fn align(&mut self, container: Option<&Container>) -> Result<Hint, Rejection> {
        let rules = self.transaction.rules;
        let hints = self.hints(container);
        let merged = merge::merge(&MergeRequest {
            nodes: rules.machine.node_ids(),
            policy: rules.policy,
            closest: rules.distances.as_ref(),
            providers: &hints,
            budgets: Budgets::default(),
        });
        let alignment = Alignment {
            container: container.map(|container| container.name.clone()),
            resources: self
                .transaction
                .facts(self.pod, container, &hints, &merged.facts),
            hint: merged.hint,
            admitted: merged.admit,
            merge: merged.facts,
        };
        self.explanation.alignments.push(alignment);
        match merged.admit {
            true => Ok(merged.hint),
            false => {
                self.explanation.cause = self.empty_shared_pool_error(container);
                Err(self.topology_rejection(container))
            }
        }
    }

    /// The error behind a rejected merge if the exclusive containers of a pod with pod-level resources leave nothing
    /// for its shared pool. The managers report that to the merge as an empty list of hints.
    fn empty_shared_pool_error(&self, container: Option<&Container>) -> Option<Cause> {
        let (rules, pod) = (self.transaction.rules, &**self.pod);
        if container.is_some() || !rules.pod_level.manages(pod) {
            return None;
        }
        let cpus = rules.cpus.as_static();
        if let Some(Err(error)) = cpus.map(|cpus| cpus.check_pod_budget(pod)) {
            return Some(Cause::Cpu(error));
        }
        match rules
            .memory
            .pod_hints(&self.transaction.state.memory, pod)
            .basis
        {
            MemoryBasis::EmptySharedPool(problem) => Some(Cause::Memory(problem.into())),
            _ => None,
        }
    }

    fn hints(&self, container: Option<&Container>) -> [ProviderHints; 3] {
        let (rules, state, pod) = (
            self.transaction.rules,
            &*self.transaction.state,
            &**self.pod,
        );
        let cpus = state.reusable_cpus_of(&pod.uid);
        match container {
            Some(container) => {
                let devices = ReusableDevices::before(&state.devices, pod, &container.name);
                [
                    device::container_hints(&state.pool, &state.devices, pod, container, &devices),
                    rules
                        .cpus
                        .container_hints(&state.cpus, &cpus, pod, container),
                    rules
                        .memory
                        .container_hints(&state.memory, pod, container)
                        .hints,
                ]
            }
            None => [
                device::pod_hints(&state.pool, &state.devices, pod),
                rules.cpus.pod_hints(&state.cpus, &cpus, pod),
                rules.memory.pod_hints(&state.memory, pod).hints,
            ],
        }
    }

    /// Allocates the devices, CPUs and memory of one container.
    fn allocate(&mut self, container: &Container, hint: Hint) -> Result<(), Rejection> {
        let (rules, pod) = (self.transaction.rules, self.pod.clone());

        let state = &*self.transaction.state;
        let request = DeviceRequest {
            pod: &pod,
            container,
            affinity: hint.mask,
            reusable: &ReusableDevices::before(&state.devices, &pod, &container.name),
            already_running: false,
        };
        let devices = device::allocate(&state.pool, &state.devices, request, self.plugins);
        let grant = devices.map_err(|error| self.device_rejection(container, error))?;
        self.transaction.devices(grant.edits);

        let state = &*self.transaction.state;
        let reusable = state.reusable_cpus_of(&pod.uid);
        let cpus = rules
            .cpus
            .allocate(&state.cpus, &reusable, hint.mask, &pod, container);
        let grant = cpus.map_err(|error| self.cpu_rejection(Some(container), error))?;
        self.transaction.cpu(grant.edits);
        if let Some(cpus) = grant.reusable {
            self.transaction.reusable_cpus(Some(ReusableCpus {
                pod: pod.uid.clone(),
                cpus,
            }));
        }

        let memory = rules
            .memory
            .allocate(&self.transaction.state.memory, hint, &pod, container);
        let grant = memory.map_err(|error| self.memory_rejection(Some(container), error))?;
        self.transaction.memory(grant.edits);
        Ok(())
    }

    /// Allocates the CPUs and memory of a pod with pod-level resources as a whole. The device manager does not support
    /// them.
    fn allocate_pod(&mut self, hint: Hint) -> Result<(), Rejection> {
        let (rules, pod) = (self.transaction.rules, self.pod.clone());
        match rules
            .cpus
            .allocate_pod(&self.transaction.state.cpus, hint.mask, &pod)
        {
            Ok(grant) => self.transaction.cpu(grant.edits),
            Err(rejection) => {
                self.transaction.cpu(rejection.left_behind);
                return Err(self.cpu_rejection(None, rejection.error));
            }
        }
        let memory = rules
            .memory
            .allocate_pod(&self.transaction.state.memory, hint, &pod);
        let grant = memory.map_err(|error| self.memory_rejection(None, error))?;
        self.transaction.memory(grant.edits);
        Ok(())
    }

    /// The rejection for a merged hint that the topology policy does not admit.
    fn topology_rejection(&self, container: Option<&Container>) -> Rejection {
        let whole = self.transaction.rules.pod_level.manages(self.pod);
        let message = match (whole, self.transaction.rules.scope) {
            (false, _) => "Resources cannot be allocated with Topology locality",
            (true, TopologyScope::Pod) => {
                "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
            }
            (true, TopologyScope::Container) => {
                "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
            }
        };
        Rejection {
            reason: RejectionReason::TopologyAffinityError,
            message: message.to_owned(),
            container: container.map(|container| container.name.clone()),
            manager: None,
        }
    }

    fn device_rejection(&mut self, container: &Container, error: DeviceError) -> Rejection {
        let reason = RejectionReason::UnexpectedAdmissionError;
        let rejection = self.rejection(reason, &error, Some(container), ResourceManager::Device);
        self.explanation.cause = Some(Cause::Device(error));
        rejection
    }

    fn cpu_rejection(&mut self, container: Option<&Container>, error: CpuError) -> Rejection {
        let reason = match error {
            CpuError::NotWholeCores { .. } | CpuError::TooFewWholeCores { .. } => {
                RejectionReason::SMTAlignmentError
            }
            CpuError::NothingLeftForInit | CpuError::NothingLeftToShare => {
                RejectionReason::EmptyPodSharedPoolError
            }
            CpuError::Take(_) => RejectionReason::UnexpectedAdmissionError,
        };
        let rejection = self.rejection(reason, &error, container, ResourceManager::Cpu);
        self.explanation.cause = Some(Cause::Cpu(error));
        rejection
    }

    fn memory_rejection(&mut self, container: Option<&Container>, error: MemoryError) -> Rejection {
        let reason = match error {
            MemoryError::EmptySharedPool(_) => RejectionReason::EmptyPodSharedPoolError,
            _ => RejectionReason::UnexpectedAdmissionError,
        };
        let rejection = self.rejection(reason, &error, container, ResourceManager::Memory);
        self.explanation.cause = Some(Cause::Memory(error));
        rejection
    }

    /// The rejection for a failed allocation. Mirrors `GetPodAdmitResult`: errors without a reason of their own are
    /// wrapped.
    fn rejection(
        &mut self,
        reason: RejectionReason,
        error: &dyn std::error::Error,
        container: Option<&Container>,
        manager: ResourceManager,
    ) -> Rejection {
        let message = match reason {
            RejectionReason::UnexpectedAdmissionError => {
                format!("Allocate failed due to {error}, which is unexpected")
            }
            _ => error.to_string(),
        };
        self.explanation.shortage = self.transaction.facts_of(manager, self.pod, container);
        Rejection {
            reason,
            message,
            container: container.map(|container| container.name.clone()),
            manager: Some(manager),
        }
    }
}

impl Assignment {
    /// Whether no container holds exclusive CPUs, memory or devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.iter().all(|container| {
            container.cpus.is_none()
                && container.devices.is_empty()
                && container.memory.as_ref().is_none_or(Vec::is_empty)
        })
    }
}
