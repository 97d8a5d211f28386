//! Pod-level resources (`spec.resources`).
//!
//! Mirrors `defaultHugePagePodLimits`, `defaultPodRequests` and `validatePodResources`: missing limits of hugepages and
//! missing requests come from the containers, other requests from the pod-level limits; the pod may not have less than
//! its containers.

use pinfold_core::pod::{Container, ResourceList};

use super::aggregate::aggregate;
use super::resources::{
    PodResource, ResourceRequirements, amount_field, is_hugepages, may_overcommit,
};
use crate::diagnostic::DiagnosticReport;
use crate::manifest::field::FieldRef;

/// Reads, defaults and validates the section.
pub(super) fn read(
    section: &FieldRef<'_>,
    init_containers: &[Container],
    containers: &[Container],
    report: &mut DiagnosticReport,
) -> ResourceRequirements {
    if let Some(claims) = section.get("claims") {
        let message = "Forbidden: claims may not be set for Resources at pod-level";
        claims.rejected(message, report);
    }
    let requests = aggregate(init_containers, containers, |container| &container.requests);
    let limits = aggregate(init_containers, containers, |container| &container.limits);
    let mut resources = ResourceRequirements::read::<PodResource>(section, report);
    default_hugepages(&mut resources, &limits);
    default_requests(&mut resources, &requests);
    resources.check::<PodResource>(section, report);
    check_totals(&resources, section, &requests, &limits, report);
    check_containers(&resources, containers, section, report);
    resources
}

fn default_hugepages(resources: &mut ResourceRequirements, aggregate: &ResourceList) {
    let is_empty = |list: &Option<ResourceList>| list.as_ref().is_none_or(ResourceList::is_empty);
    if is_empty(&resources.limits) && is_empty(&resources.requests) {
        return;
    }
    for (name, limit) in aggregate {
        let requested = resources.requests.as_ref();
        let is_requested = requested.is_some_and(|requests| requests.contains_key(name));
        if is_hugepages(name.as_str()) && !is_requested {
            let limits = resources.limits.get_or_insert_default();
            limits.entry(name.clone()).or_insert(*limit);
        }
    }
}

fn default_requests(resources: &mut ResourceRequirements, aggregate: &ResourceList) {
    let Some(limits) = resources
        .limits
        .as_ref()
        .filter(|limits| !limits.is_empty())
    else {
        return;
    };
    let requests = resources.requests.get_or_insert_default();
    let is_default = |name: &str| matches!(name, "cpu" | "memory") && may_overcommit(name);
    for (name, amount) in aggregate
        .iter()
        .filter(|(name, _)| is_default(name.as_str()))
    {
        requests.entry(name.clone()).or_insert(*amount);
    }
    for (name, limit) in limits {
        requests.entry(name.clone()).or_insert(*limit);
    }
}

/// Checks that the pod has at least the total of its containers: requests, and limits of hugepages.
fn check_totals(
    resources: &ResourceRequirements,
    section: &FieldRef<'_>,
    requests: &ResourceList,
    limits: &ResourceList,
    report: &mut DiagnosticReport,
) {
    let none = ResourceList::new();
    let own_requests = resources.requests.as_ref().unwrap_or(&none);
    let own_limits = resources.limits.as_ref().unwrap_or(&none);
    let of_hugepages = limits
        .iter()
        .filter(|(name, _)| is_hugepages(name.as_str()));
    let pairs = requests
        .iter()
        .map(|total| ("requests", own_requests, total))
        .chain(of_hugepages.map(|total| ("limits", own_limits, total)));
    for (list, own, (name, total)) in pairs {
        if let Some(amount) = own.get(name)
            && total > amount
        {
            let message = format!(
                "Invalid value: \"{amount}\": must be greater than or equal to aggregate container {list} of {total}"
            );
            amount_field(section, list, name.as_str()).rejected(message, report);
        }
    }
}

/// Checks that no container has a higher limit than the pod.
fn check_containers(
    resources: &ResourceRequirements,
    containers: &[Container],
    section: &FieldRef<'_>,
    report: &mut DiagnosticReport,
) {
    let Some(limits) = &resources.limits else {
        return;
    };
    for container in containers {
        for (name, limit) in &container.limits {
            if let Some(most) = limits.get(name)
                && limit > most
            {
                let container = &container.name;
                let message = format!(
                    "Invalid value: \"{limit}\" of container {container}: must be less than or equal to pod limits of {most}"
                );
                amount_field(section, "limits", name.as_str()).rejected(message, report);
            }
        }
    }
}
