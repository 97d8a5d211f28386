//! [`CacheStore`]: writes what the reflectors receive into the cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinfold_apiserver::{ReflectorStatus, Store, WatchTarget};
use pinfold_cluster::volcano::predicate::NumaInfo;
use pinfold_core::name::NodeName;
use pinfold_daemon::Metrics;
use pinfold_kube::api_object::ApiObject;
use pinfold_kube::pod::PodIdentity;
use serde_json::value::RawValue;

use super::Cache;
use super::node::{self, NodeInfo, Observed, TopologyReport};
use super::pod_info::{self, ObservedPod};
use crate::metrics::catalogue;

/// The watched lists: Nodes, Pods, NodeResourceTopologies, Numatopologies.
#[must_use]
pub fn watch_targets() -> [WatchTarget; 4] {
    let target = |paths: &[&str], optional: bool| WatchTarget {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        field_selector: String::new(),
        page_size: 500,
        optional,
    };
    [
        target(&["/api/v1/nodes"], false),
        target(&["/api/v1/pods"], false),
        target(
            &[
                "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
                "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
            ],
            true,
        ),
        target(&["/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"], true),
    ]
}

/// The store of one reflector, which writes into the cache that all reflectors share.
pub struct CacheStore {
    resource: WatchedResource,
    cache: Arc<Mutex<Cache>>,
    metrics: Arc<Metrics>,
    /// When the current list was started.
    list_started: Instant,
    failing: bool,
    /// The number of objects in the last list.
    count: Option<usize>,
}

/// The resource of a reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchedResource {
    Nodes,
    Pods,
    Reports,
    Numas,
}

impl WatchedResource {
    fn name(self) -> &'static str {
        match self {
            WatchedResource::Nodes => "nodes",
            WatchedResource::Pods => "pods",
            WatchedResource::Reports => "noderesourcetopologies",
            WatchedResource::Numas => "numatopologies",
        }
    }
}

/// A parsed object.
pub enum ParsedObject {
    /// A Node.
    Node(Box<NodeInfo>),
    /// A Pod.
    Pod(ObservedPod),
    /// A NodeResourceTopology.
    Report(NodeName, Observed<TopologyReport>),
    /// A Numatopology.
    Numa(NodeName, Observed<NumaInfo>),
}

impl CacheStore {
    /// The stores of all reflectors, in the order of [`watch_targets`].
    #[must_use]
    pub fn all(cache: &Arc<Mutex<Cache>>, metrics: &Arc<Metrics>) -> [Self; 4] {
        let all = [
            WatchedResource::Nodes,
            WatchedResource::Pods,
            WatchedResource::Reports,
            WatchedResource::Numas,
        ];
        all.map(|resource| Self {
            resource,
            cache: cache.clone(),
            metrics: metrics.clone(),
            list_started: Instant::now(),
            failing: false,
            count: None,
        })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for CacheStore {
    type Item = ParsedObject;

    fn parse(&mut self, object: &RawValue) -> Option<ParsedObject> {
        let (json, now) = (object.get(), Instant::now());
        let parsed = match self.resource {
            WatchedResource::Pods => pod_info::parse(json).map(ParsedObject::Pod),
            WatchedResource::Nodes => {
                node::parse_node(json).map(|node| ParsedObject::Node(Box::new(node)))
            }
            WatchedResource::Reports => node::parse_report(json, now)
                .map(|(name, report)| ParsedObject::Report(name, report)),
            WatchedResource::Numas => {
                node::parse_numa(json, now).map(|(name, report)| ParsedObject::Numa(name, report))
            }
        };
        parsed
            .map_err(|invalid| self.cache().report_invalid_object(&invalid))
            .ok()
    }

    fn replace(&mut self, all: Vec<ParsedObject>) {
        let now = Instant::now();
        let count = all.len();
        let mut cache = self.cache();
        let (mut nodes, mut pods, mut reports, mut numas) = Default::default();
        for item in all {
            let (nodes, pods): (&mut Vec<_>, &mut Vec<_>) = (&mut nodes, &mut pods);
            let (reports, numas): (&mut Vec<_>, &mut Vec<_>) = (&mut reports, &mut numas);
            match item {
                ParsedObject::Node(node) => nodes.push(*node),
                ParsedObject::Pod(pod) => pods.push(pod),
                ParsedObject::Report(name, report) => reports.push((name, report)),
                ParsedObject::Numa(name, report) => numas.push((name, report)),
            }
        }
        match self.resource {
            WatchedResource::Nodes => cache.replace_nodes(nodes, now),
            WatchedResource::Pods => cache.replace_pods(pods, self.list_started, now),
            WatchedResource::Reports => cache.replace_reports(reports, now),
            WatchedResource::Numas => cache.replace_numas(numas, now),
        }
        drop(cache);
        self.failing = false;
        let resource = self.resource.name();
        // A resource that is not served is listed again and again: log only changes.
        if self.count.replace(count) != Some(count) {
            tracing::info!(resource, objects = count, "listed");
        }
    }

    fn apply(&mut self, item: ParsedObject) {
        let now = Instant::now();
        let mut cache = self.cache();
        match item {
            ParsedObject::Node(node) => cache.apply_node(*node, now),
            ParsedObject::Pod(pod) => cache.apply_pod(pod, now),
            ParsedObject::Report(name, report) => cache.apply_report(&name, report, now),
            ParsedObject::Numa(name, report) => cache.apply_numa(&name, report, now),
        }
    }

    fn delete(&mut self, object: &RawValue) {
        let (json, now) = (object.get(), Instant::now());
        if self.resource == WatchedResource::Pods {
            if let Some(identity) = PodIdentity::parse(json) {
                self.cache().delete_identified_pod(&identity, now);
            }
            return;
        }
        let Ok(object) = ApiObject::parse(self.resource.name(), "", json) else {
            return;
        };
        let name = NodeName::from(object.name);
        let mut cache = self.cache();
        match self.resource {
            WatchedResource::Nodes => cache.delete_node(&name, now),
            WatchedResource::Reports => cache.delete_report(&name, now),
            WatchedResource::Numas => cache.delete_numa(&name, now),
            WatchedResource::Pods => {}
        }
    }

    fn record_version(&mut self, version: &str) {
        if self.resource == WatchedResource::Pods
            && let Ok(version) = version.parse()
        {
            self.cache().record_pods_version(version);
        }
    }

    fn record_status(&mut self, status: ReflectorStatus<'_>) {
        let resource = self.resource.name();
        match status {
            ReflectorStatus::Listing => {
                self.list_started = Instant::now();
                self.metrics.count(&catalogue::LISTS, &[resource]);
            }
            ReflectorStatus::Watching => self.metrics.count(&catalogue::WATCHES, &[resource]),
            ReflectorStatus::NotServed => {}
            ReflectorStatus::Receiving => {
                self.metrics.count(&catalogue::WATCH_EVENTS, &[resource]);
                if self.resource == WatchedResource::Pods {
                    let now = Instant::now();
                    self.cache().record_pod_event(now);
                }
                if std::mem::take(&mut self.failing) {
                    tracing::info!(resource, "watch recovered");
                }
            }
            ReflectorStatus::Failed { error, retry_in } => {
                self.metrics.count(&catalogue::WATCH_FAILURES, &[resource]);
                self.failing = true;
                let retry_in = retry_in.as_secs_f32();
                tracing::warn!(resource, %error, retry_in, "watch failed");
            }
        }
    }
}
