//! The containers of a pod.

use std::collections::BTreeMap;

use pinfold_core::pod::Container;

use super::fields;
use super::object_name::is_label;
use super::resources::{ContainerResource, ResourceRequirements};
use crate::diagnostic::{DiagnosticKind, DiagnosticReport, Position};
use crate::manifest::field::FieldRef;

/// The restart policies of a container.
const RESTART_POLICIES: &[&str] = &["Always", "OnFailure", "Never"];

/// Reads and validates the containers under `key`.
pub(super) fn read_all<'n>(
    spec: &FieldRef<'n>,
    key: &str,
    names: &mut BTreeMap<&'n str, Option<Position>>,
    report: &mut DiagnosticReport,
) -> Vec<Container> {
    let mut containers = Vec::new();
    for field in spec.get_list(key, "a list of containers", report) {
        containers.extend(read(&field, key == "initContainers", names, report));
    }
    containers
}

fn read<'n>(
    field: &FieldRef<'n>,
    is_init: bool,
    names: &mut BTreeMap<&'n str, Option<Position>>,
    report: &mut DiagnosticReport,
) -> Option<Container> {
    let field = field.map("a container", report)?;
    field.warn_unknown(fields::CONTAINER, report);
    let name = name(&field, names, report);
    let policy = restart_policy(&field, report);
    let resources = field.get_map("resources", "a mapping with requests and limits", report);
    let resources = resources.map(|resources| {
        let mut read = ResourceRequirements::read::<ContainerResource>(&resources, report);
        read.default_requests();
        read.check::<ContainerResource>(&resources, report);
        read
    });
    let resources = resources.unwrap_or_default();
    Some(Container {
        name: name?.into(),
        restartable: is_init && policy == Some("Always"),
        requests: resources.requests.unwrap_or_default(),
        limits: resources.limits.unwrap_or_default(),
    })
}

/// The container's name, which must be unique in the pod.
fn name<'n>(
    container: &FieldRef<'n>,
    names: &mut BTreeMap<&'n str, Option<Position>>,
    report: &mut DiagnosticReport,
) -> Option<&'n str> {
    let Some(field) = container.get("name") else {
        container.missing("name", "a container name", report);
        return None;
    };
    let name = field.text("a container name", report)?;
    if !is_label(name) {
        let message = format!(
            "Invalid value: {name:?}: a lowercase RFC 1123 label must consist of lower case alphanumeric \
             characters or '-', and must start and end with an alphanumeric character, and be at most 63 long"
        );
        field.rejected(message, report);
        return None;
    }
    if let Some(first) = names.insert(name, field.at()) {
        let hint = first.map(|at| format!("the first one is at line {}", at.line));
        let problem = DiagnosticKind::Rejected(format!("Duplicate value: {name:?}"));
        report.error(field.at(), field.path(), problem, hint);
    }
    Some(name)
}

fn restart_policy<'n>(container: &FieldRef<'n>, report: &mut DiagnosticReport) -> Option<&'n str> {
    let field = container.get("restartPolicy")?;
    let policy = field.text("a restart policy", report)?;
    if !RESTART_POLICIES.contains(&policy) {
        let hint = Some(crate::suggest::hint(policy, RESTART_POLICIES));
        let problem = DiagnosticKind::Rejected(format!("Unsupported value: {policy:?}"));
        report.error(field.at(), field.path(), problem, hint);
    }
    Some(policy)
}
