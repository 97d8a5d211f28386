//! Every kind of finding, in a case where it is due and in one where it is not.

use std::sync::Arc;

use pinfold_cluster::node_topology::replica::RulesCache;
use pinfold_core::cpu_set::CpuId;
use pinfold_core::device::{Device, NoPreference};
use pinfold_core::fidelity::Fidelity;
use pinfold_core::ledger::Rules;
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode, UniformMachine};
use pinfold_core::memory::memory_resource;
use pinfold_core::pod::Pod;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::{CpuManagerPolicy, MemoryManagerPolicy, Settings};

use super::*;
use crate::objects;
use crate::state::cpu::CpuStateFormat;
use crate::state::memory::MemoryStateFormat;

fn version(text: &str) -> NamedVersion {
    text.parse().expect(text)
}

fn config(lines: &str) -> ConfigFile {
    let text =
        format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{lines}\n");
    ConfigFile::read("k.yaml", text.as_bytes())
        .expect(lines)
        .value
}

fn of_config(lines: &str, from: &str, to: &str) -> NodeUpgrade {
    let config = config(lines);
    NodeUpgrade::of_config(None, version(from), version(to).rules, Some(&config))
}

/// `line: field: message` of every line that the new version does not start with.
fn starts(lines: &str, from: &str, to: &str) -> Vec<String> {
    let found = of_config(lines, from, to).findings.into_iter();
    let starts = found.filter_map(|finding| match finding {
        UpgradeFinding::Start(start) => {
            let at = start
                .place
                .and_then(|place| place.at)
                .map_or(0, |at| at.line);
            let message = start.message.unwrap_or(start.problem);
            let today = if start.today { " (today)" } else { "" };
            Some(format!("{at}: {}: {message}{today}", start.field))
        }
        _ => None,
    });
    starts.collect()
}

fn flips(lines: &str, from: &str, to: &str) -> Vec<&'static str> {
    let found = of_config(lines, from, to).findings.into_iter();
    let flips = found.filter_map(|finding| match finding {
        UpgradeFinding::Flip(flip) => Some(flip.name),
        _ => None,
    });
    flips.collect()
}

#[test]
fn a_gate_that_the_new_version_removed_is_named_with_its_line() {
    let lines = "featureGates:\n  CPUManager: true\n  MemoryManager: true";
    assert_eq!(
        starts(lines, "1.32", "1.36"),
        [
            "4: featureGates.CPUManager: unrecognized feature gate: CPUManager",
            "5: featureGates.MemoryManager: unrecognized feature gate: MemoryManager"
        ]
    );
    assert!(starts(lines, "1.31", "1.32").is_empty());
}

#[test]
fn a_gate_that_is_locked_is_named_only_if_it_is_switched_off() {
    let off = "featureGates: {InPlacePodVerticalScaling: false}";
    let locked =
        "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true";
    assert_eq!(
        starts(off, "1.34", "1.35"),
        [format!(
            "3: featureGates.InPlacePodVerticalScaling: {locked}"
        )]
    );
    assert!(starts(off, "1.33", "1.34").is_empty());
    let on = "featureGates: {InPlacePodVerticalScaling: true}";
    assert!(starts(on, "1.34", "1.35").is_empty());
}

#[test]
fn a_gate_that_another_one_needs_is_named() {
    let off = "featureGates: {PodLevelResources: false}";
    assert!(starts(off, "1.34", "1.35").is_empty());
    let found = starts(off, "1.35", "1.36");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("3: featureGates.PodLevelResources: InPlacePodLevel"),
        "{found:?}"
    );
    let both =
        "featureGates: {PodLevelResources: false, InPlacePodLevelResourcesVerticalScaling: false}";
    assert!(starts(both, "1.35", "1.36").is_empty());
}

#[test]
fn an_option_that_an_older_version_does_not_know_is_named() {
    let lines = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ntopologyManagerPolicy: restricted\n\
                 cpuManagerPolicyOptions:\n  strict-cpu-reservation: 'true'\n\
                 topologyManagerPolicyOptions:\n  max-allowable-numa-nodes: '16'";
    assert_eq!(
        starts(lines, "1.35", "1.30"),
        [
            "7: cpuManagerPolicyOptions.strict-cpu-reservation: unknown CPU Manager Policy option: \
             \"strict-cpu-reservation\"",
            "9: topologyManagerPolicyOptions.max-allowable-numa-nodes: unknown Topology Manager Policy option: \
             \"max-allowable-numa-nodes\""
        ]
    );
    assert!(starts(lines, "1.34", "1.36").is_empty());
    let alpha = starts(lines, "1.33", "1.32");
    assert_eq!(
        alpha,
        [
            "7: cpuManagerPolicyOptions.strict-cpu-reservation: CPU Manager Policy Alpha-level Options not enabled, but \
          option \"strict-cpu-reservation\" provided"
        ]
    );
    let unused = lines.replace("cpuManagerPolicy: static", "cpuManagerPolicy: none");
    assert!(starts(&unused, "1.33", "1.32").is_empty());
}

#[test]
fn other_fields_are_named_from_the_version_on_that_rejects_them() {
    for (lines, first) in [
        ("runOnce: true", 32),
        ("enforceNodeAllocatable: [pods, pods]", 31),
        (
            "enforceNodeAllocatable: [pods, kube-reserved, kube-reserved-compressible]",
            32,
        ),
    ] {
        let to = |minor: u8| starts(lines, "1.30", &format!("1.{minor}"));
        assert_eq!(to(first).len(), 1, "{lines}");
        if first == 31 {
            assert!(to(30).is_empty(), "{lines}");
        }
    }
    assert!(starts("runOnce: true", "1.30", "1.31").is_empty());
    assert!(starts("runOnce: false", "1.31", "1.36").is_empty());
    let compressible = "enforceNodeAllocatable: [pods, kube-reserved-compressible]";
    assert!(starts(compressible, "1.32", "1.36").is_empty());
    let both = starts(compressible, "1.30", "1.31");
    assert!(both[0].ends_with("(today)"), "{both:?}");
}

#[test]
fn a_gate_whose_default_changes_flips_unless_it_is_set() {
    assert_eq!(
        flips("", "1.33", "1.34"),
        ["DynamicResourceAllocation", "PodLevelResources"]
    );
    let set = "featureGates: {DynamicResourceAllocation: false, PodLevelResources: true}";
    // The first was off and stays off; the second is on in both.
    assert!(flips(set, "1.33", "1.34").is_empty());
    assert!(flips("", "1.29", "1.30").is_empty());
    assert!(flips("", "1.36", "1.36").is_empty());
}

#[test]
fn a_gate_with_which_the_kubelet_does_not_start_does_not_flip_besides() {
    let off = "featureGates: {InPlacePodVerticalScaling: false}";
    assert_eq!(starts(off, "1.34", "1.35").len(), 1);
    assert!(!flips(off, "1.34", "1.35").contains(&"InPlacePodVerticalScaling"));
}

#[test]
fn the_default_for_control_groups_flips_in_1_35_unless_it_is_set() {
    assert!(flips("", "1.34", "1.35").contains(&"failCgroupV1"));
    assert!(!flips("failCgroupV1: false", "1.34", "1.35").contains(&"failCgroupV1"));
    assert!(!flips("", "1.35", "1.36").contains(&"failCgroupV1"));
}

#[test]
fn gates_about_which_nothing_is_known_are_listed() {
    let found = of_config("featureGates: {SomethingElse: true}", "1.33", "1.34");
    assert!(
        found.not_known[0].contains("SomethingElse"),
        "{:?}",
        found.not_known
    );
    assert!(
        of_config("featureGates: {CPUManager: true}", "1.31", "1.32")
            .not_known
            .is_empty()
    );
}

/// Two L3 caches of three cores with threads n and n + 6; cores 1 and 2 are offline.
fn offline_cores() -> Machine {
    let cores = [(0, 0), (3, 1), (4, 1), (5, 1)].map(|(core, l3)| Core {
        id: core,
        socket: 0,
        die: None,
        l3: Some(l3),
        threads: [core, core + 6]
            .into_iter()
            .filter_map(CpuId::new)
            .collect(),
    });
    Machine::new(MachineParts {
        num_cpus: 8,
        num_sockets: 1,
        nodes: vec![NumaNode {
            id: NodeId::new(0).expect("an id"),
            memory: 64,
            hugepages: Vec::new(),
            distances: Vec::new(),
            cores: cores.into(),
        }],
        offline: "1-2,7-8".parse().expect("CPUs"),
    })
    .expect("a machine")
}

fn uniform(nodes: u32, cores: u32, threads: u32) -> Machine {
    let shape = UniformMachine {
        sockets: nodes,
        nodes_per_socket: 1,
        cores_per_node: cores,
        threads_per_core: threads,
        memory_per_node: 16,
    };
    Machine::uniform(shape).expect("a machine")
}

fn settings(policy: TopologyPolicy, options: &[&str], reserved: i64) -> Settings {
    let options = options.iter();
    Settings {
        topology_policy: policy,
        cpu_policy: CpuManagerPolicy::Static,
        cpu_options: options
            .map(|&name| (name.to_owned(), "true".to_owned()))
            .collect(),
        reserved_cpu: Some(Quantity::from(reserved)),
        alpha_cpu_options: true,
        ..Settings::default()
    }
}

/// An empty node of a kubelet of this version.
fn node(machine: &Machine, settings: &Settings, minor: u8) -> Ledger {
    let settings = Settings {
        fidelity: Fidelity::of_kubelet(KubeletVersion::minor(minor)),
        ..settings.clone()
    };
    let rules = Rules::new(Arc::new(machine.clone()), settings).expect("a kubelet that starts");
    Ledger::new(Arc::new(rules))
}

fn admit(ledger: &mut Ledger, pod: Pod) {
    let admitted = ledger.admit(&Arc::new(pod), &mut NoPreference);
    assert!(admitted.expect("a valid pod").decision.is_admitted());
}

fn pod(name: &str, cpus: i64, bytes: i64) -> Pod {
    Pod::guaranteed(
        name,
        [
            ("cpu", Quantity::from(cpus)),
            ("memory", Quantity::from(bytes)),
        ],
    )
}

/// What changes for the pods of `before`, which has the first version, on an empty node of the second one.
fn compared(before: &Ledger, after: &Ledger, formats: StateFormats) -> Vec<UpgradeFinding> {
    let (from, to) = (
        before.rules().fidelity().version(),
        after.rules().fidelity().version(),
    );
    let from = version(&from.to_string());
    let mut found = NodeUpgrade::of_config(None, from, to, None);
    found.findings.clear();
    found.compare(before, after, formats, None);
    found.findings
}

fn formats(ledger: &Ledger) -> StateFormats {
    StateFormats::written_by(ledger.rules())
}

fn files(found: &[UpgradeFinding]) -> Vec<&StateFileProblem> {
    let files = found.iter().filter_map(|finding| match finding {
        UpgradeFinding::StateFile(problem) => Some(problem),
        _ => None,
    });
    files.collect()
}

fn pods(found: &[UpgradeFinding]) -> Vec<&PodChange> {
    let pods = found.iter().filter_map(|finding| match finding {
        UpgradeFinding::Pod(change) => Some(change),
        _ => None,
    });
    pods.collect()
}

#[test]
fn a_state_file_in_which_other_cpus_are_reserved_must_be_deleted() {
    let options = ["prefer-align-cpus-by-uncorecache"];
    let (machine, settings) = (
        offline_cores(),
        settings(TopologyPolicy::BestEffort, &options, 3),
    );
    let after = |minor| node(&machine, &settings, minor);
    let mut before = after(33);
    admit(&mut before, pod("a", 2, 4));
    let found = compared(&before, &after(34), formats(&before));
    let [problem] = files(&found)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(problem.manager, KubeletManager::Cpu);
    assert!(!problem.today);
    let new = after(34).rules().reserved_cpus();
    assert_ne!(before.rules().reserved_cpus(), new);
    assert!(
        problem.problem.contains(&new.to_string()),
        "{}",
        problem.problem
    );
    assert!(problem.message.is_some());
    // The same kubelet, and one that reserves the same CPUs, start from it.
    for minor in [32, 33] {
        let found = compared(&before, &after(minor), formats(&before));
        assert!(files(&found).is_empty(), "1.{minor}: {found:?}");
    }
}

#[test]
fn a_state_file_with_pods_is_read_only_with_the_gate_that_wrote_it() {
    let on = Settings {
        pod_level_resources: true,
        ..settings(TopologyPolicy::None, &[], 1)
    };
    let off = Settings {
        pod_level_resources: false,
        ..on.clone()
    };
    let machine = uniform(1, 4, 1);
    let before = node(&machine, &on, 36);
    let written = formats(&before);
    assert_eq!(written.cpu, Some(CpuStateFormat::V3));
    assert_eq!(written.memory, Some(MemoryStateFormat::V2));
    let managers = |after: &Ledger| -> Vec<KubeletManager> {
        let found = compared(&before, after, written);
        files(&found)
            .iter()
            .map(|problem| problem.manager)
            .collect()
    };
    let both = [KubeletManager::Cpu, KubeletManager::Memory];
    assert_eq!(managers(&node(&machine, &off, 37)), both);
    assert_eq!(managers(&node(&machine, &on, 35)), both);
    assert!(managers(&node(&machine, &on, 37)).is_empty());
    let plain = node(&machine, &off, 36);
    assert_eq!(formats(&plain).cpu, Some(CpuStateFormat::V2));
    assert!(
        files(&compared(
            &plain,
            &node(&machine, &off, 37),
            formats(&plain)
        ))
        .is_empty()
    );
}

#[test]
fn a_state_file_by_container_id_is_read_until_1_36() {
    let (machine, settings) = (uniform(1, 4, 1), settings(TopologyPolicy::None, &[], 1));
    let before = node(&machine, &settings, 35);
    let oldest = StateFormats {
        cpu: Some(CpuStateFormat::V1),
        memory: None,
    };
    let found = |minor| compared(&before, &node(&machine, &settings, minor), oldest);
    assert!(files(&found(36)).is_empty());
    assert_eq!(files(&found(37)).len(), 1);
}

#[test]
fn the_newest_state_files_are_read_by_every_version() {
    let (machine, settings) = (uniform(1, 4, 1), settings(TopologyPolicy::None, &[], 1));
    let before = node(&machine, &settings, 37);
    assert_eq!(formats(&before).cpu, Some(CpuStateFormat::V4));
    let found = compared(&before, &node(&machine, &settings, 29), formats(&before));
    assert!(files(&found).is_empty(), "{found:?}");
}

#[test]
fn a_pod_that_holds_all_cores_is_rejected_at_a_restart_until_1_36() {
    let settings = settings(TopologyPolicy::SingleNumaNode, &["full-pcpus-only"], 2);
    let machine = uniform(1, 4, 2);
    let mut before = node(&machine, &settings, 33);
    admit(&mut before, pod("full", 6, 4));
    let found = compared(&before, &node(&machine, &settings, 36), formats(&before));
    let [change] = pods(&found)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (change.pod.as_str(), change.when),
        ("full", Readmission::Restart)
    );
    let PodOutcome::Rejected { reason, today, .. } = &change.outcome else {
        panic!("{change:?}");
    };
    assert_eq!(reason, "SMTAlignmentError");
    assert!(*today, "1.33 rejects it as well");
    assert!(UpgradeFinding::Pod(change.clone()).needs_work());
    let found = compared(&before, &node(&machine, &settings, 37), formats(&before));
    assert!(pods(&found).is_empty(), "{found:?}");
}

#[test]
fn a_pod_on_numa_nodes_that_are_used_singly_as_well_is_rejected_since_1_32() {
    let byte = |amount: i64| [(memory_resource(), Quantity::bytes(amount))].into();
    let settings = Settings {
        topology_policy: TopologyPolicy::BestEffort,
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![pinfold_core::memory::MemoryReservation {
            numa_node: 0,
            limits: byte(1),
        }],
        node_reservation: byte(1),
        ..Settings::default()
    };
    let machine = uniform(2, 4, 1);
    let mut before = node(&machine, &settings, 31);
    admit(&mut before, pod("one", 1, 10));
    admit(&mut before, pod("both", 1, 20));
    let rejected = |minor| -> Vec<String> {
        let found = compared(&before, &node(&machine, &settings, minor), formats(&before));
        let rejected = pods(&found)
            .into_iter()
            .filter(|change| matches!(change.outcome, PodOutcome::Rejected { today: false, .. }));
        rejected.map(|change| change.pod.clone()).collect()
    };
    assert_eq!(rejected(32), ["both"]);
    assert!(rejected(31).is_empty());
}

#[test]
fn a_pod_with_a_device_is_placed_otherwise_since_1_36_when_it_is_created_again() {
    let settings = settings(TopologyPolicy::BestEffort, &[], 1);
    let machine = uniform(2, 8, 1);
    let with_gpus = |minor| {
        let mut node = node(&machine, &settings, minor);
        let gpu = Device {
            numa: Some(vec![0]),
            healthy: true,
        };
        node.set_devices(
            "example.com/gpu".into(),
            Some([("gpu0".into(), gpu)].into()),
        );
        node
    };
    let mut before = with_gpus(35);
    let ask = [
        ("cpu", Quantity::from(10)),
        ("memory", Quantity::from(1)),
        ("example.com/gpu", Quantity::from(1)),
    ];
    admit(&mut before, Pod::guaranteed("train", ask));
    let found = compared(&before, &node(&machine, &settings, 36), formats(&before));
    let [change] = pods(&found)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        change.when,
        Readmission::Anew,
        "with its state file it keeps its CPUs"
    );
    let PodOutcome::Placed { before: old, after } = &change.outcome else {
        panic!("{change:?}");
    };
    let on = |placed: &Placed| -> Vec<usize> {
        placed.cpus_on_nodes.iter().map(|(_, cpus)| *cpus).collect()
    };
    assert_eq!((on(old), on(after)), (vec![2, 8], vec![7, 3]));
    assert!(!UpgradeFinding::Pod(change.clone()).needs_work());
    let found = compared(&before, &node(&machine, &settings, 35), formats(&before));
    assert!(pods(&found).is_empty(), "{found:?}");
}

#[test]
fn a_pod_with_pod_level_resources_is_rejected_since_1_34_while_their_gate_is_off() {
    let (machine, settings) = (uniform(1, 4, 1), settings(TopologyPolicy::None, &[], 1));
    let mut before = node(&machine, &settings, 33);
    let whole = Some([("cpu".into(), Quantity::from(2))].into());
    admit(
        &mut before,
        Pod {
            pod_requests: whole.clone(),
            pod_limits: whole,
            ..pod("whole", 1, 1)
        },
    );
    admit(&mut before, pod("plain", 1, 1));
    let reasons = |minor, lines: &str| -> Vec<(String, String)> {
        let mut found =
            NodeUpgrade::of_config(None, version("1.33"), KubeletVersion::minor(minor), None);
        found.findings.clear();
        let after = node(&machine, &settings, minor);
        found.compare(&before, &after, formats(&before), Some(&config(lines)));
        let changes = found
            .findings
            .into_iter()
            .filter_map(|finding| match finding {
                UpgradeFinding::Pod(change) => match change.outcome {
                    PodOutcome::Rejected { reason, .. } => Some((change.pod, reason)),
                    PodOutcome::Placed { .. } => None,
                },
                _ => None,
            });
        changes.collect()
    };
    let off = "featureGates: {PodLevelResources: false}";
    let rejected = (
        "whole".to_owned(),
        "PodLevelResourcesNotSupported".to_owned(),
    );
    assert_eq!(reasons(34, off), [rejected]);
    assert!(reasons(33, off).is_empty());
    assert!(reasons(34, "").is_empty());
}

/// A node with 8 CPUs on each of two NUMA nodes, of which one is reserved, and GPUs near node 0.
fn cluster(version: &str, report: bool, pods: &str) -> objects::ClusterObjects {
    let node = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: worker-1}}\nstatus:\n  \
         allocatable: {{cpu: '15', memory: 32Gi, pods: '110', example.com/gpu: '1'}}\n{version}"
    );
    let zone = |id: u8, cpus: u8, gpus: &str| {
        format!(
            "- name: node-{id}\n  type: Node\n  resources:\n  \
             - {{name: cpu, capacity: '8', allocatable: '{cpus}', available: '0'}}\n{gpus}"
        )
    };
    let gpu = "  - {name: example.com/gpu, capacity: '1', allocatable: '1', available: '0'}\n";
    let topology = format!(
        "---\napiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n\
         metadata: {{name: worker-1}}\nattributes:\n\
         - {{name: topologyManagerPolicy, value: best-effort}}\n\
         - {{name: cpuManagerPolicy, value: static}}\n\
         - {{name: memoryManagerPolicy, value: None}}\nzones:\n{}{}",
        zone(0, 7, gpu),
        zone(1, 8, "")
    );
    let topology = if report { topology } else { String::new() };
    let text = format!("{node}{topology}{pods}");
    objects::read("cluster.yaml", text.as_bytes())
        .expect(&text)
        .value
}

const KUBELET_1_35: &str = "  nodeInfo: {kubeletVersion: v1.35.4}\n";
const TRAIN: &str = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  nodeName: worker-1\n  \
                     containers:\n  - name: main\n    resources:\n      \
                     limits: {cpu: '10', memory: 1Gi, example.com/gpu: '1'}\n";

fn of_node(objects: &objects::ClusterObjects, from: Option<&str>, to: &str) -> NodeUpgrade {
    let nodes = objects.nodes_with_sources();
    let from = from.map(version);
    let mut cache = RulesCache::default();
    let found = of_cluster_node(
        &nodes[0],
        from.as_ref(),
        version(to).rules,
        None,
        &mut cache,
    );
    found.expect("a readable report")
}

#[test]
fn pods_of_a_report_are_compared_by_counts() {
    let objects = cluster(KUBELET_1_35, true, TRAIN);
    let found = of_node(&objects, None, "1.36");
    assert_eq!(found.from, Some(version("v1.35.4")));
    let [change] = pods(&found.findings)[..] else {
        panic!("{found:?}");
    };
    assert!(matches!(&change.outcome, PodOutcome::Placed { after, .. } if after.is_counted));
    let same = of_node(&objects, Some("1.34"), "1.35");
    assert!(pods(&same.findings).is_empty(), "{same:?}");
}

#[test]
fn what_a_report_does_not_show_is_listed() {
    let says =
        |found: &NodeUpgrade, word: &str| found.not_known.iter().any(|line| line.contains(word));
    let found = of_node(&cluster(KUBELET_1_35, true, TRAIN), None, "1.36");
    for word in ["configuration file", "state files", "counts CPUs"] {
        assert!(says(&found, word), "{word}: {:?}", found.not_known);
    }
    assert!(
        !says(&found, "NodeResourceTopology"),
        "{:?}",
        found.not_known
    );
    let found = of_node(&cluster(KUBELET_1_35, false, TRAIN), None, "1.36");
    assert!(
        says(&found, "no NodeResourceTopology"),
        "{:?}",
        found.not_known
    );
    assert!(pods(&found.findings).is_empty());
}

#[test]
fn a_node_without_a_known_version_is_not_examined_unless_it_is_named() {
    let objects = cluster("", true, TRAIN);
    let found = of_node(&objects, None, "1.36");
    assert_eq!((found.from, found.findings.len()), (None, 0));
    assert!(
        found.not_known[0].contains("--from"),
        "{:?}",
        found.not_known
    );
    assert_eq!(
        pods(&of_node(&objects, Some("1.35"), "1.36").findings).len(),
        1
    );
    let old = cluster("  nodeInfo: {kubeletVersion: v1.20.1}\n", true, "");
    let found = of_node(&old, None, "1.36");
    assert!(
        found.not_known[0].contains("older than 1.29"),
        "{:?}",
        found.not_known
    );
}

#[test]
fn pods_are_admitted_in_the_order_of_their_creation_if_all_have_it() {
    let pod = |name: &str, created: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{created}}}\nspec: {{nodeName: worker-1, \
             containers: [{{name: main}}]}}\n"
        )
    };
    let at = |day: u8| format!(", creationTimestamp: '2026-03-0{day}T00:00:00Z'");
    let order = |text: &str| {
        let objects = cluster(KUBELET_1_35, true, text);
        let nodes = objects.nodes_with_sources();
        let (pods, is_known) = running_in_order(&nodes[0].pods);
        let names: Vec<String> = pods.iter().map(|pod| pod.meta.name.clone()).collect();
        (names.join(","), is_known)
    };
    let dated = pod("late", &at(2)) + &pod("early", &at(1));
    assert_eq!(order(&dated), ("early,late".to_owned(), true));
    let undated = pod("late", &at(2)) + &pod("early", "");
    assert_eq!(order(&undated), ("late,early".to_owned(), false));
}

#[test]
fn a_newer_version_is_predicted_as_the_newest_known_one() {
    let newer = version("1.99");
    assert!(newer.is_newer);
    assert_eq!(newer.rules, KubeletVersion::NEWEST);
    assert!(!version("v1.36.4+k3s1").is_newer);
    assert!("1.12".parse::<NamedVersion>().is_err());
}
