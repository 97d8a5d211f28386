//! Making a member of the cluster of everything that was heard about a node.

use std::collections::BTreeSet;
use std::time::Instant;

use pinfold_core::cluster::{Cluster, ClusterNode, PODS};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::koordinator::amounts::Amounts;
use pinfold_core::koordinator::ledger::Allocation;
use pinfold_core::name::{NodeName, PodUid};
use pinfold_core::volcano::numa_amounts::NumaAmounts;

use super::firm::Spare;
use super::kind::Kind;
use super::node::{NodeFound, NodeRecord, Reported};
use super::pod::Asked;
use super::{Cache, PodRecord, holds};
use crate::config::Doubt;

/// A member, and who has to be put on top of it.
struct Made {
    member: ClusterNode,
    on_top: Vec<PodUid>,
    /// What a kubelet's node has left, if its report lists pods.
    spare: Option<Spare>,
}

impl Cache {
    /// Puts a node together anew.
    pub(super) fn rebuild(&mut self, name: &NodeName, now: Instant) {
        self.changed.insert(name.clone());
        let Some(record) = self.nodes.get(name) else {
            self.cluster.remove_node(name);
            return;
        };
        let Some(node) = &record.node else {
            self.cluster.remove_node(name);
            self.set_kind(name, Kind::Unknown);
            return;
        };
        let kind = Kind::of(record);
        let nobody = BTreeSet::new();
        let view = View {
            cache: self,
            record,
            node,
            absent: &nobody,
            now,
        };
        let made = view.made(kind);
        let (kind, made) = match made {
            Ok(made) => (kind, made),
            Err(problem) => {
                let (used, _) = view.used(|_| true);
                let member = ClusterNode::unknown(node.allocatable.clone()).with_used(used);
                let on_top = Vec::new();
                self.tell("report is not understood", name.as_str(), problem);
                let made = Made {
                    member,
                    on_top,
                    spare: None,
                };
                (Kind::Unreadable, made)
            }
        };
        self.cluster.insert(name.clone(), made.member);
        if let Some(record) = self.nodes.get_mut(name) {
            record.spare = made.spare;
        }
        let mut misfits = Vec::new();
        for uid in made.on_top {
            if !self.seat(&uid, name) {
                misfits.push(uid);
            }
        }
        self.set_kind(name, kind);
        if let Some(record) = self.nodes.get_mut(name) {
            record.misfits = misfits;
        }
        self.judge(name, now);
    }

    /// Puts a pod on top of what its node reports. Whether the node takes it.
    pub(super) fn seat(&mut self, uid: &PodUid, node: &NodeName) -> bool {
        let Some(record) = self.pods.get_mut(uid) else {
            return true;
        };
        let placed = self.cluster.place_on(&record.asked.ask, node);
        record.holds = placed.as_ref().map_or(true, holds);
        if record.holds {
            let asked = record.asked.clone();
            self.comes(&asked, node);
        }
        placed.is_ok()
    }

    /// Whether a node would take a pod if some of its pods were not there.
    pub(crate) fn fits_without(
        &self,
        name: &NodeName,
        asked: &Asked,
        absent: &BTreeSet<PodUid>,
        now: Instant,
    ) -> bool {
        let Some(record) = self.nodes.get(name) else {
            return false;
        };
        let Some(node) = &record.node else {
            return false;
        };
        let view = View {
            cache: self,
            record,
            node,
            absent,
            now,
        };
        let Ok(made) = view.made(record.kind) else {
            return false;
        };
        let mut trial = Cluster::new();
        trial.insert(name.clone(), made.member);
        for uid in made.on_top {
            if let Some(pod) = self.pods.get(&uid) {
                // Whom the node should have rejected is no reason to reject the next one.
                let _ = trial.place_on(&pod.asked.ask, name);
            }
        }
        trial.evaluate(&asked.ask, name).admits()
    }
}

/// A node as it would be without some of its pods.
struct View<'a> {
    cache: &'a Cache,
    record: &'a NodeRecord,
    node: &'a NodeFound,
    absent: &'a BTreeSet<PodUid>,
    now: Instant,
}

impl View<'_> {
    fn made(&self, kind: Kind) -> Result<Made, String> {
        let Self { record, node, .. } = self;
        let reported = match &record.report {
            Some(heard) => match &heard.what {
                Ok(reported) => Some((&**reported, heard.at)),
                Err(problem) => return Err(problem.clone()),
            },
            None => None,
        };
        match (kind, reported) {
            (Kind::Kubelet, Some((report, heard))) => self.kubelet(report, heard),
            (Kind::Koordinator, _) => self.koordinator(reported.map(|(it, _)| it)),
            (Kind::Volcano, _) => self.volcano(reported.map(|(it, _)| it)),
            (Kind::Kubelet | Kind::Unknown | Kind::Unreadable, _) => {
                let member = ClusterNode::unknown(node.allocatable.clone());
                let (_, on_top) = self.used(|_| false);
                Ok(Made {
                    member,
                    on_top,
                    spare: None,
                })
            }
        }
    }

    fn kubelet(&self, report: &Reported, heard: Instant) -> Result<Made, String> {
        let (cache, node) = (self.cache, self.node);
        let counted = |pod: &PodRecord| cache.is_counted(pod, report, heard, self.now);
        let (used, on_top) = self.used(counted);
        let is_gone =
            |uid: &PodUid| self.absent.contains(uid) || cache.is_gone(uid, self.record, heard);
        let replica = report
            .kubelet
            .replica(
                &node.allocatable,
                &used,
                is_gone,
                &mut cache.shelf.borrow_mut(),
            )
            .map_err(|why| format!("its report describes no kubelet: {why}"))?;
        let ledger = replica.ledger().clone();
        let mut member = ClusterNode::kubelet(ledger, node.allocatable.clone()).with_used(used);
        if cache.policy.nodes.uncertain == Doubt::Reject {
            member = member.with_gaps(replica.gaps().clone());
        }
        let lists = report.kubelet.state().is_some();
        Ok(Made {
            member,
            on_top,
            spare: lists.then(|| Spare::of(replica.ledger())),
        })
    }

    fn koordinator(&self, reported: Option<&Reported>) -> Result<Made, String> {
        let cache = self.cache;
        let mut made = self.node.koordinator.clone();
        if let Some(reported) = reported {
            made.report = Some(reported.koordinator.clone()?);
        }
        // Who was given CPUs by the node itself has no annotation; the report tells.
        let listed = |uid: &PodUid| {
            let state = reported?.kubelet.state()?;
            let own = state.pods.iter().find(|pod| pod.uid == *uid)?;
            (!own.cpus.is_empty()).then(|| Allocation {
                cpus: own.cpus.clone(),
                ..Allocation::default()
            })
        };
        let mut on_top = Vec::new();
        let mut used = Amounts::new();
        let mut pods = 0;
        for (uid, pod) in self.tenants() {
            let held = pod.asked.held.clone().or_else(|| listed(uid));
            // Promised here, and not written down anywhere yet.
            if held.is_none() && cache.reservations.contains_key(uid) {
                on_top.push(uid.clone());
                continue;
            }
            made.assume(uid.clone(), &pod.asked.ask.koordinator().requests, held);
            used.add(&pod.asked.requests);
            pods += 1;
        }
        used.set(&PODS.into(), pods);
        let member = ClusterNode::koordinator(made, cache.args.clone()).with_used(used);
        Ok(Made {
            member,
            on_top,
            spare: None,
        })
    }

    fn volcano(&self, reported: Option<&Reported>) -> Result<Made, String> {
        let Self { record, node, .. } = self;
        let numa = match record.numa.as_ref().map(|numa| &numa.what) {
            Some(Ok(numa)) => Some((**numa).clone()),
            Some(Err(problem)) => return Err(problem.clone()),
            None => None,
        };
        let amounts = reported.map(|reported| NumaAmounts::of(reported.kubelet.topology()));
        let heard = record.numa.as_ref().map(|numa| numa.at);
        // Numatopology names no pods: who started before it was written is counted by it.
        let counted =
            |pod: &PodRecord| pod.started.zip(heard).is_some_and(|(at, heard)| heard > at);
        let (used, on_top) = self.used(counted);
        let member = ClusterNode::volcano(
            numa,
            amounts.unwrap_or_default(),
            node.allocatable.clone(),
            Fidelity::Sound,
        );
        let member = member.with_used(used);
        Ok(Made {
            member,
            on_top,
            spare: None,
        })
    }

    /// The pods that are there, in the order of their binding.
    fn tenants(&self) -> impl Iterator<Item = (&PodUid, &PodRecord)> {
        let there = self.record.tenants.values();
        let there = there.filter(|uid| !self.absent.contains(*uid));
        there.filter_map(|uid| Some((uid, self.cache.pods.get(uid)?)))
    }

    /// What the pods request that are counted already, and the others in the order of their binding.
    fn used(&self, is_counted: impl Fn(&PodRecord) -> bool) -> (Amounts, Vec<PodUid>) {
        let mut used = Amounts::new();
        let mut on_top = Vec::new();
        let mut pods = 0;
        for (uid, pod) in self.tenants() {
            match is_counted(pod) {
                true => {
                    used.add(&pod.asked.requests);
                    pods += 1;
                }
                false => on_top.push(uid.clone()),
            }
        }
        used.set(&PODS.into(), pods);
        (used, on_top)
    }
}
