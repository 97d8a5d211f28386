//! Pod manifests in YAML. A pod is equal after it was written and read again, and every node admits or rejects it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::demand::{PodDemand, PodLevel};
use pinfold_core::pod::Pod;
use pinfold_core::qos::QosClass;

fuzz_target!(|bytes: &[u8]| {
    let pods = match pinfold_kube::pod::read("fuzz.yaml", bytes) {
        Ok(read) => read.value,
        Err(findings) => return drop(findings.to_string()),
    };
    // All replicas are equal.
    for object in pods.iter().take(4) {
        let pod = &object.pod;
        let written = serde_json::to_string(pod).expect("a pod is plain data");
        let read: Pod = serde_json::from_str(&written).expect("what was just written");
        assert_eq!(read, *pod);
        for level in [PodLevel::Ignored, PodLevel::Managed] {
            let demand = PodDemand::new(pod, level);
            let _ = demand.pod_cpus();
            let _ = demand.pod_memory();
            for container in pod.all_containers() {
                let _ = demand.container_cpus(container);
                let _ = demand.container_memory(container);
            }
        }
        let _ = QosClass::of(pod);
    }
});
