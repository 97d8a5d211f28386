//! [`Koordinator`]: Koordinator's rules for exclusive CPUs and CPU pools, applied to the node's ledger.
//!
//! The ledger holds the CPUs of each pod. The pod's QoS class and its allocation are read once from the labels and
//! annotations in the journal's record.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use pinfold_cluster::koordinator::amounts::{Amounts, MILLI, NodeAmounts};
use pinfold_cluster::koordinator::cpu_topology::KoordinatorTopology;
use pinfold_cluster::koordinator::effective_policy::EffectivePolicy;
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_cluster::koordinator::node::{KoordinatorNode, KoordinatorReport, RatioAnnotation};
use pinfold_cluster::koordinator::plugin::{self, KoordinatorArgs, PodDemand};
use pinfold_cluster::koordinator::pools::{self, AllowedCpus, ContainerTerms, CpuHolders, Pools};
use pinfold_cluster::koordinator::qos::{self, KoordinatorQos, KubeletPinning, Priority};
use pinfold_cluster::koordinator::rejection::KoordinatorRejection;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::NumaNode;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::qos::QosClass;
use pinfold_kube::koordinator::{
    self as objects, NodeSettings, ReportAnnotations, ResourceStatus, keys,
};
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::pod::PodObject;

use super::admit::grant_to_all;
use super::{AdmitError, ManagedContainer, ManagedNode, Rulebook, Update};
use crate::journaled_ledger::JournaledLedger;
use pinfold_journal::Timestamp;
use pinfold_journal::{JournalPodRecord, PodOrigin};

mod scheduler_choice;

/// Koordinator's resource name of batch CPU, in milli-CPUs.
const BATCH_CPU: &str = "kubernetes.io/batch-cpu";

/// Said about pods whose policies mean nothing on the machine.
const SINGLE_THREADS: &str = "the machine has one CPU per core: its bind policy counts as FullPCPUs, and the exclusive policy PCPULevel as NUMANodeLevel";

/// Koordinator's settings of this node, and the state of its pods.
#[derive(Clone, Debug)]
pub struct Koordinator {
    /// Arguments of the scheduler plugin NodeNUMAResource, for pods that the agent places itself.
    pub args: KoordinatorArgs,
    /// The labels and annotations of the Node object.
    settings: NodeSettings,
    /// CPUs for SYSTEM pods. Empty: no special CPUs.
    system_cpus: CpuSet,
    /// Whether only SYSTEM pods may use `system_cpus`.
    system_exclusive: bool,
    /// CPUs of the node reservation, which no pod may use.
    node_reserved: CpuSet,
    /// Whether best-effort pods are aligned to NUMA nodes.
    pub aligns_best_effort: bool,
    /// The CPUs that best-effort pods may use now, because others are busy; `None`: all of their pool.
    best_effort_limit: Option<CpuSet>,
    /// Whether the kubelet pins new pods itself; the agent then does not set their CPUs.
    pub kubelet: KubeletPinning,
    topology: Arc<KoordinatorTopology>,
    zones: Vec<NodeAmounts>,
    /// The pods in the ledger.
    pods: BTreeMap<PodUid, Arc<KoordinatorPod>>,
}

/// The facts about a pod that decide which CPUs its containers may use.
#[derive(Debug)]
struct KoordinatorPod {
    /// The spec from which the facts were read.
    spec: Weak<Pod>,
    origin: PodOrigin,
    qos: Option<KoordinatorQos>,
    kube_qos: QosClass,
    requests: Amounts,
    allocation: Option<Allocation>,
}

impl Koordinator {
    /// Koordinator's settings for a machine and its reserved CPUs, with defaults for the rest.
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
            settings: NodeSettings::default(),
            system_cpus: CpuSet::new(),
            system_exclusive: false,
            node_reserved: CpuSet::new(),
            aligns_best_effort: false,
            best_effort_limit: None,
            kubelet: KubeletPinning::None,
            topology: Arc::new(facts.topology(rules.fidelity())),
            zones: machine.nodes().iter().map(zone).collect(),
            pods: BTreeMap::new(),
        }
    }

    /// Takes policies, reserved CPUs and those of SYSTEM pods from the Node object.
    pub(super) fn set_node(&mut self, node: &NodeSettings, rules: &Rules) {
        self.settings = node.clone();
        self.node_reserved = node.annotations.reservation.reserved_cpus(rules);
        let system = node.annotations.system.as_ref();
        self.system_cpus = system.map_or_else(CpuSet::new, |system| system.cpus.clone());
        self.system_exclusive = system.is_some_and(|system| system.exclusive);
    }

    /// The same settings for changed ledger rules.
    #[must_use]
    pub(super) fn with_rules(&self, rules: &Rules) -> Self {
        let fresh = Self::new(rules, self.args.clone());
        let mut changed = Self {
            topology: fresh.topology,
            zones: fresh.zones,
            pods: BTreeMap::new(),
            ..self.clone()
        };
        changed.set_node(&self.settings, rules);
        changed
    }

    /// Adds pods that are new in the ledger, also under the UID of one before, and drops those that were released.
    pub(super) fn refresh_pods(&mut self, journaled: &JournaledLedger) {
        let residents = journaled.ledger().state().admitted_pods();
        self.pods.retain(|pod, _| residents.contains_key(pod));
        for (uid, resident) in residents {
            let known = self.pods.get(uid);
            if known.is_some_and(|known| known.spec.as_ptr() == Arc::as_ptr(&resident.pod)) {
                continue;
            }
            let record = journaled.records().get(uid).cloned().unwrap_or_default();
            let terms = KoordinatorPod::of(&resident.pod, &record, journaled.ledger());
            self.pods.insert(uid.clone(), Arc::new(terms));
        }
    }

    /// The CPU pools: the CPUs that no pod holds exclusively and no reservation excludes.
    pub(super) fn pools(&self, ledger: &Ledger) -> Pools {
        let mut holders = CpuHolders {
            kubelet_reserved: ledger.rules().reserved_cpus(),
            node_reserved: self.node_reserved.clone(),
            ..CpuHolders::default()
        };
        if self.system_exclusive {
            holders.system_exclusive.clone_from(&self.system_cpus);
        }
        for (pod, terms) in &self.pods {
            let cpus = ledger.exclusive_cpus(pod);
            match terms.origin {
                PodOrigin::Kubelet => holders.kubelet_pinned |= &cpus,
                PodOrigin::Runtime | PodOrigin::Api => holders.add(terms.qos, &cpus),
            }
        }
        Pools::of(&self.topology, &holders)
    }

    /// The CPUs that a container of a pod may use, and the NUMA nodes of its memory.
    pub(super) fn allowed(
        &self,
        pod: &PodUid,
        container: &ContainerName,
        pools: &Pools,
        ledger: &Ledger,
    ) -> (AllowedCpus, NodeSet) {
        let unknown = KoordinatorPod::unknown();
        let terms = self.pods.get(pod).map_or(&unknown, |terms| &**terms);
        if terms.origin == PodOrigin::Kubelet {
            let own = ledger.state().cpus().container(pod, container);
            let shared = || AllowedCpus::Shared(pools::union(&pools.shared));
            let allowed = own.cloned().map_or_else(shared, AllowedCpus::Own);
            return (allowed, NodeSet::EMPTY);
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
                AllowedCpus::Shared(self.limited(first, pools))
            }
            AllowedCpus::Shared(cpus) if terms.is_best_effort() => {
                AllowedCpus::Shared(self.limited(&cpus, pools))
            }
            allowed => allowed,
        };
        let numa = terms.allocation.iter().flat_map(|given| &given.numa);
        let with_memory = numa.filter(|part| part.amounts.get("memory") > 0);
        (allowed, with_memory.map(|part| part.node).collect())
    }

    /// The CPUs of a best-effort pod out of `cpus`, while others are busy. The limit is of the last round of measuring:
    /// CPUs that left the pool since are another pod's.
    fn limited(&self, cpus: &CpuSet, pools: &Pools) -> CpuSet {
        let Some(limit) = &self.best_effort_limit else {
            return cpus.clone();
        };
        let limit = limit & &pools::union(&pools.best_effort);
        match () {
            () if limit.is_empty() => cpus.clone(),
            () if cpus.is_disjoint(&limit) => limit,
            () => cpus & &limit,
        }
    }

    /// Whether these CPUs cover the requests of all best-effort pods, counting at least one CPU each.
    fn suffices(&self, cpus: &CpuSet) -> bool {
        let best_effort = self.pods.values().filter(|terms| terms.is_best_effort());
        let need = best_effort.fold(0_i64, |sum, terms| {
            sum.saturating_add(terms.requests.get(BATCH_CPU).max(MILLI))
        });
        let room = i64::try_from(cpus.len()).unwrap_or(0).saturating_mul(MILLI);
        need <= room
    }

    /// The node as the scheduler plugin NodeNUMAResource sees it.
    fn plugin_node(&self, ledger: &Ledger) -> KoordinatorNode {
        let reserved = ledger.rules().reserved_cpus();
        let mut set_aside = self.node_reserved.clone();
        if self.system_exclusive {
            set_aside |= &self.system_cpus;
        }
        for (pod, terms) in &self.pods {
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
        let policies = &self.settings.policies;
        // The Node's allocatable amounts are amplified.
        if let RatioAnnotation::Ratios(ratios) = &policies.ratios {
            allocatable = ratios.amplify(&allocatable);
        }
        let mut node = KoordinatorNode {
            bind_policy: policies.bind.clone(),
            strategy: policies.strategy.clone(),
            numa_policy: policies.numa.clone(),
            ratios: policies.ratios.clone(),
            report: Some(report),
            allocatable,
            ledger: pinfold_cluster::koordinator::ledger::KoordinatorLedger::new(fidelity),
            ..KoordinatorNode::default()
        };
        for (pod, terms) in &self.pods {
            let allocation = terms.allocation.clone();
            let held = allocation.filter(|_| terms.origin != PodOrigin::Kubelet);
            node.assume(pod.clone(), &terms.requests, held);
        }
        node
    }

    /// Allocates CPUs and NUMA nodes for a pod without a scheduler's choice, as the scheduler plugin would. Returns also
    /// what its author should know.
    fn choose(
        &self,
        demand: &PodDemand,
        ledger: &Ledger,
    ) -> Result<(Allocation, Option<&'static str>), KoordinatorRejection> {
        let fidelity = ledger.rules().fidelity();
        let Some(state) = plugin::pre_filter(demand, &self.args, fidelity)? else {
            return Ok((Allocation::default(), None));
        };
        let node = self.plugin_node(ledger);
        let terms = EffectivePolicy::of(&state, &node, &self.args)?;
        let placement = plugin::filter(&state, &node, &self.args)?;
        let allocation = plugin::reserve(&state, &node, &self.args, placement.as_ref())?;
        Ok((
            allocation.unwrap_or_default(),
            (terms.bind && terms.is_adapted).then_some(SINGLE_THREADS),
        ))
    }
}

impl KoordinatorPod {
    fn of(pod: &Arc<Pod>, record: &JournalPodRecord, ledger: &Ledger) -> Self {
        let fidelity = ledger.rules().fidelity();
        let object = pod_object(pod, record);
        let demand = objects::demand(&object, fidelity).map(|read| read.value);
        let demand = demand.unwrap_or_default();
        let status = ResourceStatus::read(&object, fidelity).map(|read| read.value);
        let status = status.ok().flatten();
        Self {
            spec: Arc::downgrade(pod),
            origin: record.origin,
            qos: demand.qos,
            kube_qos: QosClass::of(pod),
            allocation: status.map(|status| status.allocation(&demand)),
            requests: demand.requests,
        }
    }

    /// The defaults for a pod that is not in the ledger.
    fn unknown() -> Self {
        Self {
            spec: Weak::new(),
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

/// Checks that the requests of a pod fit its QoS class.
fn check_class(demand: &PodDemand, fidelity: Fidelity) -> Result<(), String> {
    let Some(class) = demand.qos else {
        return Ok(());
    };
    let priority = demand.priority.or(Some(Priority::of_qos(class)));
    qos::check(class, priority, &demand.requests, &demand.limits, fidelity)
        .map_err(|problem| problem.to_string())
}

/// The pod object with the labels and annotations of the journal's record.
fn pod_object(pod: &Arc<Pod>, record: &JournalPodRecord) -> PodObject {
    PodObject {
        meta: ObjectMeta {
            labels: record.labels.clone(),
            annotations: record.annotations.clone(),
            ..ObjectMeta::default()
        },
        pod: Pod::clone(pod),
        node_name: None,
        scheduler_name: None,
        priority: None,
        overhead: ResourceList::new(),
        constraints: Arc::default(),
        owner: None,
        at: None,
    }
}

/// The best-effort pool of the node.
#[derive(Clone, Debug)]
pub struct BestEffort {
    /// The CPUs of the machine.
    pub topology: Arc<KoordinatorTopology>,
    /// The pool.
    pub pool: CpuSet,
    /// The CPUs of the pool that LSR pods hold.
    pub lent: CpuSet,
    /// The control groups of the containers of best-effort pods, as the runtime writes the paths.
    pub groups: Vec<String>,
}

impl ManagedNode {
    /// The best-effort pool; `None` under the kubelet's rules.
    pub fn best_effort(&mut self) -> Option<BestEffort> {
        let pools = self.pools()?;
        let Rulebook::Koordinator(koordinator) = &self.rulebook else {
            return None;
        };
        let is_best_effort = |container: &&ManagedContainer| {
            let terms = koordinator.pods.get(container.resident());
            terms.is_some_and(|terms| terms.is_best_effort())
        };
        let containers = self.containers.values().filter(is_best_effort);
        let pool = pools::union(&pools.best_effort);
        Some(BestEffort {
            topology: koordinator.topology.clone(),
            lent: &pool - &pools::union(&pools.shared),
            pool,
            groups: containers
                .map(|container| container.cgroup.clone())
                .collect(),
        })
    }

    /// The CPUs that best-effort pods may use now; `None` under the kubelet's rules.
    pub fn best_effort_cpus(&mut self) -> Option<CpuSet> {
        let pool = self.best_effort()?.pool;
        let Rulebook::Koordinator(koordinator) = &self.rulebook else {
            return None;
        };
        Some(koordinator.best_effort_limit.clone().unwrap_or(pool))
    }

    /// Limits best-effort pods to these CPUs. Returns the updates of their containers.
    pub fn limit_best_effort(&mut self, limit: CpuSet) -> Vec<Update> {
        let Rulebook::Koordinator(koordinator) = &mut self.rulebook else {
            return Vec::new();
        };
        let limit = Some(limit).filter(|limit| !limit.is_empty());
        if koordinator.best_effort_limit == limit {
            return Vec::new();
        }
        koordinator.best_effort_limit = limit;
        self.updates()
    }

    /// Applies Koordinator's labels and annotations of the Node object. Running pods keep their CPUs. Returns the updates
    /// of containers in shared pools.
    pub fn set_node_settings(&mut self, node: &NodeSettings) -> Vec<Update> {
        if let Rulebook::Koordinator(koordinator) = &mut self.rulebook {
            koordinator.set_node(node, self.journaled.ledger().rules());
            return self.updates();
        }
        Vec::new()
    }

    /// Admits a pod by Koordinator's rules. The journal entry begins with `prior`, the reason why the scheduler's choice
    /// was not used.
    pub(super) fn admit_by_koordinator(
        &mut self,
        pod: &PodObject,
        core: &Arc<Pod>,
        mut record: JournalPodRecord,
        prior: &str,
        now: Timestamp,
    ) -> Result<(), AdmitError> {
        let Rulebook::Koordinator(koordinator) = &mut self.rulebook else {
            return Ok(());
        };
        koordinator.refresh_pods(&self.journaled);
        let ledger = self.journaled.ledger();
        let fidelity = ledger.rules().fidelity();
        let demand = match objects::demand(pod, fidelity) {
            Ok(read) => read.value,
            Err(findings) => return self.reject(core, findings.to_string(), now),
        };
        if let Err(problem) = check_class(&demand, fidelity) {
            return self.reject(core, problem, now);
        }
        let (allocation, remark) = match koordinator.choose(&demand, ledger) {
            Ok(chosen) => chosen,
            Err(rejection) => return self.reject(core, rejection.to_string(), now),
        };
        let status = ResourceStatus::of(&allocation, &koordinator.topology, fidelity);
        let class = demand.qos.map_or("no QoS class", KoordinatorQos::as_str);
        let what = match allocation.cpus.is_empty() {
            true => format!("{class}: shared pool"),
            false => format!("{class}: CPUs {}", allocation.cpus),
        };
        let what = match remark {
            Some(remark) => format!("{what}; {remark}"),
            None => what,
        };
        let message = match prior.is_empty() {
            true => what,
            false => format!("{prior}; {what}"),
        };
        if allocation != Allocation::default() {
            let text = status.to_json();
            record
                .annotations
                .insert(keys::RESOURCE_STATUS.to_owned(), text);
        }
        let granted = grant_to_all(core, &status);
        self.journaled.grant(core, &granted, record, message, now)?;
        Ok(())
    }
}
