use pinfold_cluster::koordinator::amounts::{Amounts, CPU};
use pinfold_cluster::koordinator::ledger::Allocation;
use pinfold_cluster::koordinator::node::RatioAnnotation;
use pinfold_cluster::koordinator::plugin::{KoordinatorArgs, PodDemand};
use pinfold_cluster::koordinator::policy_values::{
    AllocateStrategy, BindPolicy, ExclusiveLevel, ExclusivePolicy, NodeBindPolicy, NumaPolicy,
    ResourceSpec,
};
use pinfold_cluster::koordinator::pools::{Pools, union};
use pinfold_cluster::koordinator::qos::{self, KoordinatorQos, KubeletPinning, Priority, QosError};
use pinfold_cluster::koordinator::score::ScoreKind;
use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity::{self, Exact, Sound};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_core::settings::TopologyScope;

use super::*;
use crate::diagnostic::Diagnostic;
use crate::manifest;
use crate::node::NodeObject;
use crate::node_resource_topology::{self as nrt, NodeResourceTopology, NrtVersion};
use crate::objects;
use crate::pod::PodObject;

mod annotations;

const EXAMPLE: &str = include_str!("../../fixtures/node-resource-topology.yaml");

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse(list).expect("a list")
}

fn lines(findings: &[Diagnostic]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn topology(text: &str) -> NodeResourceTopology {
    let mut read = nrt::read("nrt.yaml", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    read.value.remove(0)
}

/// A report with these annotations.
fn reporting(annotations: &[(&str, &str)]) -> NodeResourceTopology {
    let mut object = topology(
        "apiVersion: topology.node.k8s.io/v1alpha1\nkind: NodeResourceTopology\nmetadata: {name: w}\ntopologyPolicies: []\nzones: []",
    );
    let annotations = annotations.iter();
    object.meta.annotations = annotations
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
        .collect();
    object
}

fn node_object(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> NodeObject {
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: w}\nstatus: {allocatable: {cpu: 16}}";
    let document = manifest::read("node.yaml", text.as_bytes())
        .expect("one")
        .remove(0);
    let mut node = NodeObject::read(&document).expect("a node").value;
    let owned = |texts: &[(&str, &str)]| {
        let texts = texts.iter();
        texts
            .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
            .collect()
    };
    node.meta.labels = owned(labels);
    node.meta.annotations = owned(annotations);
    node
}

fn pod(meta: &str, resources: &str) -> PodObject {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: test-pod\n{meta}\nspec:\n  containers:\n  - name: main\n    resources: {resources}\n"
    );
    let read = objects::read("pod.yaml", text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    read.value.pods.into_iter().next().expect("one pod")
}

const TWO_CPUS: &str = "{requests: {cpu: 2}, limits: {cpu: 2}}";

#[test]
fn the_pod_of_the_design_asks_for_a_spread_and_has_four_cpus() {
    let meta = r#"  namespace: default
  annotations:
    scheduling.koordinator.sh/resource-spec: |-
      {
        "preferredCPUBindPolicy": "SpreadByPCPUs",
        "preferredCPUExclusivePolicy": "PCPULevel"
      }
    scheduling.koordinator.sh/resource-status: |-
      {
        "cpuset": "0-3"
      }"#;
    let pod = pod(meta, TWO_CPUS);
    for fidelity in [Sound, Exact] {
        let demand = demand(&pod, fidelity).expect("readable").value;
        assert_eq!(demand.spec.preferred_bind, Some(BindPolicy::SpreadByPcpus));
        assert_eq!(
            demand.spec.preferred_exclusive,
            Some(ExclusivePolicy::PcpuLevel)
        );
        assert_eq!(demand.requests.get(CPU), 2000);
        let status = ResourceStatus::read(&pod, fidelity)
            .expect("readable")
            .value;
        let allocation = status.expect("there is one").allocation(&demand);
        assert_eq!(allocation.cpus, cpus("0-3"));
        assert_eq!(allocation.exclusive, ExclusiveLevel::Core);
    }
}

#[test]
fn the_node_of_the_design_is_read_with_its_three_labels() {
    let labels = [
        ("node.koordinator.sh/cpu-bind-policy", "FullPCPUsOnly"),
        (
            "node.koordinator.sh/numa-topology-alignment-policy",
            "BestEffort",
        ),
        (
            "node.koordinator.sh/numa-allocate-strategy",
            "MostAllocated",
        ),
    ];
    let object = node_object(&labels, &[]);
    let read = node(&object, None, Sound).expect("readable");
    assert_eq!(read.value.bind_policy, Some(NodeBindPolicy::FullPcpusOnly));
    assert_eq!(read.value.numa_policy, Some(NumaPolicy::BestEffort));
    assert_eq!(read.value.strategy, Some(AllocateStrategy::MostAllocated));
    assert_eq!(read.value.allocatable.get(CPU), 16_000);
    assert_eq!(
        lines(&read.warnings),
        [
            "node.yaml: Node/w: metadata.labels[node.koordinator.sh/numa-topology-alignment-policy]: found \
          \"node.koordinator.sh/numa-topology-alignment-policy\", read as \"node.koordinator.sh/numa-topology-policy\" \
          (rename it to \"node.koordinator.sh/numa-topology-policy\")"
        ]
    );
    let exact = node(&object, None, Exact).expect("readable");
    assert_eq!(
        exact.value.numa_policy, None,
        "today's code does not know the old label"
    );
    assert_eq!(exact.warnings, []);
}

#[test]
fn the_report_of_the_design_is_parsed_and_its_contradictions_are_warnings() {
    let object = topology(EXAMPLE);
    let facts = ReportAnnotations::read(&object, Sound)
        .expect("readable")
        .value;
    assert_eq!(facts.pod_cpus[0].cpus, cpus("4-8"));
    assert!(facts.pod_cpus[0].managed_by_kubelet);
    assert_eq!(facts.shared_pools[0].cpus, cpus("0-3"));
    let read = ReportAnnotations::report(&object, Sound).expect("readable");
    let report = read.value;
    assert_eq!(report.set_aside(), &cpus("4-8"));
    assert_eq!(report.kubelet.pinning, KubeletPinning::Static);
    assert!(report.kubelet.full_pcpus_only && report.kubelet.distribute_across_numa);
    assert_eq!(report.topology_policies, ["SingleNUMANodePodLevel"]);
    assert_eq!(report.zones().len(), 4);
    assert_eq!(report.topology.all(), &cpus("0-1"));
    let warnings = lines(&read.warnings);
    let text = warnings.join("\n");
    for part in [
        "[0].cpu (at 6:12 of the text): found the key \"cpu\", read as \"cpuset\"",
        "managedByKubelet (at 7:25 of the text): found the text \"true\", read as true",
        "20 in node-0, 1 listed; 30 in node-1, 1 listed; 30 in node-2, 0 listed; 30 in node-3, 0 listed",
        "CPUs 4-8 belong to pods or reservations and are not listed",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(
        warnings
            .iter()
            .all(|line| line.contains("NodeResourceTopology/node1: "))
    );
    assert!(warnings[0].starts_with("nrt.yaml:39:"), "{}", warnings[0]);
    let exact = ReportAnnotations::report(&object, Exact).expect("passed over");
    assert!(
        exact.value.set_aside().is_empty(),
        "today's code cannot read the example"
    );
    assert!(lines(&exact.warnings)[0].contains("expected true or false, found \"true\""));
}

/// Reads every key alias in sound mode and in exact mode.
#[test]
fn every_key_alias_is_read_in_sound_mode_only() {
    for KeyAlias { current, aliases } in KEY_ALIASES {
        for key in aliases {
            let (old_text, new_text) = match current {
                keys::BIND_POLICY => ("FullPCPUsOnly", "SpreadByPCPUs"),
                keys::NUMA_POLICY => ("Restricted", "BestEffort"),
                _ => (r#"{"policy":"static"}"#, r#"{"policy":"none"}"#),
            };
            let found = |texts: &[(&str, &str)], fidelity: Fidelity| -> (String, usize) {
                if current == keys::CPU_MANAGER_POLICY {
                    let read =
                        ReportAnnotations::read(&reporting(texts), fidelity).expect("readable");
                    return (read.value.cpu_manager.policy, read.warnings.len());
                }
                let read = node(&node_object(texts, &[]), None, fidelity).expect("readable");
                let bind = read.value.bind_policy.map(|own| own.as_str().to_owned());
                let numa = read.value.numa_policy.map(|own| own.as_str().to_owned());
                (bind.or(numa).unwrap_or_default(), read.warnings.len())
            };
            let word = |text: &str| match current {
                keys::CPU_MANAGER_POLICY if text.contains("static") => "static".to_owned(),
                keys::CPU_MANAGER_POLICY => "none".to_owned(),
                _ => text.to_owned(),
            };
            assert_eq!(
                found(&[(key, old_text)], Sound),
                (word(old_text), 1),
                "{key}"
            );
            assert_eq!(
                found(&[(key, old_text)], Exact),
                (String::new(), 0),
                "{key}"
            );
            let both = [(*key, old_text), (current, new_text)];
            assert_eq!(
                found(&both, Sound),
                (word(new_text), 1),
                "{key} beside {current}"
            );
            assert_eq!(
                found(&both, Exact),
                (word(new_text), 0),
                "{key} beside {current}"
            );
        }
    }
}

#[test]
fn obsolete_value_formats_are_read_in_sound_mode_only() {
    let policy = r#"{"policy":"static","options":{"Distribute-cpus-across-numa":"true"}}"#;
    let object = reporting(&[(keys::CPU_MANAGER_POLICY, policy)]);
    let sound = ReportAnnotations::read(&object, Sound).expect("readable");
    assert!(sound.value.kubelet().distribute_across_numa);
    assert_eq!(sound.warnings.len(), 1);
    let exact = ReportAnnotations::read(&object, Exact).expect("readable");
    assert!(!exact.value.kubelet().distribute_across_numa);
    assert_eq!(exact.warnings, []);

    let spec = r#"  annotations:
    scheduling.koordinator.sh/resource-spec: '{"preferredCPUExclusivePolicy":"Default","numaTopologyPolicy":"Restricted"}'"#;
    let pod = pod(spec, TWO_CPUS);
    let sound = demand(&pod, Sound).expect("readable");
    assert_eq!(sound.value.numa.policy, Some(NumaPolicy::Restricted));
    assert_eq!(sound.warnings.len(), 2, "{:?}", lines(&sound.warnings));
    let exact = demand(&pod, Exact).expect("readable");
    assert_eq!(exact.value.numa.policy, None);

    for word in ["SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel"] {
        let object = node_object(&[(keys::NUMA_POLICY, word)], &[]);
        let sound = node(&object, None, Sound).expect("readable");
        assert_eq!(sound.value.numa_policy, Some(NumaPolicy::SingleNumaNode));
        assert_eq!(sound.warnings.len(), 1);
        let exact = node(&object, None, Exact).expect("readable");
        assert_eq!(
            exact.value.numa_policy,
            Some(NumaPolicy::Other(word.to_owned()))
        );
    }
}

#[test]
fn amounts_have_precedence_over_pools_and_pools_alone_give_the_nodes() {
    let of = |text: &str, fidelity| {
        let meta =
            format!("  annotations:\n    scheduling.koordinator.sh/resource-status: '{text}'");
        let pod = pod(&meta, "{requests: {cpu: 3001m}}");
        let demand = demand(&pod, fidelity).expect("readable").value;
        let status = ResourceStatus::read(&pod, fidelity).expect("readable");
        (
            status.value.expect("there is one").allocation(&demand),
            status.warnings.len(),
        )
    };
    let pools = r#"{"cpuSharedPools":[{"socket":0,"node":2},{"socket":0,"node":1}]}"#;
    let (allocation, _) = of(pools, Sound);
    let parts: Vec<(u32, i64)> = allocation
        .numa
        .iter()
        .map(|part| (part.node.get(), part.amounts.get(CPU)))
        .collect();
    assert_eq!(parts, [(1, 1501), (2, 1500)]);
    assert_eq!(of(pools, Exact).0, Allocation::default());
    let both = r#"{"numaNodeResources":[{"node":0,"resources":{"cpu":"3"}}],"cpuSharedPools":[{"socket":0,"node":1}]}"#;
    let (allocation, warnings) = of(both, Sound);
    assert_eq!(allocation.numa.len(), 1);
    assert_eq!((allocation.numa[0].node.get(), warnings), (0, 1));
}

/// Two sockets of one NUMA node each, `cores` cores of two threads each: CPU `i` and `i + n` are siblings.
fn machine(cores: u32) -> Machine {
    let cpu = |id: u32| pinfold_core::cpu_set::CpuId::new(id).expect("small");
    let node = |node: u32| NumaNode {
        id: NodeId::new(i64::from(node)).expect("small"),
        memory: 8 << 30,
        hugepages: Vec::new(),
        distances: if node == 0 {
            vec![10, 21]
        } else {
            vec![21, 10]
        },
        cores: (0..cores)
            .map(|core| Core {
                id: core,
                socket: node,
                die: None,
                l3: None,
                threads: vec![
                    cpu(node * cores + core),
                    cpu(node * cores + core + 2 * cores),
                ],
            })
            .collect(),
    };
    Machine::new(MachineParts {
        nodes: vec![node(0), node(1)],
        num_cpus: 4 * cores as usize,
        num_sockets: 2,
        offline: CpuSet::new(),
    })
    .expect("a machine")
}

#[test]
fn a_status_is_written_with_pools_in_sound_mode_and_without_in_exact() {
    let facts = ReportAnnotations::of(&machine(4), &Settings::default(), CpuSet::new());
    let shares = Allocation {
        numa: vec![pinfold_cluster::koordinator::amounts::NodeAmounts {
            node: NodeId::new(1).expect("small"),
            amounts: Amounts::from([("cpu", 1500), ("memory", 2 << 30)]),
        }],
        ..Allocation::default()
    };
    let text = |allocation: &Allocation, fidelity| {
        ResourceStatus::of(allocation, &facts.topology(fidelity), fidelity).to_json()
    };
    let amounts = r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"1500m","memory":"2Gi"}}]"#;
    assert_eq!(text(&shares, Exact), format!("{amounts}}}"));
    assert_eq!(
        text(&shares, Sound),
        format!("{amounts},\"cpuSharedPools\":[{{\"socket\":1,\"node\":1}}]}}")
    );
    let bound = Allocation {
        cpus: cpus("0-3,8"),
        ..Allocation::default()
    };
    assert_eq!(text(&bound, Sound), r#"{"cpuset":"0-3,8"}"#);
    assert_eq!(text(&Allocation::default(), Exact), "{}");
}

#[test]
fn the_completed_spec_keeps_the_other_fields_of_the_annotation() {
    let meta = r#"  annotations:
    scheduling.koordinator.sh/resource-spec: '{"preferredCPUBindPolicy":"Default","mine":[1],"PREFERREDCPUBINDPOLICY":""}'"#;
    let spec = ResourceSpec {
        preferred_bind: Some(BindPolicy::FullPcpus),
        ..ResourceSpec::default()
    };
    assert_eq!(
        with_resource_spec(&pod(meta, TWO_CPUS), &spec),
        r#"{"preferredCPUBindPolicy":"FullPCPUs","mine":[1]}"#
    );
}

/// The demand of an LSR pod with these resources.
fn lsr(resources: &str) -> PodDemand {
    let pod = pod("  labels: {koordinator.sh/qosClass: LSR}", resources);
    demand(&pod, Sound).expect("readable").value
}

#[test]
fn an_lsr_pod_requests_whole_cpus_with_equal_limits() {
    let verdict = |resources: &str, fidelity| {
        let demand = lsr(resources);
        let qos = demand.qos.expect("labelled");
        let priority = demand.priority.or(Some(Priority::of_qos(qos)));
        qos::check(qos, priority, &demand.requests, &demand.limits, fidelity)
    };
    assert_eq!(verdict(TWO_CPUS, Sound), Ok(()));
    assert_eq!(
        verdict("{requests: {cpu: 1500m}, limits: {cpu: 1500m}}", Sound),
        Err(QosError::FractionalCpus(KoordinatorQos::Lsr))
    );
    let wide = "{requests: {cpu: 2}, limits: {cpu: 4}}";
    assert!(matches!(
        verdict(wide, Sound),
        Err(QosError::LimitDiffers { .. })
    ));
    assert_eq!(verdict(wide, Exact), Ok(()));
}

#[test]
fn the_shared_pools_follow_from_the_holders_of_cpus() {
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        ..Settings::default()
    };
    let mut facts = ReportAnnotations::of(&machine(4), &settings, cpus("0-1"));
    facts.pod_cpus.push(PodCpuAllocation {
        uid: "u".into(),
        cpus: cpus("6-7"),
        managed_by_kubelet: true,
        ..PodCpuAllocation::default()
    });
    let mut holders = facts.holders();
    for (qos, own) in [("LSE", "2-3"), ("LSR", "4-5")] {
        let meta = format!(
            "  labels: {{koordinator.sh/qosClass: {qos}}}\n  annotations:\n    scheduling.koordinator.sh/resource-status: '{{\"cpuset\":\"{own}\"}}'"
        );
        let pod = pod(&meta, TWO_CPUS);
        let status = ResourceStatus::read(&pod, Sound).expect("readable").value;
        let demand = demand(&pod, Sound).expect("readable").value;
        holders.add(demand.qos, &status.expect("there is one").cpus);
    }
    let pools = Pools::of(&facts.topology(Sound), &holders);
    assert_eq!(union(&pools.shared), cpus("0-1,8-15"));
    assert_eq!(union(&pools.best_effort), cpus("0-1,4-5,8-15"));
    let facts = facts.with_pools(&pools);
    let annotations = facts.annotations();
    assert_eq!(
        annotations[keys::SHARED_POOLS],
        r#"[{"socket":0,"node":0,"cpuset":"0-1,8-11"},{"socket":1,"node":1,"cpuset":"12-15"}]"#
    );
    assert_eq!(
        annotations[keys::CPU_MANAGER_POLICY],
        r#"{"policy":"static","reservedCPUs":"0-1"}"#
    );
    assert_eq!(
        annotations[keys::POD_CPU_ALLOCS],
        r#"[{"uid":"u","cpuset":"6-7","managedByKubelet":true}]"#
    );
}

#[test]
fn a_published_report_has_koordinator_s_format_and_is_read_back_unchanged() {
    let machine = machine(2);
    let settings = Settings {
        topology_policy: TopologyPolicy::Restricted,
        topology_scope: TopologyScope::Pod,
        cpu_policy: CpuManagerPolicy::Static,
        cpu_options: [("full-pcpus-only".to_owned(), "true".to_owned())].into(),
        ..Settings::default()
    };
    let occupancy = Occupancy {
        shared: cpus("0-7"),
        reserved: cpus("0"),
        ..Occupancy::default()
    };
    let mut facts = ReportAnnotations::of(&machine, &settings, cpus("0"));
    facts.reservation.cpus = cpus("1");
    facts.system = Some(SystemQosCpus {
        cpus: cpus("2"),
        exclusive: false,
    });
    facts.ratios = Some(pinfold_cluster::koordinator::amplify::Ratios(
        [("cpu".into(), 1.5)].into(),
    ));
    let report = nrt::publish("worker-1", &machine, &occupancy, &settings);
    let object = publish(&report, &facts);
    assert_eq!(object.version, NrtVersion::V1Alpha1);
    assert_eq!(object.meta.labels[nrt::MANAGED_BY], "Koordinator");
    assert_eq!(object.topology_policies, ["RestrictedPodLevel"]);
    assert_eq!(object.meta.annotations[keys::RATIOS], r#"{"cpu":1.50}"#);
    assert_eq!(object.meta.annotations[keys::POD_CPU_ALLOCS], "null");
    let again = topology(&object.content().to_yaml().expect("plain data"));
    for fidelity in [Sound, Exact] {
        let read = ReportAnnotations::read(&again, fidelity).expect("readable");
        assert_eq!(read.value, facts);
        assert_eq!(read.warnings, []);
        let report = ReportAnnotations::report(&again, fidelity).expect("readable");
        assert_eq!(lines(&report.warnings), [""; 0]);
        assert_eq!(report.value.reserved(), &cpus("0-1"));
    }
}

#[test]
fn a_node_s_reservation_is_subtracted_from_what_pods_can_have_unless_only_its_cpus_are_reserved() {
    let left = |text: &str| {
        let object = node_object(&[], &[(keys::RESERVATION, text)]);
        let of = |fidelity| node(&object, None, fidelity).expect("readable").value;
        let (exact, sound) = (of(Exact).allocatable, of(Sound).allocatable);
        assert_eq!(exact, sound, "{text}");
        exact.get(CPU)
    };
    assert_eq!(left(""), 16_000);
    assert_eq!(left(r#"{"reservedCPUs":"0,8-9"}"#), 13_000);
    assert_eq!(left(r#"{"resources":{"cpu":"1500m"}}"#), 14_500);
    let both = r#"{"resources":{"cpu":"4"},"reservedCPUs":"0-1","applyPolicy":"Default"}"#;
    assert_eq!(left(both), 14_000);
    assert_eq!(left(r#"{"resources":{"cpu":"40"}}"#), 0);
    let cpus_only = r#"{"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#;
    assert_eq!(left(cpus_only), 16_000);
    assert_eq!(left("nonsense"), 16_000);
}

#[test]
fn invalid_ratios_of_a_node_are_kept_as_an_error() {
    let ratios = |text: &str| {
        let object = node_object(&[], &[(keys::RATIOS, text)]);
        node(&object, None, Sound).expect("readable").value.ratios
    };
    assert!(matches!(ratios(r#"{"cpu":1.5}"#), RatioAnnotation::Ratios(own) if own.cpu() > 1.4));
    assert!(matches!(ratios("nonsense"), RatioAnnotation::Unreadable(_)));
    assert_eq!(ratios(""), RatioAnnotation::Absent);
}

#[test]
fn the_annotations_of_a_node_are_parsed() {
    let object = node_object(
        &[],
        &[
            (
                keys::RESERVATION,
                r#"{"resources":{"cpu":"2"},"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#,
            ),
            (keys::SYSTEM_QOS, r#"{"cpuset":"2-3"}"#),
            (keys::RAW_ALLOCATABLE, r#"{"cpu":"10","memory":"1Gi"}"#),
        ],
    );
    let annotations = NodeAnnotations::read(&object, Exact)
        .expect("readable")
        .value;
    assert_eq!(annotations.reservation.cpus, cpus("0-1"));
    assert_eq!(annotations.reservation.apply_policy, "ReservedCPUsOnly");
    assert_eq!(
        annotations.system.map(|system| system.exclusive),
        Some(true)
    );
    assert_eq!(annotations.raw_allocatable["cpu"], 10.into());
}

#[test]
fn the_schedulers_arguments_are_read_from_its_configuration() {
    let text = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeNUMAResource
    args:
      defaultCPUBindPolicy: SpreadByPCPUs
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}
      numaScoringStrategy: {type: MostAllocated}
";
    let args = |text: &str| {
        let document = manifest::read("s.yaml", text.as_bytes())
            .expect("one")
            .remove(0);
        scheduler_args(&document)
    };
    let read = args(text).expect("readable").value;
    assert_eq!(read.default_bind, Some(BindPolicy::SpreadByPcpus));
    assert_eq!(
        (read.scoring, read.numa_scoring),
        (ScoreKind::MostAllocated, ScoreKind::MostAllocated)
    );
    assert_eq!(read.weights, Amounts::from([("cpu", 3)]));
    let unbound = args(&text.replace("SpreadByPCPUs", "''"))
        .expect("readable")
        .value;
    assert_eq!(
        unbound.default_bind, None,
        "explicitly empty: no pod is bound"
    );
    let other = args(&text.replace("NodeNUMAResource", "Other"))
        .expect("readable")
        .value;
    assert_eq!(other, KoordinatorArgs::default());
    let wrong = args(&text.replace("weight: 3", "weight: 101")).expect_err("too heavy");
    assert!(
        wrong
            .to_string()
            .contains("expected a weight from 1 to 100, found the number 101")
    );
}
