//! Remedies that also fit the sums of a node: the managers, which find them, do not see sums.

use std::sync::Arc;

use pinfold_cluster::koordinator::amounts::Amounts;
use pinfold_core::decision::ResourceManager;
use pinfold_core::pod::{Pod, ResourceList};
use pinfold_core::quantity::Quantity;
use pinfold_core::remedy::{Alteration, Remedies, RequestChange};
use pinfold_kube::admission::{AdmissionNode, AdmissionRequest};

use super::schedule;

/// Removes the remedies with which kube-scheduler or the kubelet's predicates would still reject the pod.
pub(crate) fn retain_fitting(
    found: &mut Remedies,
    pod: &Arc<Pod>,
    request: &AdmissionRequest,
    node: &AdmissionNode,
    bound: bool,
) {
    let fits = |node: &AdmissionNode, request: &AdmissionRequest| {
        schedule(node, request, bound).is_ok() && node.predicates(request, &Amounts::new()).is_ok()
    };
    found.fitting.retain(|remedy| match &remedy.alteration {
        Alteration::Request(changes) => {
            let changed = with_changes(pod, changes);
            fits(node, &request.with_resources_of(&changed))
        }
        Alteration::Evict(pods) => {
            let mut node = node.clone();
            for pod in pods {
                node.remove(&pod.uid);
            }
            fits(&node, request)
        }
        Alteration::Move(_)
        | Alteration::Policy { .. }
        | Alteration::Scope { .. }
        | Alteration::OptionOff { .. } => fits(node, request),
    });
}

/// The pod with other requests and limits.
pub(crate) fn with_changes(pod: &Pod, changes: &[RequestChange]) -> Pod {
    let mut pod = pod.clone();
    for change in changes {
        let amount = i64::try_from(change.to).unwrap_or(i64::MAX);
        let amount = match change.manager {
            ResourceManager::Memory => Quantity::bytes(amount),
            ResourceManager::Cpu | ResourceManager::Device => Quantity::from(amount),
        };
        let set = |list: &mut ResourceList| {
            if let Some(own) = list.get_mut(&change.resource) {
                *own = amount;
            }
        };
        match &change.container {
            None => {
                let lists = [&mut pod.pod_requests, &mut pod.pod_limits];
                lists.into_iter().flatten().for_each(set);
            }
            Some(name) => {
                let containers = pod.init_containers.iter_mut().chain(&mut pod.containers);
                for container in containers.filter(|container| container.name == *name) {
                    set(&mut container.requests);
                    set(&mut container.limits);
                }
            }
        }
    }
    pod
}
