//! Replays the families `schedule` and `schedule_numa`: pods scheduled to one node, one after the other.

use std::collections::BTreeMap;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_cluster::koordinator::node::KoordinatorNode;
use pinfold_cluster::koordinator::plugin::{
    KoordinatorArgs, PodDemand, PreFilterState, filter, pre_bind, pre_filter, reserve, score,
};
use pinfold_cluster::koordinator::policy_values::{BindPolicy, NumaSpec, ResourceSpec};
use pinfold_cluster::koordinator::qos::{KoordinatorQos, Priority};
use pinfold_cluster::koordinator::rejection::{FrameworkCode, KoordinatorRejection};
use pinfold_cluster::koordinator::score::ScoreKind;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::PodUid;
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::node_objects::{NodeInput, ReportInput, node};
use super::node_state::{hint_value, numa_value};
use crate::case::{Case, ReplayOutcome};

const RESOURCE_SPEC: &str = "scheduling.koordinator.sh/resource-spec";
const NUMA_SPEC: &str = "scheduling.koordinator.sh/numa-topology-spec";

#[derive(Deserialize)]
struct Input {
    node: NodeInput,
    nrt: Option<ReportInput>,
    args: ArgsInput,
    pods: Vec<PodInput>,
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
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
    priority: Option<i32>,
    #[serde(default)]
    requests: Option<ResourceList>,
    #[serde(default)]
    delete_before: Option<Vec<String>>,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    case.compare(&answer(case)?)
}

fn answer(case: &Case) -> Result<Value, String> {
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
            completed.unwrap_or(self.json(RESOURCE_SPEC)),
        );
        node.assume(
            PodUid::from(self.name.as_str()),
            &demand.requests,
            allocation,
        );
        true
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn json(&self, key: &str) -> Value {
        let text = self.annotation(key).unwrap_or("null");
        serde_json::from_str(text).unwrap_or(Value::Null)
    }

    fn demand(&self) -> Result<PodDemand, String> {
        let label = |key| {
            self.labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        Ok(PodDemand {
            requests: self.requests.as_ref().map(Amounts::of).unwrap_or_default(),
            limits: Amounts::new(),
            qos: label("koordinator.sh/qosClass").and_then(KoordinatorQos::from_label),
            priority: Priority::from_label_or_number(
                label("koordinator.sh/priority-class"),
                self.priority,
            ),
            spec: match self.annotation(RESOURCE_SPEC) {
                Some(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
                None => ResourceSpec::default(),
            },
            numa: match self.annotation(NUMA_SPEC) {
                Some(text) => serde_json::from_str(text).map_err(|error| error.to_string())?,
                None => NumaSpec::default(),
            },
        })
    }
}

fn end(code: FrameworkCode) -> Value {
    json!({ "code": code, "reasons": [] })
}

fn rejected(rejection: &KoordinatorRejection) -> Value {
    let mut reasons: Vec<String> = rejection.reasons.iter().map(ToString::to_string).collect();
    reasons.sort();
    json!({ "code": rejection.code, "reasons": reasons })
}
