//! Mirror mode beside a kubelet's directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use pinfold_agent::mirror::{FileProblem, KubeletPaths, Mirror, MirrorProblem, objects};
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::device::Device;
use pinfold_core::fidelity::Fidelity;
use pinfold_core::node_set::NodeId;
use pinfold_devices::pod_resources::{HeldResources, PodResourcesSnapshot, PodSnapshot};
use pinfold_devices::{DeviceHost, HostConfig, PluginManagerConfig};
use pinfold_kube::koordinator::{NodeAnnotations, NodeReservation, ReportAnnotations};
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

    /// Serves a podresources API that lists two pods: `web` with these CPUs and the GPU, and `other` with nothing.
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
            KubeletPaths::under(self.path()),
        )
    }
}

/// The problems, without the missing file of the memory manager.
fn problems(mirror: &Mirror) -> Vec<&MirrorProblem> {
    let is_expected = |problem: &&MirrorProblem| match problem {
        MirrorProblem::File { path, .. } => path.ends_with("memory_manager_state"),
        _ => false,
    };
    mirror
        .problems()
        .iter()
        .filter(|problem| !is_expected(problem))
        .collect()
}

#[test]
fn the_snapshot_has_the_resources_of_each_pod() {
    let kubelet = Kubelet::new();
    let _host = kubelet.serve("2-3");
    let mut mirror = kubelet.mirror();
    assert!(mirror.poll());
    assert!(problems(&mirror).is_empty(), "{:?}", problems(&mirror));
    let snapshot = mirror.snapshot().expect("a snapshot");
    let ledger = &snapshot.ledger;
    assert_eq!(ledger.rules().settings().fidelity, Fidelity::Exact);
    assert_eq!(ledger.exclusive_cpus(&"a".into()), list("2-3"));
    assert_eq!(ledger.admitted_pods()[0].pod.name, "shop/web");
    assert_eq!(snapshot.sharing[0].to_string(), "shop/other");
    let gpus = ledger.state().pool().devices(&GPU.into()).expect("devices");
    assert_eq!(gpus["g0"].numa, Some(vec![0]), "NUMA node of a free device");
    assert!(!mirror.poll(), "nothing has changed");
}

#[test]
fn a_changed_file_is_detected_and_an_identical_copy_is_not_a_change() {
    let kubelet = Kubelet::new();
    let mut mirror = kubelet.mirror();
    assert!(mirror.poll());
    kubelet.holds("4-5");
    assert!(mirror.poll());
    let snapshot = mirror.snapshot().expect("a snapshot");
    assert_eq!(snapshot.ledger.exclusive_cpus(&"a".into()), list("4-5"));
    let file = kubelet.path().join("cpu_manager_state");
    let copy = kubelet.path().join("copy");
    fs::copy(&file, &copy).expect("a copy");
    fs::rename(&copy, &file).expect("replaced by the copy");
    assert!(!mirror.poll());
}

#[test]
fn a_damaged_file_is_a_problem_and_its_last_valid_content_is_used() {
    let kubelet = Kubelet::new();
    let mut mirror = kubelet.mirror();
    assert!(mirror.poll());
    kubelet.write("cpu_manager_state", "{\"policyName\":\"sta");
    kubelet.write("config.yaml", "topologyManagerPolicy: [");
    assert!(mirror.poll());
    let damaged = mirror.problems().iter().filter(|found| {
        let problem = match found {
            MirrorProblem::File {
                problem,
                kept: true,
                ..
            } => Some(problem),
            _ => None,
        };
        matches!(problem, Some(FileProblem::Damaged(_)))
    });
    assert_eq!(damaged.count(), 2, "{:?}", mirror.problems());
    let snapshot = mirror.snapshot().expect("the last one");
    assert_eq!(snapshot.ledger.exclusive_cpus(&"a".into()), list("2-3"));
    assert_eq!(
        snapshot.ledger.rules().settings().topology_policy.name(),
        "restricted"
    );
    kubelet.holds("4-5");
    kubelet.write("config.yaml", CONFIG);
    assert!(mirror.poll());
    let snapshot = mirror.snapshot().expect("a snapshot");
    assert_eq!(snapshot.ledger.exclusive_cpus(&"a".into()), list("4-5"));
}

#[test]
fn an_empty_directory_is_a_node_without_pods_and_lacks_all_files_but_the_device_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let hardware = pinfold_hardware::open("2 sockets, 8 cores").expect("a machine");
    let (machine, _) = hardware.machine_within_reach().expect("all of it");
    let mut paths = KubeletPaths::under(folder.path());
    paths.pod_resources = None;
    let mut mirror = Mirror::new(Arc::new(machine), hardware.memory, paths);
    assert!(mirror.poll());
    let missing = |found: &&MirrorProblem| {
        let problem = FileProblem::Missing;
        matches!(found, MirrorProblem::File { problem: own, kept: false, .. } if *own == problem)
    };
    assert_eq!(mirror.problems().iter().filter(missing).count(), 3);
    let snapshot = mirror.snapshot().expect("a snapshot");
    assert!(snapshot.ledger.admitted_pods().is_empty());
}

#[test]
fn contradicting_files_and_apis_are_problems() {
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
    assert!(mirror.poll());
    let messages: Vec<String> = problems(&mirror).iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "the CPU policy is \"none\", but the state file was written with \"static\"",
            "pod a is in the state files, but the podresources API lists no pod with the same resources",
            "pod shop/web holds resources by the podresources API that are not in the state files",
        ]
    );
}

#[test]
fn without_a_valid_configuration_there_is_no_snapshot() {
    let kubelet = Kubelet::new();
    kubelet.write("config.yaml", &CONFIG.replace("\"0\"", "\"99\""));
    let mut mirror = kubelet.mirror();
    assert!(mirror.poll());
    assert!(mirror.snapshot().is_none());
    let is_settings = |problem: &MirrorProblem| matches!(problem, MirrorProblem::Settings(_));
    assert!(
        mirror.problems().iter().any(is_settings),
        "{:?}",
        mirror.problems()
    );
}

#[test]
fn the_published_objects_have_the_kubelets_policy_options_pods_and_shared_pool() {
    let kubelet = Kubelet::new();
    let _host = kubelet.serve("2-3");
    let mut mirror = kubelet.mirror();
    mirror.poll();
    let published = objects(
        mirror.snapshot().expect("a snapshot"),
        "worker-1",
        &NodeAnnotations {
            reservation: NodeReservation {
                cpus: list("15"),
                ..NodeReservation::default()
            },
            ..NodeAnnotations::default()
        },
    );
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
    assert_eq!(facts.reservation.cpus, list("15"), "copied from the Node");
    assert_eq!(pool, list("0-1,4-14"));
    let pods = &published.numatopology.pods;
    assert_eq!(pods[0].containers[0].allocations["cpu"], "2-3");
    assert_eq!(published.numatopology.meta.name, "worker-1");
}
