//! Mirror mode beside a kubelet's directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pinfold_agent::mirror::{FileFault, Mirror, Places, Remark, objects};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::Device;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;
use pinfold_devices::pod_resources::{HeldResources, PodResourcesSnapshot, PodSnapshot};
use pinfold_devices::{DeviceHost, HostConfig, PluginManagerConfig};
use pinfold_kube::koordinator::ReportAnnotations;
use pinfold_kube::state::cpu::CpuStateFormat;
use pinfold_kube::state::device::DeviceEntry;
use pinfold_kube::state::{CpuManagerState, DeviceManagerState};
use tempfile::TempDir;

const GPU: &str = "example.com/gpu";
const CONFIG: &str = "\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: restricted
topologyManagerScope: pod
cpuManagerPolicy: static
cpuManagerPolicyOptions:
  full-pcpus-only: \"true\"
reservedSystemCPUs: \"0\"
";

fn list(text: &str) -> CpuSet {
    text.parse().expect("a list")
}

/// A kubelet's directory: pod `a` holds CPUs 2-3 and a GPU on node 1.
struct Kubelet {
    folder: TempDir,
}

impl Kubelet {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubelet = Self { folder };
        for below in ["device-plugins", "pod-resources"] {
            fs::create_dir(kubelet.path().join(below)).expect("a folder");
        }
        kubelet.write("config.yaml", CONFIG);
        kubelet.holds("2-3");
        let devices = DeviceManagerState {
            entries: vec![DeviceEntry {
                pod: "a".into(),
                container: "main".into(),
                resource: GPU.into(),
                devices: [(NodeId::new(1).ok(), vec!["g1".to_owned()])].into(),
                response: Vec::new(),
            }],
            registered: [(GPU.into(), vec!["g0".to_owned(), "g1".to_owned()])].into(),
        };
        kubelet.write(
            "device-plugins/kubelet_internal_checkpoint",
            &devices.write(),
        );
        kubelet
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path().join(name), content).expect("a file");
    }

    /// Pod `a` holds these CPUs.
    fn holds(&self, cpus: &str) {
        let own = list(cpus);
        let state = CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: &list("0-15") - &own,
            containers: [("a".into(), [("main".into(), own)].into())].into(),
            pods: BTreeMap::new(),
        };
        self.write("cpu_manager_state", &state.write(CpuStateFormat::V2));
    }

    /// Serves pod resources that name pods: `web` with these CPUs and the GPU, and `other` with nothing.
    fn serve(&self, cpus: &str) -> DeviceHost {
        let (host, _) = DeviceHost::start(HostConfig {
            manager: PluginManagerConfig::new(self.path().join("served")),
            checkpoint: self.path().join("served.checkpoint"),
            pod_resources: Some(self.path().join("pod-resources/kubelet.sock")),
        })
        .expect("it starts");
        let gpu = |node| Device {
            numa: Some(vec![node]),
            healthy: true,
        };
        let own = HeldResources {
            cpus: list(cpus),
            devices: [(GPU.into(), [("g1".into(), gpu(1))].into())].into(),
            ..HeldResources::default()
        };
        let pod = |name: &str, holding| PodSnapshot {
            name: name.to_owned(),
            namespace: "shop".to_owned(),
            containers: vec![("main".to_owned(), holding)],
        };
        let all = [("g0".into(), gpu(0)), ("g1".into(), gpu(1))];
        host.publish(PodResourcesSnapshot {
            pods: vec![pod("web", own), pod("other", HeldResources::default())],
            allocatable: HeldResources {
                devices: [(GPU.into(), all.into())].into(),
                ..HeldResources::default()
            },
        });
        host
    }

    fn mirror(&self) -> Mirror {
        let hardware = pinfold_hardware::open("2 sockets, 8 cores").expect("a machine");
        let (machine, _) = hardware.machine_within_reach().expect("all of it");
        Mirror::new(
            Arc::new(machine),
            hardware.memory,
            Places::under(self.path()),
        )
    }
}

/// The remarks without those about files that a kubelet without a memory manager does not have.
fn remarks(mirror: &Mirror) -> Vec<&Remark> {
    let is_usual = |remark: &&Remark| match remark {
        Remark::File { path, .. } => path.ends_with("memory_manager_state"),
        _ => false,
    };
    mirror
        .remarks()
        .iter()
        .filter(|remark| !is_usual(remark))
        .collect()
}

#[test]
fn the_picture_has_what_the_kubelet_gave_to_whom() {
    let kubelet = Kubelet::new();
    let _host = kubelet.serve("2-3");
    let mut mirror = kubelet.mirror();
    assert!(mirror.look());
    assert!(remarks(&mirror).is_empty(), "{:?}", remarks(&mirror));
    let picture = mirror.picture().expect("a picture");
    let ledger = &picture.ledger;
    assert_eq!(ledger.rules().settings().fidelity, Fidelity::Exact);
    assert_eq!(ledger.exclusive_cpus(&"a".into()), list("2-3"));
    assert_eq!(ledger.admitted_pods()[0].pod.name, "shop/web");
    assert_eq!(picture.sharing[0].to_string(), "shop/other");
    let gpus = ledger
        .state()
        .pool()
        .devices(&GPU.into())
        .expect("on offer");
    assert_eq!(gpus["g0"].numa, Some(vec![0]), "where a free device is");
    assert!(!mirror.look(), "nothing has changed");
}

#[test]
fn a_change_is_seen_and_a_new_copy_of_the_same_is_none() {
    let kubelet = Kubelet::new();
    let mut mirror = kubelet.mirror();
    assert!(mirror.look());
    kubelet.holds("4-5");
    assert!(mirror.look());
    let picture = mirror.picture().expect("a picture");
    assert_eq!(picture.ledger.exclusive_cpus(&"a".into()), list("4-5"));
    let file = kubelet.path().join("cpu_manager_state");
    let copy = kubelet.path().join("copy");
    fs::copy(&file, &copy).expect("a copy");
    fs::rename(&copy, &file).expect("the copy takes its place");
    assert!(!mirror.look());
}

#[test]
fn a_damaged_file_is_told_and_its_last_good_version_counts() {
    let kubelet = Kubelet::new();
    let mut mirror = kubelet.mirror();
    assert!(mirror.look());
    kubelet.write("cpu_manager_state", "{\"policyName\":\"sta");
    kubelet.write("config.yaml", "topologyManagerPolicy: [");
    assert!(mirror.look());
    let damaged = mirror.remarks().iter().filter(|remark| {
        let fault = match remark {
            Remark::File {
                fault, kept: true, ..
            } => Some(fault),
            _ => None,
        };
        matches!(fault, Some(FileFault::Damaged(_)))
    });
    assert_eq!(damaged.count(), 2, "{:?}", mirror.remarks());
    let picture = mirror.picture().expect("the last one");
    assert_eq!(picture.ledger.exclusive_cpus(&"a".into()), list("2-3"));
    assert_eq!(
        picture.ledger.rules().settings().topology_policy,
        "restricted"
    );
    kubelet.holds("4-5");
    kubelet.write("config.yaml", CONFIG);
    assert!(mirror.look());
    let picture = mirror.picture().expect("a picture");
    assert_eq!(picture.ledger.exclusive_cpus(&"a".into()), list("4-5"));
}

#[test]
fn an_empty_directory_is_a_node_without_pods_and_four_remarks() {
    let folder = tempfile::tempdir().expect("a folder");
    let hardware = pinfold_hardware::open("2 sockets, 8 cores").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("all of it");
    let mut places = Places::under(folder.path());
    places.pod_resources = None;
    let mut mirror = Mirror::new(Arc::new(machine), hardware.memory, places);
    assert!(mirror.look());
    let missing = |remark: &&Remark| {
        let fault = FileFault::Missing;
        matches!(remark, Remark::File { fault: found, kept: false, .. } if *found == fault)
    };
    assert_eq!(mirror.remarks().iter().filter(missing).count(), 4);
    let picture = mirror.picture().expect("a picture");
    assert!(picture.ledger.admitted_pods().is_empty());
}

#[test]
fn sources_that_disagree_are_told() {
    let kubelet = Kubelet::new();
    let _host = kubelet.serve("6-7");
    kubelet.write(
        "config.yaml",
        &CONFIG.replace("static", "none").replace(
            "cpuManagerPolicyOptions:\n  full-pcpus-only: \"true\"\n",
            "",
        ),
    );
    let mut mirror = kubelet.mirror();
    assert!(mirror.look());
    let told: Vec<String> = remarks(&mirror).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the CPU policy is \"none\", but the state was written under \"static\"",
            "pod a is in the state files, but pod resources know none that holds the same",
            "pod shop/web holds something by pod resources that the state files do not know of",
        ]
    );
}

#[test]
fn a_configuration_that_fits_no_kubelet_leaves_no_picture() {
    let kubelet = Kubelet::new();
    kubelet.write("config.yaml", &CONFIG.replace("\"0\"", "\"99\""));
    let mut mirror = kubelet.mirror();
    assert!(mirror.look());
    assert!(mirror.picture().is_none());
    let is_told = |remark: &Remark| matches!(remark, Remark::Settings(_));
    assert!(
        mirror.remarks().iter().any(is_told),
        "{:?}",
        mirror.remarks()
    );
}

#[test]
fn schedulers_are_told_the_kubelets_policy_options_pods_and_pool() {
    let kubelet = Kubelet::new();
    let _host = kubelet.serve("2-3");
    let mut mirror = kubelet.mirror();
    mirror.look();
    let published = objects(mirror.picture().expect("a picture"), "worker-1");
    let attributes: Vec<&str> = published
        .topology
        .attributes
        .iter()
        .map(|attribute| attribute.value.as_str())
        .collect();
    assert_eq!(attributes, ["restricted", "pod"]);
    let facts = ReportAnnotations::read(&published.koordinator, Fidelity::Sound);
    let facts = facts.expect("just written").value;
    assert_eq!(facts.cpu_manager.policy, "static");
    assert_eq!(facts.cpu_manager.options["full-pcpus-only"], "true");
    assert_eq!(facts.cpu_manager.reserved, list("0"));
    let pod = &facts.pod_cpus[0];
    assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("shop", "web"));
    assert_eq!((&pod.cpus, pod.managed_by_kubelet), (&list("2-3"), true));
    let mut pool = CpuSet::new();
    for row in &facts.shared_pools {
        pool |= &row.cpus;
    }
    assert_eq!(pool, list("0-1,4-15"));
    let pods = &published.numatopology.pods;
    assert_eq!(pods[0].containers[0].allocations["cpu"], "2-3");
    assert_eq!(published.numatopology.meta.name, "worker-1");
}
