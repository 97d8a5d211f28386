//! The pods of the histories.

use std::sync::OnceLock;

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

/// The spec of a pod with its UID, which is its name too.
pub(super) fn spec(pod: usize, uid: &str) -> PodObject {
    let mut spec = specs()[pod].clone();
    spec.meta.name = uid.to_owned();
    spec.meta.uid = Some(uid.to_owned());
    spec.pod.uid = uid.into();
    spec.pod.name = spec.meta.full_name();
    spec
}
