//! Replays the family `device_hints`.

use std::collections::BTreeMap;

use pinfold_core::device::{
    ByAffinity, DeviceEdit, DeviceMasks, DevicePool, DeviceRequest, DeviceSet, DeviceState,
    DevicesByResource, ReusableDevices, container_hints, devices_to_allocate, pod_hints,
};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::name::{ContainerName, PodUid};
use pinfold_core::node_set::NodeSet;
use pinfold_core::pod::{Container, Pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::devices::{DeviceResource, Plugins};
use super::{Machines, hints};
use crate::case::{Case, ReplayOutcome};

#[derive(Deserialize)]
struct Input {
    numa_nodes: NodeSet,
    resources: Vec<Resource>,
    existing: BTreeMap<ContainerName, DevicesByResource>,
    pod: Pod,
    allocate_container: ContainerName,
    affinity: Option<NodeSet>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(flatten)]
    plugin: DeviceResource,
    in_use_by_others: DeviceSet,
    reusable: DeviceSet,
}

pub(super) fn replay(
    case: &Case,
    _: &Machines,
    fidelity: Fidelity,
) -> Result<ReplayOutcome, String> {
    case.compare(&answer(&case.read()?, DeviceMasks::of(fidelity))?)
}

fn answer(input: &Input, masks: DeviceMasks) -> Result<Value, String> {
    let pool = pool(input);
    let state = state(input)?;
    let reusable = ReusableDevices::from(by_resource(input, |resource| &resource.reusable));
    let containers: Map<String, Value> = input
        .pod
        .all_containers()
        .map(|container| {
            let found = container_hints(&pool, &state, &input.pod, container, &reusable, masks);
            (container.name.to_string(), hints::rows(&found))
        })
        .collect();
    let name = &input.allocate_container;
    let container = input.pod.container(name).ok_or("no such container")?;
    Ok(json!({
        "container_hints": containers,
        "pod_hints": hints::rows(&pod_hints(&pool, &state, &input.pod, masks)),
        "filter": filter(input, &pool, &state),
        "allocate": allocate(input, &pool, &state, container, &reusable),
    }))
}

fn pool(input: &Input) -> DevicePool {
    let mut pool = DevicePool::new(input.numa_nodes);
    for resource in &input.resources {
        pool.set_devices(resource.plugin.name.clone(), resource.plugin.offer());
    }
    pool
}

fn by_resource(input: &Input, devices: impl Fn(&Resource) -> &DeviceSet) -> DevicesByResource {
    let resources = input.resources.iter();
    resources
        .map(|resource| (resource.plugin.name.clone(), devices(resource).clone()))
        .filter(|(_, devices)| !devices.is_empty())
        .collect()
}

fn state(input: &Input) -> Result<DeviceState, String> {
    let mut state = DeviceState::default();
    let mut give = |pod: &PodUid, container: &str, devices: &DevicesByResource| {
        for (resource, devices) in devices {
            let edit = DeviceEdit {
                pod: pod.clone(),
                container: container.into(),
                resource: resource.clone(),
                before: None,
                after: Some(devices.clone()),
            };
            state.apply(&edit).map_err(|error| error.to_string())?;
        }
        Ok::<(), String>(())
    };
    let in_use = by_resource(input, |resource| &resource.in_use_by_others);
    give(&"other".into(), "other", &in_use)?;
    let left = by_resource(input, |resource| &resource.reusable);
    give(&input.pod.uid, "prior-init", &left)?;
    for (container, devices) in &input.existing {
        give(&input.pod.uid, container.as_str(), devices)?;
    }
    Ok(state)
}

fn filter(input: &Input, pool: &DevicePool, state: &DeviceState) -> Value {
    let sorted = pool.resources().map(|resource| {
        let free: Vec<_> = pool.free(state, resource).collect();
        let sorted = ByAffinity::sort(pool, resource, &free, input.affinity);
        let classes = json!({
            "available": pool.available(state, resource),
            "aligned": sorted.aligned.as_slice(),
            "unaligned": sorted.unaligned.as_slice(),
            "no_affinity": sorted.no_affinity.as_slice(),
        });
        (resource.to_string(), classes)
    });
    Value::Object(sorted.collect())
}

fn allocate(
    input: &Input,
    pool: &DevicePool,
    state: &DeviceState,
    container: &Container,
    reusable: &ReusableDevices,
) -> Value {
    let mut plugins = Plugins::new(input.resources.iter().map(|resource| &resource.plugin));
    let request = DeviceRequest {
        pod: &input.pod,
        container,
        affinity: input.affinity,
        reusable,
    };
    let limits = container.limits.iter();
    let requested = limits.filter(|(resource, _)| pool.is_device(state, resource));
    let answers = requested.map(|(resource, amount)| {
        let answer =
            devices_to_allocate(pool, state, request, resource, amount.value(), &mut plugins);
        let answer = match answer {
            Ok(devices) => json!({ "devices": devices, "error": null }),
            Err(error) => json!({ "devices": null, "error": error.to_string() }),
        };
        (resource.to_string(), answer)
    });
    Value::Object(answers.collect())
}
