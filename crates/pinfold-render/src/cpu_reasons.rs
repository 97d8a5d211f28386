//! Why the containers of a pod have exclusive or shared CPUs, as text.

use pinfold_core::exclusive_cpus::{
    AmountChange, ContainerCpus, CpuReasons, QosReason, SharedReason,
};
use pinfold_core::name::{ContainerName, ResourceName};
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;

use crate::text::paragraph;

/// One paragraph for the QoS class and one for each container. `check` says whether the node admits the pod with the
/// changes of a container.
#[must_use]
pub fn text(
    reasons: &CpuReasons,
    width: usize,
    check: impl Fn(&ContainerCpus) -> Option<bool>,
) -> String {
    let qos = format!("{:?}{}", reasons.qos, qos_reason(reasons));
    let mut text = format!("\nCPUs\n{}", paragraph("  QoS class ", &qos, 4, width));
    for container in &reasons.containers {
        let lead = format!("  {}: ", container.container);
        text.push_str(&paragraph(&lead, &cpus(container, reasons.qos), 4, width));
        if container.change.is_empty() || container.init {
            continue;
        }
        let result = match check(container) {
            Some(true) => ", and the node admits it",
            Some(false) => ", but the node then rejects the pod",
            None => "",
        };
        let change = format!("{} as request and limit{result}", change(&container.change));
        text.push_str(&paragraph("    exclusive with ", &change, 6, width));
    }
    text
}

fn qos_reason(reasons: &CpuReasons) -> String {
    let whose = |container: &Option<ContainerName>| match container {
        Some(name) => format!("container {name}"),
        None => "the pod".to_owned(),
    };
    match &reasons.qos_reason {
        None => String::new(),
        Some(QosReason::NothingRequested) => {
            ": no container requests or limits cpu or memory".to_owned()
        }
        Some(QosReason::NoLimit {
            container,
            resource,
            request,
        }) => {
            let requests =
                |request: &Quantity| format!("requests {} and ", amount(request, resource));
            let requests = request.as_ref().map(requests).unwrap_or_default();
            format!(": {} {requests}has no {resource} limit", whose(container))
        }
        Some(QosReason::Differs {
            container,
            resource,
            request,
            limit,
        }) => {
            let whose = whose(container);
            let requests = amount(request, resource);
            let limit = amount(limit, resource);
            format!(": {whose} requests {requests} and has a limit of {limit}")
        }
    }
}

fn cpus(container: &ContainerCpus, qos: QosClass) -> String {
    let init = if container.init {
        " (init container, until it ends)"
    } else {
        ""
    };
    let Some(reason) = &container.shared else {
        let cpus = container.exclusive;
        let noun = if cpus == 1 { "CPU" } else { "CPUs" };
        return format!("{cpus} exclusive {noun}{init}");
    };
    let reason = match reason {
        SharedReason::PolicyNone => "the CPU manager policy is none".to_owned(),
        SharedReason::PodLevelResources => {
            "the kubelet's managers do not manage pods with pod-level resources".to_owned()
        }
        SharedReason::NotGuaranteed => format!("the pod is {qos:?}"),
        SharedReason::NoCpuRequest => "it requests no cpu".to_owned(),
        SharedReason::Fraction(request) => format!("{request} is not a whole number of CPUs"),
        SharedReason::Overflow(request) => {
            format!(
                "{request} does not fit 64 bits, and Kubernetes computes with {}",
                request.value()
            )
        }
        SharedReason::NotGuaranteedAlone => {
            "its requests differ from its limits beside pod-level resources".to_owned()
        }
    };
    format!("shared, because {reason}{init}")
}

/// `1000 CPUs`, where Kubernetes prints `1k`; `1500m cpu`; `4Gi memory`.
fn amount(quantity: &Quantity, resource: &ResourceName) -> String {
    match (resource.as_str(), quantity.as_i64()) {
        ("cpu", Some(1)) => "1 CPU".to_owned(),
        ("cpu", Some(cpus)) => format!("{cpus} CPUs"),
        _ => format!("{quantity} {resource}"),
    }
}

fn change(changes: &[AmountChange]) -> String {
    let parts = changes.iter().map(|change| {
        format!(
            "{} of {}",
            amount(&change.to, &change.resource),
            change.container
        )
    });
    parts.collect::<Vec<_>>().join(", ")
}
