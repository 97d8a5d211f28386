//! [`NodePods`]: the pods of this node, as the server tells of them.

use std::collections::HashMap;
use std::sync::Arc;

use pinfold_apiserver::{ReflectorStatus, Store, WatchTarget, object};
use pinfold_core::name::PodUid;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pods::{self, KnownPod, MAX_PODS, PodSpecs};
use super::remark::{Counts, PODS, Remark, Remarks};

/// The most pods in one page of a list.
const PAGE: usize = 50;

/// The pods that are bound to a node.
pub(super) fn of_node(node: &str) -> WatchTarget {
    WatchTarget {
        paths: vec!["/api/v1/pods".to_owned()],
        field_selector: format!("spec.nodeName={node}"),
        page_size: PAGE,
        optional: false,
    }
}

/// Hears of pods and keeps them.
pub(super) struct NodePods {
    pub(super) pods: PodSpecs,
    pub(super) remarks: Remarks,
    pub(super) counts: Arc<Counts>,
    /// While a list comes in, how many pods of it were read.
    pub(super) listed: Option<usize>,
}

impl Store for NodePods {
    type Item = (PodUid, KnownPod);

    /// A pod with the id that the runtime knows it by. One that cannot be read is reported and passed over.
    fn parse(&mut self, object: &RawValue) -> Option<Self::Item> {
        if let Some(listed) = &mut self.listed {
            *listed += 1;
            if *listed > MAX_PODS {
                return None;
            }
        }
        let pod: Value = serde_json::from_str(object.get()).unwrap_or_default();
        let name = object::full_name(&pod);
        let uid = pods::uid(&pod);
        match pods::read(pod) {
            Ok(pod) => Some((uid?, pod)),
            Err(problem) => {
                self.remarks.say(Remark::PodUnreadable { name, problem });
                None
            }
        }
    }

    fn replace(&mut self, all: Vec<Self::Item>) {
        let all: HashMap<_, _> = all.into_iter().collect();
        let pods = all.len();
        self.pods.replace(all);
        if self.listed.take() > Some(MAX_PODS) {
            self.remarks.say(Remark::TooManyPods { limit: MAX_PODS });
        }
        self.remarks.say(Remark::PodsKnown { pods });
    }

    fn apply(&mut self, (uid, pod): Self::Item) {
        if !self.pods.put(uid, pod) {
            self.remarks.say(Remark::TooManyPods { limit: MAX_PODS });
        }
    }

    fn delete(&mut self, object: &RawValue) {
        let pod: Value = serde_json::from_str(object.get()).unwrap_or_default();
        if let Some(uid) = pods::uid(&pod) {
            self.pods.forget(&uid);
        }
    }

    fn record_status(&mut self, status: ReflectorStatus<'_>) {
        match status {
            ReflectorStatus::Listing => {
                self.listed = Some(0);
                self.counts.lists.add(1);
            }
            ReflectorStatus::Watching => self.counts.watches.add(1),
            ReflectorStatus::Receiving => self.remarks.recovered(PODS),
            ReflectorStatus::NotServed => {}
            ReflectorStatus::Failed { error, retry_in } => {
                self.listed = None;
                self.counts.failures.add(1);
                let error = error.clone();
                self.remarks.say(Remark::PodsBehind { error, retry_in });
            }
        }
    }
}
