//! Prints the containers of a podresources socket to the console of a guest.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kubelet_api::pod_resources::TopologyInfo;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_devices::pod_resources::PodResourcesClient;

use crate::report::say;

/// Prints `held NAMESPACE/NAME CONTAINER CPUS` for each container with CPUs of its own, `memory NAMESPACE/NAME CONTAINER
/// RESOURCE BYTES NODES` for each block of memory and `device NAMESPACE/NAME CONTAINER ID` for each device.
pub(crate) fn print(socket: &Path) -> Result<(), String> {
    let pods = PodResourcesClient::new(socket, Duration::from_secs(30)).list();
    for pod in pods.map_err(|error| format!("{}: {error}", socket.display()))? {
        for container in &pod.containers {
            let name = format!("{}/{} {}", pod.namespace, pod.name, container.name);
            let ids = container.cpu_ids.iter();
            let ids = ids.filter_map(|id| CpuId::new(u32::try_from(*id).ok()?));
            let cpus: CpuSet = ids.collect();
            if !cpus.is_empty() {
                say(format_args!("held {name} {cpus}"));
            }
            for block in &container.memory {
                let nodes = nodes(block.topology.as_ref());
                say(format_args!(
                    "memory {name} {} {} {nodes}",
                    block.memory_type, block.size
                ));
            }
            let devices = container.devices.iter();
            // A device of several NUMA nodes is listed once for each.
            let devices: BTreeSet<&String> = devices.flat_map(|one| &one.device_ids).collect();
            for device in devices {
                say(format_args!("device {name} {device}"));
            }
        }
    }
    Ok(())
}

/// NUMA nodes, separated by commas.
fn nodes(topology: Option<&TopologyInfo>) -> String {
    let nodes = topology.into_iter().flat_map(|topology| &topology.nodes);
    let ids: Vec<String> = nodes.map(|node| node.id.to_string()).collect();
    ids.join(",")
}
