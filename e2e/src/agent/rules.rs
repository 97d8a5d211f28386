//! KubeletConfigurations for agents.

/// CPU 0 is the system's, and some memory of node 0.
pub(crate) fn kubelet(policy: &str, scope: &str) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         cpuManagerPolicy: static\nmemoryManagerPolicy: Static\n\
         topologyManagerPolicy: {policy}\ntopologyManagerScope: {scope}\n\
         reservedSystemCPUs: '0'\nkubeReserved: {{memory: 64Mi}}\n\
         evictionHard: {{memory.available: 64Mi}}\n\
         reservedMemory: [{{numaNode: 0, limits: {{memory: 128Mi}}}}]\n"
    )
}
