//! [`ReplicaCounter`]: how many replicas of one pod a node admits, one after the other.
//!
//! Replicas differ only in name and uid, so the nodes of a cluster do not influence each other, and a node that has
//! rejected one replica rejects all later ones: its count does not depend on the order in which a scheduler chooses
//! nodes. Kubelets under the same rules with the same free resources admit equally many, and are counted once.

use std::collections::HashMap;
use std::sync::Arc;

use super::evaluation::NodeRejection;
use super::node::{ClusterNode, Dialect};
use super::pod_request::PodRequest;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::{Settings, TopologyScope};

/// The replicas that start on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaCount {
    /// How many start.
    pub started: usize,
    /// Why the next one does not; `None` if the limit was reached.
    pub rejection: Option<NodeRejection>,
}

impl ReplicaCount {
    /// The count under this limit; `None` if this one was stopped by a lower limit.
    fn within(&self, limit: usize) -> Option<Self> {
        match (limit <= self.started, &self.rejection) {
            (true, _) => Some(Self {
                started: limit,
                rejection: None,
            }),
            (false, Some(_)) => Some(self.clone()),
            (false, None) => None,
        }
    }
}

/// A topology policy and scope that kubelets could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubeletPolicy {
    /// The policy.
    pub policy: TopologyPolicy,
    /// The scope.
    pub scope: TopologyScope,
}

/// Counts the replicas of one pod on many nodes.
#[derive(Debug)]
pub struct ReplicaCounter {
    request: PodRequest,
    /// The replicas, as far as they were needed.
    replicas: Vec<PodRequest>,
    /// The policy that all kubelets are assumed to have.
    policy: Option<KubeletPolicy>,
    /// The rules under that policy by the address of the rules that a kubelet has; `None` if it does not start.
    rules: HashMap<usize, Option<Arc<Rules>>>,
    /// Counts of kubelets by the address of their rules and their shared pools.
    counted: HashMap<(usize, CpuSet), Vec<CountedKubelet>>,
}

/// The count of a kubelet. The ledger keeps the rules alive, so that their address stays theirs.
#[derive(Debug)]
struct CountedKubelet {
    ledger: Box<Ledger>,
    /// `None` if the kubelet cannot have the policy.
    count: Option<ReplicaCount>,
}

impl ReplicaCounter {
    /// A counter of replicas of this pod.
    #[must_use]
    pub fn new(request: PodRequest) -> Self {
        Self {
            request,
            replicas: Vec::new(),
            policy: None,
            rules: HashMap::new(),
            counted: HashMap::new(),
        }
    }

    /// A counter of replicas of this pod if all kubelets had another policy and scope, and kept their pods.
    #[must_use]
    pub fn under(request: PodRequest, policy: KubeletPolicy) -> Self {
        Self {
            policy: Some(policy),
            ..Self::new(request)
        }
    }

    /// How many replicas the rules of the node's dialect admit one after the other, at most `limit`, which is what the
    /// node's totals allow. `None` if its kubelet does not start under the assumed policy, or its pods cannot keep what
    /// they hold.
    pub fn count(&mut self, node: &ClusterNode, limit: usize) -> Option<ReplicaCount> {
        let Dialect::Kubelet(ledger) = node.dialect() else {
            return Some(self.count_on(node.clone(), limit));
        };
        let key = (
            Arc::as_ptr(ledger.rules()) as usize,
            ledger.state().cpus().shared().clone(),
        );
        let known = self.counted.get(&key).into_iter().flatten();
        let mut known = known.filter(|known| {
            let state = known.ledger.state();
            state.has_same_free_resources(ledger.state())
        });
        if let Some(known) = known.find_map(|known| match &known.count {
            Some(count) => count.within(limit).map(Some),
            None => Some(None),
        }) {
            return known;
        }
        let counted = match self.policy {
            None => Some(node.clone()),
            Some(policy) => self.assumed(node, ledger, policy),
        };
        let count = counted.map(|node| self.count_on(node, limit));
        self.counted.entry(key).or_default().push(CountedKubelet {
            ledger: ledger.clone(),
            count: count.clone(),
        });
        count
    }

    /// The node under another policy.
    fn assumed(
        &mut self,
        node: &ClusterNode,
        ledger: &Ledger,
        policy: KubeletPolicy,
    ) -> Option<ClusterNode> {
        let own = ledger.rules();
        let rules = self.rules.entry(Arc::as_ptr(own) as usize);
        let rules = rules.or_insert_with(|| under(own, policy)).clone()?;
        let ledger = ledger.with_rules(rules)?;
        Some(node.with_ledger(ledger))
    }

    fn count_on(&mut self, mut node: ClusterNode, limit: usize) -> ReplicaCount {
        for started in 0..limit {
            match node.reserve_replica(self.replica(started)) {
                Ok(true) => {}
                // The next replica finds the same state.
                Ok(false) => break,
                Err(rejection) => {
                    return ReplicaCount {
                        started,
                        rejection: Some(rejection),
                    };
                }
            }
        }
        ReplicaCount {
            started: limit,
            rejection: None,
        }
    }

    /// The replica of this number.
    fn replica(&mut self, number: usize) -> &PodRequest {
        for next in self.replicas.len()..=number {
            let next = u32::try_from(next).unwrap_or(u32::MAX);
            self.replicas.push(self.request.copy(next));
        }
        &self.replicas[number]
    }
}

/// The rules of a kubelet under another policy, with the same CPUs reserved; `None` if it does not start.
fn under(rules: &Rules, policy: KubeletPolicy) -> Option<Arc<Rules>> {
    let settings = Settings {
        topology_policy: policy.policy,
        topology_scope: policy.scope,
        ..rules.settings().clone()
    };
    let changed = Rules::new(rules.machine().clone(), settings).ok()?;
    let changed = changed.with_reserved(&rules.reserved_cpus()).ok()?;
    Some(Arc::new(changed))
}
