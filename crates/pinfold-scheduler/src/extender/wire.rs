//! The types of kube-scheduler's extender protocol v1. Strings are borrowed from the request where possible.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A string that is copied only if it contains escapes.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// `ExtenderArgs`: the request of filter and prioritize.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderArgs<'a> {
    /// The pod.
    #[serde(borrow)]
    pub pod: &'a RawValue,
    /// The nodes, for extenders without `nodeCacheCapable`.
    #[serde(borrow, default)]
    pub nodes: Option<NodeList<'a>>,
    /// The names of the nodes, for extenders with `nodeCacheCapable`.
    #[serde(borrow, default)]
    pub node_names: Option<Vec<Text<'a>>>,
}

impl ExtenderArgs<'_> {
    /// The names of the nodes.
    pub(crate) fn names(&self) -> Result<Vec<Cow<'_, str>>, serde_json::Error> {
        match (&self.node_names, &self.nodes) {
            (Some(names), _) => Ok(names.iter().map(|name| (&*name.0).into()).collect()),
            (None, Some(nodes)) => {
                let names = nodes.items.iter().map(|node| {
                    let named: NamedObject<'_> = serde_json::from_str(node.get())?;
                    Ok(named.metadata.name)
                });
                names.collect()
            }
            (None, None) => Ok(Vec::new()),
        }
    }
}

/// Nodes as unparsed JSON.
#[derive(Debug, Deserialize, Serialize)]
pub struct NodeList<'a> {
    /// The nodes.
    #[serde(borrow, default)]
    pub items: Vec<&'a RawValue>,
}

/// An object of which only the name is parsed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedObject<'a> {
    #[serde(borrow)]
    metadata: NamedObjectMeta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamedObjectMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// `ExtenderFilterResult`: the response of filter.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FilterResult<'a> {
    /// The nodes that will admit the pod, as they were sent.
    pub nodes: Option<NodeList<'a>>,
    /// The names of the nodes that will admit the pod.
    pub node_names: Option<Vec<&'a str>>,
    /// The other nodes with the reasons.
    pub failed_nodes: FailedNodes<'a>,
    /// Nodes where evicting pods cannot help, with the reasons.
    pub failed_and_unresolvable_nodes: FailedNodes<'a>,
    /// The error of the whole request.
    pub error: String,
}

/// Nodes with reasons, serialized as a map.
#[derive(Debug, Default)]
pub struct FailedNodes<'a>(pub Vec<(&'a str, String)>);

impl Serialize for FailedNodes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, reason) in &self.0 {
            map.serialize_entry(name, reason)?;
        }
        map.end()
    }
}

/// `HostPriority`: the score of one node.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct HostPriority<'a> {
    /// The node.
    pub host: &'a str,
    /// The score, from 0 to 10.
    pub score: i64,
}

/// `ExtenderBindingArgs`: the request of bind.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct BindingArgs {
    /// The name of the pod.
    pub pod_name: String,
    /// The namespace of the pod.
    pub pod_namespace: String,
    /// The uid of the pod.
    #[serde(rename = "PodUID")]
    pub pod_uid: String,
    /// The node.
    pub node: String,
}

/// `ExtenderBindingResult`: the response of bind.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct BindingResult {
    /// Why the pod was not bound; empty if it was.
    pub error: String,
}

/// `ExtenderPreemptionArgs`: the request of preempt.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionArgs<'a> {
    /// The pod that preempts.
    #[serde(borrow)]
    pub pod: &'a RawValue,
    /// The possible victims on each node, as whole pods.
    #[serde(borrow, default)]
    pub node_name_to_victims: Option<BTreeMap<Text<'a>, Victims<'a>>>,
    /// The possible victims on each node, by uid.
    #[serde(borrow, default)]
    pub node_name_to_meta_victims: Option<BTreeMap<Text<'a>, MetaVictims<'a>>>,
}

/// `Victims`: the possible victims on a node.
#[derive(Debug, Deserialize)]
pub struct Victims<'a> {
    /// The victims.
    #[serde(rename = "Pods", borrow, default)]
    pub pods: Option<Vec<&'a RawValue>>,
    /// The number of violated PodDisruptionBudgets.
    #[serde(rename = "NumPDBViolations", default)]
    pub violations: i64,
}

/// `MetaVictims`: the victims on a node by uid.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct MetaVictims<'a> {
    /// The victims.
    #[serde(rename = "Pods", borrow, default)]
    pub pods: Option<Vec<MetaPod<'a>>>,
    /// The number of violated PodDisruptionBudgets.
    #[serde(rename = "NumPDBViolations", default)]
    pub violations: i64,
}

/// `MetaPod`: the uid of a pod.
#[derive(Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct MetaPod<'a> {
    /// The uid.
    #[serde(rename = "UID", borrow)]
    pub uid: Cow<'a, str>,
}

/// `ExtenderPreemptionResult`: the response of preempt.
#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "PascalCase")]
pub struct PreemptionResult<'a> {
    /// The victims on each node; nodes where evictions do not help are missing.
    pub node_name_to_meta_victims: BTreeMap<&'a str, MetaVictims<'a>>,
}
