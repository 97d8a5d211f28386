use std::sync::Arc;

use super::*;
use pinfold_core::cpu::CpuConfigError;
use pinfold_core::cpu_set::{CpuId, CpuSet};
use pinfold_core::ledger::{Rules, SettingsError};
use pinfold_core::machine::{Core, Machine, MachineParts, NumaNode};
use pinfold_core::node_set::NodeId;
use pinfold_core::quantity::Quantity;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

/// A typical configuration of a node, most of it not about placement.
const CONFIG: &str = r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  webhook: {enabled: true}
clusterDNS: [10.96.0.10]
containerLogMaxSize: 10Mi
cpuManagerPolicy: static
cpuManagerPolicyOptions:
  full-pcpus-only: "true"
cpuManagerReconcilePeriod: 5s
evictionHard:
  memory.available: 500Mi
  nodefs.available: 10%
featureGates:
  CPUManagerPolicyAlphaOptions: true
  SomethingElse: false
kubeReserved:
  cpu: 500m
  memory: 1Gi
memoryManagerPolicy: Static
reservedMemory:
- numaNode: 0
  limits: {memory: 1Gi}
- numaNode: 1
  limits:
    memory: 1524Mi
systemReserved:
  cpu: 600m
  memory: 1Gi
  ephemeral-storage: 1Gi
topologyManagerPolicy: single-numa-node
topologyManagerScope: pod
topologyManagerPolicyOptions:
  prefer-closest-numa-nodes: "true"
  max-allowable-numa-nodes: "16"
"#;

fn read_sound(text: &str) -> WithWarnings<KubeletSettings> {
    KubeletSettings::read("k.yaml", text.as_bytes(), Fidelity::Sound).expect(text)
}

fn rejection_under(text: &str, fidelity: Fidelity) -> String {
    let read = KubeletSettings::read("k.yaml", text.as_bytes(), fidelity);
    read.expect_err(text).to_string()
}

fn rejection(text: &str) -> String {
    rejection_under(text, Fidelity::Sound)
}

/// A configuration with only these fields, which begin on line 3.
fn config(fields: &str) -> String {
    format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{fields}\n")
}

#[test]
fn a_configuration_is_read_with_all_settings_that_affect_placement() {
    let WithWarnings { value, warnings } = read_sound(CONFIG);
    assert_eq!(warnings, []);
    assert_eq!(value.topology_policy, TopologyPolicy::SingleNumaNode);
    assert_eq!(value.topology_scope, TopologyScope::Pod);
    assert_eq!(value.topology_options["max-allowable-numa-nodes"], "16");
    assert_eq!(value.cpu_policy, CpuManagerPolicy::Static);
    assert_eq!(value.cpu_options["full-pcpus-only"], "true");
    assert_eq!(value.cpu_reconcile_period, Duration::from_secs(5));
    assert_eq!(value.memory_policy, MemoryManagerPolicy::Static);
    assert_eq!(value.reserved_memory.len(), 2);
    assert_eq!(value.kube_reserved["cpu"], Quantity::milli(500));
    assert!(value.gate("CPUManagerPolicyAlphaOptions", false));
    assert!(!value.gate("SomethingElse", true));
    assert_eq!(value.pod_level(), PodLevel::Ignored);
}

#[test]
fn the_number_of_pods_is_read_and_may_not_be_negative() {
    let limits = |fields: &str| read_sound(&config(fields)).value.pod_limits;
    assert_eq!(limits("").pods(16), 110);
    assert_eq!(limits("maxPods: 250").pods(16), 250);
    assert_eq!(limits("maxPods: 0").pods(16), 110);
    assert_eq!(limits("maxPods: 250\npodsPerCore: 10").pods(16), 160);
    let message = rejection(&config("maxPods: -1"));
    let expected = "invalid configuration: maxPods (--max-pods) -1 must not be a negative number";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn an_empty_configuration_is_the_default() {
    assert_eq!(read_sound(&config("")).value, KubeletSettings::default());
    let empty = "topologyManagerPolicy: \"\"\ncpuManagerPolicy: ~\ncpuManagerReconcilePeriod: 0s\nreservedMemory: []";
    assert_eq!(read_sound(&config(empty)).value, KubeletSettings::default());
}

/// Two NUMA nodes of 4 CPUs and 32 GiB each.
fn machine() -> Arc<Machine> {
    let node = |id: u32| NumaNode {
        id: NodeId::new(i64::from(id)).expect("small"),
        memory: 32 * GIB,
        hugepages: Vec::new(),
        distances: Vec::new(),
        cores: (0..4)
            .map(|core| Core {
                id: core,
                socket: id,
                die: None,
                l3: None,
                threads: CpuId::new(id * 4 + core).into_iter().collect(),
            })
            .collect(),
    };
    let parts = MachineParts {
        nodes: vec![node(0), node(1)],
        num_cpus: 8,
        num_sockets: 2,
        offline: CpuSet::new(),
    };
    Arc::new(Machine::new(parts).expect("consistent"))
}

fn rules(text: &str) -> Result<Rules, SettingsError> {
    let settings = read_sound(text).value.settings(64 * GIB, Fidelity::Exact);
    Rules::new(machine(), settings)
}

#[test]
fn reserved_cpus_are_the_sum_rounded_up() {
    for (fields, reserved) in [
        ("kubeReserved: {cpu: \"1\"}", Some("0")),
        ("kubeReserved: {cpu: 1m}", Some("0")),
        (
            "kubeReserved: {cpu: 500m}\nsystemReserved: {cpu: 500m}",
            Some("0"),
        ),
        (
            "kubeReserved: {cpu: 500m}\nsystemReserved: {cpu: 600m}",
            Some("0-1"),
        ),
        (
            "reservedSystemCPUs: 0,4-6\nkubeReserved: {cpu: \"9\"}",
            Some("0,4-6"),
        ),
        ("reservedSystemCPUs: \"\"\nkubeReserved: {cpu: \"0\"}", None),
        ("", None),
    ] {
        let rules = rules(&config(&format!("cpuManagerPolicy: static\n{fields}")));
        let found = rules.map(|rules| rules.reserved_cpus().to_string());
        match reserved {
            Some(reserved) => assert_eq!(found.as_deref(), Ok(reserved), "{fields}"),
            None => assert_eq!(
                found,
                Err(SettingsError::Cpu(CpuConfigError::NoReservation)),
                "{fields}"
            ),
        }
    }
}

#[test]
fn reserved_memory_must_add_up() {
    assert!(rules(CONFIG).is_ok());
    for (text, message) in [
        (
            CONFIG.replace("1524Mi", "1Gi"),
            "the total amount \"2Gi\" of type \"memory\" is not equal to the value \"2548Mi\" determined by Node \
             Allocatable feature",
        ),
        (
            CONFIG.replace("numaNode: 1", "numaNode: 2"),
            "the reserved memory configuration references a NUMA node 2 that does not exist on this machine",
        ),
        (
            CONFIG.replace(
                "limits: {memory: 1Gi}",
                "limits: {memory: 1Gi, hugepages-1Gi: 1Gi}",
            ),
            "the total amount \"1Gi\" of type \"hugepages-1Gi\" is not equal to the value \"0\" determined by Node \
             Allocatable feature",
        ),
        (
            CONFIG.replace("memory: 1524Mi", "memory: 1.48828125Gi"),
            "could not covert a variable of type Quantity to int64",
        ),
        (
            config("memoryManagerPolicy: Static"),
            "the total amount \"0\" of type \"memory\" is not equal to the value \"100Mi\" determined by Node Allocatable \
             feature",
        ),
    ] {
        let rejected = rules(&text).expect_err(&text);
        assert_eq!(rejected.to_string(), message);
    }
}

#[test]
fn feature_gates_enable_options() {
    let with = |gates: &str| {
        let fields = "cpuManagerPolicy: static\nkubeReserved: {cpu: \"1\"}\n\
                      cpuManagerPolicyOptions: {align-by-socket: \"true\"}\nfeatureGates: ";
        rules(&config(&format!("{fields}{gates}")))
    };
    assert!(with("{CPUManagerPolicyAlphaOptions: true}").is_ok());
    assert!(with("{}").is_err());
    let pod_level = read_sound(&config("featureGates: {PodLevelResourceManagers: true}"));
    let settings = pod_level.value.settings(0, Fidelity::Sound);
    assert!(settings.pod_level_resources);
}

#[test]
fn the_eviction_threshold_counts_as_reserved_memory() {
    for (fields, expected) in [
        ("", 100 << 20),
        ("evictionHard: {}", 0),
        ("evictionHard: {nodefs.available: 5%}", 0),
        (
            "evictionHard: {nodefs.available: 5%}\nmergeDefaultEvictionSettings: true",
            100 << 20,
        ),
        ("evictionHard: {memory.available: 1Gi}", GIB),
        ("evictionHard: {memory.available: 25%}", 16 * GIB),
        ("evictionHard: {memory.available: 0%}", 0),
        ("evictionHard: {memory.available: 100%}", 0),
        ("evictionHard: {memory.available: 10%}", 6_871_947_776),
    ] {
        let settings = read_sound(&config(fields)).value;
        let memory = settings.reserved_node_memory(64 * GIB).value();
        assert_eq!(u64::try_from(memory), Ok(expected), "{fields}");
    }
}

#[test]
fn obsolete_spellings_give_a_warning_or_are_rejected() {
    for (fields, check, warning, message) in [
        (
            "topologyManagerPolicy: strict",
            (|settings| settings.topology_policy == TopologyPolicy::Restricted)
                as fn(&KubeletSettings) -> bool,
            "k.yaml:3:24: topologyManagerPolicy: found \"strict\", read as \"restricted\" (write \"restricted\"; kubelets \
             reject \"strict\")",
            "must be one of: [\"none\" \"best-effort\" \"restricted\" \"single-numa-node\"]",
        ),
        (
            "topologyManagerPolicy: preferred",
            |settings| settings.topology_policy == TopologyPolicy::BestEffort,
            "read as \"best-effort\"",
            "must be one of",
        ),
        (
            "topologyManagerScope: Pod",
            |settings| settings.topology_scope == TopologyScope::Pod,
            "read as \"pod\"",
            "must be one of: \"container\", or \"pod\"",
        ),
        (
            "cpuManagerPolicyOptions: {Distribute-cpus-across-numa: \"true\"}",
            |settings| {
                settings
                    .cpu_options
                    .contains_key("distribute-cpus-across-numa")
            },
            "read as \"distribute-cpus-across-numa\"",
            "unknown CPU Manager Policy option: \"Distribute-cpus-across-numa\"",
        ),
        (
            "topologyManagerPolicy: restricted\nfeatureGates: {TopologyManager: true}",
            |settings| settings.topology_policy == TopologyPolicy::Restricted,
            "the gate TopologyManager has no effect here",
            "unrecognized feature gate: TopologyManager",
        ),
        (
            "topologyManagerPolicy: restricted\nfeatureGates: {TopologyManager: false}",
            |settings| settings.topology_policy == TopologyPolicy::None,
            "read as topologyManagerPolicy: none",
            "unrecognized feature gate: TopologyManager",
        ),
    ] {
        let text = config(fields);
        let read = read_sound(&text);
        assert!(check(&read.value), "{fields}");
        let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        assert!(
            warnings.len() == 1 && warnings[0].contains(warning),
            "{warnings:?}"
        );
        let rejection = rejection_under(&text, Fidelity::Exact);
        assert!(rejection.contains(message), "{rejection}");
    }
}

#[test]
fn what_the_kubelet_rejects_is_rejected_with_its_message() {
    for (fields, expected) in [
        (
            "topologyManagerPolicy: best-erffort",
            "k.yaml:3:24: topologyManagerPolicy: invalid configuration: topologyManagerPolicy (--topology-manager-policy) \
             \"best-erffort\" must be one of: [\"none\" \"best-effort\" \"restricted\" \"single-numa-node\"] (did you mean \
             \"best-effort\"?)",
        ),
        (
            "topologyManagerScope: node",
            "k.yaml:3:23: topologyManagerScope: invalid configuration: topologyManagerScope (--topology-manager-scope) \
             \"node\" must be one of: \"container\", or \"pod\" (one of container, pod)",
        ),
        (
            "cpuManagerPolicy: Static",
            "k.yaml:3:19: cpuManagerPolicy: unknown policy: \"Static\" (did you mean \"static\"?)",
        ),
        (
            "memoryManagerPolicy: static",
            "k.yaml:3:22: memoryManagerPolicy: unknown policy: \"static\" (did you mean \"Static\"?)",
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpu-only: \"true\"}",
            "k.yaml:3:43: cpuManagerPolicyOptions[full-pcpu-only]: unknown CPU Manager Policy option: \"full-pcpu-only\" \
             (did you mean \"full-pcpus-only\"?)",
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: true}",
            "k.yaml:3:44: cpuManagerPolicyOptions[full-pcpus-only]: expected a text such as \"true\", found the boolean \
             true (put it in quotes: \"true\")",
        ),
        (
            "cpuManagerPolicyOptions: {full-pcpus-only: \"yes\"}",
            "k.yaml:3:44: cpuManagerPolicyOptions[full-pcpus-only]: bad value for option \"full-pcpus-only\": \
             strconv.ParseBool: parsing \"yes\": invalid syntax",
        ),
        (
            "topologyManagerPolicyOptions: {max-allowable-numa-nodes: \"4\"}",
            "k.yaml:3:58: topologyManagerPolicyOptions[max-allowable-numa-nodes]: the minimum value of \
             \"max-allowable-numa-nodes\" should not be less than 8",
        ),
        (
            "topologyManagerPolicyOptions: {max-allowable-numa-nodes: x}",
            "k.yaml:3:58: topologyManagerPolicyOptions[max-allowable-numa-nodes]: unable to convert policy option to \
             integer \"max-allowable-numa-nodes\": strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "reservedSystemCPUs: 0-x",
            "k.yaml:3:21: reservedSystemCPUs: invalid configuration: unable to parse reservedSystemCPUs (--reserved-cpus) \
             0-x, error: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            "reservedSystemCPUs: 0-1\nkubeReservedCgroup: /kube",
            "k.yaml:3:21: reservedSystemCPUs: invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with \
             systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup)",
        ),
        (
            "kubeReserved: {cpu: 1}",
            "k.yaml:3:21: kubeReserved.cpu: expected a quantity in quotes such as \"500m\", found the number 1 (put it in \
             quotes: \"1\")",
        ),
        (
            "kubeReserved: {hugepages-2Mi: 4Mi}",
            "k.yaml:3:31: kubeReserved[hugepages-2Mi]: --kube-reserved value failed to parse: cannot reserve \
             \"hugepages-2Mi\" resource (one of cpu, memory, ephemeral-storage, pid)",
        ),
        (
            "systemReserved: {memory: -1Gi}",
            "k.yaml:3:26: systemReserved.memory: --system-reserved value failed to parse: resource quantity for \
             \"memory\" cannot be negative: -1Gi",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]",
            "k.yaml:3:87: reservedMemory[1].limits.memory: invalid configuration: the reserved memory has a duplicate \
             value for NUMA node 0 and resource \"memory\"",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
            "k.yaml:3:46: reservedMemory[0].limits.cpu: invalid configuration: the limit type \"cpu\" for NUMA node 0 is \
             not supported, only [memory hugepages-<HugePageSize>] is accepted",
        ),
        (
            "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
            "k.yaml:3:49: reservedMemory[0].limits.memory: invalid configuration: reserved memory may not be zero for \
             NUMA node 0 and resource \"memory\"",
        ),
        (
            "reservedMemory: [{numaNode: 64, limits: {memory: 1}}]",
            "k.yaml:3:29: reservedMemory[0].numaNode: expected the number of a NUMA node, 0 to 63, found the number 64",
        ),
        (
            "evictionHard: {memory.availible: 1Gi}",
            "k.yaml:3:34: evictionHard[memory.availible]: unsupported eviction signal memory.availible (did you mean \
             \"memory.available\"?)",
        ),
        (
            "evictionHard: {memory.available: 101%}",
            "k.yaml:3:34: evictionHard[memory.available]: eviction percentage threshold memory.available must be <= \
             100%: 101%",
        ),
        (
            "evictionHard: {memory.available: -1%}",
            "k.yaml:3:34: evictionHard[memory.available]: eviction percentage threshold memory.available must be >= 0%: \
             -1%",
        ),
        (
            "evictionHard: {memory.available: \"0\"}",
            "k.yaml:3:34: evictionHard[memory.available]: eviction threshold memory.available must be positive: 0",
        ),
        (
            "cpuManagerReconcilePeriod: 5",
            "k.yaml:3:28: cpuManagerReconcilePeriod: expected a duration such as 10s, found the number 5 (put it in \
             quotes: \"5\")",
        ),
        (
            "cpuManagerReconcilePeriod: 5 seconds",
            "k.yaml:3:28: cpuManagerReconcilePeriod: expected a duration such as 10s, found \"5 seconds\"",
        ),
        (
            "featureGates: {PodLevelResourceManagers: \"true\"}",
            "k.yaml:3:42: featureGates.PodLevelResourceManagers: expected true or false, found \"true\"",
        ),
    ] {
        assert_eq!(rejection(&config(fields)), expected);
    }
}

#[test]
fn other_objects_are_rejected() {
    for (text, expected) in [
        (
            "apiVersion: v1\nkind: Pod\n".to_owned(),
            "k.yaml:2:7: kind: expected KubeletConfiguration, found \"Pod\"",
        ),
        (
            config("").replace("v1beta1", "v1alpha1"),
            "k.yaml:1:13: apiVersion: expected kubelet.config.k8s.io/v1beta1, found \"kubelet.config.k8s.io/v1alpha1\"",
        ),
        (
            format!("{CONFIG}---\n{CONFIG}"),
            "k.yaml:37:1: expected one KubeletConfiguration, found 2 objects",
        ),
        (
            String::new(),
            "k.yaml: expected one KubeletConfiguration, found 0 objects",
        ),
    ] {
        assert_eq!(rejection(&text), expected);
    }
}

#[test]
fn misspelt_fields_give_a_warning_and_other_unknown_ones_do_not() {
    let read = read_sound(&config(
        "topologyMangerPolicy: restricted\nmaxPods: 110\nCPUManagerPolicy: static\nevictionSoft: {}",
    ));
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "k.yaml:3:23: topologyMangerPolicy: found the unknown field \"topologyMangerPolicy\" (did you mean \
             \"topologyManagerPolicy\"?)",
            "k.yaml:5:19: CPUManagerPolicy: found the unknown field \"CPUManagerPolicy\" (did you mean \
             \"cpuManagerPolicy\"?)",
        ]
    );
}

/// The other fields of a `KubeletConfiguration`; none may be reported as misspelt.
#[test]
fn no_real_field_is_taken_for_a_misspelling() {
    let others = "enableServer staticPodPath podLogsDir syncFrequency fileCheckFrequency httpCheckFrequency address port \
        readOnlyPort tlsCertFile rotateCertificates authentication authorization registryPullQPS registryBurst \
        eventRecordQPS eventBurst healthzPort oomScoreAdj clusterDomain clusterDNS nodeStatusUpdateFrequency \
        imageMinimumGCAge volumeStatsAggPeriod kubeletCgroups systemCgroups cgroupRoot cgroupsPerQOS cgroupDriver \
        singleProcessOOMKill qosReserved runtimeRequestTimeout hairpinMode podCIDR podPidsLimit resolvConf \
        cpuCFSQuota cpuCFSQuotaPeriod maxOpenFiles contentType kubeAPIQPS kubeAPIBurst serializeImagePulls evictionSoft \
        evictionSoftGracePeriod evictionPressureTransitionPeriod evictionMaxPodGracePeriod evictionMinimumReclaim \
        failSwapOn memorySwap containerLogMaxSize enforceNodeAllocatable allowedUnsafeSysctls \
        volumePluginDir providerID logging shutdownGracePeriod crashLoopBackOff memoryThrottlingFactor \
        memoryReservationPolicy registerWithTaints registerNode tracing containerRuntimeEndpoint failCgroupV1";
    for field in others.split_whitespace() {
        assert_eq!(
            read_sound(&config(&format!("{field}: x"))).warnings,
            [],
            "{field}"
        );
    }
}

proptest! {
    #[test]
    fn no_damage_to_a_configuration_makes_it_panic(
        damage in prop::collection::vec((0..CONFIG.len(), any::<u8>(), 0_u8..4), 1..8)
    ) {
        let mut bytes = CONFIG.as_bytes().to_vec();
        for (at, byte, what) in damage {
            let at = at.min(bytes.len().saturating_sub(1));
            match what {
                _ if bytes.is_empty() => {}
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        if let Ok(read) = KubeletSettings::read("k", &bytes, Fidelity::Sound) {
            let _ = Rules::new(machine(), read.value.settings(u64::MAX, Fidelity::Sound));
        }
    }
}
