use pinfold_core::cpu_set::CpuSet;
use pinfold_core::fidelity::Fidelity::{Exact, Sound};
use pinfold_core::machine::Machine;
use pinfold_core::occupancy::Occupancy;
use pinfold_core::policy::TopologyPolicy;
use pinfold_core::qos::QosClass;
use pinfold_core::quantity::Quantity;
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::Settings;

use super::*;
use crate::json_value::JsonValue;
use crate::manifest;
use crate::objects;

const OBJECT: &str = "
apiVersion: nodeinfo.volcano.sh/v1alpha1
kind: Numatopology
metadata: {name: worker-1, annotations: {timestamp: '1700000000'}}
later: {a: 1}
spec:
  policies: {CPUManagerPolicy: static, TopologyManagerPolicy: best-effort}
  resReserved: {cpu: 1500m}
  numares: {cpu: {allocatable: '2-3', capacity: 4, unit: cpus}}
  cpuDetail:
    '0': {}
    '1': {core: 1}
    '2': {numa: 1, socket: 1, cache: 7}
    '10': {numa: 1, socket: 1, core: 1}
  podAllocations:
  - {uid: u, name: p, namespace: ns, node: n, containerAllocations: [{name: c, allocations: {cpu: '0,1'}, x: y}]}
  future: [1, 2]
";

fn one(text: &str) -> Numatopology {
    let mut documents = manifest::read("numa.yaml", text.as_bytes()).expect("one");
    Numatopology::read(&documents.remove(0))
        .unwrap_or_else(|e| panic!("{e}"))
        .value
}

#[test]
fn a_numatopology_is_parsed_and_written_back() {
    let object = one(OBJECT);
    for text in [
        object.content().to_yaml().expect("plain data"),
        object.content().to_json(),
    ] {
        assert_eq!(one(&text), object, "{text}");
    }
    for word in ["later", "unit", "cache", "future", "\"node\"", "\"x\""] {
        assert!(object.content().to_json().contains(word), "{word}");
    }
    let json = object.content().to_json();
    assert!(
        json.contains(r#""cpuDetail":{"0":{},"1":{"core":1},"2":{"#),
        "{json}"
    );
    let read = object.node(Sound).expect("readable");
    assert_eq!(read.value.name.as_str(), "worker-1");
    let numa = read.value.numa.expect("there is one");
    assert_eq!(
        (numa.cpu_manager.as_str(), numa.topology.as_str()),
        ("static", "best-effort")
    );
    assert_eq!(numa.cpus.all(), &CpuSet::parse("0-2,10").expect("a list"));
    assert_eq!(numa.cpus.node_ids().len(), 2);
    assert_eq!(numa.reserved, Some(Quantity::milli(1500)));
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "numa.yaml: Numatopology/worker-1: spec.numares.cpu.allocatable: CPUs 3 are free and not in cpuDetail"
        ]
    );
}

#[test]
fn values_that_the_scheduler_s_cache_ignores_are_rejected_in_sound_mode() {
    let table = [
        (
            "'2-3'",
            "nonsense",
            "spec.numares.cpu.allocatable: expected a CPU list such as 2-15",
        ),
        (
            "'10'",
            "ten",
            "spec.cpuDetail[ten]: expected the id of a CPU",
        ),
        (
            "{core: 1}",
            "{numa: 64}",
            "spec.cpuDetail[1]: expected numa 0 to 63",
        ),
        (
            "1500m",
            "lots",
            "spec.resReserved[cpu]: expected a quantity",
        ),
    ];
    for (good, bad, expected) in table {
        let object = one(&OBJECT.replacen(good, bad, 1));
        let rejected = object.node(Sound).expect_err(bad).to_string();
        assert!(rejected.contains(expected), "{rejected}");
        let exact = object.node(Exact).expect("forgiven");
        assert!(
            exact
                .warnings
                .iter()
                .any(|own| own.to_string().contains(expected)),
            "{bad}"
        );
        let numa = exact.value.numa.expect("there is one");
        match bad {
            "nonsense" => assert_eq!(numa.free, Some(CpuSet::new())),
            "lots" => assert_eq!(numa.reserved, None),
            _ => {}
        }
    }
}

#[test]
fn a_published_object_is_read_back_by_the_scheduler() {
    let json = r#"{"nodes":[{"id":0,"memory":1,"cores":[{"id":0,"socket":0,"threads":[0,2]},{"id":1,"socket":0,"threads":[1,3]}]}],"num_cpus":4,"num_sockets":1}"#;
    let machine: Machine = serde_json::from_str(json).expect("a machine");
    let occupancy = Occupancy {
        shared: CpuSet::parse("0,2").expect("a list"),
        ..Occupancy::default()
    };
    let settings = Settings {
        cpu_policy: CpuManagerPolicy::Static,
        topology_policy: TopologyPolicy::Restricted,
        reserved_cpu: Some(Quantity::milli(500)),
        ..Settings::default()
    };
    let pod = |uid: &str| PodAllocation {
        uid: uid.to_owned(),
        containers: vec![ContainerAllocation {
            name: "c".into(),
            allocations: [("cpu".to_owned(), "1,3".to_owned())].into(),
            ..ContainerAllocation::default()
        }],
        ..PodAllocation::default()
    };
    let pods = vec![pod("b"), PodAllocation::default(), pod("a")];
    let object = publish("worker-1", &machine, &occupancy, &settings, pods);
    assert_eq!(
        object
            .content()
            .get("spec")
            .map(JsonValue::to_json)
            .as_deref(),
        Some(
            "{\"policies\":{\"CPUManagerPolicy\":\"static\",\"TopologyManagerPolicy\":\"restricted\"},\
             \"numares\":{\"cpu\":{\"allocatable\":\"0,2\",\"capacity\":4}},\
             \"cpuDetail\":{\"0\":{},\"1\":{\"core\":1},\"2\":{},\"3\":{\"core\":1}},\"podAllocations\":[\
             {\"uid\":\"a\",\"containerAllocations\":[{\"name\":\"c\",\"allocations\":{\"cpu\":\"1,3\"}}]},\
             {\"uid\":\"b\",\"containerAllocations\":[{\"name\":\"c\",\"allocations\":{\"cpu\":\"1,3\"}}]}]}"
        )
    );
    let node = one(&object.content().to_json())
        .node(Sound)
        .expect("readable");
    assert_eq!(node.warnings, []);
    let numa = node.value.numa.expect("there is one");
    assert_eq!(numa.cpus.cores().len(), 2);
    assert_eq!(numa.free, Some(occupancy.shared));
}

const JOB: &str = "
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  tasks:
  - name: worker
    replicas: 2
    topologyPolicy: best-effort
    template:
      spec:
        containers:
        - name: worker
          resources:
            requests: {cpu: '4', memory: 8Gi}
            limits: {cpu: '4', memory: 8Gi}
  - template: {spec: {containers: [{name: plain}]}}
";

#[test]
fn a_job_creates_guaranteed_pods_with_its_policy() {
    let read = objects::read("job.yaml", JOB.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let pods = read.value.pods;
    let names: Vec<&str> = pods.iter().map(|pod| pod.meta.name.as_str()).collect();
    assert_eq!(
        names,
        ["train-worker-0", "train-worker-1", "train-default1-0"]
    );
    let worker = task(&pods[0], Sound).value;
    assert_eq!(worker.policy(), Some("best-effort"));
    assert_eq!(QosClass::of(&worker.pod), QosClass::Guaranteed);
    assert_eq!(worker.pod.containers[0].requests["cpu"], 4.into());
    assert_eq!(task(&pods[2], Sound).value.policy, None);
}

#[test]
fn the_weight_is_read_from_the_schedulers_configuration() {
    let conf = "actions: \"enqueue, allocate, preempt, backfill\"\ntiers:\n- plugins:\n  - name: numa-aware\n    arguments:\n      weight: 10\n";
    let weight = |text: &str| scheduler_weight("v.conf", text.as_bytes()).expect("readable");
    assert_eq!(weight(conf).value, Some(10));
    assert_eq!(
        weight("tiers: [{plugins: [{name: numa-aware}]}]").value,
        Some(1)
    );
    assert_eq!(weight("tiers: [{plugins: [{name: gang}]}]").value, None);
    for other in ["'10'", "1.5"] {
        let read = weight(&conf.replace("10", other));
        assert_eq!(read.value, Some(1));
        assert_eq!(
            read.warnings[0].to_string(),
            "v.conf:6:15: tiers[0].plugins[0].arguments.weight: a weight that is not a whole number has no effect here \
             (write weight: 10; without a number it is 1)"
        );
    }
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  volcano-scheduler.conf: |\n{}",
        conf.lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    );
    assert_eq!(weight(&map).value, Some(10));
}

#[test]
fn the_names_of_the_first_design_are_policies_in_sound_mode_only() {
    for (word, sound, warnings) in [
        ("strict", "restricted", 1),
        ("preferred", "best-effort", 1),
        ("restricted", "restricted", 0),
        ("singel-numa-node", "singel-numa-node", 1),
    ] {
        let text = JOB.replacen("best-effort", word, 1);
        let pods = objects::read("job.yaml", text.as_bytes())
            .expect("readable")
            .value
            .pods;
        let read = task(&pods[0], Sound);
        assert_eq!(
            (read.value.policy.as_deref(), read.warnings.len()),
            (Some(sound), warnings)
        );
        let exact = task(&pods[0], Exact);
        assert_eq!(
            (exact.value.policy.as_deref(), exact.warnings.len()),
            (Some(word), 0)
        );
    }
}

#[test]
fn a_file_may_mix_kinds_and_lists() {
    let text = format!(
        "{OBJECT}---\napiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Node, metadata: {{name: worker-1}}, \
         status: {{capacity: {{cpu: 4}}, allocatable: {{cpu: 3}}}}}}\n- {{apiVersion: v1, kind: Pod, metadata: {{name: p}}, \
         spec: {{containers: [{{name: c}}]}}}}\n---\napiVersion: topology.node.k8s.io/v1alpha2\nkind: NodeResourceTopology\n\
         metadata: {{name: worker-1}}\nzones: []\n---\n{JOB}"
    );
    let objects = objects::read("all.yaml", text.as_bytes())
        .unwrap_or_else(|e| panic!("{e}"))
        .value;
    assert_eq!(objects.nodes.len(), 1);
    assert_eq!(objects.nodes[0].allocatable["cpu"], 3.into());
    assert_eq!(objects.topologies.len(), 1);
    assert_eq!(objects.numatopologies.len(), 1);
    assert_eq!(objects.pods.len(), 4);
    let wrong = text.replace("cpu: 3}", "cpu: 3x}");
    let rejected = objects::read("all.yaml", wrong.as_bytes())
        .expect_err("3x")
        .to_string();
    assert!(
        rejected.contains("Node/worker-1: items[0].status.allocatable.cpu: expected a quantity"),
        "{rejected}"
    );
}
