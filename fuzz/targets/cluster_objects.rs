//! Objects of a cluster. An object is equal after it was written and read again, in either format; every dialect
//! returns for it, in either mode; every finding can be displayed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::koordinator::{self, NodeAnnotations, ReportAnnotations, ResourceStatus};
use pinfold_kube::node_resource_topology::{NodeResourceTopology, NrtVersion};
use pinfold_kube::objects::{self, ClusterObjects};
use pinfold_kube::{manifest, volcano};

fn read(text: &str) -> ClusterObjects {
    objects::read("again", text.as_bytes())
        .expect("what was just written")
        .value
}

fn check_topology(topology: &NodeResourceTopology, fidelity: Fidelity) {
    let _ = topology.to_core();
    let _ = ReportAnnotations::report(topology, fidelity).map_err(|findings| findings.to_string());
    let Ok(facts) = ReportAnnotations::read(topology, fidelity) else {
        return;
    };
    let published = koordinator::publish(topology, &facts.value);
    let again = ReportAnnotations::read(&published, fidelity).expect("what was just written");
    assert_eq!(again.value.pod_cpus.len(), facts.value.pod_cpus.len());
}

fuzz_target!(|bytes: &[u8]| {
    let _ = volcano::scheduler_weight("fuzz.conf", bytes).map_err(|findings| findings.to_string());
    for document in manifest::read("fuzz.yaml", bytes).unwrap_or_default() {
        let _ = koordinator::scheduler_args(&document).map_err(|findings| findings.to_string());
    }
    let objects = match objects::read("fuzz.yaml", bytes) {
        Ok(read) => read.value,
        Err(findings) => return drop(findings.to_string()),
    };
    for topology in &objects.topologies {
        assert_eq!(read(&topology.content().to_json()).topologies[0], *topology);
        for version in NrtVersion::ALL {
            let _ = topology.converted(version).content().to_yaml();
        }
    }
    for numa in &objects.numatopologies {
        assert_eq!(read(&numa.content().to_json()).numatopologies[0], *numa);
    }
    for fidelity in [Fidelity::Sound, Fidelity::Exact] {
        for topology in &objects.topologies {
            check_topology(topology, fidelity);
        }
        for numa in &objects.numatopologies {
            let _ = numa.node(fidelity).map_err(|findings| findings.to_string());
        }
        for node in &objects.nodes {
            let _ = koordinator::node(node, objects.topologies.first(), fidelity);
            let _ = NodeAnnotations::read(node, fidelity);
        }
        for pod in objects.pods.iter().take(4) {
            let _ = volcano::task(pod, fidelity);
            let Ok(demand) = koordinator::demand(pod, fidelity) else {
                continue;
            };
            let _ = koordinator::with_resource_spec(pod, &demand.value.spec);
            if let Ok(status) = ResourceStatus::read(pod, fidelity) {
                let _ = status.value.map(|status| status.allocation(&demand.value));
            }
        }
    }
});
