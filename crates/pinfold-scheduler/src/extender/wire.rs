//! The words of kube-scheduler's extender protocol, version 1. Texts are borrowed from the request where they can be.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A text that is only copied if it was escaped.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// What filter and prioritize are asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Args<'a> {
    /// The pod.
    #[serde(borrow)]
    pub pod: &'a RawValue,
    /// The nodes, for an extender that does not know them.
    #[serde(borrow, default)]
    pub nodes: Option<NodeList<'a>>,
    /// Their names, for one that does (`nodeCacheCapable`).
    #[serde(borrow, default)]
    pub node_names: Option<Vec<Text<'a>>>,
}

/// Nodes as they came.
#[derive(Debug, Deserialize, Serialize)]
pub struct NodeList<'a> {
    /// The nodes.
    #[serde(borrow, default)]
    pub items: Vec<&'a RawValue>,
}

/// The name of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named<'a> {
    #[serde(borrow)]
    pub(crate) metadata: NamedMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct NamedMeta<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
}

/// What filter answers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    /// The nodes that will take the pod, as they came.
    pub nodes: Option<NodeList<'a>>,
    /// Their names.
    pub node_names: Option<Vec<&'a str>>,
    /// Why the others will not.
    pub failed_nodes: Reasons<'a>,
    /// The same for nodes where no leaving pod would help.
    pub failed_and_unresolvable_nodes: Reasons<'a>,
    /// What is wrong with the request.
    pub error: String,
}

/// Names of nodes with reasons, written as a mapping.
#[derive(Debug, Default)]
pub struct Reasons<'a>(pub Vec<(&'a str, String)>);

impl Serialize for Reasons<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, reason) in &self.0 {
            map.serialize_entry(name, reason)?;
        }
        map.end()
    }
}

/// What prioritize answers for one node.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority<'a> {
    /// The node.
    pub host: &'a str,
    /// From 0 to 10.
    pub score: i64,
}

/// What bind is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingArgs {
    /// The pod.
    pub pod_name: String,
    /// Its namespace.
    pub pod_namespace: String,
    /// Its id.
    #[serde(rename = "PodUID")]
    pub pod_uid: String,
    /// The node.
    pub node: String,
}

/// What bind answers.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    /// Why the pod was not bound; empty if it was.
    pub error: String,
}

/// What preempt is asked.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs<'a> {
    /// The pod that needs room.
    #[serde(borrow)]
    pub pod: &'a RawValue,
    /// Who could leave each node, as whole pods.
    #[serde(borrow, default)]
    pub node_name_to_victims: Option<BTreeMap<Text<'a>, Victims<'a>>>,
    /// The same by id.
    #[serde(borrow, default)]
    pub node_name_to_meta_victims: Option<BTreeMap<Text<'a>, MetaVictims<'a>>>,
}

/// Who could leave a node.
#[derive(Debug, Deserialize)]
pub struct Victims<'a> {
    /// The pods.
    #[serde(rename = "Pods", borrow, default)]
    pub pods: Option<Vec<&'a RawValue>>,
    /// How many budgets that violates.
    #[serde(rename = "NumPDBViolations", default)]
    pub violations: i64,
}

/// Who could leave a node, by id.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct MetaVictims<'a> {
    /// The pods.
    #[serde(rename = "Pods", borrow, default)]
    pub pods: Option<Vec<MetaPod<'a>>>,
    /// How many budgets that violates.
    #[serde(rename = "NumPDBViolations", default)]
    pub violations: i64,
}

/// The id of a pod.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct MetaPod<'a> {
    /// The id.
    #[serde(rename = "UID", borrow)]
    pub uid: Cow<'a, str>,
}

/// What preempt answers.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult<'a> {
    /// Who has to leave each node; nodes where that would not help are not named.
    pub node_name_to_meta_victims: BTreeMap<&'a str, MetaVictims<'a>>,
}
