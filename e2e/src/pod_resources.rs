//! Prints the containers of a podresources socket, one per line, to the console of a guest.

use std::path::Path;
use std::time::Duration;

use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_devices::pod_resources::PodResourcesClient;

use crate::report::say;

/// Prints `held NAMESPACE/NAME CONTAINER CPUS` for each container with CPUs of its own.
pub(crate) fn print(socket: &Path) -> Result<(), String> {
    let pods = PodResourcesClient::new(socket, Duration::from_secs(30)).list();
    for pod in pods.map_err(|error| format!("{}: {error}", socket.display()))? {
        for container in &pod.containers {
            let ids = container.cpu_ids.iter();
            let ids = ids.filter_map(|id| CpuId::new(u32::try_from(*id).ok()?));
            let cpus: CpuSet = ids.collect();
            if !cpus.is_empty() {
                let (namespace, name) = (&pod.namespace, &pod.name);
                say(format_args!(
                    "held {namespace}/{name} {} {cpus}",
                    container.name
                ));
            }
        }
    }
    Ok(())
}
