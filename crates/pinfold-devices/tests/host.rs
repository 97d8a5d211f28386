//! The host with plugins in the same process.

#[allow(dead_code, reason = "shared with the tests of the manager")]
mod fake;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use fake::{Behaviour, Fake, device, register};
use kubelet_api::device_plugin::{DevicePluginOptions, VERSION};
use pinfold_core::device::{DeviceSet, PreferredAllocation, PreferredAllocationQuery};
use pinfold_core::name::ResourceName;
use pinfold_devices::pod_resources::{Holding, PodSnapshot, ReadError, Reader, Snapshot};
use pinfold_devices::{
    Config, ContainerEdits, Host, HostConfig, HostError, OfferReceiver, PluginError,
};
use tempfile::TempDir;

const GPU: &str = "example.com/gpu";
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn config(folder: &Path) -> HostConfig {
    let mut manager = Config::new(folder.join("plugins"));
    manager.limits.tick = Duration::from_millis(20);
    HostConfig {
        manager,
        checkpoint: folder.join("checkpoint"),
        pod_resources: Some(folder.join("pod-resources.sock")),
    }
}

fn host(folder: &Path) -> (Host, OfferReceiver) {
    Host::start(config(folder)).expect("it starts")
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
fn answers_survive_a_restart_and_are_not_asked_for_again() {
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
    second.forget(&pod).expect("it is kept");
    assert_eq!(second.edits(&pod, &container), ContainerEdits::default());
    drop(second);
    let (third, _) = host(folder.path());
    assert_eq!(third.edits(&pod, &container), ContainerEdits::default());
}

#[test]
fn a_damaged_file_is_lost_and_told() {
    let folder = folder();
    std::fs::write(folder.path().join("checkpoint"), "{").expect("a file");
    let (host, _) = host(folder.path());
    assert!(host.lost().is_some());
}

#[test]
fn a_plugin_that_thinks_too_long_gives_no_advice() {
    let folder = folder();
    let mut config = config(folder.path());
    config.manager.limits.advice_timeout = Duration::from_millis(50);
    config.manager.limits.admission_timeout = Duration::from_millis(60);
    let (host, offered) = Host::start(config).expect("it starts");
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
    let mut advice = host.advice();
    for _ in 0..10 {
        let ask = PreferredAllocationQuery {
            resource: &resource,
            available: &set(&["g0", "g1"]),
            must_include: &set(&[]),
            size: 1,
        };
        assert_eq!(advice.preferred(ask), Ok(None));
    }
    let asked = fake.heard.lock().expect("no panic").len();
    assert!(asked <= 2, "asked {asked} times in one admission");
}

#[test]
fn a_failing_allocate_keeps_nothing() {
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
fn a_flood_of_lists_leaves_the_latest() {
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
fn monitoring_agents_are_told_what_was_published() {
    let folder = folder();
    let (host, _offered) = host(folder.path());
    let socket = folder.path().join("pod-resources.sock");
    let mode = std::fs::metadata(&socket)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let cpus: pinfold_core::cpu_set::CpuSet = "2-3".parse().expect("a list");
    let holding = Holding {
        cpus,
        ..Holding::default()
    };
    host.publish(Snapshot {
        pods: vec![PodSnapshot {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            containers: vec![("app".to_owned(), holding.clone())],
        }],
        allocatable: holding,
    });
    let reader = Reader::new(&socket, PATIENCE);
    let pods = reader.list().expect("an answer");
    assert_eq!(pods[0].containers[0].cpu_ids, [2, 3]);
    assert_eq!(reader.get("default", "web").expect("it is there"), pods[0]);
    assert_eq!(reader.allocatable().expect("an answer").cpu_ids, [2, 3]);
    let missing = reader.get("default", "db");
    assert!(
        matches!(missing, Err(ReadError::Failed { .. })),
        "{missing:?}"
    );
    drop(host);
    assert!(!socket.exists());
    assert!(matches!(reader.list(), Err(ReadError::Connect { .. })));
}

#[test]
fn a_socket_that_never_answers_is_given_up() {
    let folder = folder();
    let socket = folder.path().join("silent.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let answer = Reader::new(&socket, Duration::from_millis(50)).list();
    assert!(
        matches!(answer, Err(ReadError::TimedOut { .. })),
        "{answer:?}"
    );
}
