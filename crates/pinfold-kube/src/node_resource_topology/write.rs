//! Writing the object: known fields in the order of the API's reference, then what else was read.

use super::{Attribute, Cost, KIND, NodeResourceTopology, Resource, Version, Zone};
use crate::content::{Content, Fields, map};

impl NodeResourceTopology {
    /// The object in its version, to be written as JSON or YAML. See [`NodeResourceTopology::converted`] for
    /// the other version.
    #[must_use]
    pub fn content(&self) -> Content {
        let policies: Vec<Content> = self.topology_policies.iter().map(Content::text).collect();
        // v1alpha1 demands the list, v1alpha2 only knows it from old times.
        let policies = (self.version == Version::V1Alpha1 || !policies.is_empty())
            .then_some(Content::List(policies));
        let object = map([
            ("apiVersion", Some(self.version.api_version().into())),
            ("kind", Some(KIND.into())),
            ("metadata", Some(self.meta.content())),
            ("topologyPolicies", policies),
            ("attributes", list(&self.attributes, attribute)),
            (
                "zones",
                Some(Content::List(self.zones.iter().map(zone).collect())),
            ),
        ]);
        with_rest(object, &self.rest)
    }
}

/// A list; left out if it is empty.
fn list<T>(items: &[T], item: fn(&T) -> Content) -> Option<Content> {
    (!items.is_empty()).then(|| Content::List(items.iter().map(item).collect()))
}

/// Adds what else was read; what is known wins.
pub(crate) fn with_rest(object: Content, rest: &Fields) -> Content {
    let Content::Map(mut members) = object else {
        return object;
    };
    for (key, value) in rest {
        if !members.iter().any(|(known, _)| known == key) {
            members.push((key.clone(), value.clone()));
        }
    }
    Content::Map(members)
}

fn attribute(attribute: &Attribute) -> Content {
    let known = map([
        ("name", Some(Content::text(&attribute.name))),
        ("value", Some(Content::text(&attribute.value))),
    ]);
    with_rest(known, &attribute.rest)
}

fn cost(cost: &Cost) -> Content {
    let known = map([
        ("name", Some(Content::text(&cost.name))),
        ("value", Some(cost.value.into())),
    ]);
    with_rest(known, &cost.rest)
}

fn zone(zone: &Zone) -> Content {
    let known = map([
        ("name", Some(Content::text(&zone.name))),
        ("type", Some(Content::text(&zone.kind))),
        ("parent", zone.parent.as_ref().map(Content::text)),
        ("costs", list(&zone.costs, cost)),
        ("attributes", list(&zone.attributes, attribute)),
        ("resources", list(&zone.resources, resource)),
    ]);
    with_rest(known, &zone.rest)
}

fn resource(resource: &Resource) -> Content {
    let known = map([
        ("name", Some(Content::text(&resource.name))),
        ("capacity", Some(resource.capacity.written().clone())),
        ("allocatable", Some(resource.allocatable.written().clone())),
        ("available", Some(resource.available.written().clone())),
    ]);
    with_rest(known, &resource.rest)
}
