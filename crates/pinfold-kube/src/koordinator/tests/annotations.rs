//! Parsing of annotations, and the diagnostics about invalid ones.

use super::*;

#[test]
fn member_names_match_in_any_case_and_the_last_one_counts_as_in_go() {
    let text = r#"{"CPUSET":"0","Cpuset":"1-2"}"#;
    let meta = format!("  annotations:\n    scheduling.koordinator.sh/resource-status: '{text}'");
    let pod = pod(&meta, TWO_CPUS);
    let status = ResourceStatus::read(&pod, Exact).expect("readable").value;
    assert_eq!(status.expect("there is one").cpus, cpus("1-2"));
}

#[test]
fn errors_in_annotations_have_the_object_the_key_and_both_positions() {
    let table = [
        (
            keys::CPU_TOPOLOGY,
            "{\"detail\":[\n {\"id\":\"0\"}]}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/cpu-topology].detail[0].id (at 2:8 of the text): expected a whole number, found \"0\"",
        ),
        (
            keys::CPU_TOPOLOGY,
            "{\"detail\":[{\"id\":4096}]}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/cpu-topology].detail[0].id (at 1:18 of the text): expected the id of a CPU, 0 to 4095, found the number 4096",
        ),
        (
            keys::CPU_TOPOLOGY,
            "{\"detail\":",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/cpu-topology] (at 1:11 of the text): expected JSON, found \"{\\\"detail\\\":\" (unexpected end of JSON input)",
        ),
        (
            keys::SHARED_POOLS,
            "{}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/cpu-shared-pools] (at 1:1 of the text): expected a list of pools, found a mapping",
        ),
        (
            keys::BE_SHARED_POOLS,
            "[{\"cpuset\":\"3-1\"}]",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/be-cpu-shared-pools][0].cpuset (at 1:12 of the text): expected a CPU list such as 0-3,8, found \"3-1\" (invalid range \"3-1\" (3 > 1))",
        ),
        (
            keys::POD_CPU_ALLOCS,
            "[{\"managedByKubelet\":1}]",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/pod-cpu-allocs][0].managedByKubelet (at 1:22 of the text): expected true or false, found the number 1",
        ),
        (
            keys::CPU_MANAGER_POLICY,
            "[]",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[kubelet.koordinator.sh/cpu-manager-policy] (at 1:1 of the text): expected an object with a policy, found a list",
        ),
        (
            keys::RESERVATION,
            "{\"resources\":{\"cpu\":\"two\"}}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/reservation].resources.cpu (at 1:21 of the text): expected a quantity such as 2, 500m or 4Gi, found \"two\"",
        ),
        (
            keys::SYSTEM_QOS,
            "{\"cpuset\":7}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/system-qos-resource].cpuset (at 1:11 of the text): expected a CPU list such as 0-3,8, found the number 7 (put it in quotes: \"7\")",
        ),
        (
            keys::RATIOS,
            "{\"cpu\":\"1.5\"}",
            "nrt.yaml: NodeResourceTopology/w: metadata.annotations[node.koordinator.sh/resource-amplification-ratio].cpu (at 1:8 of the text): expected a ratio such as 1.5, found \"1.5\"",
        ),
    ];
    for (key, text, expected) in table {
        let object = reporting(&[(key, text)]);
        let rejected = ReportAnnotations::read(&object, Sound).expect_err(text);
        assert_eq!(rejected.to_string(), expected);
        let forgiven = ReportAnnotations::read(&object, Exact).expect("passed over");
        assert_eq!(forgiven.value, ReportAnnotations::default(), "{text}");
        assert_eq!(lines(&forgiven.warnings), [expected]);
    }
    let long = format!("[{}]", " ".repeat(crate::annotation::MAX_BYTES));
    let object = reporting(&[(keys::SHARED_POOLS, &long)]);
    let rejected = ReportAnnotations::read(&object, Sound).expect_err("too long");
    assert!(
        rejected
            .to_string()
            .contains("expected at most 262144 bytes, found 262146")
    );
}

#[test]
fn a_pod_with_an_invalid_resource_spec_is_rejected_in_both_modes() {
    let meta = "  annotations:\n    scheduling.koordinator.sh/resource-spec: '{bad}'";
    let pod = pod(meta, TWO_CPUS);
    for fidelity in [Sound, Exact] {
        let rejected = demand(&pod, fidelity).expect_err("not JSON").to_string();
        assert_eq!(
            rejected,
            "pod.yaml:6:46: Pod/default/test-pod: metadata.annotations[scheduling.koordinator.sh/resource-spec] (at 1:2 of the text): \
             expected JSON, found \"{bad}\" (invalid character 'b' looking for beginning of object key string)"
        );
    }
}

#[test]
fn an_invalid_resource_status_is_ignored_in_exact_mode() {
    let meta = "  annotations:\n    scheduling.koordinator.sh/resource-status: '{\"cpuset\": 3}'";
    let pod = pod(meta, TWO_CPUS);
    assert!(ResourceStatus::read(&pod, Sound).is_err());
    let exact = ResourceStatus::read(&pod, Exact).expect("passed over");
    assert_eq!((exact.value, exact.warnings.len()), (None, 1));
}

proptest::proptest! {
    /// The example with one piece overwritten, in a file with a node and a pod that share its annotations.
    #[test]
    fn no_change_to_an_object_makes_reading_panic(
        at in 0_usize..2_600,
        cut in 0_usize..6,
        put in "[\\[\\]{}\":,0-9a-z\n-]{0,6}",
    ) {
        let mut text = EXAMPLE.to_owned();
        let start = at.min(text.len());
        let end = (start + cut).min(text.len());
        text.replace_range(start..end, &put);
        for fidelity in [Sound, Exact] {
            let Ok(read) = objects::read("o.yaml", text.as_bytes()) else {
                continue;
            };
            for object in &read.value.topologies {
                let _ = ReportAnnotations::report(object, fidelity).map_err(|e| e.to_string());
                let _ = object.to_core();
                let mut node_object = node_object(&[], &[]);
                node_object.meta = object.meta.clone();
                let _ = node(&node_object, Some(object), fidelity).map_err(|e| e.to_string());
                let again = topology(&object.content().to_json());
                proptest::prop_assert_eq!(&again, object);
                if let Ok(facts) = ReportAnnotations::read(object, fidelity) {
                    let published = publish(object, &facts.value);
                    let read = ReportAnnotations::read(&published, fidelity).expect("just written");
                    let pods = |facts: &ReportAnnotations| facts.pod_cpus.len();
                    proptest::prop_assert_eq!(pods(&read.value), pods(&facts.value));
                }
            }
        }
    }
}
