use super::*;

/// `cpu=2 memory=1Gi`.
fn list(text: &str) -> ResourceList {
    text.split_whitespace()
        .map(|entry| {
            let (name, amount) = entry.split_once('=').expect("name=amount");
            (name.into(), amount.parse().expect("a quantity"))
        })
        .collect()
}

fn container(name: &str, resources: &str) -> Container {
    Container::guaranteed(name, list(resources))
}

fn sidecar(name: &str, resources: &str) -> Container {
    container(name, resources).restartable()
}

fn pod(init_containers: Vec<Container>, containers: Vec<Container>) -> Pod {
    Pod::new("pod", containers).with_init(init_containers)
}

#[test]
fn a_pod_needs_its_largest_init_container_or_the_sum_of_its_apps() {
    let pod = pod(
        vec![
            container("i0", "cpu=2 memory=1G"),
            container("i1", "cpu=2 memory=3G"),
        ],
        vec![
            container("c0", "cpu=2 memory=1G"),
            container("c1", "cpu=1 memory=1G"),
        ],
    );
    let expected = list("cpu=3 memory=3G");
    assert_eq!(effective_requests(&pod), expected);
    assert_eq!(effective_limits(&pod), expected);
    assert_eq!(PodDemand::new(&pod, PodLevel::Ignored).pod_cpus(), 3);
    let memory = PodDemand::new(&pod, PodLevel::Ignored)
        .pod_memory()
        .expect("whole bytes");
    assert_eq!(
        memory,
        MemoryDemand::from([("memory".into(), 3_000_000_000)])
    );
}

#[test]
fn a_sidecar_counts_beside_later_init_containers_and_all_apps() {
    let app = || container("c", "cpu=2 memory=1Gi");
    for (inits, cpus) in [
        (vec![sidecar("s", "cpu=1 memory=1Gi")], 3),
        (
            vec![
                container("i", "cpu=4 memory=1Gi"),
                sidecar("s", "cpu=1 memory=1Gi"),
            ],
            4,
        ),
        (
            vec![
                sidecar("s", "cpu=1 memory=1Gi"),
                container("i", "cpu=4 memory=1Gi"),
            ],
            5,
        ),
    ] {
        let pod = pod(inits, vec![app()]);
        assert_eq!(PodDemand::new(&pod, PodLevel::Ignored).pod_cpus(), cpus);
        assert_eq!(effective_requests(&pod)["cpu"].value(), cpus as i64);
    }
}

#[test]
fn only_whole_cpus_of_guaranteed_pods_are_exclusive() {
    for (amount, cpus) in [
        ("2", 2),
        ("2000m", 2),
        ("2.0000", 2),
        ("1500m", 0),
        ("1000001u", 0),
        ("1e30", 0),
    ] {
        let pod = pod(
            vec![],
            vec![container("c", &format!("cpu={amount} memory=1Gi"))],
        );
        assert_eq!(
            PodDemand::new(&pod, PodLevel::Ignored).container_cpus(&pod.containers[0]),
            cpus,
            "{amount}"
        );
    }
    let burstable = pod(vec![], vec![container("c", "cpu=2")]);
    assert_eq!(PodDemand::new(&burstable, PodLevel::Ignored).pod_cpus(), 0);
}

#[test]
fn pod_level_requests_are_used_as_a_whole_only_when_managed() {
    let mut pod = pod(
        vec![],
        vec![container("c", "cpu=2 memory=1Gi"), container("d", "cpu=1")],
    );
    pod.pod_requests = Some(list("cpu=8 memory=4Gi hugepages-2Mi=0"));
    pod.pod_limits = pod.pod_requests.clone();
    let cpus = |pod_level| {
        let of =
            |index: usize| PodDemand::new(&pod, pod_level).container_cpus(&pod.containers[index]);
        (of(0), of(1), PodDemand::new(&pod, pod_level).pod_cpus())
    };
    assert_eq!(cpus(PodLevel::Ignored), (2, 1, 3));
    assert_eq!(cpus(PodLevel::Managed), (2, 0, 8));
    let memory = |pod_level| {
        PodDemand::new(&pod, pod_level)
            .pod_memory()
            .expect("whole bytes")
    };
    let bytes = |amount: u64| MemoryDemand::from([("memory".into(), amount << 30)]);
    assert_eq!(memory(PodLevel::Ignored), bytes(1));
    assert_eq!(memory(PodLevel::Managed), bytes(4));
    let alone = PodDemand::new(&pod, PodLevel::Managed).container_memory(&pod.containers[1]);
    assert_eq!(alone, Ok(MemoryDemand::new()));
    assert_eq!(effective_requests(&pod)["cpu"], Quantity::from(8));
}

#[test]
fn a_memory_type_that_only_init_containers_use_does_not_count() {
    let pod = pod(
        vec![container("i", "cpu=1 memory=1Gi hugepages-2Mi=2Mi")],
        vec![container("c", "cpu=1 memory=1Mi")],
    );
    let memory = PodDemand::new(&pod, PodLevel::Ignored)
        .pod_memory()
        .expect("whole bytes");
    assert_eq!(memory, MemoryDemand::from([("memory".into(), 1 << 30)]));
}

#[test]
fn memory_that_is_not_an_integer_by_its_spelling_is_rejected() {
    for amount in ["1.5Gi", "1000m", "0.5"] {
        let resources = format!("cpu=1 memory={amount}");
        let pod = pod(vec![container("i", &resources)], vec![]);
        let error = PodDemand::new(&pod, PodLevel::Ignored)
            .pod_memory()
            .expect_err("not an integer");
        assert_eq!(
            error.to_string(),
            "[memorymanager] failed to represent quantity as int64"
        );
    }
}
