//! The device host with plugins in the same process.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::fake::{Behaviour, Fake, device, register};
use kubelet_api::device_plugin::{DevicePluginOptions, VERSION};
use pinfold_core::device::{DeviceSet, PreferredAllocation, PreferredAllocationQuery};
use pinfold_core::name::ResourceName;
use pinfold_devices::pod_resources::{
    HeldResources, PodResourcesClient, PodResourcesError, PodResourcesSnapshot, PodSnapshot,
};
use pinfold_devices::{
    ContainerEdits, DeviceHost, HostConfig, HostError, OfferReceiver, PluginError,
    PluginManagerConfig,
};
use tempfile::TempDir;

const GPU: &str = "example.com/gpu";
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn config(folder: &Path) -> HostConfig {
    let mut manager = PluginManagerConfig::new(folder.join("plugins"));
    manager.limits.tick = Duration::from_millis(20);
    HostConfig {
        manager,
        checkpoint: folder.join("checkpoint"),
        pod_resources: Some(folder.join("pod-resources.sock")),
    }
}

fn host(folder: &Path) -> (DeviceHost, OfferReceiver) {
    DeviceHost::start(config(folder)).expect("it starts")
}

fn plugin(folder: &Path, behaviour: Behaviour) -> Fake {
    let behaviour = Behaviour {
        devices: vec![device("g0", "Healthy", 0), device("g1", "Healthy", 1)],
        ..behaviour
    };
    let directory = folder.join("plugins");
    let fake = Fake::start(&directory, "gpu.sock", behaviour);
    register(&directory, VERSION, "gpu.sock", GPU).expect("it registers");
    fake
}

/// The ids of the healthy devices in the next offer.
fn next(offered: &OfferReceiver) -> Vec<String> {
    let (resource, devices) = offered.recv_timeout(PATIENCE).expect("an offer");
    assert_eq!(resource.as_str(), GPU);
    let devices = devices.unwrap_or_default().into_iter();
    let healthy = devices.filter(|(_, device)| device.healthy);
    healthy.map(|(id, _)| id.to_string()).collect()
}

fn set(ids: &[&str]) -> DeviceSet {
    ids.iter().map(|&id| id.into()).collect()
}

#[test]
fn responses_survive_a_restart_and_allocate_is_not_called_again() {
    let folder = folder();
    let (first, offered) = host(folder.path());
    let fake = plugin(folder.path(), Behaviour::default());
    assert_eq!(next(&offered), ["g0", "g1"]);
    let (pod, container) = ("p".into(), "c".into());
    let devices = [(GPU.into(), set(&["g1"]))].into();
    let edits = first.allocate(&pod, &container, &devices);
    let edits = edits.expect("it answers");
    assert_eq!(edits.envs["DEVICES"], "g1");
    drop(first);
    assert!(offered.recv().is_err(), "nothing comes after the end");

    let checkpoint = folder.path().join("checkpoint");
    let mode = std::fs::metadata(checkpoint)
        .expect("it was written")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let (second, offered) = host(folder.path());
    assert_eq!(next(&offered), [""; 0], "known, without its plugin");
    assert_eq!(second.edits(&pod, &container), edits);
    let again = second.allocate(&pod, &container, &devices);
    assert_eq!(again.expect("no plugin is needed"), edits);
    assert_eq!(*fake.heard.lock().expect("no panic"), ["allocate g1"]);
    second.remove_pod(&pod).expect("it is kept");
    assert_eq!(second.edits(&pod, &container), ContainerEdits::default());
    drop(second);
    let (third, _) = host(folder.path());
    assert_eq!(third.edits(&pod, &container), ContainerEdits::default());
}

#[test]
fn a_damaged_checkpoint_is_discarded_and_reported() {
    let folder = folder();
    std::fs::write(folder.path().join("checkpoint"), "{").expect("a file");
    let (host, _) = host(folder.path());
    assert!(host.lost_checkpoint().is_some());
}

#[test]
fn a_plugin_that_times_out_has_no_preference() {
    let folder = folder();
    let mut config = config(folder.path());
    config.manager.limits.preferred_allocation_timeout = Duration::from_millis(50);
    config.manager.limits.admission_timeout = Duration::from_millis(60);
    let (host, offered) = DeviceHost::start(config).expect("it starts");
    let behaviour = Behaviour {
        options: DevicePluginOptions {
            get_preferred_allocation_available: true,
            ..DevicePluginOptions::default()
        },
        advice_takes: Duration::from_secs(3600),
        ..Behaviour::default()
    };
    let fake = plugin(folder.path(), behaviour);
    assert_eq!(next(&offered), ["g0", "g1"]);
    let resource = ResourceName::from(GPU);
    let mut preferences = host.preferences();
    for _ in 0..10 {
        let ask = PreferredAllocationQuery {
            resource: &resource,
            available: &set(&["g0", "g1"]),
            must_include: &set(&[]),
            size: 1,
        };
        assert_eq!(preferences.preferred(ask), Ok(None));
    }
    let asked = fake.heard.lock().expect("no panic").len();
    assert!(asked <= 2, "asked {asked} times in one admission");
}

#[test]
fn a_failing_allocate_records_nothing() {
    let folder = folder();
    let (host, offered) = host(folder.path());
    let _fake = plugin(
        folder.path(),
        Behaviour {
            allocate_fails: Some("out of order"),
            ..Behaviour::default()
        },
    );
    assert_eq!(next(&offered), ["g0", "g1"]);
    let (pod, container) = ("p".into(), "c".into());
    let devices = [(GPU.into(), set(&["g0"]))].into();
    let failed = host.allocate(&pod, &container, &devices);
    let Err(HostError::Plugin(PluginError::Failed { message, .. })) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(message, "out of order");
    assert_eq!(host.edits(&pod, &container), ContainerEdits::default());
}

#[test]
fn after_many_lists_only_the_latest_is_queued() {
    let folder = folder();
    let (_host, offered) = host(folder.path());
    let fake = plugin(folder.path(), Behaviour::default());
    assert_eq!(next(&offered), ["g0", "g1"]);
    for _ in 0..2000 {
        fake.list(&[device("g0", "Healthy", 0)]);
        fake.list(&[device("g1", "Healthy", 0)]);
    }
    fake.list(&[device("last", "Healthy", 0)]);
    let mut offers = 1;
    while next(&offered) != ["last"] {
        offers += 1;
    }
    assert!(offers <= 4002, "{offers} offers");
    assert!(offered.recv_timeout(Duration::from_millis(50)).is_err());
}

#[test]
fn monitoring_agents_get_the_published_snapshot() {
    let folder = folder();
    let (host, _offered) = host(folder.path());
    let socket = folder.path().join("pod-resources.sock");
    let mode = std::fs::metadata(&socket)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let cpus: pinfold_core::cpu_set::CpuSet = "2-3".parse().expect("a list");
    let holding = HeldResources {
        cpus,
        ..HeldResources::default()
    };
    host.publish(PodResourcesSnapshot {
        pods: vec![PodSnapshot {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            containers: vec![("app".to_owned(), holding.clone())],
        }],
        allocatable: holding,
    });
    let reader = PodResourcesClient::new(&socket, PATIENCE);
    let pods = reader.list().expect("an answer");
    assert_eq!(pods[0].containers[0].cpu_ids, [2, 3]);
    assert_eq!(reader.get("default", "web").expect("it is there"), pods[0]);
    assert_eq!(reader.allocatable().expect("an answer").cpu_ids, [2, 3]);
    let missing = reader.get("default", "db");
    assert!(
        matches!(missing, Err(PodResourcesError::Failed { .. })),
        "{missing:?}"
    );
    drop(host);
    assert!(!socket.exists());
    assert!(matches!(
        reader.list(),
        Err(PodResourcesError::Connect { .. })
    ));
}

#[test]
fn a_call_to_a_silent_socket_times_out() {
    let folder = folder();
    let socket = folder.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let answer = PodResourcesClient::new(&socket, Duration::from_millis(50)).list();
    assert!(
        matches!(answer, Err(PodResourcesError::TimedOut { .. })),
        "{answer:?}"
    );
}
