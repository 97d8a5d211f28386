//! Following the API server: every kind of object into the cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinfold_apiserver::{Note, Sink, Source, object};
use pinfold_core::name::NodeName;
use pinfold_core::volcano::predicate::NumaInfo;
use pinfold_daemon::Metrics;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Cache;
use super::node::{self, Heard, NodeFound, Reported};
use super::pod::{self, Found};
use crate::metrics::catalogue;

/// The lists that are followed: nodes, pods, reports, reports to Volcano.
#[must_use]
pub fn sources() -> [Source; 4] {
    let source = |paths: &[&str], optional: bool| Source {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        fields: String::new(),
        page: 500,
        optional,
    };
    [
        source(&["/api/v1/nodes"], false),
        source(&["/api/v1/pods"], false),
        source(
            &[
                "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
                "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies",
            ],
            true,
        ),
        source(&["/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"], true),
    ]
}

/// One kind of object on its way into the cache.
pub struct Follow {
    what: What,
    cache: Arc<Mutex<Cache>>,
    metrics: Arc<Metrics>,
    /// When the list was asked for that comes in.
    asked: Instant,
    failing: bool,
    /// How many there were in the last list.
    count: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Nodes,
    Pods,
    Reports,
    Numas,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Nodes => "nodes",
            What::Pods => "pods",
            What::Reports => "noderesourcetopologies",
            What::Numas => "numatopologies",
        }
    }
}

/// An object that was read.
pub enum Item {
    /// A node.
    Node(Box<NodeFound>),
    /// A pod.
    Pod(Found),
    /// A report.
    Report(NodeName, Heard<Reported>),
    /// A report to Volcano.
    Numa(NodeName, Heard<NumaInfo>),
}

impl Follow {
    /// The four kinds in the order of [`sources`].
    #[must_use]
    pub fn all(cache: &Arc<Mutex<Cache>>, metrics: &Arc<Metrics>) -> [Self; 4] {
        [What::Nodes, What::Pods, What::Reports, What::Numas].map(|what| Self {
            what,
            cache: cache.clone(),
            metrics: metrics.clone(),
            asked: Instant::now(),
            failing: false,
            count: None,
        })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Follow {
    type Item = Item;

    fn read(&mut self, object: &RawValue) -> Option<Item> {
        let object: Value = serde_json::from_str(object.get()).ok()?;
        let now = Instant::now();
        match self.what {
            What::Pods => match pod::read(object) {
                Ok(found) => Some(Item::Pod(found)),
                Err(bad) => {
                    self.cache().bad_pod(&bad);
                    None
                }
            },
            what => {
                let read = match what {
                    What::Nodes => node::read_node(object).map(|node| Item::Node(Box::new(node))),
                    What::Reports => node::read_report(object, now)
                        .map(|(name, heard)| Item::Report(name, heard)),
                    _ => node::read_numa(object, now).map(|(name, heard)| Item::Numa(name, heard)),
                };
                read.map_err(|bad| self.cache().bad_object(&bad)).ok()
            }
        }
    }

    fn replace(&mut self, all: Vec<Item>) {
        let now = Instant::now();
        let count = all.len();
        let mut cache = self.cache();
        let (mut nodes, mut pods, mut reports, mut numas) = Default::default();
        for item in all {
            let (nodes, pods): (&mut Vec<_>, &mut Vec<_>) = (&mut nodes, &mut pods);
            let (reports, numas): (&mut Vec<_>, &mut Vec<_>) = (&mut reports, &mut numas);
            match item {
                Item::Node(node) => nodes.push(*node),
                Item::Pod(pod) => pods.push(pod),
                Item::Report(name, heard) => reports.push((name, heard)),
                Item::Numa(name, heard) => numas.push((name, heard)),
            }
        }
        match self.what {
            What::Nodes => cache.replace_nodes(nodes, now),
            What::Pods => cache.replace_pods(pods, self.asked, now),
            What::Reports => cache.replace_reports(reports, now),
            What::Numas => cache.replace_numas(numas, now),
        }
        drop(cache);
        self.failing = false;
        let what = self.what.name();
        // A kind that is not served is asked for again and again.
        if self.count.replace(count) != Some(count) {
            tracing::info!(resource = what, objects = count, "listed");
        }
    }

    fn put(&mut self, item: Item) {
        let now = Instant::now();
        let mut cache = self.cache();
        match item {
            Item::Node(node) => cache.put_node(*node, now),
            Item::Pod(pod) => cache.put_pod(pod, now),
            Item::Report(name, heard) => cache.put_report(&name, heard, now),
            Item::Numa(name, heard) => cache.put_numa(&name, heard, now),
        }
    }

    fn forget(&mut self, object: &RawValue) {
        let now = Instant::now();
        let object: Value = serde_json::from_str(object.get()).unwrap_or_default();
        let name = NodeName::from(object::full_name(&object));
        let mut cache = self.cache();
        match self.what {
            What::Nodes => cache.forget_node(&name, now),
            What::Pods => {
                if let Some(uid) = pod::uid(&object) {
                    cache.forget_pod(&uid, now);
                }
            }
            What::Reports => cache.forget_report(&name, now),
            What::Numas => cache.forget_numa(&name, now),
        }
    }

    fn note(&mut self, note: Note<'_>) {
        let what = self.what.name();
        match note {
            Note::Listing => {
                self.asked = Instant::now();
                self.metrics.count(&catalogue::LISTS, &[what]);
            }
            Note::Watching => self.metrics.count(&catalogue::WATCHES, &[what]),
            Note::Absent => {}
            Note::Works => {
                self.metrics.count(&catalogue::WATCH_EVENTS, &[what]);
                if self.what == What::Pods {
                    let now = Instant::now();
                    self.cache().pods_heard(now);
                }
                if std::mem::take(&mut self.failing) {
                    tracing::info!(resource = what, "watch recovered");
                }
            }
            Note::Behind { error, retry_in } => {
                self.metrics.count(&catalogue::WATCH_FAILURES, &[what]);
                self.failing = true;
                let wait = retry_in.as_secs_f32();
                tracing::warn!(resource = what, %error, retry_in = wait, "watch failed");
            }
        }
    }
}
