//! Writes the object: known fields in the order of the API reference, then unknown ones.

use super::{KIND, NodeResourceTopology, NrtAttribute, NrtCost, NrtResource, NrtVersion, NrtZone};
use crate::json_value::{JsonFields, JsonValue, map};

impl NodeResourceTopology {
    /// The object in its version, to be written as JSON or YAML. See [`NodeResourceTopology::converted`] for the other
    /// version.
    #[must_use]
    pub fn content(&self) -> JsonValue {
        let policies: Vec<JsonValue> = self.topology_policies.iter().map(JsonValue::text).collect();
        // v1alpha1 requires the list; in v1alpha2 it is deprecated.
        let policies = (self.version == NrtVersion::V1Alpha1 || !policies.is_empty())
            .then_some(JsonValue::List(policies));
        let object = map([
            ("apiVersion", Some(self.version.api_version().into())),
            ("kind", Some(KIND.into())),
            ("metadata", Some(self.meta.content())),
            ("topologyPolicies", policies),
            ("attributes", list(&self.attributes, attribute)),
            (
                "zones",
                Some(JsonValue::List(self.zones.iter().map(zone).collect())),
            ),
        ]);
        with_rest(object, &self.rest)
    }
}

/// A list; `None` if it is empty.
fn list<T>(items: &[T], item: fn(&T) -> JsonValue) -> Option<JsonValue> {
    (!items.is_empty()).then(|| JsonValue::List(items.iter().map(item).collect()))
}

/// Adds the unknown fields that were read; known ones have precedence.
pub(crate) fn with_rest(object: JsonValue, rest: &JsonFields) -> JsonValue {
    let JsonValue::Map(mut members) = object else {
        return object;
    };
    for (key, value) in rest {
        if !members.iter().any(|(known, _)| known == key) {
            members.push((key.clone(), value.clone()));
        }
    }
    JsonValue::Map(members)
}

fn attribute(attribute: &NrtAttribute) -> JsonValue {
    let known = map([
        ("name", Some(JsonValue::text(&attribute.name))),
        ("value", Some(JsonValue::text(&attribute.value))),
    ]);
    with_rest(known, &attribute.rest)
}

fn cost(cost: &NrtCost) -> JsonValue {
    let known = map([
        ("name", Some(JsonValue::text(&cost.name))),
        ("value", Some(cost.value.into())),
    ]);
    with_rest(known, &cost.rest)
}

fn zone(zone: &NrtZone) -> JsonValue {
    let known = map([
        ("name", Some(JsonValue::text(&zone.name))),
        ("type", Some(JsonValue::text(&zone.kind))),
        ("parent", zone.parent.as_ref().map(JsonValue::text)),
        ("costs", list(&zone.costs, cost)),
        ("attributes", list(&zone.attributes, attribute)),
        ("resources", list(&zone.resources, resource)),
    ]);
    with_rest(known, &zone.rest)
}

fn resource(resource: &NrtResource) -> JsonValue {
    let known = map([
        ("name", Some(JsonValue::text(&resource.name))),
        ("capacity", Some(resource.capacity.written().clone())),
        ("allocatable", Some(resource.allocatable.written().clone())),
        ("available", Some(resource.available.written().clone())),
    ]);
    with_rest(known, &resource.rest)
}
