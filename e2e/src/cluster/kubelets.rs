//! [`Kubelets`]: plays the kubelets of many nodes: admits bound pods or fails them by the core's model of the kubelet,
//! and reports every node anew some time after it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pinfold_core::name::PodUid;
use pinfold_kube::pod::{self, PodObject};
use serde_json::{Value, json};

use super::played::{Answer, PlayedNode};
use super::watch::{News, Watch};
use crate::control_plane::Admin;
use crate::report::say;

/// Where topology objects are.
pub(crate) const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

/// A pod that a kubelet turned away.
#[derive(Clone, Debug)]
pub(crate) struct Rejected {
    pub(crate) pod: String,
    pub(crate) node: String,
    pub(crate) reason: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}: {}", self.pod, self.node, self.reason)
    }
}

/// The kubelets of a cluster. They end with this.
pub(crate) struct Kubelets {
    shared: Arc<Shared>,
    _watch: Watch,
    stop: Arc<AtomicBool>,
    reporter: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, PlayedNode>,
    /// Pods that were decided about, and where.
    decided: BTreeMap<PodUid, String>,
    /// Nodes that have not reported their last change.
    unreported: BTreeSet<String>,
    /// Status updates that could not be sent while the server was away: path and content.
    untold: Vec<(String, Value)>,
    rejected: Vec<Rejected>,
    /// Pods that run, ever.
    ran: usize,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kubelets {
    /// Plays the kubelets of the nodes that join; reports are sent at the interval `every`.
    pub(crate) fn start(kubeconfig: &Path, every: Duration) -> Result<Self, String> {
        let shared = Arc::new(Shared::default());
        let hearing = Arc::clone(&shared);
        let admin = Admin::new(kubeconfig)?;
        let watch = Watch::start(kubeconfig, move |news| hearing.hear(&admin, news))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (until, reporting) = (Arc::clone(&stop), Arc::clone(&shared));
        let admin = Admin::new(kubeconfig)?;
        let reporter = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                thread::sleep(every);
                reporting.report(&admin);
            }
        });
        Ok(Self {
            shared,
            _watch: watch,
            stop,
            reporter: Some(reporter),
        })
    }

    /// Registers nodes with their objects.
    pub(crate) fn join(&self, admin: &Admin, nodes: Vec<PlayedNode>) -> Result<(), String> {
        for node in nodes {
            admin.expect("POST", "/api/v1/nodes", Some(&node.node()))?;
            admin.expect("POST", TOPOLOGIES, Some(&node.topology()))?;
            self.shared.state().nodes.insert(node.name.clone(), node);
        }
        Ok(())
    }

    /// The kubelets of these nodes are gone, and their objects with them.
    pub(crate) fn leave(&self, admin: &Admin, names: &[&str]) -> Result<(), String> {
        for name in names {
            self.shared.state().nodes.remove(*name);
            admin.expect("DELETE", &format!("/api/v1/nodes/{name}"), None)?;
            admin.expect("DELETE", &format!("{TOPOLOGIES}/{name}"), None)?;
        }
        Ok(())
    }

    /// The names of the nodes.
    pub(crate) fn names(&self) -> Vec<String> {
        self.shared.state().nodes.keys().cloned().collect()
    }

    /// What a pod has, for people.
    pub(crate) fn holding(&self, pod: &str) -> Option<String> {
        let state = self.shared.state();
        let mut nodes = state.nodes.values();
        nodes.find_map(|node| node.holding(pod))
    }

    /// The nodes that would let the pod in now.
    pub(crate) fn would_admit(&self, pod: &Value) -> Result<Vec<String>, String> {
        let pod = read(pod.clone())?.pod;
        let state = self.shared.state();
        let nodes = state.nodes.values().filter(|node| node.would_admit(&pod));
        Ok(nodes.map(|node| node.name.clone()).collect())
    }

    /// Every pod that was turned away so far.
    pub(crate) fn rejected(&self) -> Vec<Rejected> {
        self.shared.state().rejected.clone()
    }

    /// Pods that were turned away so far were so on purpose.
    pub(crate) fn forget_rejected(&self) {
        self.shared.state().rejected.clear();
    }

    /// How many pods were let in so far.
    pub(crate) fn ran(&self) -> usize {
        self.shared.state().ran
    }

    /// How many pods are let in at the moment, and whether every node has reported its last change.
    pub(crate) fn settled(&self) -> (usize, bool) {
        let state = self.shared.state();
        (state.decided.len(), state.unreported.is_empty())
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reporter) = self.reporter.take() {
            let _ = reporter.join();
        }
    }
}

impl Shared {
    /// A pod is new, different or gone.
    fn hear(&self, admin: &Admin, news: News) {
        match news {
            News::Gone(pod) => self.release(&uid(&pod)),
            News::Is(pod) => {
                let ends = pod["metadata"]["deletionTimestamp"].is_string();
                let over = matches!(
                    pod["status"]["phase"].as_str(),
                    Some("Failed" | "Succeeded")
                );
                let here = pod["spec"]["nodeName"].as_str();
                let here = here.filter(|node| self.state().nodes.contains_key(*node));
                match here.map(str::to_owned) {
                    Some(_) if ends => {
                        self.release(&uid(&pod));
                        let path = format!("{}?gracePeriodSeconds=0", path(&pod));
                        let _ = admin.ask("DELETE", &path, None);
                    }
                    Some(_) if over => self.release(&uid(&pod)),
                    Some(node) => self.admit(admin, &node, pod),
                    None => {}
                }
            }
        }
    }

    fn admit(&self, admin: &Admin, node: &str, pod: Value) {
        let (uid, path) = (uid(&pod), path(&pod));
        let mut state = self.state();
        if state.decided.contains_key(&uid) {
            return;
        }
        let answer = match (read(pod), state.nodes.get_mut(node)) {
            (Ok(object), Some(node)) => node.admit(&object),
            (Err(problem), _) => Err(problem),
            (_, None) => return,
        };
        let answer = answer.unwrap_or_else(|problem| {
            say(format_args!("{path}: {problem}"));
            Answer::Fails("Unreadable".to_owned(), problem)
        });
        state.unreported.insert(node.to_owned());
        let status = match answer {
            Answer::Runs => {
                state.ran += 1;
                state.decided.insert(uid.clone(), node.to_owned());
                json!({ "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] })
            }
            Answer::Fails(reason, message) => {
                state.rejected.push(Rejected {
                    pod: path.clone(),
                    node: node.to_owned(),
                    reason: reason.clone(),
                });
                json!({ "phase": "Failed", "reason": reason, "message": message })
            }
        };
        drop(state);
        // Not to be taken for the status of another pod of that name.
        let status = json!({ "metadata": { "uid": uid.as_str() }, "status": status });
        self.say_status(admin, format!("{path}/status"), status);
    }

    /// Writes the status of a pod; if the server is away, when it is back.
    fn say_status(&self, admin: &Admin, path: String, status: Value) {
        match admin.ask("PATCH", &path, Some(&status)) {
            Ok((200..=299, _)) => {}
            Ok((code, answer)) => say(format_args!("{path}: {code} {}", answer["message"])),
            Err(_) => self.state().untold.push((path, status)),
        }
    }

    fn release(&self, uid: &PodUid) {
        let mut state = self.state();
        let Some(node) = state.decided.remove(uid) else {
            return;
        };
        let State {
            nodes, unreported, ..
        } = &mut *state;
        if nodes.get_mut(&node).is_some_and(|node| node.release(uid)) {
            unreported.insert(node);
        }
    }

    /// Writes what could not be written before, and the objects of all nodes that changed.
    fn report(&self, admin: &Admin) {
        let untold = std::mem::take(&mut self.state().untold);
        for (path, status) in untold {
            self.say_status(admin, path, status);
        }
        loop {
            let mut state = self.state();
            let Some(name) = state.unreported.pop_first() else {
                return;
            };
            let Some(topology) = state.nodes.get(&name).map(PlayedNode::topology) else {
                continue;
            };
            drop(state);
            let path = format!("{TOPOLOGIES}/{name}");
            if admin.expect("PATCH", &path, Some(&topology)).is_err() {
                // The server is away: once more at the next occasion.
                self.state().unreported.insert(name);
                return;
            }
        }
    }
}

fn uid(pod: &Value) -> PodUid {
    pod["metadata"]["uid"].as_str().unwrap_or_default().into()
}

fn path(pod: &Value) -> String {
    let meta = &pod["metadata"];
    let text = |key: &str| meta[key].as_str().unwrap_or_default();
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        text("namespace"),
        text("name")
    )
}

/// Reads a pod as the server sends it.
pub(crate) fn read(mut pod: Value) -> Result<PodObject, String> {
    let name = path(&pod);
    let object = pod.as_object_mut().ok_or("expected a pod")?;
    object.insert("apiVersion".to_owned(), "v1".into());
    object.insert("kind".to_owned(), "Pod".into());
    object.remove("status");
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    let read = pod::read(&name, pod.to_string().as_bytes());
    let read = read.map_err(|findings| findings.to_string())?;
    read.value
        .into_iter()
        .next()
        .ok_or_else(|| "expected a pod".to_owned())
}
