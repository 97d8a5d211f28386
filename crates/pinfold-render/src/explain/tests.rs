//! The texts of decisions, letter by letter, and that every fact has a sentence.

use std::sync::Arc;

use pinfold_core::cpu_set::{CpuId, CpuList, CpuSet};
use pinfold_core::device::{Device, NoPreference};
use pinfold_core::ledger::{Ledger, Rules};
use pinfold_core::machine::{Core, HugePages, Machine, MachineParts, NumaNode};
use pinfold_core::memory::MemoryReservation;
use pinfold_core::node_set::NodeId;
use pinfold_core::pod::{Container, Pod, ResourceList};
use pinfold_core::remedy::{self, Effort};
use pinfold_core::settings::CpuManagerPolicy;
use pinfold_core::settings::MemoryManagerPolicy;
use pinfold_core::settings::Settings;
use pinfold_core::settings::TopologyScope;

use super::*;

mod every_fact;

const GPU: &str = "example.com/gpu";

fn machine(nodes: u32, cores: u32, threads: u32) -> Arc<Machine> {
    let core = |core: u32, socket: u32| Core {
        id: core,
        socket,
        die: None,
        l3: None,
        threads: (0..threads)
            .map(|thread| CpuId::new(core + thread * nodes * cores).unwrap())
            .collect(),
    };
    let node = |id: u32| NumaNode {
        id: NodeId::new(i64::from(id)).unwrap(),
        memory: 16 << 30,
        hugepages: vec![HugePages {
            size_kib: 2048,
            count: 512,
        }],
        distances: Vec::new(),
        cores: (id * cores..(id + 1) * cores)
            .map(|at| core(at, id))
            .collect(),
    };
    let machine = Machine::new(MachineParts {
        nodes: (0..nodes).map(node).collect(),
        num_cpus: (nodes * cores * threads) as usize,
        num_sockets: nodes as usize,
        ..MachineParts::default()
    });
    Arc::new(machine.unwrap())
}

fn list(rows: &[(&str, &str)]) -> ResourceList {
    let row = |&(name, amount): &(&str, &str)| (name.into(), amount.parse().unwrap());
    rows.iter().map(row).collect()
}

fn settings(policy: &str) -> Settings {
    Settings {
        topology_policy: policy.parse().expect("a policy"),
        cpu_policy: CpuManagerPolicy::Static,
        reserved_cpu: Some("1".parse().unwrap()),
        reserved_cpus: Some(CpuList::from(&CpuSet::single(CpuId::new(0).unwrap()))),
        memory_policy: MemoryManagerPolicy::Static,
        reserved_memory: vec![MemoryReservation {
            numa_node: 0,
            limits: list(&[("memory", "1Gi")]),
        }],
        node_reservation: list(&[("memory", "1Gi")]),
        ..Settings::default()
    }
}

fn whole_cores(policy: &str) -> Settings {
    let mut settings = settings(policy);
    settings
        .cpu_options
        .insert("full-pcpus-only".into(), "true".into());
    settings
}

fn container(name: &str, rows: &[(&str, &str)]) -> Container {
    let mut amounts = list(rows);
    if !amounts.is_empty() {
        amounts
            .entry("memory".into())
            .or_insert("1Gi".parse().unwrap());
    }
    Container {
        name: name.into(),
        restartable: false,
        requests: amounts.clone(),
        limits: amounts,
    }
}

fn pod(uid: &str, rows: &[(&str, &str)]) -> Pod {
    Pod {
        uid: uid.into(),
        name: String::new(),
        init_containers: Vec::new(),
        containers: vec![container("app", rows)],
        pod_requests: None,
        pod_limits: None,
    }
}

/// A node with these pods on it.
fn node(machine: Arc<Machine>, settings: Settings, others: &[(&str, &[(&str, &str)])]) -> Ledger {
    let mut ledger = Ledger::new(Arc::new(Rules::new(machine, settings).unwrap()));
    for &(uid, rows) in others {
        let admission = ledger
            .admit(&Arc::new(pod(uid, rows)), &mut NoPreference)
            .unwrap();
        assert!(admission.decision.is_admitted(), "{uid}");
    }
    ledger
}

/// Advertises devices near these nodes; -1 is near none.
fn offer(ledger: &mut Ledger, near: &[i64]) {
    let device = |(at, &node): (usize, &i64)| {
        let device = Device {
            numa: (node >= 0).then(|| vec![node]),
            healthy: true,
        };
        (format!("gpu-{at}").into(), device)
    };
    let devices = near.iter().enumerate().map(device).collect();
    ledger.set_devices(GPU.into(), Some(devices));
}

fn remedies_for(ledger: &Ledger, pod: Pod) -> Remedies {
    remedy::find(ledger, &Arc::new(pod), &mut NoPreference, Effort::default()).unwrap()
}

/// The whole text of a rejection, with its width checked.
fn rejected(ledger: &Ledger, pod: Pod) -> String {
    let found = remedies_for(ledger, pod);
    let text = rejection(
        found.decision.pod.as_str(),
        &found.decision,
        Some(&found),
        WIDTH,
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(one_line(&found.decision).chars().count() <= 200);
    assert_eq!(
        admission(found.decision.pod.as_str(), &found.decision, WIDTH),
        ""
    );
    text
}

fn admitted(ledger: &Ledger, pod: Pod) -> String {
    let found = remedies_for(ledger, pod);
    assert_eq!(
        rejection(
            found.decision.pod.as_str(),
            &found.decision,
            Some(&found),
            WIDTH
        ),
        ""
    );
    let text = admission(found.decision.pod.as_str(), &found.decision, WIDTH);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    text
}

/// Three CPUs are free on each of two nodes; two cards are near node 1 and one is near none.
fn busy(settings: Settings) -> Ledger {
    let others: [(&str, &[(&str, &str)]); 2] =
        [("low", &[("cpu", "4")]), ("high", &[("cpu", "5")])];
    let mut ledger = node(machine(2, 8, 1), settings, &others);
    offer(&mut ledger, &[1, 1, -1]);
    ledger
}

/// Four CPUs and the only card are free on node 0, eight CPUs on node 1.
fn apart(settings: Settings) -> Ledger {
    let mut ledger = node(machine(2, 8, 1), settings, &[("low", &[("cpu", "3")])]);
    offer(&mut ledger, &[0]);
    ledger
}

fn pod_level() -> Settings {
    Settings {
        topology_scope: TopologyScope::Pod,
        pod_level_resources: true,
        ..settings("restricted")
    }
}

/// A pod whose only container with exclusive CPUs takes all of them.
fn empty_shared_pool() -> Pod {
    let whole = Some(list(&[("cpu", "2"), ("memory", "4Gi")]));
    let mut pod = pod("new", &[("cpu", "2")]);
    pod.containers.push(container("log", &[]));
    (pod.pod_requests, pod.pod_limits) = (whole.clone(), whole);
    pod
}

#[test]
fn a_rejection_shows_what_every_node_has_and_what_would_fit() {
    let text = rejected(&busy(settings("restricted")), pod("new", &[("cpu", "6")]));
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  restricted: cpu prefers 1 NUMA node, but no single NUMA node has 6 free CPUs:
  node 0 has 3, node 1 has 3.

resource  node  requested    free   total  missing
cpu          0          6       3       7        3
             1                  3       8        3
           all                  6      15        -
memory       0      1 GiB  13 GiB  14 GiB        -  single-node only
             1             14 GiB  15 GiB        -  single-node only
           all             27 GiB  29 GiB        -

What would fit
 1. cpu of container app: 3 instead of 6 CPUs (NUMA node 0)
 2. evict pod low (NUMA node 0)
 3. evict pod high (NUMA node 1)
 4. policy best-effort instead of restricted (NUMA node 0 first)
";
    assert_eq!(text, expected);
}

#[test]
fn one_node_must_have_it_all_under_single_numa_node() {
    let text = rejected(
        &busy(settings("single-numa-node")),
        pod("new", &[("cpu", "6")]),
    );
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  single-numa-node: no single NUMA node has 6 free CPUs: node 0 has 3, node 1
  has 3.

resource  node  requested    free   total  missing
cpu          0          6       3       7        3
             1                  3       8        3
           all                  6      15        -
memory       0      1 GiB  13 GiB  14 GiB        -  single-node only
             1             14 GiB  15 GiB        -  single-node only
           all             27 GiB  29 GiB        -

What would fit
 1. cpu of container app: 3 instead of 6 CPUs (NUMA node 0)
 2. evict pod low (NUMA node 0)
 3. evict pod high (NUMA node 1)
 4. policy best-effort instead of single-numa-node (NUMA node 0 first)
";
    assert_eq!(text, expected);
}

#[test]
fn devices_without_topology_have_a_row_of_their_own() {
    let text = rejected(
        &busy(settings("restricted")),
        pod("new", &[("cpu", "1"), (GPU, "4")]),
    );
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  restricted: example.com/gpu: 4 devices requested, but the machine has only 3.

resource         node  requested    free   total  missing
example.com/gpu     1          4       2       2        2
                 none                  1       1        3
                  all                  3       3        1
cpu                 0          1       3       7        -
                    1                  3       8        -
                  all                  6      15        -
memory              0      1 GiB  13 GiB  14 GiB        -  single-node only
                    1             14 GiB  15 GiB        -  single-node only
                  all             27 GiB  29 GiB        -

Does not fit this machine, even without other pods.

What would fit
 1. example.com/gpu of container app: 2 instead of 4 (NUMA node 1)
";
    assert_eq!(text, expected);
}

#[test]
fn a_pod_that_never_fits_is_shown_with_the_largest_amounts_that_fit() {
    let text = rejected(
        &busy(settings("restricted")),
        pod("new", &[("cpu", "1"), ("memory", "40Gi")]),
    );
    let expected = "\
Pod new (container app) is rejected, UnexpectedAdmissionError:
  memory: 40 GiB requested, but only 27 GiB of 29 GiB is free.

resource  node  requested    free   total  missing
memory       0     40 GiB  13 GiB  14 GiB   27 GiB  single-node only
             1             14 GiB  15 GiB   26 GiB  single-node only
           all             27 GiB  29 GiB   13 GiB

Does not fit this machine, even without other pods.

Largest amounts that fit the empty machine
 1. memory of container app: 15 GiB instead of 40 GiB (NUMA node 1)

What would fit
 1. memory of container app: 14 GiB instead of 40 GiB (NUMA node 1)
";
    assert_eq!(text, expected);
}

#[test]
fn without_a_policy_only_the_sum_counts() {
    let text = rejected(&busy(settings("none")), pod("new", &[("cpu", "9")]));
    let expected = "\
Pod new (container app) is rejected, UnexpectedAdmissionError:
  cpu: 9 CPUs requested, but only 6 of 15 are free.

resource  node  requested  free  total  missing
cpu          0          9     0      7        9
             1                6      8        3
           all                6     15        3

What would fit
 1. cpu of container app: 6 instead of 9 CPUs
 2. evict pod low
 3. evict pod high
";
    assert_eq!(text, expected);
}

#[test]
fn cpus_that_do_not_fill_cores() {
    let text = rejected(
        &node(machine(2, 4, 2), whole_cores("none"), &[]),
        pod("new", &[("cpu", "3")]),
    );
    let expected = "\
Pod new (container app) is rejected, SMTAlignmentError:
  full-pcpus-only: 3 CPUs do not fill whole cores of 2 CPUs.

resource  node  requested  free  total  missing
cpu          0          3     6      7        -
             1                8      8        -
           all               14     15        -

Does not fit this machine, even without other pods.

What would fit
 1. cpu of container app: 2 instead of 3 CPUs
 2. cpu of container app: 4 instead of 3 CPUs
 3. without the CPU manager option full-pcpus-only
";
    assert_eq!(text, expected);
}

#[test]
fn too_few_whole_cores() {
    let text = rejected(
        &node(machine(2, 4, 2), whole_cores("none"), &[]),
        pod("new", &[("cpu", "16")]),
    );
    let expected = "\
Pod new (container app) is rejected, SMTAlignmentError:
  full-pcpus-only: 16 CPUs requested, but whole free cores have only 14 CPUs:
  node 0 has 6, node 1 has 8.

resource  node  requested  free  total  missing
cpu          0         16     6      7       10
             1                8      8        8
           all               14     15        2

Does not fit this machine, even without other pods.

What would fit
 1. cpu of container app: 14 instead of 16 CPUs
";
    assert_eq!(text, expected);
}

#[test]
fn resources_on_different_nodes() {
    let text = rejected(
        &apart(settings("restricted")),
        pod("new", &[("cpu", "6"), (GPU, "1")]),
    );
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  restricted: no NUMA node fits all resources: example.com/gpu fits on NUMA node
  0, cpu fits on NUMA node 1, memory fits on NUMA nodes 0-1.

resource         node  requested    free   total  missing
example.com/gpu     0          1       1       1        -
cpu                 0          6       4       7        2
                    1                  8       8        -
                  all                 12      15        -
memory              0      1 GiB  13 GiB  14 GiB        -  single-node only
                    1             15 GiB  15 GiB        -
                  all             28 GiB  29 GiB        -

What would fit
 1. cpu of container app: 4 instead of 6 CPUs (NUMA node 0)
 2. move pod low from CPUs 1-3 to 8-10 (NUMA node 0)
 3. evict pod low (NUMA node 0)
 4. policy best-effort instead of restricted (NUMA node 0 first)
";
    assert_eq!(text, expected);
}

#[test]
fn a_node_whose_memory_is_in_use_cannot_join_others() {
    let text = rejected(
        &apart(settings("restricted")),
        pod("new", &[("cpu", "2"), ("memory", "20Gi")]),
    );
    let expected = "\
Pod new (container app) is rejected, UnexpectedAdmissionError:
  NUMA node 0 cannot hold the memory, and no wider set that contains it can:
  node 0 has single-node assignments and can only be used alone.

resource  node  requested    free   total  missing
memory       0     20 GiB  13 GiB  14 GiB    7 GiB  single-node only
             1             15 GiB  15 GiB    5 GiB
           all             28 GiB  29 GiB        -

Does not fit this machine, even without other pods.

What would fit
 1. memory of container app: 15 GiB instead of 20 GiB (NUMA node 1)
";
    assert_eq!(text, expected);
}

#[test]
fn resources_that_prefer_different_widths() {
    let text = rejected(
        &node(machine(2, 8, 1), settings("restricted"), &[]),
        pod("new", &[("cpu", "2"), ("memory", "20Gi")]),
    );
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  restricted: cpu prefers 1 NUMA node, but memory prefers 2.

resource  node  requested    free   total  missing
cpu          0          2       7       7        -
             1                  8       8        -
           all                 15      15        -
memory       0     20 GiB  14 GiB  14 GiB    6 GiB
             1             15 GiB  15 GiB    5 GiB
           all             29 GiB  29 GiB        -

Does not fit this machine, even without other pods.

What would fit
 1. memory of container app: 15 GiB instead of 20 GiB (NUMA node 1)
 2. policy best-effort instead of restricted (NUMA nodes 0-1 first)
";
    assert_eq!(text, expected);
}

#[test]
fn memory_groups_are_named() {
    let text = rejected(
        &node(
            machine(2, 8, 1),
            settings("restricted"),
            &[("wide", &[("cpu", "9"), ("memory", "20Gi")])],
        ),
        pod("new", &[("cpu", "1"), ("memory", "2Gi")]),
    );
    let expected = "\
Pod new (container app) is rejected, TopologyAffinityError:
  restricted: memory prefers 1 NUMA node, but no single NUMA node can be used
  for 2 GiB free memory: node 0 can only be used as part of NUMA nodes 0-1, node
  1 can only be used as part of NUMA nodes 0-1.

resource  node  requested   free   total  missing
cpu          0          1      6       7        -
             1                 0       8        1
           all                 6      15        -
memory       0      2 GiB    0 B  14 GiB    2 GiB  group 0-1 only
             1             9 GiB  15 GiB        -  group 0-1 only
           all             9 GiB  29 GiB        -

What would fit
 1. evict pod wide (NUMA node 0)
 2. policy best-effort instead of restricted (NUMA nodes 0-1 first)
";
    assert_eq!(text, expected);
}

#[test]
fn a_pod_whose_shared_pool_is_empty() {
    let text = rejected(
        &node(machine(2, 4, 1), pod_level(), &[]),
        empty_shared_pool(),
    );
    let expected = "\
Pod new is rejected, TopologyAffinityError:
  containers with exclusive CPUs use up the pod's CPUs, and the containers in
  the shared pool would have none.

resource  node  requested    free   total  missing
cpu          0          2       3       3        -
             1                  4       4        -
           all                  7       7        -
memory       0      4 GiB  14 GiB  14 GiB        -
             1             15 GiB  15 GiB        -
           all             29 GiB  29 GiB        -

Does not fit this machine, even without other pods.

What would fit
 1. cpu of the pod: 3 instead of 2 CPUs (NUMA node 0)
 2. cpu of container app: 1 instead of 2 CPUs (NUMA node 0)
 3. scope container instead of pod (NUMA nodes 0-1)
 4. policy none instead of restricted
";
    assert_eq!(text, expected);
}

#[test]
fn an_admission_shows_where_and_that_it_is_preferred() {
    let text = admitted(
        &busy(settings("restricted")),
        pod("new", &[("cpu", "2"), (GPU, "1")]),
    );
    let expected = "\
Pod new is admitted (restricted, each container by itself).
  container app: NUMA node 1, CPUs 13-14, 1 GiB memory of NUMA node 1,
  example.com/gpu gpu-0
    all resources fit NUMA node 1
";
    assert_eq!(text, expected);
}

#[test]
fn an_admission_shows_why_it_is_not_preferred() {
    let text = admitted(&busy(settings("best-effort")), pod("new", &[("cpu", "5")]));
    let expected = "\
Pod new is admitted (best-effort, each container by itself).
  container app: NUMA node 0 first, CPUs 5-7,13-14, 1 GiB memory of NUMA node 0
    NUMA node 0: one resource needs 2 NUMA nodes, but the resources have no more
    in common; not preferred: cpu prefers 1 NUMA node, but no single NUMA node
    has 5 free CPUs: node 0 has 3, node 1 has 3
";
    assert_eq!(text, expected);
}

#[test]
fn an_admission_across_nodes_shows_which_resource_fits_where() {
    let text = admitted(
        &apart(settings("best-effort")),
        pod("new", &[("cpu", "6"), (GPU, "1")]),
    );
    let expected = "\
Pod new is admitted (best-effort, each container by itself).
  container app: NUMA node 0 first, CPUs 4-9, 1 GiB memory of NUMA node 0,
  example.com/gpu gpu-0
    NUMA node 0: 1 NUMA node, the fewest that fit the most demanding resource;
    not preferred: no NUMA node fits all resources: example.com/gpu fits on NUMA
    node 0, cpu fits on NUMA node 1, memory fits on NUMA nodes 0-1
";
    assert_eq!(text, expected);
}

#[test]
fn without_a_policy_nothing_is_aligned() {
    let text = admitted(&busy(settings("none")), pod("new", &[("cpu", "1500m")]));
    let expected = "\
Pod new is admitted (policy none: nothing is aligned).
  container app: shared CPUs, 1 GiB memory of NUMA node 0
";
    assert_eq!(text, expected);
}

#[test]
fn one_line_is_short_and_complete() {
    let lines = |ledger: &Ledger, pod| one_line(&remedies_for(ledger, pod).decision);
    assert_eq!(
        lines(&busy(settings("restricted")), pod("new", &[("cpu", "6")])),
        "TopologyAffinityError: container app: restricted: cpu prefers 1 NUMA node, \
         but no single NUMA node has 6 free CPUs: node 0 has 3, node 1 has 3"
    );
    assert_eq!(
        lines(&busy(settings("restricted")), pod("new", &[("cpu", "2")])),
        "Admitted: app: NUMA node 0, CPUs 5-6, 1 GiB memory of NUMA node 0"
    );
    let mut long = pod("new", &[("cpu", "99")]);
    long.containers[0].name = "x".repeat(300).into();
    let line = lines(&busy(settings("none")), long);
    assert_eq!(line.chars().count(), 200);
    assert!(line.ends_with('…'));
}

/// CPUs fit NUMA node 1, memory is left on NUMA node 0.
#[test]
fn remote_memory_is_shown_with_its_distance() {
    let mut parts = machine(2, 8, 1).parts().clone();
    parts.nodes[0].distances = vec![10, 32];
    parts.nodes[1].distances = vec![32, 10];
    let machine = Arc::new(Machine::new(parts).unwrap());
    let decision_of = |rows: &[(&str, &str)]| {
        let ledger = node(
            machine.clone(),
            settings("best-effort"),
            &[
                ("cpus", &[("cpu", "6")]),
                ("memory", &[("cpu", "1"), ("memory", "14Gi")]),
            ],
        );
        remedies_for(&ledger, pod("new", rows)).decision
    };
    let far = decision_of(&[("cpu", "6"), ("memory", "10Gi")]);
    let far = crate::remote_memory::of(&machine, far.assignment().unwrap());
    assert_eq!(
        crate::remote_memory::text(&far, 80),
        "
Remote memory
  container app: memory on NUMA node 0, distance 32 from the CPUs on NUMA node
    1: 3.2x local by the firmware's table (SLIT)
"
    );
    let near = decision_of(&[("cpu", "6")]);
    let near = crate::remote_memory::of(&machine, near.assignment().unwrap());
    assert_eq!(crate::remote_memory::text(&near, 80), "");
}

#[test]
fn sentences_are_as_wide_as_the_terminal() {
    let found = remedies_for(&busy(settings("restricted")), pod("new", &[("cpu", "6")]));
    let lines = |width| {
        let text = rejection("new", &found.decision, Some(&found), width);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(lines(200).len() < lines(80).len());
    let is_row = |line: &&String| {
        line.starts_with("resource") || line.contains("GiB") || line.ends_with(" 3")
    };
    for line in lines(40)
        .iter()
        .filter(|line| !is_row(line) && !line.ends_with('-'))
    {
        assert!(line.chars().count() <= 40, "{line}");
    }
}
