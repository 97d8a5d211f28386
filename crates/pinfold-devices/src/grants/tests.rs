use super::*;
use crate::edits::Place;
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

fn given(nodes: &[i64], env: &str) -> Grant {
    let device = Device {
        numa: Some(nodes.to_vec()),
        healthy: true,
    };
    let offer = AdvertisedDevices::from([("g0".into(), device)]);
    Grant::new(&DeviceSet::from(["g0".into()]), Some(&offer), response(env))
}

#[test]
fn a_grant_survives_the_kubelets_checkpoint() {
    let mut grants = Grants::default();
    let (pod, container) = ("p".into(), "c".into());
    grants.record(
        &pod,
        &container,
        &"example.com/a".into(),
        given(&[0, 1], "a"),
    );
    grants.record(
        &pod,
        &container,
        &"example.com/b".into(),
        given(&[-1, 99], "b"),
    );
    let known = [("example.com/a".into(), AdvertisedDevices::new())].into();
    let file = grants.checkpoint(&known).write();
    let state = DeviceState::restore(file.as_bytes(), "f").expect("just written");
    let (again, resources) = Grants::restore(&state);
    assert_eq!(again, grants);
    assert_eq!(resources, ["example.com/a".into()].into());
    grants.forget(&pod);
    assert_eq!(grants, Grants::default());
}

#[test]
fn the_first_of_two_resources_that_disagree_counts_and_the_conflict_is_told() {
    let mut grants = Grants::default();
    let (pod, container) = ("p".into(), "c".into());
    grants.record(&pod, &container, &"example.com/b".into(), given(&[], "b"));
    grants.record(&pod, &container, &"example.com/a".into(), given(&[], "a"));
    let edits = grants.edits(&pod, &container);
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
            "example.com/b is not heard about the variable GPU",
            "example.com/b is not heard about the device file /dev/gpu",
        ]
    );
    assert_eq!(edits.conflicts[0].place, Place::Variable("GPU".to_owned()));
    grants.record(&pod, &container, &"example.com/b".into(), given(&[], "a"));
    assert_eq!(grants.edits(&pod, &container).conflicts, []);
}

#[test]
fn an_answer_that_cannot_be_read_is_left_out() {
    let mut grants = Grants::default();
    grants.record(
        &"p".into(),
        &"c".into(),
        &"example.com/a".into(),
        given(&[0], "a"),
    );
    let mut state = grants.checkpoint(&BTreeMap::new());
    state.entries[0].response = vec![0xff];
    assert_eq!(Grants::restore(&state).0, Grants::default());
}
