//! What Koordinator's rules give every pod: its own CPUs by the scheduler plugin of the core, pools by plain sets.

use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::{Amounts, NodeAmounts};
use pinfold_cluster::koordinator::ledger::{Allocation, KoordinatorLedger};
use pinfold_cluster::koordinator::node::{KoordinatorNode, KoordinatorReport};
use pinfold_cluster::koordinator::plugin::{self, KoordinatorArgs, PodDemand};
use pinfold_cluster::koordinator::qos::{self, KoordinatorQos, Priority};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::machine::Machine;
use pinfold_core::node_set::NodeId;
use pinfold_core::settings::Settings;
use pinfold_kube::koordinator::{self as objects, ReportAnnotations};
use pinfold_kube::pod::PodObject;

use super::oracle;

const SOUND: Fidelity = Fidelity::Sound;

/// Who is there, in the order they came.
pub(crate) struct Classes {
    machine: Arc<Machine>,
    reserved: CpuSet,
    here: Vec<Here>,
}

struct Here {
    uid: String,
    demand: PodDemand,
    /// CPUs of its own.
    own: Option<Allocation>,
    /// The NUMA node whose shared CPUs it is bound to.
    bound: Option<NodeId>,
}

impl Classes {
    /// No pod, on this machine with one CPU for the system.
    pub(crate) fn new(reserved: &str) -> Result<Self, String> {
        let (machine, _) = oracle::machine()?;
        let reserved = reserved.parse::<CpuSet>().map_err(|e| e.to_string())?;
        Ok(Self {
            machine,
            reserved,
            here: Vec::new(),
        })
    }

    /// A pod comes. Whether it is let in.
    pub(crate) fn come(
        &mut self,
        object: &PodObject,
        chosen: Option<&CpuSet>,
        bound: Option<NodeId>,
    ) -> Result<bool, String> {
        let demand = objects::demand(object, SOUND).map_err(|found| found.to_string())?;
        let demand = demand.value;
        if let Some(class) = demand.qos {
            let priority = demand.priority.or(Some(Priority::of_qos(class)));
            let suits = qos::check(class, priority, &demand.requests, &demand.limits, SOUND);
            if suits.is_err() {
                return Ok(false);
            }
        }
        let taken = self.held(|_| true);
        let follows =
            chosen.filter(|cpus| taken.is_disjoint(cpus) && self.reserved.is_disjoint(cpus));
        let own = match follows {
            Some(cpus) => Some(Allocation {
                cpus: cpus.clone(),
                ..Allocation::default()
            }),
            None => match self.choose(&demand) {
                Ok(own) => own,
                Err(_) => return Ok(false),
            },
        };
        self.here.push(Here {
            uid: object.pod.uid.to_string(),
            demand,
            own: own.filter(|own| !own.cpus.is_empty()),
            bound,
        });
        Ok(true)
    }

    /// A pod goes.
    pub(crate) fn go(&mut self, uid: &str) {
        self.here.retain(|here| here.uid != uid);
    }

    /// The CPUs of a pod, and whether they are its own.
    pub(crate) fn expected(&self, uid: &str) -> Result<(CpuSet, bool), String> {
        let here = self.here.iter().find(|here| here.uid == uid);
        let here = here.ok_or_else(|| format!("{uid} is not here"))?;
        if let Some(own) = &here.own {
            return Ok((own.cpus.clone(), true));
        }
        let all = self.machine.online();
        let lse = self.held(|class| class == Some(KoordinatorQos::Lse));
        if here.demand.qos == Some(KoordinatorQos::Be) {
            let crowd = self.here.iter();
            let crowd = crowd.filter(|one| one.demand.qos == Some(KoordinatorQos::Be));
            let first = &self.reserved - &lse;
            return Ok(match crowd.count() <= first.len() {
                true => (first, false),
                false => (all - &lse, false),
            });
        }
        let shared = all - &self.held(|_| true);
        Ok(match here.bound {
            Some(node) => (&shared & &self.cpus_of(node), false),
            None => (shared, false),
        })
    }

    /// The CPUs of a NUMA node.
    pub(crate) fn cpus_of(&self, node: NodeId) -> CpuSet {
        let node = self.machine.nodes().iter().find(|one| one.id == node);
        let cores = node.into_iter().flat_map(|node| &node.cores);
        cores
            .flat_map(|core| core.threads.iter().copied())
            .collect()
    }

    /// CPUs that pods of some classes have for themselves.
    fn held(&self, of: impl Fn(Option<KoordinatorQos>) -> bool) -> CpuSet {
        let mut held = CpuSet::new();
        for here in self.here.iter().filter(|here| of(here.demand.qos)) {
            if let Some(own) = &here.own {
                held |= &own.cpus;
            }
        }
        held
    }

    /// What Koordinator's scheduler would choose.
    fn choose(&self, demand: &PodDemand) -> Result<Option<Allocation>, String> {
        let args = KoordinatorArgs::default();
        let as_text = |rejection: pinfold_cluster::koordinator::rejection::KoordinatorRejection| {
            rejection.to_string()
        };
        let Some(state) = plugin::pre_filter(demand, &args, SOUND).map_err(as_text)? else {
            return Ok(None);
        };
        let settings = Settings::built_in(&self.machine, SOUND);
        let facts = ReportAnnotations::of(&self.machine, &settings, self.reserved.clone());
        let zones = self.machine.nodes().iter().map(|node| {
            let cpus = self.cpus_of(node.id).len();
            let milli = i64::try_from(cpus * 1000).unwrap_or(0);
            let bytes = i64::try_from(node.memory).unwrap_or(i64::MAX);
            NodeAmounts {
                node: node.id,
                amounts: Amounts::from([("cpu", milli), ("memory", bytes)]),
            }
        });
        let topology = Arc::new(facts.topology(SOUND));
        let report =
            KoordinatorReport::new(topology, &self.reserved, CpuSet::new(), zones.collect());
        let mut allocatable = Amounts::new();
        for zone in report.zones() {
            allocatable.add(&zone.amounts);
        }
        let mut node = KoordinatorNode {
            report: Some(report),
            allocatable,
            ledger: KoordinatorLedger::new(SOUND),
            ..KoordinatorNode::default()
        };
        for here in &self.here {
            let uid = here.uid.as_str().into();
            node.assume(uid, &here.demand.requests, here.own.clone());
        }
        let placement = plugin::filter(&state, &node, &args).map_err(as_text)?;
        plugin::reserve(&state, &node, &args, placement.as_ref()).map_err(as_text)
    }
}
