//! Admission of one pod: align its resources on NUMA nodes, then allocate devices, CPUs and memory.
//!
//! Mirrors the topology manager's scopes. Under the policy `none` every container is allocated without hints. In the
//! scope `container` each container is aligned and allocated before the next one; in the scope `pod` the pod is aligned
//! once, and all its containers are allocated with that affinity. The [providers](super::providers) give hints and
//! allocate in the same order: devices, CPUs, memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::change::LedgerEvent;
use super::providers::{AllocationError, HintProvider, PodInAdmission};
use super::state::AdmittedPod;
use super::transaction::LedgerTransaction;
use super::{Admission, LastPods, Ledger};
use crate::cpu_set::CpuSet;
use crate::decision::{AdmissionResult, Assignment, Decision, Rejection, RejectionReason};
use crate::device::{NoPreference, PreferredAllocation};
use crate::explanation::{Alignment, AlignmentHints, Cause, Explanation, ResourceFacts};
use crate::hint::{Hint, ProviderHints};
use crate::merge::{self, Budgets, MergeFacts, MergeRequest};
use crate::name::{ContainerName, PodUid};
use crate::pod::{Container, Pod};
use crate::policy::TopologyPolicy;
use crate::settings::TopologyScope;

impl Ledger {
    /// Every hint of each manager in the alignments of `pod`, as if it were admitted now: for display. Lists at most
    /// `most` hints per resource.
    #[must_use]
    pub fn list_hints(&self, pod: &Arc<Pod>, most: usize) -> Vec<AlignmentHints> {
        let mut copy = self.clone();
        let transaction = LedgerTransaction::new(&copy.rules, &mut copy.state);
        let mut attempt = Attempt {
            pod: PodInAdmission::new(transaction.state, pod, self.rules.pod_level()),
            transaction,
            plugins: &mut NoPreference,
            affinities: BTreeMap::new(),
            last: None,
            listed: Some((most, Vec::new())),
            explanation: Explanation::default(),
        };
        let _ = attempt.run();
        attempt.listed.map_or_else(Vec::new, |(_, listed)| listed)
    }

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
        let lasting = !transaction.rules.fidelity().releases_last_pod() && aside.is_none();
        if let Some(aside) = aside {
            let edit = transaction
                .state
                .cpus
                .set_shared(transaction.state.cpus.shared() - aside);
            transaction.cpu(edit);
        }
        let mut attempt = Attempt {
            pod: PodInAdmission::new(transaction.state, pod, self.rules.pod_level()),
            transaction,
            plugins,
            affinities: BTreeMap::new(),
            last: lasting.then_some(&mut self.last),
            listed: None,
            explanation: Explanation {
                policy: self.rules.policy(),
                scope: self.rules.scope(),
                ..Explanation::default()
            },
        };
        let outcome = attempt.run();
        let Attempt {
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
                    true if lasting => {}
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
pub(super) struct Attempt<'l, 'p> {
    /// The pods of earlier admissions that are still held, where they are: see [`Ledger`].
    last: Option<&'l mut LastPods>,
    pub(super) transaction: LedgerTransaction<'l>,
    pub(super) pod: PodInAdmission<'p>,
    pub(super) plugins: &'p mut dyn PreferredAllocation,
    affinities: BTreeMap<ContainerName, Hint>,
    /// The hints of the alignments so far with the most of each resource, if they are to be listed.
    listed: Option<(usize, Vec<AlignmentHints>)>,
    explanation: Explanation,
}

impl<'p> Attempt<'_, 'p> {
    fn run(&mut self) -> Result<(), Rejection> {
        let pod: &'p Pod = self.pod.demand.pod();
        match (
            self.transaction.rules.policy(),
            self.transaction.rules.scope(),
        ) {
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
                if self.pod.demand.is_managed_as_whole() {
                    return self.allocate_pod(hint);
                }
                for container in pod.all_containers() {
                    self.allocate(container, hint)?;
                }
            }
        }
        Ok(())
    }

    /// Before version 1.32, a provider that is asked about this pod forgets the one before it if that is gone. Mirrors
    /// `setPodPendingAdmission`.
    fn ask(&mut self, provider: usize) {
        let pod = &self.pod.demand.pod().uid;
        let Some(last) = self.last.as_mut().and_then(|last| last.get_mut(provider)) else {
            return;
        };
        if last.as_ref() == Some(pod) {
            return;
        }
        let before = last.replace(pod.clone());
        let gone = |pod: &PodUid| !self.transaction.state.admitted_pods.contains_key(pod);
        if let Some(before) = before.filter(gone) {
            self.transaction.rules.providers[provider].release(&mut self.transaction, &before);
        }
    }

    /// Merges the hints of all resources of one container, or of the pod as a whole, into one NUMA affinity.
    fn align(&mut self, container: Option<&Container>) -> Result<Hint, Rejection> {
        let rules = self.transaction.rules;
        for number in 0..rules.providers.len() {
            self.ask(number);
        }
        let providers = rules.providers.iter();
        let hints: SmallVec<[ProviderHints; 3]> = providers
            .map(|provider| provider.hints(self, container))
            .collect();
        if let Some((most, listed)) = &mut self.listed {
            listed.push(AlignmentHints::of(container, &hints, *most));
        }
        let merged = merge::merge(&MergeRequest {
            nodes: rules.machine.node_ids(),
            policy: rules.policy(),
            closest: rules.distances.as_ref(),
            providers: &hints,
            budgets: Budgets::default(),
        });
        let alignment = Alignment {
            container: container.map(|container| container.name.clone()),
            resources: self.facts(container, &hints, &merged.facts),
            hint: merged.hint,
            admitted: merged.admit,
            merge: merged.facts,
        };
        self.explanation.alignments.push(alignment);
        match merged.admit {
            true => Ok(merged.hint),
            false => {
                self.explanation.cause = self.empty_shared_pool(container);
                Err(self.topology_rejection(container))
            }
        }
    }

    /// The facts of all resources of one alignment, with a summary of their hints.
    fn facts(
        &self,
        container: Option<&Container>,
        hints: &[ProviderHints],
        merge: &MergeFacts,
    ) -> Vec<ResourceFacts> {
        let mut facts = Vec::with_capacity(merge.resources.len());
        // The merge lists the resources in the order of the providers and their rows.
        let mut first = 0;
        for (provider, hints) in self.transaction.rules.providers.iter().zip(hints) {
            let listed = &merge.resources[first.min(merge.resources.len())..];
            let begin = facts.len();
            provider.facts(self, container, &mut facts);
            for resource in &mut facts[begin..] {
                let row = hints
                    .rows
                    .binary_search_by(|(name, _)| name.cmp(&resource.resource));
                if let Some((row, merged)) = row.ok().and_then(|row| Some((row, listed.get(row)?)))
                {
                    resource.merge_index = Some(first + row);
                    resource.hints = Some(merged.hints);
                }
            }
            first += hints.rows.len().max(1);
        }
        facts
    }

    /// The error behind a rejected merge if the exclusive containers of a pod with pod-level resources leave nothing
    /// for its shared pool. The providers report that to the merge as an empty list of hints.
    fn empty_shared_pool(&self, container: Option<&Container>) -> Option<Cause> {
        if container.is_some() || !self.pod.demand.is_managed_as_whole() {
            return None;
        }
        let mut providers = self.transaction.rules.providers.iter();
        providers.find_map(|provider| provider.empty_shared_pool(self))
    }

    /// Allocates everything that one container requests.
    fn allocate(&mut self, container: &'p Container, hint: Hint) -> Result<(), Rejection> {
        for (number, provider) in self.transaction.rules.providers.iter().enumerate() {
            self.ask(number);
            provider
                .allocate(self, container, hint)
                .map_err(|error| self.rejection(*provider, error, Some(container)))?;
        }
        Ok(())
    }

    /// Allocates everything that a pod with pod-level resources requests as a whole.
    fn allocate_pod(&mut self, hint: Hint) -> Result<(), Rejection> {
        for provider in self.transaction.rules.providers {
            provider
                .allocate_pod(self, hint)
                .map_err(|error| self.rejection(*provider, error, None))?;
        }
        Ok(())
    }

    /// The rejection for a merged hint that the topology policy does not admit.
    fn topology_rejection(&self, container: Option<&Container>) -> Rejection {
        let whole = self.pod.demand.is_managed_as_whole();
        let message = match (whole, self.transaction.rules.scope()) {
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

    /// The rejection for a failed allocation. Mirrors `GetPodAdmitResult`: errors without a reason of their own are
    /// wrapped.
    fn rejection(
        &mut self,
        provider: &dyn HintProvider,
        error: AllocationError,
        container: Option<&Container>,
    ) -> Rejection {
        let message = match error.reason {
            RejectionReason::UnexpectedAdmissionError => {
                format!(
                    "Allocate failed due to {}, which is unexpected",
                    error.cause
                )
            }
            _ => error.cause.to_string(),
        };
        let mut shortage = Vec::new();
        provider.facts(self, container, &mut shortage);
        self.explanation.shortage = shortage;
        self.explanation.cause = Some(error.cause);
        Rejection {
            reason: error.reason,
            message,
            container: container.map(|container| container.name.clone()),
            manager: Some(error.manager),
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
