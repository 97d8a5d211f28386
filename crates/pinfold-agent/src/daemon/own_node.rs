//! [`OwnNode`]: what is known of the agent's Node object: read before the first decision, followed while the agent runs, and
//! kept for a start without the API server.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;

use super::node_snapshot::NodeSnapshot;
use super::service::Service;
use crate::config::{AgentConfig, NodeDialect};
use crate::kubernetes::{CustomResourceReport, NodeCache, WatchedNode};
use crate::runtime::lock;

/// Name of the file in the state directory.
const FILE: &str = "node.json";
/// Longest Node that is kept: the API server accepts 256 KiB of annotations.
const LONGEST: usize = 512 << 10;
/// How long the first decision waits for the API server, which may run on this node and start later.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// The Node at the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnNode {
    /// Its labels and annotations.
    pub(super) node: WatchedNode,
    /// Whether the API server answered since the agent started: reports are held back until then.
    pub(super) is_current: bool,
}

impl OwnNode {
    /// The Node before the first decision. Under Koordinator's rules waits for the API server, a limited time. Without an
    /// answer it is the Node of the last run.
    pub(super) fn at_start(config: &AgentConfig, name: &str, cache: Option<&NodeCache>) -> Self {
        let Some(cache) = cache else {
            return Self::default();
        };
        let decides = config.dialect == NodeDialect::Koordinator;
        let is_current = decides && cache.wait(FIRST_ANSWER);
        if is_current && let Some(node) = cache.get().filter(|node| !node.json.is_empty()) {
            Self::keep(&config.state_directory, &node);
            return Self { node, is_current };
        }
        let kept = read(&config.state_directory, name);
        if is_current {
            return Self {
                node: kept.unwrap_or_default(),
                is_current,
            };
        }
        if decides {
            match kept.is_some() {
                true => tracing::warn!(
                    "the API server has not answered: labels and annotations of the Node are those of the last run"
                ),
                false => tracing::warn!(
                    "the API server has not answered: pods are placed without labels and annotations of the Node"
                ),
            }
        }
        Self {
            node: kept.unwrap_or_default(),
            is_current: false,
        }
    }

    /// Keeps the Node for the next start.
    pub(super) fn keep(folder: &Path, node: &WatchedNode) {
        if node.json.len() > LONGEST {
            tracing::warn!(
                bytes = node.json.len(),
                "labels and annotations of the Node are too long to be kept"
            );
            return;
        }
        let path = folder.join(FILE);
        if let Err(error) = pinfold_files::replace(&path, node.json.as_bytes()) {
            tracing::warn!(path = %path.display(), %error, "keeping the Node for the next start failed");
        }
    }
}

impl Service {
    /// The Node, as far as it is applied.
    pub(super) fn own_node(&self) -> MutexGuard<'_, OwnNode> {
        let known = self.own_node.lock();
        known.unwrap_or_else(PoisonError::into_inner)
    }

    /// The report of the node; `None` while it would lack what the Node object reserves, because the API server has not
    /// answered yet.
    pub(super) fn report(&self, snapshot: &NodeSnapshot) -> Option<CustomResourceReport> {
        let is_complete = self.cluster.is_none() || snapshot.own_node.is_current;
        is_complete.then(|| snapshot.report(&self.name, &self.config))
    }

    /// Applies the labels and annotations of the Node object, and has the node reported. Those of a Node that does not exist
    /// now, or that the agent may not read now, stay: the CPUs that it reserves are still in use.
    pub(super) fn apply_node(&self, seen: &WatchedNode) {
        if seen.json.is_empty() {
            self.own_node().is_current = true;
            self.publish_updates(Vec::new());
            return;
        }
        for warning in &seen.warnings {
            tracing::warn!(%warning, "label or annotation of the Node");
        }
        let (updates, is_new) = {
            let mut node = lock(&self.node);
            let updates = node.set_node_settings(&seen.settings);
            let mut known = self.own_node();
            known.is_current = true;
            let before = std::mem::replace(&mut known.node, seen.clone());
            (updates, before.json != seen.json)
        };
        if is_new {
            tracing::info!("labels and annotations of the Node applied");
            OwnNode::keep(&self.config.state_directory, seen);
        }
        self.publish_updates(updates);
    }
}

/// The Node that an earlier run kept; `None` if it kept none, or one with another name.
fn read(folder: &Path, name: &str) -> Option<WatchedNode> {
    let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
    let mut text = String::new();
    let file = File::open(folder.join(FILE)).ok()?;
    file.take(limit).read_to_string(&mut text).ok()?;
    let node: Value = serde_json::from_str(&text).ok()?;
    let is_own = node["metadata"]["name"] == *name;
    WatchedNode::read(&node).filter(|_| is_own)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_the_api_server_the_node_of_the_last_run_counts_and_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = AgentConfig {
            state_directory: folder.path().to_owned(),
            ..AgentConfig::default()
        };
        let away = NodeCache::default();
        let start = |name| OwnNode::at_start(&config, name, Some(&away));
        assert_eq!(start("worker-1").node, WatchedNode::default());
        let node = WatchedNode::read(&json!({ "metadata": {
            "name": "worker-1",
            "annotations": { "node.koordinator.sh/reservation": "{\"reservedCPUs\":\"1\"}" },
        } }));
        let node = node.expect("a Node");
        OwnNode::keep(folder.path(), &node);
        let found = start("worker-1");
        assert_eq!((found.node, found.is_current), (node, false));
        assert_eq!(start("worker-2").node, WatchedNode::default());
        let served = NodeCache::default();
        served.set(start("worker-1").node);
        let koordinator = AgentConfig {
            dialect: NodeDialect::Koordinator,
            state_directory: folder.path().join("first"),
            ..config.clone()
        };
        std::fs::create_dir(&koordinator.state_directory).expect("a folder");
        let found = OwnNode::at_start(&koordinator, "worker-1", Some(&served));
        assert!(found.is_current);
        let kept = read(&koordinator.state_directory, "worker-1");
        assert_eq!(kept.as_ref(), Some(&found.node), "from the first start on");
        let forbidden = NodeCache::default();
        forbidden.set(WatchedNode::default());
        let again = OwnNode::at_start(&koordinator, "worker-1", Some(&forbidden));
        assert_eq!((again.node, again.is_current), (found.node, true));
        let still = read(&koordinator.state_directory, "worker-1");
        assert_eq!(still, kept, "a Node that may not be read replaces none");
        for damaged in [
            "",
            "{",
            "[]",
            "{\"metadata\":{\"name\":\"worker-1\",\"labels\":3}}",
        ] {
            std::fs::write(folder.path().join(FILE), damaged).expect("written");
            let found = start("worker-1").node.settings;
            assert_eq!(found, WatchedNode::default().settings, "{damaged}");
        }
    }
}
