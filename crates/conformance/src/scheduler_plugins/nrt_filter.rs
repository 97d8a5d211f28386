//! Replays the family `nrt_filter`.

use std::error::Error;

use pinfold_cluster::node_topology::args::TopologyMatchArgs;
use pinfold_cluster::node_topology::filter::TopologyRejection;
use pinfold_cluster::{ClusterNode, Evaluation, NodeRejection};
use pinfold_core::pod::ResourceList;
use serde::Deserialize;
use serde_json::json;

use super::read;
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    #[serde(flatten)]
    common: read::Input,
    #[serde(rename = "nodeAllocatable")]
    allocatable: ResourceList,
}

pub(super) fn replay(case: &Case) -> Result<ReplayOutcome, String> {
    let input: Input = case.read()?;
    let (node, pod) = input
        .common
        .node_and_pod(input.allocatable, TopologyMatchArgs::default());
    let outcome = node.filter(&pod);
    // What users see is the evaluation of the cluster, which compares the totals first.
    let agrees = match ClusterNode::scheduler_plugins(node).evaluate(&pod) {
        Evaluation::Fits(_) => outcome.is_ok(),
        Evaluation::Rejected(NodeRejection::SchedulerPlugins(rejection)) => {
            outcome.as_ref() == Err(&rejection)
        }
        Evaluation::Rejected(NodeRejection::Insufficient(_)) => true,
        Evaluation::Rejected(_) | Evaluation::FitsInTotal => false,
    };
    if !agrees {
        return Err("the cluster decides otherwise than the plugin".to_owned());
    }
    let code = match &outcome {
        Ok(()) => "Success",
        Err(TopologyRejection::CannotAlign { .. }) => "Unschedulable",
        Err(TopologyRejection::Inconsistent(_)) => "Error",
    };
    let mut reasons = Vec::new();
    if let Err(rejection) = &outcome {
        reasons.push(rejection.to_string());
        reasons.extend(rejection.source().map(ToString::to_string));
    }
    let found = json!({
        "code": code, "reasons": reasons, "markedMaybeOverReserved": outcome.is_err(),
    });
    case.compare(&found)
}
