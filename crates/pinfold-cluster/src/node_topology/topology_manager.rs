//! [`TopologyManagerConfig`]: the configuration of a node's topology manager, read from its topology object.
//!
//! Mirrors `TopologyManagerFromNodeResourceTopology`: the first of the deprecated policy values, then the attributes
//! field by field, each valid value replacing the previous one. Invalid values are ignored.

use std::str::FromStr;

use super::{NodeTopology, attributes};
use pinfold_core::ledger::SettingsError;
use pinfold_core::policy::{TopologyPolicy, UnknownPolicy};
use pinfold_core::settings::{TopologyScope, UnknownScope};

/// The configuration of a node's topology manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyManagerConfig {
    /// Its policy.
    pub policy: TopologyPolicy,
    /// Its scope.
    pub scope: TopologyScope,
    /// Its maximum number of NUMA nodes, 2 to 1024. Scores divide 100 by it.
    pub max_numa_nodes: i64,
}

impl Default for TopologyManagerConfig {
    fn default() -> Self {
        Self {
            policy: TopologyPolicy::None,
            scope: TopologyScope::Container,
            max_numa_nodes: 8,
        }
    }
}

/// Larger numbers of NUMA nodes are capped.
const MAX_NUMA_NODES: i64 = 1024;

impl TopologyManagerConfig {
    /// Reads the configuration of a node.
    #[must_use]
    pub fn of(topology: &NodeTopology) -> Self {
        let mut manager = Self::default();
        if let Some(value) = topology.topology_policies.first()
            && let Some((policy, scope)) = policy_and_scope(value)
        {
            (manager.policy, manager.scope) = (policy, scope);
        }
        for attribute in &topology.attributes {
            let value = attribute.value.as_str();
            match attribute.name.as_str() {
                attributes::TOPOLOGY_SCOPE => {
                    manager.scope = value.parse().unwrap_or(manager.scope);
                }
                attributes::TOPOLOGY_POLICY => {
                    manager.policy = value.parse().unwrap_or(manager.policy);
                }
                attributes::MAX_NUMA_NODES => match value.parse::<i64>() {
                    Ok(most) if most > 1 => manager.max_numa_nodes = most.min(MAX_NUMA_NODES),
                    _ => {}
                },
                _ => {}
            }
        }
        manager
    }
}

/// The policy and scope of a deprecated policy value. `None`, `Restricted` and `BestEffort` have no scope and are
/// ignored like unknown values.
fn policy_and_scope(value: &str) -> Option<(TopologyPolicy, TopologyScope)> {
    Some(match value {
        "SingleNUMANodePodLevel" => (TopologyPolicy::SingleNumaNode, TopologyScope::Pod),
        "SingleNUMANodeContainerLevel" => {
            (TopologyPolicy::SingleNumaNode, TopologyScope::Container)
        }
        "RestrictedPodLevel" => (TopologyPolicy::Restricted, TopologyScope::Pod),
        "RestrictedContainerLevel" => (TopologyPolicy::Restricted, TopologyScope::Container),
        "BestEffortPodLevel" => (TopologyPolicy::BestEffort, TopologyScope::Pod),
        "BestEffortContainerLevel" => (TopologyPolicy::BestEffort, TopologyScope::Container),
        _ => return None,
    })
}

/// The policy and scope to predict the kubelet with. The deprecated values without a scope, which the plugin ignores,
/// still name a policy.
///
/// # Errors
/// For an unknown value: a node that may align pods must not be treated as one that does not.
pub(super) fn kubelet_policy_and_scope(
    topology: &NodeTopology,
) -> Result<(TopologyPolicy, TopologyScope), SettingsError> {
    let manager = TopologyManagerConfig::of(topology);
    if let Some(name) = unknown::<TopologyPolicy>(topology, attributes::TOPOLOGY_POLICY) {
        return Err(UnknownPolicy { name: name.into() }.into());
    }
    let is_set = topology.attribute(attributes::TOPOLOGY_POLICY).is_some();
    let value = topology.topology_policies.first().map(String::as_str);
    let policy = match value.filter(|_| !is_set) {
        Some("Restricted") => TopologyPolicy::Restricted,
        Some("BestEffort") => TopologyPolicy::BestEffort,
        Some(value) if value != "None" && policy_and_scope(value).is_none() => value.parse()?,
        _ => manager.policy,
    };
    let scope = match unknown::<TopologyScope>(topology, attributes::TOPOLOGY_SCOPE) {
        None => manager.scope,
        // Under the policy `none` the kubelet does not read its scope.
        Some(_) if policy == TopologyPolicy::None => TopologyScope::default(),
        Some(name) => return Err(UnknownScope { name: name.into() }.into()),
    };
    Ok((policy, scope))
}

/// The first value of an attribute that cannot be parsed.
fn unknown<'a, T: FromStr>(topology: &'a NodeTopology, name: &str) -> Option<&'a str> {
    let own = topology.attributes.iter().filter(|own| own.name == name);
    let mut values = own.map(|own| own.value.as_str());
    values.find(|value| value.parse::<T>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_topology::Attribute;

    fn read(values: &[&str], attributes: &[(&str, &str)]) -> TopologyManagerConfig {
        TopologyManagerConfig::of(&NodeTopology {
            topology_policies: values.iter().map(|&value| value.to_owned()).collect(),
            attributes: attributes
                .iter()
                .map(|&(name, value)| Attribute {
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
                .collect(),
            zones: Vec::new(),
        })
    }

    #[test]
    fn attributes_override_the_deprecated_policy_field_by_field() {
        let value = "RestrictedPodLevel";
        let manager = read(&[value], &[("topologyManagerPolicy", "single-numa-node")]);
        assert_eq!(manager.policy, TopologyPolicy::SingleNumaNode);
        assert_eq!(manager.scope, TopologyScope::Pod);
    }

    #[test]
    fn only_the_first_deprecated_policy_counts_and_only_if_it_has_a_scope() {
        let manager = read(&["BestEffort", "SingleNUMANodePodLevel"], &[]);
        assert_eq!(manager, TopologyManagerConfig::default());
    }

    #[test]
    fn invalid_values_are_ignored() {
        let most = "topologyManagerMaxNUMANodes";
        for (value, expected) in [
            ("16", 16),
            ("1", 8),
            ("x", 8),
            ("-3", 8),
            ("2000", 1024),
            ("99999999999999999999", 8),
        ] {
            assert_eq!(
                read(&[], &[(most, value)]).max_numa_nodes,
                expected,
                "{value}"
            );
        }
        let twice = [
            ("topologyManagerScope", "pod"),
            ("topologyManagerScope", "?"),
        ];
        assert_eq!(read(&[], &twice).scope, TopologyScope::Pod);
    }
}
