//! The pods of the histories.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use pinfold_core::pod::Container;
use pinfold_core::quantity::Quantity;
use pinfold_kube::koordinator::keys::QOS_CLASS;
use pinfold_kube::pod::{self, PodObject};

/// The number of the pod that is not Guaranteed.
pub(super) const BURSTABLE: usize = 2;
/// The number of the pod with a device.
pub(super) const WITH_DEVICE: usize = 3;

/// The spec of a pod, by its number: Guaranteed with whole CPUs, two containers, shared, a device, an init container,
/// many CPUs, a sidecar without CPUs of its own.
pub(super) fn specs() -> &'static [PodObject] {
    static ALL: OnceLock<Vec<PodObject>> = OnceLock::new();
    ALL.get_or_init(|| {
        let main = |cpus: u8, more: &str| {
            format!("{{name: c0, resources: {{limits: {{cpu: {cpus}, memory: 64Mi{more}}}}}}}")
        };
        let second = "{name: c1, resources: {limits: {cpu: 2, memory: 64Mi}}}";
        let sidecar = "{name: c1, resources: {limits: {cpu: 500m, memory: 64Mi}}}";
        let bodies = [
            format!("containers: [{}]", main(2, "")),
            format!("containers: [{}, {second}]", main(4, "")),
            "containers: [{name: c0, resources: {requests: {cpu: 500m}}}]".to_owned(),
            format!("containers: [{}]", main(2, ", vendor.com/gpu: 1")),
            format!(
                "initContainers: [{}]\n  containers: [{second}]",
                main(4, "")
            ),
            format!("containers: [{}]", main(6, "")),
            format!("containers: [{}, {sidecar}]", main(2, "")),
        ];
        let read = |body: &String| {
            let text = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, uid: p}}\nspec:\n  {body}\n"
            );
            let read = pod::read("pod.yaml", text.as_bytes()).expect("a pod");
            read.value.into_iter().next().expect("a pod")
        };
        bodies.iter().map(read).collect()
    })
}

/// The labels of a pod, by its number: Koordinator's QoS class.
pub(super) fn labels(pod: usize) -> BTreeMap<String, String> {
    const CLASSES: [&str; 7] = ["LSR", "LSE", "LS", "LSR", "LSR", "LSE", "LS"];
    [(QOS_CLASS.to_owned(), CLASSES[pod].to_owned())].into()
}

/// The CPUs that a pod holds for all its containers together by Koordinator's rules, in thousandths.
pub(super) fn total_milli(pod: usize) -> u64 {
    let spec = &specs()[pod].pod;
    let milli = |container: &Container| {
        let cpu = container.requests.get("cpu");
        u64::try_from(cpu.map_or(0, Quantity::milli_value)).expect("positive")
    };
    let together = spec.containers.iter().map(milli).sum();
    let first = spec.init_containers.iter().map(milli).max();
    first.map_or(together, |first| first.max(together))
}

/// The spec of a pod with its UID, which is its name too.
pub(super) fn spec(pod: usize, uid: &str) -> PodObject {
    let mut spec = specs()[pod].clone();
    spec.meta.name = uid.to_owned();
    spec.meta.labels = labels(pod);
    spec.meta.uid = Some(uid.to_owned());
    spec.pod.uid = uid.into();
    spec.pod.name = spec.meta.full_name();
    spec
}
