//! Converts between the versions: the value of `topologyPolicies` and the attributes for policy and scope.
//!
//! Attributes have precedence over the value, field by field, as in scheduler-plugins. `Restricted` and `BestEffort`
//! state no scope: scheduler-plugins ignores them, so they become no attributes; Koordinator reads them, so they are
//! kept.

use super::{NodeResourceTopology, NrtAttribute, NrtVersion};
use crate::json_value::JsonValue;

/// The attribute with the kubelet's topology policy.
pub(super) const POLICY: &str = "topologyManagerPolicy";
/// The attribute with its scope.
pub(super) const SCOPE: &str = "topologyManagerScope";

/// The values of `topologyPolicies` with the kubelet's names of policy and scope.
pub const POLICY_WORDS: [(&str, &str, &str); 6] = [
    ("SingleNUMANodePodLevel", "single-numa-node", "pod"),
    (
        "SingleNUMANodeContainerLevel",
        "single-numa-node",
        "container",
    ),
    ("RestrictedPodLevel", "restricted", "pod"),
    ("RestrictedContainerLevel", "restricted", "container"),
    ("BestEffortPodLevel", "best-effort", "pod"),
    ("BestEffortContainerLevel", "best-effort", "container"),
];

/// The value for a policy and a scope; `None` for the policy `none` and for unknown names.
#[must_use]
pub(super) fn word(policy: &str, scope: &str) -> &'static str {
    let found = POLICY_WORDS
        .iter()
        .find(|(_, own_policy, own_scope)| *own_policy == policy && *own_scope == scope);
    found.map_or("None", |(word, _, _)| word)
}

fn policy_and_scope_of(word: &str) -> Option<(&'static str, &'static str)> {
    let found = POLICY_WORDS.iter().find(|(own, _, _)| *own == word);
    found.map(|(_, policy, scope)| (*policy, *scope))
}

impl NodeResourceTopology {
    /// The object in another version.
    #[must_use]
    pub fn converted(&self, version: NrtVersion) -> Self {
        match (self.version, version) {
            (NrtVersion::V1Alpha1, NrtVersion::V1Alpha2) => self.to_v1alpha2(),
            (NrtVersion::V1Alpha2, NrtVersion::V1Alpha1) => self.to_v1alpha1(),
            _ => self.clone(),
        }
    }

    /// The kubelet's names of policy and scope, from the first value and the attributes.
    #[must_use]
    pub fn policy_and_scope(&self) -> (&str, &str) {
        let first = self.topology_policies.first();
        let (mut policy, mut scope) = first
            .and_then(|word| policy_and_scope_of(word))
            .unwrap_or(("none", "container"));
        for NrtAttribute { name, value, .. } in &self.attributes {
            let is_policy =
                value == "none" || POLICY_WORDS.iter().any(|(_, policy, _)| policy == value);
            let is_scope = POLICY_WORDS.iter().any(|(_, _, scope)| scope == value);
            match name.as_str() {
                POLICY if is_policy => policy = value,
                SCOPE if is_scope => scope = value,
                _ => {}
            }
        }
        (policy, scope)
    }

    fn to_v1alpha2(&self) -> Self {
        let mut other = self.clone();
        other.version = NrtVersion::V1Alpha2;
        other.adopt_attributes();
        let first = self.topology_policies.first();
        let Some((policy, scope)) = first.and_then(|word| policy_and_scope_of(word)) else {
            return other;
        };
        for (name, value) in [(SCOPE, scope), (POLICY, policy)] {
            if !other.attributes.iter().any(|own| own.name == name) {
                other.attributes.insert(
                    0,
                    NrtAttribute {
                        name: name.to_owned(),
                        value: value.to_owned(),
                        ..NrtAttribute::default()
                    },
                );
            }
        }
        other
    }

    /// Parses the attributes that were kept as an unknown field. Policy and scope come from `topologyPolicies`.
    fn adopt_attributes(&mut self) {
        let at = self.rest.iter().position(|(key, _)| key == "attributes");
        let Some(JsonValue::List(items)) = at.map(|at| self.rest.remove(at).1) else {
            return;
        };
        for item in items {
            let JsonValue::Map(members) = item else {
                continue;
            };
            let mut attribute = NrtAttribute::default();
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("name", JsonValue::Text(name)) => attribute.name = name,
                    ("value", JsonValue::Text(value)) => attribute.value = value,
                    (_, value) => attribute.rest.push((key, value)),
                }
            }
            if !matches!(attribute.name.as_str(), "" | POLICY | SCOPE) {
                self.attributes.push(attribute);
            }
        }
    }

    /// Sets `topologyPolicies` from the attributes; other attributes are kept, though API servers may drop them.
    fn to_v1alpha1(&self) -> Self {
        let mut other = self.clone();
        other.version = NrtVersion::V1Alpha1;
        let (policy, scope) = self.policy_and_scope();
        let word = word(policy, scope);
        let stated = self
            .attributes
            .iter()
            .any(|own| own.name == POLICY || own.name == SCOPE);
        match other.topology_policies.first_mut() {
            Some(first) if stated && policy_and_scope_of(first) != policy_and_scope_of(word) => {
                word.clone_into(first);
            }
            Some(_) => {}
            None => other.topology_policies.push(word.to_owned()),
        }
        other
            .attributes
            .retain(|own| own.name != POLICY && own.name != SCOPE);
        other
    }
}
