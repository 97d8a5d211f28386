//! Replays the families `schedule` and `schedule_numa`: pods scheduled to one node, one after the other. Nodes, reports
//! and pods are read as the scheduler reads them from the API server.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::node::KoordinatorNode;
use pinfold_cluster::koordinator::plugin::{
    KoordinatorArgs, PodDemand, PreFilterState, filter, pre_bind, pre_filter, reserve, score,
};
use pinfold_cluster::koordinator::policy_values::BindPolicy;
use pinfold_cluster::koordinator::rejection::{FrameworkCode, KoordinatorRejection};
use pinfold_cluster::koordinator::score::ScoreKind;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::PodUid;
use pinfold_kube::diagnostic::Diagnostics;
use pinfold_kube::manifest::{self, Document};
use pinfold_kube::node::NodeObject;
use pinfold_kube::node_resource_topology::NodeResourceTopology;
use pinfold_kube::{koordinator, pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::node_state::{hint_value, numa_value};
use crate::case::Case;

const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";

#[derive(Deserialize)]
struct Input {
    node: NodeInput,
    nrt: Option<ReportInput>,
    args: ArgsInput,
    pods: Vec<PodInput>,
}

#[derive(Deserialize)]
struct NodeInput {
    labels: Value,
    annotations: Value,
    allocatable: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportInput {
    annotations: Value,
    topology_policies: Value,
    zones: Option<Vec<ZoneInput>>,
}

#[derive(Deserialize)]
struct ZoneInput {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    resources: Option<BTreeMap<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArgsInput {
    #[serde(rename = "defaultCPUBindPolicy")]
    default_cpu_bind_policy: String,
    scoring_strategy: ScoringInput,
    numa_scoring_strategy: ScoringInput,
}

#[derive(Deserialize)]
struct ScoringInput {
    #[serde(rename = "type")]
    kind: ScoreKind,
    resources: Amounts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodInput {
    name: String,
    #[serde(default)]
    labels: Value,
    #[serde(default)]
    annotations: Value,
    priority: Option<i32>,
    #[serde(default)]
    requests: Value,
    #[serde(default)]
    delete_before: Option<Vec<String>>,
}

pub(super) fn answer(case: &Case) -> Result<Value, String> {
    let input: Input = case.read()?;
    let args = KoordinatorArgs {
        default_bind: BindPolicy::parse(&input.args.default_cpu_bind_policy),
        scoring: input.args.scoring_strategy.kind,
        numa_scoring: input.args.numa_scoring_strategy.kind,
        weights: input.args.scoring_strategy.resources,
        ..KoordinatorArgs::default()
    };
    let mut node = node(&input.node, input.nrt.as_ref())?;
    let mut placed: BTreeMap<&str, Amounts> = BTreeMap::new();
    let mut stages = Vec::new();
    for pod in &input.pods {
        for name in pod.delete_before.iter().flatten() {
            if let Some(requests) = placed.remove(name.as_str()) {
                node.forget(&PodUid::from(name.as_str()), &requests);
            }
        }
        let (row, requests) = pod.schedule(&mut node, &args);
        stages.push(Value::Object(row));
        if let Some(requests) = requests {
            placed.insert(&pod.name, requests);
        }
    }
    Ok(Value::Array(stages))
}

impl PodInput {
    /// Runs all extension points; returns their results, and the pod's requests if it is placed.
    fn schedule(
        &self,
        node: &mut KoordinatorNode,
        args: &KoordinatorArgs,
    ) -> (Map<String, Value>, Option<Amounts>) {
        let mut row = Map::new();
        row.insert("pod".into(), self.name.as_str().into());
        let demand = match self.demand() {
            Ok(demand) => demand,
            Err(error) => {
                row.insert(
                    "preFilter".into(),
                    json!({ "code": "Error", "reasons": [error] }),
                );
                return (row, None);
            }
        };
        let state = match pre_filter(&demand, args, Fidelity::Exact) {
            Ok(Some(state)) => state,
            Ok(None) => {
                row.insert("preFilter".into(), end(FrameworkCode::Skip));
                return (row, None);
            }
            Err(rejection) => {
                row.insert("preFilter".into(), rejected(&rejection));
                return (row, None);
            }
        };
        row.insert("preFilter".into(), end(FrameworkCode::Success));
        match self.place(&mut row, &state, &demand, node, args) {
            true => (row, Some(demand.requests)),
            false => (row, None),
        }
    }

    fn place(
        &self,
        row: &mut Map<String, Value>,
        state: &PreFilterState,
        demand: &PodDemand,
        node: &mut KoordinatorNode,
        args: &KoordinatorArgs,
    ) -> bool {
        let placement = match filter(state, node, args) {
            Ok(placement) => placement,
            Err(rejection) => {
                row.insert("filter".into(), rejected(&rejection));
                return false;
            }
        };
        row.insert("filter".into(), end(FrameworkCode::Success));
        if let Some(hint) = &placement {
            row.insert("affinityAfterFilter".into(), hint_value(hint));
        }
        row.insert(
            "score".into(),
            score(state, node, args, placement.as_ref()).into(),
        );
        let allocation = match reserve(state, node, args, placement.as_ref()) {
            Ok(allocation) => allocation,
            Err(rejection) => {
                row.insert("reserve".into(), rejected(&rejection));
                return false;
            }
        };
        row.insert("reserve".into(), end(FrameworkCode::Success));
        row.insert("preBind".into(), end(FrameworkCode::Success));
        let status = allocation.as_ref().map(|allocation| {
            json!({
                "cpuset": allocation.cpus.to_string(),
                "numaNodeResources": numa_value(&allocation.numa),
            })
        });
        row.insert("resourceStatus".into(), status.into());
        let completed = allocation
            .as_ref()
            .and_then(|_| pre_bind(state, node, args, &demand.spec))
            .map(|spec| json!(spec));
        row.insert(
            "resourceSpec".into(),
            completed.unwrap_or_else(|| self.resource_spec()),
        );
        node.assume(
            PodUid::from(self.name.as_str()),
            &demand.requests,
            allocation,
        );
        true
    }

    /// The annotation `resource-spec`.
    fn resource_spec(&self) -> Value {
        let text = self.annotations[RESOURCE_SPEC].as_str();
        serde_json::from_str(text.unwrap_or("null")).unwrap_or(Value::Null)
    }

    fn demand(&self) -> Result<PodDemand, String> {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.name, "uid": self.name,
                "labels": self.labels, "annotations": self.annotations,
            },
            "spec": {
                "priority": self.priority,
                "containers": [{ "name": "main", "resources": { "requests": self.requests } }],
            },
        });
        let pods = pod::pods_of(&document(&object)?).map_err(|error| error.to_string())?;
        let pod = pods.value.first().ok_or("no pod")?;
        let demand = koordinator::demand(pod, Fidelity::Exact);
        Ok(demand.map_err(|problems| reason(&problems))?.value)
    }
}

/// The words of the plugin about an annotation that is no JSON: those of the decoder alone. Our error also says where the
/// text stands.
fn reason(problems: &Diagnostics) -> String {
    let decoder = problems.0.first().and_then(|first| first.hint.clone());
    decoder.unwrap_or_else(|| problems.to_string())
}

/// The node as the scheduler reads it from its objects.
fn node(node: &NodeInput, report: Option<&ReportInput>) -> Result<KoordinatorNode, String> {
    let object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "node", "labels": node.labels, "annotations": node.annotations },
        "status": { "allocatable": node.allocatable },
    });
    let node = NodeObject::read(&document(&object)?).map_err(|error| error.to_string())?;
    let report = report.map(ReportInput::read).transpose()?;
    let node = koordinator::node(&node.value, report.as_ref(), Fidelity::Exact);
    Ok(node.map_err(|error| error.to_string())?.value)
}

impl ReportInput {
    fn read(&self) -> Result<NodeResourceTopology, String> {
        let zone = |zone: &ZoneInput| {
            let resources = zone.resources.iter().flatten();
            let resources = resources.map(|(name, amount)| {
                json!({
                    "name": name, "capacity": amount, "allocatable": amount, "available": amount,
                })
            });
            let resources: Vec<Value> = resources.collect();
            json!({ "name": zone.name, "type": zone.kind, "resources": resources })
        };
        let zones: Vec<Value> = self.zones.iter().flatten().map(zone).collect();
        let object = json!({
            "apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
            "metadata": { "name": "node", "annotations": self.annotations },
            "topologyPolicies": self.topology_policies,
            "zones": zones,
        });
        let read = NodeResourceTopology::read(&document(&object)?);
        Ok(read.map_err(|error| error.to_string())?.value)
    }
}

fn document(object: &Value) -> Result<Document, String> {
    let documents = manifest::read("case", object.to_string().as_bytes());
    let mut documents = documents.map_err(|error| error.to_string())?;
    documents.pop().ok_or_else(|| "no object".to_owned())
}

fn end(code: FrameworkCode) -> Value {
    json!({ "code": code, "reasons": [] })
}

fn rejected(rejection: &KoordinatorRejection) -> Value {
    let mut reasons: Vec<String> = rejection.reasons.iter().map(ToString::to_string).collect();
    reasons.sort();
    json!({ "code": rejection.code, "reasons": reasons })
}
