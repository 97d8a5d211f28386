//! [`ResizeStatus`]: what the containers of a pod hold while an in-place resize is in flight.
//!
//! The spec has what the pod shall have, `allocatedResources` what its kubelet has granted, `resources` what the runtime
//! applies. Mirrors kube-scheduler's `determineContainerReqs`: a container counts with the largest of the three, and
//! without the spec if the kubelet can never grant it.

use std::collections::BTreeMap;

use pinfold_core::name::ContainerName;
use pinfold_core::pod::{Container, Pod, ResourceList};

use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// What the status of a pod says about an in-place resize.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeStatus {
    /// For each container the larger of what is allocated and what is applied.
    containers: BTreeMap<ContainerName, ResourceList>,
    /// Whether the kubelet can never grant the amounts in the spec.
    is_infeasible: bool,
}

impl ResizeStatus {
    /// Reads the status of a pod. What cannot be read is left out.
    pub(crate) fn of(pod: &FieldRef<'_>) -> Self {
        let mut found = Self::default();
        let Some(status) = pod.get("status") else {
            return found;
        };
        let mut ignored = DiagnosticReport::new("");
        for key in ["initContainerStatuses", "containerStatuses"] {
            for own in status.get_list(key, "a list", &mut ignored) {
                let name = own.get("name");
                let Some(name) = name.as_ref().and_then(FieldRef::as_text) else {
                    continue;
                };
                let applied = own.get("resources");
                let applied = applied.and_then(|resources| resources.get("requests"));
                let mut amounts = ResourceList::new();
                for list in [own.get("allocatedResources"), applied].iter().flatten() {
                    raise(&mut amounts, &read(list, &mut ignored));
                }
                if !amounts.is_empty() {
                    found.containers.insert(name.into(), amounts);
                }
            }
        }
        let is_infeasible = |condition: FieldRef<'_>| {
            let is =
                |key: &str, text: &str| condition.get(key).is_some_and(|own| own.is_text(text));
            is("type", "PodResizePending") && is("status", "True") && is("reason", "Infeasible")
        };
        let conditions = status.get_list("conditions", "a list", &mut ignored);
        // Kubelets before 1.33 have a field instead of the condition.
        let field = status.get("resize");
        found.is_infeasible = conditions.into_iter().any(is_infeasible)
            || field.is_some_and(|resize| resize.is_text("Infeasible"));
        found
    }

    /// The pod with what its containers hold or may be granted, instead of what the spec asks for.
    #[must_use]
    pub fn apply(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        // Other init containers cannot be resized.
        let sidecars = pod.init_containers.iter_mut();
        let sidecars = sidecars.filter(|container| container.restartable);
        for container in sidecars.chain(&mut pod.containers) {
            if let Some(held) = self.containers.get(&container.name) {
                self.apply_to(container, held);
            }
        }
        pod
    }

    fn apply_to(&self, container: &mut Container, held: &ResourceList) {
        for (name, held) in held {
            let Some(asked) = container.requests.get_mut(name) else {
                continue;
            };
            let counted = match self.is_infeasible {
                true => *held,
                false => (*held).max(*asked),
            };
            // The QoS class of a pod never changes.
            if let Some(limit) = container
                .limits
                .get_mut(name)
                .filter(|limit| *limit == asked)
            {
                *limit = counted;
            }
            *asked = counted;
        }
    }
}

/// The resources that can be resized.
fn read(list: &FieldRef<'_>, ignored: &mut DiagnosticReport) -> ResourceList {
    let can_resize = |name: &str| matches!(name, "cpu" | "memory");
    let rows = list.members().filter(|(name, _)| can_resize(name));
    rows.filter_map(|(name, field)| Some((name.into(), field.quantity(ignored)?)))
        .filter(|(_, amount)| *amount >= 0.into())
        .collect()
}

/// Raises amounts to those of another list.
fn raise(amounts: &mut ResourceList, others: &ResourceList) {
    for (name, other) in others {
        let own = amounts.entry(name.clone()).or_insert(*other);
        *own = (*own).max(*other);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::pod::ApiPod;

    /// The CPUs that count for a container that asks for 6 and has 4, with these conditions.
    fn counted(allocated: &str, applied: &str, conditions: &Value) -> (String, String) {
        let amounts = json!({ "cpu": "6", "memory": "1Gi" });
        let pod = json!({
            "metadata": { "name": "a", "uid": "a" },
            "spec": { "containers": [{ "name": "main", "resources": { "requests": amounts, "limits": amounts } }] },
            "status": {
                "containerStatuses": [{
                    "name": "main",
                    "allocatedResources": { "cpu": allocated, "memory": "1Gi", "example.com/nic": "7" },
                    "resources": { "requests": { "cpu": applied, "memory": "1Gi" } },
                }],
                "conditions": conditions,
            },
        });
        let pod = ApiPod::parse(&pod.to_string()).expect("a pod");
        let held = pod.resize.apply(&pod.object.pod);
        let container = &held.containers[0];
        assert!(!container.requests.contains_key("example.com/nic"));
        let text = |list: &pinfold_core::pod::ResourceList| list["cpu"].to_string();
        (text(&container.requests), text(&container.limits))
    }

    #[test]
    fn a_resized_pod_counts_with_the_largest_of_spec_allocated_and_applied_amounts() {
        let none = json!([]);
        let pair = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(counted("4", "4", &none), pair("6"), "not granted yet");
        assert_eq!(counted("6", "6", &none), pair("6"), "done");
        assert_eq!(
            counted("6", "8", &none),
            pair("8"),
            "a reduction that is not applied yet"
        );
    }

    #[test]
    fn a_resize_that_the_kubelet_can_never_grant_does_not_count() {
        let condition = |kind: &str, status: &str, reason: &str| json!([{ "type": kind, "status": status, "reason": reason }]);
        let infeasible = condition("PodResizePending", "True", "Infeasible");
        assert_eq!(counted("4", "4", &infeasible).0, "4");
        for other in [
            condition("PodResizePending", "True", "Deferred"),
            condition("PodResizePending", "False", "Infeasible"),
            condition("Ready", "True", "Infeasible"),
            json!("odd"),
        ] {
            assert_eq!(counted("4", "4", &other).0, "6", "{other}");
        }
    }

    #[test]
    fn a_status_that_makes_no_sense_changes_nothing() {
        for status in [
            json!(7),
            json!({ "containerStatuses": [{ "name": 7 }, 7] }),
            json!({
                "containerStatuses": [{ "name": "main", "allocatedResources": { "cpu": "-1" } }, { "name": "other" }],
            }),
        ] {
            let pod = json!({
                "metadata": { "name": "a", "uid": "a" }, "status": status,
                "spec": { "containers": [{ "name": "main", "resources": { "requests": { "cpu": "2" } } }] },
            });
            let pod = ApiPod::parse(&pod.to_string()).expect("a pod");
            assert_eq!(
                pod.resize.apply(&pod.object.pod),
                pod.object.pod,
                "{status}"
            );
        }
    }
}
