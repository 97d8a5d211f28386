use super::*;
use pinfold_core::pod::ResourceList;
use proptest::prelude::*;

mod workloads;

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: prod
  labels: {app: db}
  annotations:
    note: first
spec:
  nodeName: node-7
  initContainers:
  - name: prepare
    resources:
      limits: {cpu: 500m, memory: 64Mi}
  - name: proxy
    restartPolicy: Always
    resources:
      requests: {cpu: 0.1, memory: 1.5Gi}
  containers:
  - name: main
    image: postgres
    resources:
      requests:
        memory: 2Gi
      limits:
        cpu: 2
        memory: 4Gi
        nvidia.com/gpu: 1
        hugepages-2Mi: 4Mi
";

fn amounts(list: &ResourceList) -> String {
    let pairs: Vec<String> = list
        .iter()
        .map(|(name, amount)| format!("{name}={amount}"))
        .collect();
    pairs.join(" ")
}

fn one(text: &str) -> PodObject {
    read("f.yaml", text.as_bytes()).expect(text).value.remove(0)
}

fn rejection(text: &str) -> String {
    read("f.yaml", text.as_bytes()).expect_err(text).to_string()
}

/// A pod of one container with this `resources` section, on lines 7 and up.
fn with_resources(section: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers:\n  - name: c\n    resources: {section}\n"
    )
}

#[test]
fn a_pod_is_read_with_all_fields_that_affect_placement() {
    let object = one(POD);
    assert_eq!(object.meta.full_name(), "prod/db");
    assert_eq!(object.meta.labels["app"], "db");
    assert_eq!(object.meta.annotations["note"], "first");
    assert_eq!(object.node_name.as_deref(), Some("node-7"));
    assert_eq!(object.owner, None);
    let pod = object.pod;
    assert_eq!(
        (pod.uid.as_str(), pod.name.as_str()),
        ("prod/db", "prod/db")
    );
    let sidecars: Vec<bool> = pod
        .init_containers
        .iter()
        .map(|init| init.restartable)
        .collect();
    assert_eq!(sidecars, [false, true]);
    assert_eq!((pod.pod_requests, pod.pod_limits), (None, None));
}

#[test]
fn missing_requests_come_from_limits() {
    let pod = one(POD).pod;
    assert_eq!(
        amounts(&pod.containers[0].requests),
        "cpu=2 hugepages-2Mi=4Mi memory=2Gi nvidia.com/gpu=1"
    );
    assert_eq!(
        amounts(&pod.init_containers[0].requests),
        "cpu=500m memory=64Mi"
    );
    assert_eq!(amounts(&pod.init_containers[1].limits), "");
}

#[test]
fn amounts_are_stored_as_the_api_server_stores_them() {
    for (written, expected, whole) in [
        ("1.5Gi", "1536Mi", Some(1_610_612_736)),
        ("0.1", "100m", None),
        ("1.0001", "1001m", None),
        ("100u", "1m", None),
        ("1e3", "1e3", Some(1000)),
        ("9223372036854775807", "9223372036854775807", None),
        ("1E", "1E", Some(1_000_000_000_000_000_000)),
    ] {
        let pod = one(&with_resources(&format!(
            "{{requests: {{memory: \"{written}\"}}}}"
        )))
        .pod;
        let amount = &pod.containers[0].requests["memory"];
        assert_eq!(
            (amount.to_string().as_str(), amount.as_i64()),
            (expected, whole),
            "{written}"
        );
    }
}

#[test]
fn a_uid_is_kept_or_made_of_the_name() {
    let text = POD.replace("  name: db\n", "  name: db\n  uid: 1234-5678\n");
    assert_eq!(one(&text).pod.uid.as_str(), "1234-5678");
    let generated = POD.replace("  name: db\n", "  generateName: db-\n");
    assert_eq!(one(&generated).pod.uid.as_str(), "prod/db-0");
}

#[test]
fn an_amount_that_kubernetes_counts_as_another_one_has_a_warning() {
    for (amounts, expected) in [
        ("cpu: 1e20", Some("requests.cpu: found 100E, read as 0")),
        ("cpu: 1e16", Some("requests.cpu: found 10P, read as 0")),
        (
            "memory: 1e25",
            Some("requests.memory: found 10e24, read as 0"),
        ),
        ("cpu: 9007199254740", None),
        ("cpu: 100u", None),
        ("memory: 8Ei", None),
    ] {
        let text = with_resources(&format!("{{requests: {{{amounts}}}}}"));
        let read = read("f.yaml", text.as_bytes()).expect(amounts);
        let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
        let found = warnings.iter().find(|warning| warning.contains("read as"));
        match expected {
            Some(expected) => {
                let found = found.unwrap_or_else(|| panic!("{amounts}: {warnings:?}"));
                assert!(found.contains(expected), "{amounts}: {found}");
            }
            None => assert_eq!(found, None, "{amounts}"),
        }
    }
}

#[test]
fn resources_that_the_api_server_rejects_are_rejected() {
    let here = |path: &str, column: usize| {
        format!("f.yaml:7:{column}: spec.containers[0].resources{path}: ")
    };
    for (section, column, path, message) in [
        (
            "{requests: {cpu: 2}, limits: {cpu: 1}}",
            33,
            ".requests.cpu",
            "Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            "{requests: {a.io/b: 1}, limits: {a.io/b: 2}}",
            36,
            ".requests[a.io/b]",
            "Invalid value: \"1\": must be equal to a.io/b limit of 2",
        ),
        (
            "{requests: {a.io/b: 1}}",
            36,
            ".requests[a.io/b]",
            "Required value: Limit must be set for non overcommitable resources",
        ),
        (
            "{limits: {a.io/b: 1500m}}",
            34,
            ".limits[a.io/b]",
            "Invalid value: \"1500m\": must be an integer",
        ),
        (
            "{limits: {cpu: -1}}",
            31,
            ".limits.cpu",
            "Invalid value: \"-1\": must be greater than or equal to 0",
        ),
        (
            "{limits: {hugepages-2Mi: 3Mi, cpu: 1}}",
            41,
            ".limits[hugepages-2Mi]",
            "Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
        ),
        (
            "{limits: {hugepages-2Mi: 4Mi}}",
            16,
            "",
            "Forbidden: HugePages require cpu or memory",
        ),
        (
            "{limits: {cpus: 1}}",
            32,
            ".limits.cpus",
            "Invalid value: \"cpus\": must be a standard resource for containers or fully qualified \
             (did you mean \"cpu\"?)",
        ),
        (
            "{limits: {a_b/c: 1}}",
            33,
            ".limits[a_b/c]",
            "Invalid value: \"a_b/c\": doesn't follow extended resource name standard",
        ),
        (
            "{limits: {memory: 4GB}}",
            34,
            ".limits.memory",
            "expected a quantity such as 2, 500m or 4Gi, found \"4GB\" (did you mean \"4G\"?)",
        ),
        (
            "{request: {cpu: 1}}",
            17,
            "",
            "found the unknown field \"request\" (did you mean \"requests\"?)",
        ),
        (
            "[]",
            16,
            "",
            "expected a mapping with requests and limits, found a list",
        ),
    ] {
        let expected = here(path, column) + message;
        assert_eq!(rejection(&with_resources(section)), expected);
    }
}

#[test]
fn zero_and_absent_amounts_are_accepted() {
    for section in [
        "",
        "{}",
        "{requests: {}, limits: ~}",
        "{limits: {cpu: 0, memory: 0}}",
        "{claims: []}",
    ] {
        let _ = one(&with_resources(section));
    }
}

#[test]
fn container_names_must_be_unique() {
    let twice = POD.replace("name: main", "name: proxy");
    assert_eq!(
        rejection(&twice),
        "f.yaml:20:11: spec.containers[0].name: Duplicate value: \"proxy\" (the first one is at line 15)"
    );
    let nameless = POD.replace("- name: main", "- nmae: main");
    assert_eq!(
        rejection(&nameless),
        "f.yaml:20:5: spec.containers[0].name: expected a container name, found nothing (rename \"nmae\" to \"name\")"
    );
    assert!(rejection(&POD.replace("name: main", "name: Main")).contains("RFC 1123 label"));
}

#[test]
fn a_pod_must_have_containers() {
    let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n";
    for (rest, expected) in [
        (
            "",
            "f.yaml:1:1: spec: expected a pod specification, found nothing (add the field \"spec\")",
        ),
        (
            "spec: {container: []}",
            "f.yaml:4:7: spec.containers: expected a list of containers, found nothing \
             (rename \"container\" to \"containers\")",
        ),
        (
            "spec: {containers: []}",
            "f.yaml:4:7: spec.containers: expected at least one container, found nothing (add the field \"containers\")",
        ),
        (
            "spec: {containers: {name: a}}",
            "f.yaml:4:20: spec.containers: expected a list of containers, found a mapping",
        ),
    ] {
        let found = rejection(&format!("{head}{rest}"));
        assert_eq!(found.lines().next(), Some(expected));
    }
}

#[test]
fn misspelt_fields_are_errors_with_a_suggestion() {
    let text = POD.replace("initContainers:", "initContainer:");
    let read = read("f.yaml", text.as_bytes()).expect("accepted");
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "f.yaml:11:3: spec: found the unknown field \"initContainer\" (did you mean \"initContainers\"?)"
        ]
    );
    let policy = POD.replace("restartPolicy: Always", "restartPolicy: always");
    assert_eq!(
        rejection(&policy),
        "f.yaml:16:20: spec.initContainers[1].restartPolicy: Unsupported value: \"always\" (did you mean \"Always\"?)"
    );
}

/// A pod with pod-level resources, one app container and one init container.
fn pod_level(section: &str, container: &str, init: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  resources: {section}\n  initContainers:\n  \
         - name: i\n    resources: {init}\n  containers:\n  - name: c\n    resources: {container}\n"
    )
}

#[test]
fn pod_level_requests_come_from_containers_or_limits() {
    for (section, container, init, requests, limits) in [
        (
            "{limits: {cpu: 4}}",
            "{requests: {cpu: 1}}",
            "{requests: {cpu: 2}}",
            "cpu=2",
            "cpu=4",
        ),
        ("{limits: {cpu: 4}}", "{}", "{}", "cpu=4", "cpu=4"),
        (
            "{limits: {cpu: 4}}",
            "{requests: {memory: 1Gi}}",
            "{}",
            "cpu=4 memory=1Gi",
            "cpu=4",
        ),
        (
            "{requests: {cpu: 3}}",
            "{requests: {cpu: 1, memory: 1Gi}}",
            "{}",
            "cpu=3",
            "",
        ),
        (
            "{limits: {cpu: 4}}",
            "{limits: {hugepages-2Mi: 4Mi, cpu: 1}}",
            "{}",
            "cpu=1 hugepages-2Mi=4Mi",
            "cpu=4 hugepages-2Mi=4Mi",
        ),
    ] {
        let pod = one(&pod_level(section, container, init)).pod;
        assert_eq!(
            amounts(&pod.pod_requests.unwrap_or_default()),
            requests,
            "{section} {container}"
        );
        assert_eq!(
            amounts(&pod.pod_limits.unwrap_or_default()),
            limits,
            "{section} {container}"
        );
    }
}

#[test]
fn a_pod_may_not_have_less_than_its_containers() {
    for (section, container, expected) in [
        (
            "{requests: {cpu: 1}}",
            "{requests: {cpu: 1500m}}",
            "f.yaml:5:31: spec.resources.requests.cpu: Invalid value: \"1\": must be greater than or equal to \
             aggregate container requests of 1500m",
        ),
        (
            "{limits: {cpu: 1}, requests: {cpu: 1}}",
            "{limits: {cpu: 2}, requests: {cpu: 1}}",
            "f.yaml:5:26: spec.resources.limits.cpu: Invalid value: \"2\" of container c: must be less than or \
             equal to pod limits of 1",
        ),
        (
            "{requests: {cpu: 2}, limits: {cpu: 1}}",
            "{}",
            "f.yaml:5:29: spec.resources.requests.cpu: Invalid value: \"2\": must be less than or equal to cpu \
             limit of 1",
        ),
        (
            "{limits: {a.io/b: 1}}",
            "{}",
            "f.yaml:5:29: spec.resources.limits[a.io/b]: Unsupported value: \"a.io/b\": supported values: \"cpu\", \
             \"hugepages-\", \"memory\"",
        ),
    ] {
        let found = rejection(&pod_level(section, container, "{}"));
        let expected: String = expected.into();
        assert_eq!(
            found.split_once(": ").map(|(_, message)| message),
            expected.split_once(": ").map(|(_, message)| message)
        );
    }
}

/// A workload of that kind around one small container.
fn workload(api_version: &str, kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: web, namespace: ns, uid: u}}\nspec:\n{spec}  \
         template:\n    metadata: {{labels: {{app: web}}}}\n    spec: {{containers: [{{name: c}}]}}\n"
    )
}

#[test]
fn workloads_give_one_pod_per_replica() {
    for (api_version, kind, spec, names) in [
        (
            "apps/v1",
            "Deployment",
            "  replicas: 2\n",
            "ns/web-0 ns/web-1",
        ),
        ("apps/v1", "Deployment", "", "ns/web-0"),
        ("apps/v1", "ReplicaSet", "  replicas: 0\n", ""),
        ("v1", "ReplicationController", "  replicas: 1\n", "ns/web-0"),
        (
            "apps/v1",
            "StatefulSet",
            "  replicas: 2\n  ordinals: {start: 5}\n",
            "ns/web-5 ns/web-6",
        ),
        ("apps/v1", "DaemonSet", "  replicas: 9\n", "ns/web-0"),
        (
            "batch/v1",
            "Job",
            "  parallelism: 3\n  completions: 2\n",
            "ns/web-0 ns/web-1",
        ),
        ("batch/v1", "Job", "  completions: 5\n", "ns/web-0"),
    ] {
        let read = read("f", workload(api_version, kind, spec).as_bytes()).expect(kind);
        let found: Vec<&str> = read.value.iter().map(|pod| pod.pod.uid.as_str()).collect();
        assert_eq!(found.join(" "), names, "{kind} {spec}");
        for pod in &read.value {
            assert_eq!(pod.meta.labels["app"], "web");
            let owner = pod.owner.as_ref().expect("owned");
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), (kind, "web"));
        }
    }
}

#[test]
fn a_cron_job_gives_the_pods_of_one_run() {
    let text = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  jobTemplate:\n    spec:\n      \
                template:\n        spec: {containers: [{name: c}]}\n";
    assert_eq!(one(text).pod.uid.as_str(), "default/nightly-0");
}

#[test]
fn replicas_are_limited_and_whole() {
    for (spec, expected) in [
        (
            "  replicas: 1000000000000\n",
            "more than 10000 pods in one file",
        ),
        (
            "  replicas: -1\n",
            "Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "  replicas: two\n",
            "expected a whole number of pods, found \"two\"",
        ),
        (
            "  replicas: 1.5\n",
            "expected a whole number of pods, found the number 1.5",
        ),
    ] {
        let found = rejection(&workload("apps/v1", "Deployment", spec));
        assert!(found.ends_with(expected), "{found}");
    }
}

#[test]
fn kinds_without_pods_are_skipped_or_rejected() {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n";
    let monitor =
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: {name: s}\n";
    let text = format!("{service}---\n{POD}---\n{monitor}---\n{service}");
    let read = read_file("f.yaml", text.as_bytes(), &[]).expect("one pod");
    assert_eq!(read.value.pods.len(), 1);
    assert_eq!(read.warnings, []);
    assert_eq!(
        read.value.without_pods.to_string(),
        "3 objects without pod templates: 2 Service, 1 ServiceMonitor"
    );
    for (api_version, kind, expected) in [
        (
            "apps/v1",
            "Deploymnet",
            "f.yaml:2:7: kind: expected a kind that has pods, found \"Deploymnet\" (did you mean \"Deployment\"?)",
        ),
        (
            "v1",
            "Deployment",
            "f.yaml:1:13: apiVersion: no matches for kind \"Deployment\" in version \"v1\" (use apps/v1)",
        ),
    ] {
        assert_eq!(rejection(&workload(api_version, kind, "")), expected);
    }
}

#[test]
fn two_pods_may_not_have_the_same_uid() {
    let found = rejection(&format!("{POD}---\n{POD}"));
    let expected = "metadata.name: Duplicate value: \"prod/db\" (the first one is at line 1)";
    assert!(found.ends_with(expected), "{found}");
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let text = POD
        .replace("cpu: 2", "cpu: two")
        .replace("64Mi", "64MB")
        .replace("4Mi\n", "3Mi\n");
    assert_eq!(rejection(&text).lines().count(), 3);
}

proptest! {
    #[test]
    fn no_damage_to_a_manifest_makes_it_panic(
        damage in prop::collection::vec((0..POD.len(), any::<u8>(), 0_u8..4), 1..8)
    ) {
        let mut bytes = POD.as_bytes().to_vec();
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
        let _ = read("f", &bytes);
    }

    #[test]
    fn no_amounts_make_it_panic(request in amount(), limit in amount(), name in resource()) {
        let section = format!("{{requests: {{{name}: {request}}}, limits: {{{name}: {limit}}}}}");
        let _ = read("f", with_resources(&section).as_bytes());
        let _ = read("f", pod_level(&section, &section, &section).as_bytes());
    }
}

fn amount() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        (0_i64..5).prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
    ];
    let suffix = prop::sample::select(vec![
        "", "m", "u", "n", "k", "Ki", "Gi", "Ei", "E", "e400", "e-400", "x",
    ]);
    (number, suffix).prop_map(|(number, suffix)| format!("\"{number}{suffix}\""))
}

fn resource() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "cpu",
        "memory",
        "hugepages-2Mi",
        "hugepages-0",
        "hugepages-1m",
        "hugepages-",
        "a.io/b",
    ])
}
