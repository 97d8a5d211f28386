use super::*;
use crate::edits::EditTarget;
use kubelet_api::device_plugin::{CdiDevice, DeviceSpec};
use pinfold_core::device::Device;

fn response(env: &str) -> ContainerAllocateResponse {
    ContainerAllocateResponse {
        envs: [("GPU".to_owned(), env.to_owned())].into(),
        devices: vec![DeviceSpec {
            container_path: "/dev/gpu".to_owned(),
            host_path: format!("/dev/gpu-{env}"),
            permissions: "rw".to_owned(),
        }],
        cdi_devices: vec![CdiDevice {
            name: format!("example.com/gpu={env}"),
        }],
        ..ContainerAllocateResponse::default()
    }
}

fn allocation(nodes: &[i64], env: &str) -> DeviceAllocation {
    let device = Device {
        numa: Some(nodes.to_vec()),
        healthy: true,
    };
    let offer = AdvertisedDevices::from([("g0".into(), device)]);
    DeviceAllocation::new(&DeviceSet::from(["g0".into()]), Some(&offer), response(env))
}

#[test]
fn an_allocation_survives_the_kubelet_s_checkpoint() {
    let mut allocations = DeviceAllocations::default();
    let (pod, container) = ("p".into(), "c".into());
    allocations.record(
        &pod,
        &container,
        &"example.com/a".into(),
        allocation(&[0, 1], "a"),
    );
    allocations.record(
        &pod,
        &container,
        &"example.com/b".into(),
        allocation(&[-1, 99], "b"),
    );
    let known = [("example.com/a".into(), AdvertisedDevices::new())].into();
    let file = allocations.checkpoint(&known).write();
    let state = DeviceManagerState::restore(file.as_bytes(), "f").expect("just written");
    let (again, resources) = DeviceAllocations::restore(&state);
    assert_eq!(again, allocations);
    assert_eq!(resources, ["example.com/a".into()].into());
    allocations.remove_pod(&pod);
    assert_eq!(allocations, DeviceAllocations::default());
}

#[test]
fn the_first_of_two_conflicting_resources_wins_and_the_conflict_is_recorded() {
    let mut allocations = DeviceAllocations::default();
    let (pod, container) = ("p".into(), "c".into());
    allocations.record(
        &pod,
        &container,
        &"example.com/b".into(),
        allocation(&[], "b"),
    );
    allocations.record(
        &pod,
        &container,
        &"example.com/a".into(),
        allocation(&[], "a"),
    );
    let edits = allocations.edits(&pod, &container);
    assert_eq!(edits.envs["GPU"], "a");
    assert_eq!(edits.devices, response("a").devices);
    let names: Vec<&str> = edits
        .cdi_devices
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(names, ["example.com/gpu=a", "example.com/gpu=b"]);
    let conflicts: Vec<String> = edits.conflicts.iter().map(ToString::to_string).collect();
    assert_eq!(
        conflicts,
        [
            "the change of example.com/b to the variable GPU is ignored: another resource sets it differently",
            "the change of example.com/b to the device file /dev/gpu is ignored: another resource sets it differently",
        ]
    );
    assert_eq!(
        edits.conflicts[0].target,
        EditTarget::Variable("GPU".to_owned())
    );
    allocations.record(
        &pod,
        &container,
        &"example.com/b".into(),
        allocation(&[], "a"),
    );
    assert_eq!(allocations.edits(&pod, &container).conflicts, []);
}

#[test]
fn a_response_that_cannot_be_decoded_is_left_out() {
    let mut allocations = DeviceAllocations::default();
    allocations.record(
        &"p".into(),
        &"c".into(),
        &"example.com/a".into(),
        allocation(&[0], "a"),
    );
    let mut state = allocations.checkpoint(&BTreeMap::new());
    state.entries[0].response = vec![0xff];
    assert_eq!(
        DeviceAllocations::restore(&state).0,
        DeviceAllocations::default()
    );
}
