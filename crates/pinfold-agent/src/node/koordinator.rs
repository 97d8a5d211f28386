//! [`Koordinator`]: its rules for CPUs of one's own and for pools, on the node's ledger.
//!
//! The ledger holds who has which CPUs; the class of each pod and what its scheduler or this node chose for it are read
//! from what was noted about it, once.

use std::collections::BTreeMap;
use std::sync::Arc;

use pinfold_core::cpu_set::CpuSet;
use pinfold_core::koordinator::amounts::{Amounts, MILLI, NodeAmounts};
use pinfold_core::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_core::koordinator::ledger::Allocation;
use pinfold_core::koordinator::node::{KoordinatorNode, KoordinatorReport};
use pinfold_core::koordinator::plugin::{self, KoordinatorArgs, PodDemand};
use pinfold_core::koordinator::policy_values::NumaPolicy;
use pinfold_core::koordinator::pools::{AllowedCpus, ContainerTerms, CpuHolders, Pools};
use pinfold_core::koordinator::qos::{self, KoordinatorQos, KubeletPinning, Priority};
use pinfold_core::koordinator::rejection::KoordinatorRejection;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::NumaNode;
use pinfold_core::name::PodUid;
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::qos::QosClass;
use pinfold_kube::koordinator::{self as objects, ReportAnnotations, ResourceStatus, keys};
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::pod::PodObject;

use super::admit::every_container;
use super::{Node, Rejected, Rulebook};
use crate::journaled_ledger::JournaledLedger;
use pinfold_journal::Timestamp;
use pinfold_journal::{PodOrigin, PodRecord};

/// Best-effort CPU, in thousandths.
const BATCH_CPU: &str = "kubernetes.io/batch-cpu";

/// How Koordinator's rules are applied.
#[derive(Clone, Debug)]
pub struct Koordinator {
    /// The configuration of its scheduler plugin, for decisions that are made here.
    pub args: KoordinatorArgs,
    /// How pods are aligned where they do not say (the node's label).
    pub numa_policy: Option<NumaPolicy>,
    /// CPUs for SYSTEM pods; none: no rule for them.
    pub system_cpus: CpuSet,
    /// Whether SYSTEM pods have those for themselves.
    pub system_exclusive: bool,
    /// CPUs of the node's reservation, which nobody gets.
    pub node_reserved: CpuSet,
    /// Whether best-effort pods keep to NUMA nodes.
    pub aligns_best_effort: bool,
    /// Whether the kubelet pins new pods itself: then their CPUs are left to it.
    pub kubelet: KubeletPinning,
    topology: Arc<KoordinatorTopology>,
    zones: Vec<NodeAmounts>,
    /// What is known of each pod, as long as it is here.
    terms: BTreeMap<PodUid, Arc<PodTerms>>,
}

/// What decides which CPUs the containers of a pod may use.
#[derive(Debug)]
struct PodTerms {
    origin: PodOrigin,
    qos: Option<KoordinatorQos>,
    kube_qos: QosClass,
    requests: Amounts,
    allocation: Option<Allocation>,
}

impl Koordinator {
    /// Koordinator's rules for a node under these rules.
    #[must_use]
    pub fn new(rules: &Rules, args: KoordinatorArgs) -> Self {
        let machine = rules.machine();
        let facts = ReportAnnotations::of(machine, rules.settings(), rules.reserved_cpus());
        let zone = |node: &NumaNode| {
            let cpus = node
                .cores
                .iter()
                .map(|core| core.threads.len())
                .sum::<usize>();
            let milli = i64::try_from(cpus).unwrap_or(0).saturating_mul(MILLI);
            let bytes = i64::try_from(node.memory).unwrap_or(i64::MAX);
            NodeAmounts {
                node: node.id,
                amounts: Amounts::from([("cpu", milli), ("memory", bytes)]),
            }
        };
        Self {
            args,
            numa_policy: None,
            system_cpus: CpuSet::new(),
            system_exclusive: false,
            node_reserved: CpuSet::new(),
            aligns_best_effort: false,
            kubelet: KubeletPinning::None,
            topology: Arc::new(facts.topology(rules.fidelity())),
            zones: machine.nodes().iter().map(zone).collect(),
            terms: BTreeMap::new(),
        }
    }

    /// The same rules on a node that is run otherwise.
    #[must_use]
    pub(super) fn under(&self, rules: &Rules) -> Self {
        let fresh = Self::new(rules, self.args.clone());
        Self {
            topology: fresh.topology,
            zones: fresh.zones,
            terms: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// Learns about pods that came, and forgets those that left.
    pub(super) fn learn(&mut self, journaled: &JournaledLedger) {
        let residents = journaled.ledger().state().residents();
        self.terms.retain(|pod, _| residents.contains_key(pod));
        for (uid, resident) in residents {
            if self.terms.contains_key(uid) {
                continue;
            }
            let note = journaled.records().get(uid).cloned().unwrap_or_default();
            let terms = PodTerms::of(&resident.pod, &note, journaled.ledger());
            self.terms.insert(uid.clone(), Arc::new(terms));
        }
    }

    /// The pools that are left when everybody has theirs.
    pub(super) fn pools(&self, ledger: &Ledger) -> Pools {
        let mut holders = CpuHolders {
            kubelet_reserved: ledger.rules().reserved_cpus(),
            node_reserved: self.node_reserved.clone(),
            ..CpuHolders::default()
        };
        if self.system_exclusive {
            holders.system_exclusive.clone_from(&self.system_cpus);
        }
        for (pod, terms) in &self.terms {
            let cpus = ledger.exclusive_cpus(pod);
            match terms.origin {
                PodOrigin::Kubelet => holders.kubelet_pinned |= &cpus,
                PodOrigin::Runtime | PodOrigin::Api => holders.add(terms.qos, &cpus),
            }
        }
        Pools::of(&self.topology, &holders)
    }

    /// What the containers of a pod may use, with the NUMA nodes of its memory.
    pub(super) fn allowed(
        &self,
        pod: &PodUid,
        pools: &Pools,
        ledger: &Ledger,
    ) -> (AllowedCpus, NodeSet) {
        let unknown = PodTerms::unknown();
        let terms = self.terms.get(pod).map_or(&unknown, |terms| &**terms);
        if terms.origin == PodOrigin::Kubelet {
            return (AllowedCpus::Untouched, NodeSet::EMPTY);
        }
        let allowed = pools.allowed_cpus(
            &ContainerTerms {
                qos: terms.qos,
                kube_qos: terms.kube_qos,
                allocation: terms.allocation.as_ref(),
                system_cpus: &self.system_cpus,
                kubelet: self.kubelet,
                aligns_best_effort: self.aligns_best_effort,
            },
            ledger.rules().fidelity(),
        );
        let first = &pools.best_effort_first;
        let allowed = match allowed {
            AllowedCpus::Shared(_) if terms.is_best_effort() && self.suffices(first) => {
                AllowedCpus::Shared(first.clone())
            }
            allowed => allowed,
        };
        let numa = terms.allocation.iter().flat_map(|given| &given.numa);
        let with_memory = numa.filter(|part| part.amounts.get("memory") > 0);
        (allowed, with_memory.map(|part| part.node).collect())
    }

    /// Whether all best-effort pods find room on these CPUs: what they ask for, but a CPU each at least.
    fn suffices(&self, cpus: &CpuSet) -> bool {
        let best_effort = self.terms.values().filter(|terms| terms.is_best_effort());
        let need = best_effort.fold(0_i64, |sum, terms| {
            sum.saturating_add(terms.requests.get(BATCH_CPU).max(MILLI))
        });
        let room = i64::try_from(cpus.len()).unwrap_or(0).saturating_mul(MILLI);
        need <= room
    }

    /// The node as Koordinator's scheduler plugin would see it.
    fn plugin_node(&self, ledger: &Ledger) -> KoordinatorNode {
        let reserved = ledger.rules().reserved_cpus();
        let mut set_aside = self.node_reserved.clone();
        if self.system_exclusive {
            set_aside |= &self.system_cpus;
        }
        for (pod, terms) in &self.terms {
            if terms.origin == PodOrigin::Kubelet {
                set_aside |= &ledger.exclusive_cpus(pod);
            }
        }
        let report = KoordinatorReport::new(
            self.topology.clone(),
            &reserved,
            set_aside,
            self.zones.clone(),
        );
        let mut allocatable = Amounts::new();
        for zone in report.zones() {
            allocatable.add(&zone.amounts);
        }
        let fidelity = ledger.rules().fidelity();
        let mut node = KoordinatorNode {
            numa_policy: self.numa_policy.clone(),
            report: Some(report),
            allocatable,
            ledger: pinfold_core::koordinator::ledger::KoordinatorLedger::new(fidelity),
            ..KoordinatorNode::default()
        };
        for (pod, terms) in &self.terms {
            let allocation = terms.allocation.clone();
            let held = allocation.filter(|_| terms.origin != PodOrigin::Kubelet);
            node.assume(pod.clone(), &terms.requests, held);
        }
        node
    }

    /// What this node chooses for a pod that no scheduler chose anything for.
    fn choose(
        &self,
        demand: &PodDemand,
        ledger: &Ledger,
    ) -> Result<Option<Allocation>, KoordinatorRejection> {
        let fidelity = ledger.rules().fidelity();
        let Some(state) = plugin::pre_filter(demand, &self.args, fidelity)? else {
            return Ok(None);
        };
        let node = self.plugin_node(ledger);
        let placement = plugin::filter(&state, &node, &self.args)?;
        plugin::reserve(&state, &node, &self.args, placement.as_ref())
    }
}

impl PodTerms {
    fn of(pod: &Arc<Pod>, note: &PodRecord, ledger: &Ledger) -> Self {
        let fidelity = ledger.rules().fidelity();
        let object = object(pod, note);
        let demand = objects::demand(&object, fidelity).map(|read| read.value);
        let demand = demand.unwrap_or_default();
        let status = ResourceStatus::read(&object, fidelity).map(|read| read.value);
        let status = status.ok().flatten();
        Self {
            origin: note.origin,
            qos: demand.qos,
            kube_qos: QosClass::of(pod),
            allocation: status.map(|status| status.allocation(&demand)),
            requests: demand.requests,
        }
    }

    /// Of a pod that nothing is known about.
    fn unknown() -> Self {
        Self {
            origin: PodOrigin::Runtime,
            qos: None,
            kube_qos: QosClass::Burstable,
            requests: Amounts::new(),
            allocation: None,
        }
    }

    fn is_best_effort(&self) -> bool {
        self.qos == Some(KoordinatorQos::Be)
            || (self.qos.is_none() && self.kube_qos == QosClass::BestEffort)
    }
}

/// A pod as it was noted.
fn object(pod: &Arc<Pod>, note: &PodRecord) -> PodObject {
    PodObject {
        meta: ObjectMeta {
            labels: note.labels.clone(),
            annotations: note.annotations.clone(),
            ..ObjectMeta::default()
        },
        pod: Pod::clone(pod),
        node_name: None,
        scheduler_name: None,
        priority: None,
        overhead: ResourceList::new(),
        owner: None,
        at: None,
    }
}

impl Node {
    /// Lets a pod in by Koordinator's rules. `told` is what has been said about it so far.
    pub(super) fn take_in_by_koordinator(
        &mut self,
        pod: &PodObject,
        core: &Arc<Pod>,
        mut note: PodRecord,
        told: &str,
        now: Timestamp,
    ) -> Result<(), Rejected> {
        let Rulebook::Koordinator(book) = &mut self.rulebook else {
            return Ok(());
        };
        book.learn(&self.journaled);
        let ledger = self.journaled.ledger();
        let fidelity = ledger.rules().fidelity();
        let demand = match objects::demand(pod, fidelity) {
            Ok(read) => read.value,
            Err(findings) => return self.reject(core, findings.to_string(), now),
        };
        if let Some(class) = demand.qos {
            let priority = demand.priority.or(Some(Priority::of_qos(class)));
            let check = qos::check(class, priority, &demand.requests, &demand.limits, fidelity);
            if let Err(problem) = check {
                return self.reject(core, problem.to_string(), now);
            }
        }
        let allocation = match book.choose(&demand, ledger) {
            Ok(allocation) => allocation.unwrap_or_default(),
            Err(rejection) => return self.reject(core, rejection.to_string(), now),
        };
        let status = ResourceStatus::of(&allocation, &book.topology, fidelity);
        let class = demand.qos.map_or("no class", KoordinatorQos::as_str);
        let what = match allocation.cpus.is_empty() {
            true => format!("{class}: shares CPUs"),
            false => format!("{class}: CPUs {}", allocation.cpus),
        };
        let told = match told.is_empty() {
            true => what,
            false => format!("{told}; {what}"),
        };
        if allocation != Allocation::default() {
            let text = status.to_json();
            note.annotations
                .insert(keys::RESOURCE_STATUS.to_owned(), text);
        }
        let granted = every_container(core, &status);
        self.journaled.grant(core, &granted, note, told, now)?;
        Ok(())
    }
}
