//! [`Evidence`]: the objects of a cluster, reduced to what the checks read.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pinfold_cluster::node_topology::attributes::{CPU_POLICY, MEMORY_POLICY};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::koordinator::{ReportAnnotations, ResourceStatus};
use pinfold_kube::manifest::Document;
use pinfold_kube::node_resource_topology::NodeResourceTopology;
use pinfold_kube::node_state::PublishedNodeState;
use pinfold_kube::objects::ClusterObjects;
use serde_json::Value;

/// The agent's name in `managedFields`.
pub(super) const AGENT: &str = "pinfold-agent";
/// The most errors of invalid objects.
const MAX_INVALID: usize = 100;

/// What the checks read of a cluster.
#[derive(Default)]
pub(super) struct Evidence {
    /// By name.
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    /// By name, which is the node's.
    pub(super) reports: BTreeMap<String, ReportFacts>,
    /// Pods that have not succeeded.
    pub(super) pods: Vec<PodFacts>,
    /// CustomResourceDefinitions as they are, by name; `None` if none was read.
    pub(super) definitions: Option<BTreeMap<String, Value>>,
    pub(super) events: Vec<EventFacts>,
    /// Errors of invalid objects, with the kind and name of each.
    pub(super) invalid: Vec<(String, String)>,
    /// What could not be checked, and why.
    pub(super) not_checked: Vec<String>,
    /// When the objects were read; for files the latest time in them.
    pub(super) now: Timestamp,
}

/// A Node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeFacts {
    /// As in `v1.36.4`; empty if unknown.
    pub(super) kubelet: String,
    /// As in `containerd://2.1.0`; empty if unknown.
    pub(super) runtime: String,
    /// The agent's condition.
    pub(super) condition: Option<AgentCondition>,
    /// Whether the node can have a report: it runs Linux, and no label says that it has none.
    pub(super) expects_report: bool,
}

/// The condition `PinfoldReady`.
#[derive(Clone, Debug)]
pub(super) struct AgentCondition {
    pub(super) is_ready: bool,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) heartbeat: Option<Timestamp>,
}

/// A NodeResourceTopology.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportFacts {
    /// Whether our agent wrote it.
    pub(super) is_ours: bool,
    /// Whether our agent decides and pins (mode manage).
    pub(super) is_managed: bool,
    pub(super) topology_policy: String,
    pub(super) scope: String,
    /// Policies of the CPU and memory manager; `None` if the report does not have them.
    pub(super) cpu_policy: Option<String>,
    pub(super) memory_policy: Option<String>,
    /// The kubelet's own CPU manager policy.
    pub(super) kubelet_cpu_policy: String,
    /// The exclusive CPUs of each pod by uid; `None` if the report lists no pods.
    pub(super) pods: Option<BTreeMap<String, CpuSet>>,
    /// Pods that the kubelet pinned.
    pub(super) kubelet_pods: usize,
    /// Other clients than the agent that wrote zones, attributes or policies.
    pub(super) writers: BTreeSet<String>,
    /// The last write; `None` if unknown.
    pub(super) written: Option<Timestamp>,
}

/// A Pod that has not succeeded.
#[derive(Clone, Debug, Default)]
pub(super) struct PodFacts {
    /// `namespace/name`.
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: Option<String>,
    pub(super) scheduler: String,
    pub(super) phase: String,
    /// Reason and message of its status.
    pub(super) reason: String,
    pub(super) message: String,
    /// Why a container of it waits.
    pub(super) waiting: Option<String>,
    pub(super) is_ready: bool,
    pub(super) started: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
    pub(super) images: Vec<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// The number of exclusive CPUs that a static CPU manager gives it.
    pub(super) exclusive_cpus: usize,
    /// The CPUs that a scheduler chose.
    pub(super) chosen_cpus: CpuSet,
    /// Whether it opted out of pinning.
    pub(super) is_opted_out: bool,
}

/// An Event.
#[derive(Clone, Debug, Default)]
pub(super) struct EventFacts {
    pub(super) reason: String,
    pub(super) message: String,
    /// `namespace/name` of a pod, the name of a node.
    pub(super) object: String,
    pub(super) kind: String,
    /// The node of its reporter.
    pub(super) host: Option<String>,
    pub(super) last: Option<Timestamp>,
}

impl Evidence {
    /// Adds an object; those of other kinds are ignored.
    pub(super) fn add(&mut self, document: &Document, raw: &Value) {
        let name = text(&raw["metadata"]["name"]).to_owned();
        match document.kind() {
            "Node" => drop(self.nodes.insert(name, NodeFacts::of(raw))),
            "NodeResourceTopology" => match ReportFacts::of(document, raw) {
                Ok(report) => drop(self.reports.insert(name, report)),
                Err(why) => {
                    self.note_invalid(name.clone(), why);
                    // It is there, so that its node does not count as one without a report.
                    self.reports.insert(name, ReportFacts::default());
                }
            },
            "Pod" => {
                let pod = PodFacts::of(document, raw);
                if pod.phase != "Succeeded" {
                    self.pods.push(pod);
                }
            }
            "CustomResourceDefinition" => {
                let definitions = self.definitions.get_or_insert_default();
                definitions.insert(name, raw.clone());
            }
            "Event" => self.events.push(EventFacts::of(raw)),
            _ => {}
        }
    }

    /// Records why an object is invalid, for the first [`MAX_INVALID`] of them.
    pub(super) fn note_invalid(&mut self, name: String, why: String) {
        if self.invalid.len() < MAX_INVALID {
            self.invalid.push((name, why));
        }
    }

    /// The time of the latest thing that happened, for objects from files.
    pub(super) fn latest(&self) -> Timestamp {
        let pods = self.pods.iter().flat_map(|pod| [pod.started, pod.created]);
        let events = self.events.iter().map(|event| event.last);
        let reports = self.reports.values().map(|report| report.written);
        let conditions = self
            .nodes
            .values()
            .filter_map(|node| node.condition.as_ref());
        let beats = conditions.map(|condition| condition.heartbeat);
        let all = pods.chain(events).chain(reports).chain(beats);
        all.flatten().max().unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// Running pods with a right to exclusive CPUs, with their node and its report.
    pub(super) fn pods_with_cpus(&self) -> impl Iterator<Item = (&PodFacts, &str, &ReportFacts)> {
        let pods = self.pods.iter();
        let pods = pods
            .filter(|pod| pod.phase == "Running" && pod.exclusive_cpus > 0 && !pod.is_opted_out);
        pods.filter_map(|pod| {
            let node = pod.node.as_deref()?;
            Some((pod, node, self.reports.get(node)?))
        })
    }

    /// The agent's pod on each node; empty if agents run outside of the cluster.
    pub(super) fn agent_pods(&self) -> BTreeMap<&str, &PodFacts> {
        let pods = self.pods.iter().filter(|pod| pod.is_agent());
        pods.filter_map(|pod| Some((pod.node.as_deref()?, pod)))
            .collect()
    }

    /// Whether something happened within this long before now.
    pub(super) fn is_recent(&self, at: Option<Timestamp>, within: jiff::SignedDuration) -> bool {
        at.is_some_and(|at| self.now.duration_since(at) <= within)
    }
}

impl NodeFacts {
    fn of(raw: &Value) -> Self {
        let status = &raw["status"];
        let info = &status["nodeInfo"];
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let condition = conditions
            .filter(|one| one["type"] == "PinfoldReady")
            .map(|one| AgentCondition {
                is_ready: one["status"] == "True",
                reason: text(&one["reason"]).to_owned(),
                message: text(&one["message"]).to_owned(),
                heartbeat: time(&one["lastHeartbeatTime"]),
            })
            .next();
        let labels = &raw["metadata"]["labels"];
        let is_linux = matches!(text(&info["operatingSystem"]), "" | "linux");
        Self {
            kubelet: text(&info["kubeletVersion"]).to_owned(),
            runtime: text(&info["containerRuntimeVersion"]).to_owned(),
            condition,
            expects_report: is_linux && labels["pinfold.dev/dialect"] != "unknown",
        }
    }
}

impl ReportFacts {
    fn of(document: &Document, raw: &Value) -> Result<Self, String> {
        let read = NodeResourceTopology::read(document).map_err(|found| found.to_string())?;
        let topology = read.value;
        let state = PublishedNodeState::read(&topology).map_err(|found| found.to_string())?;
        let annotations = ReportAnnotations::read(&topology, Fidelity::Sound);
        let annotations = annotations.map_err(|found| found.to_string())?.value;
        let attribute = |name: &str| {
            let mut all = topology.attributes.iter();
            let found = all.find(|attribute| attribute.name == name);
            found.map(|attribute| attribute.value.clone())
        };
        let (policy, scope) = topology.policy_and_scope();
        let state = state.value;
        let fields = raw["metadata"]["managedFields"].as_array();
        let fields: Vec<&Value> = fields.into_iter().flatten().collect();
        let writes_report = |entry: &&&Value| {
            let written = ["f:zones", "f:attributes", "f:topologyPolicies"];
            let own = &entry["fieldsV1"];
            written.iter().any(|field| !own[*field].is_null())
        };
        let writers = fields.iter().filter(writes_report);
        let writers = writers.map(|entry| text(&entry["manager"]).to_owned());
        let times = fields.iter().map(|entry| time(&entry["time"]));
        Ok(Self {
            is_ours: state.is_some() || fields.iter().any(|entry| entry["manager"] == AGENT),
            is_managed: state
                .as_ref()
                .is_some_and(|state| state.fidelity != Fidelity::Exact),
            topology_policy: policy.to_owned(),
            scope: scope.to_owned(),
            cpu_policy: attribute(CPU_POLICY),
            memory_policy: attribute(MEMORY_POLICY),
            kubelet_cpu_policy: annotations.cpu_manager.policy,
            kubelet_pods: annotations
                .pod_cpus
                .iter()
                .filter(|pod| pod.managed_by_kubelet)
                .count(),
            pods: state.map(|state| {
                let pods = state.pods.into_iter();
                pods.map(|pod| (pod.uid.to_string(), pod.cpus)).collect()
            }),
            writers: writers.filter(|writer| writer != AGENT).collect(),
            written: times.flatten().max(),
        })
    }
}

impl PodFacts {
    fn of(document: &Document, raw: &Value) -> Self {
        let (meta, spec, status) = (&raw["metadata"], &raw["spec"], &raw["status"]);
        let namespace = match text(&meta["namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let containers = items(&spec["containers"]).into_iter();
        let images = containers.chain(items(&spec["initContainers"]));
        let waiting = items(&status["containerStatuses"]).iter().find_map(|own| {
            own["state"]["waiting"]["reason"]
                .as_str()
                .map(str::to_owned)
        });
        let conditions = items(&status["conditions"]);
        let labels = meta["labels"].as_object().into_iter().flatten();
        let mut facts = Self {
            name: format!("{namespace}/{}", text(&meta["name"])),
            uid: text(&meta["uid"]).to_owned(),
            node: spec["nodeName"].as_str().map(str::to_owned),
            scheduler: text(&spec["schedulerName"]).to_owned(),
            phase: text(&status["phase"]).to_owned(),
            reason: text(&status["reason"]).to_owned(),
            message: text(&status["message"]).to_owned(),
            waiting,
            is_ready: conditions
                .iter()
                .any(|one| one["type"] == "Ready" && one["status"] == "True"),
            started: time(&status["startTime"]),
            created: time(&meta["creationTimestamp"]),
            images: images
                .filter_map(|own| own["image"].as_str().map(str::to_owned))
                .collect(),
            labels: labels
                .map(|(key, value)| (key.clone(), text(value).to_owned()))
                .collect(),
            is_opted_out: meta["annotations"]["pinfold.dev/pin"] == "false",
            ..Self::default()
        };
        // The demand of a pod that cannot be parsed is unknown; `explain` and `top` report it.
        let mut objects = ClusterObjects::default();
        if objects.add_object(document).is_ok()
            && let Some(pod) = objects.pods.pop()
        {
            facts.exclusive_cpus = PodDemand::new(&pod.pod, PodLevel::Ignored).pod_cpus();
            let status = ResourceStatus::read(&pod, Fidelity::Sound);
            if let Some(chosen) = status.ok().and_then(|read| read.value) {
                facts.chosen_cpus = chosen.cpus;
            }
        }
        facts
    }

    /// Whether it is a pod of our agent.
    pub(super) fn is_agent(&self) -> bool {
        let label = |key: &str| self.labels.get(key).map_or("", String::as_str);
        label("app") == AGENT
            || (label("app.kubernetes.io/name") == "pinfold"
                && label("app.kubernetes.io/component") == "agent")
    }
}

impl EventFacts {
    fn of(raw: &Value) -> Self {
        let about = match raw["involvedObject"].is_null() {
            true => &raw["regarding"],
            false => &raw["involvedObject"],
        };
        let (kind, name) = (text(&about["kind"]), text(&about["name"]));
        let times = [
            &raw["series"]["lastObservedTime"],
            &raw["lastTimestamp"],
            &raw["eventTime"],
            &raw["firstTimestamp"],
            &raw["metadata"]["creationTimestamp"],
        ];
        Self {
            reason: text(&raw["reason"]).to_owned(),
            message: text(&raw["message"]).to_owned(),
            object: match kind {
                "Pod" => format!("{}/{name}", text(&about["namespace"])),
                _ => name.to_owned(),
            },
            kind: kind.to_owned(),
            host: raw["source"]["host"].as_str().map(str::to_owned),
            last: times.into_iter().find_map(time),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
