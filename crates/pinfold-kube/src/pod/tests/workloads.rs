//! Custom resources that create pods, and how their pods are named.

use super::*;
use crate::pod::{PodFile, TemplatePath, read_file};

const TEMPLATE: &str = "{metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}";

/// The pods of an object `x` of this kind.
fn pods(api_version: &str, kind: &str, spec: &str) -> WithWarnings<PodFile> {
    let spec = spec.replace("TEMPLATE", TEMPLATE);
    let text =
        format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\nspec: {spec}\n");
    read_file("f", text.as_bytes(), &[]).expect(kind)
}

fn names(pods: &[PodObject]) -> String {
    let names: Vec<&str> = pods.iter().map(|pod| pod.meta.name.as_str()).collect();
    names.join(" ")
}

#[test]
fn pods_of_custom_resources_have_the_names_of_their_controllers() {
    for (api_version, kind, spec, expected) in [
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "{replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, template: TEMPLATE}}}, \
              {name: p, template: {spec: {template: TEMPLATE}}}]}",
            "x-w-0-0 x-w-0-1 x-w-1-0 x-w-1-1 x-p-0-0",
        ),
        (
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "{replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: TEMPLATE}}",
            "x-0 x-0-1 x-0-2 x-1 x-1-1 x-1-2",
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            "{pytorchReplicaSpecs: {Master: {template: TEMPLATE}, Worker: {replicas: 2, template: TEMPLATE}}}",
            "x-master-0 x-worker-0 x-worker-1",
        ),
        (
            "kubeflow.org/v1",
            "TFJob",
            "{tfReplicaSpecs: {PS: {template: TEMPLATE}}}",
            "x-ps-0",
        ),
        (
            "kubeflow.org/v2beta1",
            "MPIJob",
            "{mpiReplicaSpecs: {Worker: {replicas: 2, template: TEMPLATE}}}",
            "x-worker-0 x-worker-1",
        ),
        (
            "kubeflow.org/v1",
            "XGBoostJob",
            "{xgbReplicaSpecs: {Master: {template: TEMPLATE}}}",
            "x-master-0",
        ),
        (
            "ray.io/v1",
            "RayCluster",
            "{headGroupSpec: {template: TEMPLATE}, workerGroupSpecs: [\
              {groupName: g, replicas: 1, minReplicas: 2, numOfHosts: 2, template: TEMPLATE}]}",
            "x-head x-g-worker-0 x-g-worker-1 x-g-worker-2 x-g-worker-3",
        ),
        (
            "ray.io/v1",
            "RayJob",
            "{submitterPodTemplate: TEMPLATE, rayClusterSpec: {headGroupSpec: {template: TEMPLATE}}}",
            "x-0 x-head",
        ),
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            "{tasks: [{name: t, replicas: 2, template: TEMPLATE}]}",
            "x-t-0 x-t-1",
        ),
    ] {
        let read = pods(api_version, kind, spec);
        assert_eq!(names(&read.value.pods), expected, "{kind}");
        assert_eq!(read.value.without_pods.total(), 0, "{kind}");
        for pod in &read.value.pods {
            assert_eq!(pod.meta.labels["a"], "b", "{kind}");
            assert_eq!(pod.pod.name, format!("default/{}", pod.meta.name), "{kind}");
            assert_eq!(pod.owner.as_ref().map(|owner| &*owner.name), Some("x"));
        }
    }
}

#[test]
fn groups_of_pods_are_limited_before_they_are_made() {
    let huge = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: x}\nspec: {replicatedJobs: \
                [{name: w, replicas: 9000000000000000000, template: {spec: {parallelism: 9000000000000000000, \
                template: {spec: {containers: [{name: c}]}}}}}]}\n";
    assert!(rejection(huge).ends_with("more than 10000 pods in one file"));
    let none = huge.replace("parallelism: 9000000000000000000", "parallelism: 0");
    let read = read_file("f", none.as_bytes(), &[]).expect("no pods");
    assert_eq!(read.value.pods, []);
}

#[test]
fn a_virtual_machine_gives_the_pod_of_its_virt_launcher() {
    let domain = "{template: {spec: {domain: {cpu: {sockets: 2, cores: 4, dedicatedCpuPlacement: true, \
                  isolateEmulatorThread: true}, memory: {guest: 8Gi}, devices: {gpus: [{name: g, deviceName: \
                  nvidia.com/A10}]}}}}}";
    let read = pods("kubevirt.io/v1", "VirtualMachine", domain);
    assert_eq!(names(&read.value.pods), "virt-launcher-x");
    let found = &read.value.pods[0].pod.containers[0];
    assert_eq!(found.name.as_str(), "compute");
    for list in [&found.requests, &found.limits] {
        assert_eq!(list["cpu"], "9".parse().expect("quantity"));
        assert_eq!(list["memory"], "8448Mi".parse().expect("quantity"));
        assert_eq!(list["nvidia.com/A10"], "1".parse().expect("quantity"));
    }
    assert!(read.warnings[0].to_string().contains("256 MiB of overhead"));

    let pages = domain.replace("guest: 8Gi", "guest: 8Gi, hugepages: {pageSize: 1Gi}");
    let read = pods("kubevirt.io/v1", "VirtualMachine", &pages);
    let limits = &read.value.pods[0].pod.containers[0].limits;
    assert_eq!(limits["hugepages-1Gi"], "8Gi".parse().expect("quantity"));
    assert_eq!(limits["memory"], "256Mi".parse().expect("quantity"));

    let shared = "{domain: {cpu: {cores: 4}, resources: {requests: {memory: 1Gi}}}}";
    let read = pods("kubevirt.io/v1", "VirtualMachineInstance", shared);
    let found = &read.value.pods[0].pod.containers[0];
    assert_eq!(found.requests["cpu"], "400m".parse().expect("quantity"));
    assert!(found.limits.is_empty());

    let stopped = format!("{{runStrategy: Halted, {}", &domain[1..]);
    let read = pods("kubevirt.io/v1", "VirtualMachine", &stopped);
    assert_eq!(read.value.pods, []);
    assert_eq!(read.value.without_pods.total(), 1);
}

#[test]
fn a_train_job_gives_pods_if_it_has_resources_per_node() {
    let spec = "{runtimeRef: {name: torch}, trainer: {numNodes: 2, resourcesPerNode: {limits: {cpu: 4, memory: 1Gi}}}}";
    let read = pods("trainer.kubeflow.org/v1alpha1", "TrainJob", spec);
    assert_eq!(names(&read.value.pods), "x-node-0-0 x-node-0-1");
    assert!(
        read.warnings[0]
            .to_string()
            .contains("training runtime may add others")
    );
    let read = pods(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        "{runtimeRef: {name: torch}}",
    );
    assert_eq!(read.value.pods, []);
    assert_eq!(read.value.without_pods.total(), 1);
}

#[test]
fn templates_of_unknown_kinds_are_read_where_the_path_says() {
    let text = format!(
        "apiVersion: example.com/v1\nkind: Fleet\nmetadata: {{name: x}}\nspec:\n  template: {TEMPLATE}\n  replicas: 2\n  \
         roles: [{{name: r, podTemplate: {TEMPLATE}}}, {{podTemplate: {TEMPLATE}}}]\n"
    );
    for (path, expected) in [
        (".spec.template", "x-0 x-1"),
        ("spec.roles.podTemplate", "x-r-0 x-1-0"),
        (".spec.roles[*].podTemplate", "x-r-0 x-1-0"),
        (".spec.other", ""),
    ] {
        let path: TemplatePath = path.parse().expect("a path");
        let read = read_file("f", text.as_bytes(), std::slice::from_ref(&path)).expect("pods");
        assert_eq!(names(&read.value.pods), expected, "{path:?}");
    }
    let read = read_file("f", text.as_bytes(), &[]).expect("pods of the usual path");
    assert_eq!(names(&read.value.pods), "x-0 x-1");
    assert_eq!(
        read.warnings[0].to_string(),
        "f:1:1: Fleet x: its kind is not known; assumed are the pods of .spec.template, as many as replicas says"
    );
    let elsewhere = text.replace("  template:", "  model:");
    let read = read_file("f", elsewhere.as_bytes(), &[]).expect("no pods");
    assert_eq!(read.value.without_pods.total(), 1);
    assert_eq!(
        read.warnings[0].to_string(),
        "f:2:7: kind: Fleet ignored: its kind is not known, but it seems to have a pod template at .spec.roles.podTemplate \
         (--pod-template-path .spec.roles.podTemplate reads it)"
    );
    for wrong in ["", ".", "a..b", "spec/template", "a[0]"] {
        assert!(wrong.parse::<TemplatePath>().is_err(), "{wrong}");
    }
}

#[test]
fn a_custom_resource_may_be_named_like_a_kind_of_kubernetes() {
    let read = pods("example.com/v1", "Deployment", "{size: 3}");
    assert_eq!(read.value.without_pods.total(), 1);
}

#[test]
fn names_that_the_api_server_rejects_are_rejected_with_their_line() {
    for (name, namespace, valid) in [
        ("db", "prod", true),
        ("db.example.com", "prod", true),
        ("Db", "prod", false),
        ("d_b", "prod", false),
        ("-db", "prod", false),
        ("db..x", "prod", false),
        ("\"db\\e[31m\"", "prod", false),
        ("db", "a.b", false),
        ("db", "\"a\\e[2J\"", false),
    ] {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec: {{containers: [{{name: c}}]}}\n"
        );
        match read("f.yaml", text.as_bytes()) {
            Ok(_) => assert!(valid, "{name} {namespace}"),
            Err(errors) => {
                assert!(!valid, "{errors}");
                let line = if namespace == "prod" { 4 } else { 5 };
                assert_eq!(errors.0[0].at.map(|at| at.line), Some(line), "{errors}");
                assert!(!errors.to_string().contains('\u{1b}'), "{errors:?}");
            }
        }
    }
}

#[test]
fn a_ray_job_in_a_cluster_that_exists_has_no_pods_of_a_cluster() {
    let read = pods(
        "ray.io/v1",
        "RayJob",
        "{clusterSelector: {ray.io/cluster: other}}",
    );
    assert_eq!(read.value.pods, []);
}

#[test]
fn devices_of_a_virtual_machine_by_claims_are_named_as_not_simulated() {
    let spec = "{domain: {devices: {gpus: [{name: g, claimName: c, requestName: r}]}, memory: {guest: 1Gi}}}";
    let read = pods("kubevirt.io/v1", "VirtualMachineInstance", spec);
    assert_eq!(names(&read.value.pods), "virt-launcher-x");
    let warning = read.warnings[0].to_string();
    assert!(
        warning.contains("resource claims are not simulated"),
        "{warning}"
    );
}
