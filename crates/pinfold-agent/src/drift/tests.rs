use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_cgroup::Hierarchy;
use pinfold_kube::state::cpu::CpuStateFormat;
use tempfile::TempDir;

use super::*;
use crate::allowance::Quota;

const GROUP: &str = "/kubepods/pod1/4f0c";

fn cpus(text: &str) -> CpuSet {
    text.parse().expect("a list of CPUs")
}

fn nodes(bits: u64) -> NodeSet {
    NodeSet::from_bits(bits)
}

fn limit(quota: u64) -> CpuTimeLimit {
    CpuTimeLimit {
        quota: Some(quota),
        period: 100_000,
    }
}

/// A container on CPUs 4 and 5 that asked for half a CPU's time.
fn watched() -> Watched {
    Watched {
        who: Who {
            id: "4f0c".into(),
            pod: "1".into(),
            container: "web".into(),
        },
        group: GroupPath::of_container(GROUP).expect("a path"),
        expected: Allowance {
            cpus: cpus("4-5"),
            mems: nodes(0b10),
            quota: Quota::Lifted,
        },
        spec: Spec {
            cpus: None,
            mems: None,
            cpu_time: Some(limit(50_000)),
        },
    }
}

/// What it should have.
fn in_order() -> Found {
    Found {
        state: CgroupState {
            cpus: cpus("4-5"),
            mems: nodes(0b10),
            effective_cpus: cpus("4-5"),
            effective_mems: nodes(0b10),
            cpu_time: Some(CpuTimeLimit::UNLIMITED),
        },
        pod_cpu_time: Some(CpuTimeLimit::UNLIMITED),
    }
}

/// The kubelet shares CPUs 0 to 3 and believes that the container has 6 and 7.
fn evidence() -> Evidence {
    let containers = BTreeMap::from([("web".into(), cpus("6-7"))]);
    Evidence {
        online: cpus("0-7"),
        kubelet: Some(CpuManagerState {
            policy: "static".to_owned(),
            default_cpus: cpus("0-3"),
            containers: BTreeMap::from([("1".into(), containers)]),
            ..CpuManagerState::default()
        }),
    }
}

fn with_cpus(given: &str, effective: &str) -> Found {
    let mut found = in_order();
    found.state.cpus = cpus(given);
    found.state.effective_cpus = cpus(effective);
    found
}

fn culprit(watched: &Watched, found: &Found, evidence: &Evidence) -> Option<Culprit> {
    compare(watched, found, evidence).map(|drift| drift.culprit)
}

#[test]
fn whoever_changed_the_cpus_is_known_by_what_is_found() {
    let mut asks = watched();
    asks.spec.cpus = Some(cpus("1-2"));
    let one_offline = Evidence {
        online: cpus("0-4,6-7"),
        ..evidence()
    };
    let both_offline = Evidence {
        online: cpus("0-3"),
        ..evidence()
    };
    let unknown = Evidence {
        kubelet: None,
        ..evidence()
    };
    let plain = watched();
    let table = [
        ("nobody", &plain, evidence(), in_order(), None),
        (
            "its shared pool",
            &plain,
            evidence(),
            with_cpus("0-3", "0-3"),
            Some(Culprit::Kubelet),
        ),
        (
            "its entry",
            &plain,
            evidence(),
            with_cpus("6-7", "6-7"),
            Some(Culprit::Kubelet),
        ),
        (
            "no kubelet is known",
            &plain,
            unknown,
            with_cpus("0-3", "0-3"),
            Some(Culprit::Other),
        ),
        (
            "the specification",
            &asks,
            evidence(),
            with_cpus("1-2", "1-2"),
            Some(Culprit::Runtime),
        ),
        (
            "no specification",
            &plain,
            evidence(),
            with_cpus("", "0-7"),
            Some(Culprit::Runtime),
        ),
        (
            "anything else",
            &plain,
            evidence(),
            with_cpus("4", "4"),
            Some(Culprit::Other),
        ),
        (
            "v1 forgets the CPU",
            &plain,
            one_offline.clone(),
            with_cpus("4", "4"),
            Some(Culprit::CpuOffline),
        ),
        (
            "v2 remembers it",
            &plain,
            one_offline.clone(),
            with_cpus("4-5", "4"),
            Some(Culprit::CpuOffline),
        ),
        (
            "all are offline",
            &plain,
            both_offline,
            with_cpus("4-5", "0-3"),
            Some(Culprit::CpuOffline),
        ),
        (
            "offline and changed",
            &plain,
            one_offline,
            with_cpus("0", "0"),
            Some(Culprit::Other),
        ),
        (
            "a parent was narrowed",
            &plain,
            evidence(),
            with_cpus("4-5", "5"),
            Some(Culprit::Other),
        ),
    ];
    for (what, watched, evidence, found, expected) in table {
        assert_eq!(culprit(watched, &found, &evidence), expected, "{what}");
    }
}

#[test]
fn memory_and_limits_drift_too() {
    let mut elsewhere = in_order();
    elsewhere.state.mems = nodes(0b1);
    elsewhere.state.effective_mems = nodes(0b1);
    assert_eq!(
        culprit(&watched(), &elsewhere, &evidence()),
        Some(Culprit::Other)
    );
    elsewhere.state.mems = NodeSet::default();
    assert_eq!(
        culprit(&watched(), &elsewhere, &evidence()),
        Some(Culprit::Runtime)
    );

    let mut throttled = in_order();
    throttled.state.cpu_time = Some(limit(50_000));
    assert_eq!(
        culprit(&watched(), &throttled, &evidence()),
        Some(Culprit::Runtime)
    );
    throttled.state.cpu_time = Some(limit(60_000));
    assert_eq!(
        culprit(&watched(), &throttled, &evidence()),
        Some(Culprit::Other)
    );
    let mut pod = in_order();
    pod.pod_cpu_time = Some(limit(50_000));
    assert_eq!(
        culprit(&watched(), &pod, &evidence()),
        Some(Culprit::Kubelet)
    );

    let mut as_asked = watched();
    as_asked.expected.quota = Quota::AsAsked;
    assert_eq!(culprit(&as_asked, &throttled, &evidence()), None);
}

#[test]
fn where_nothing_was_promised_nothing_can_drift() {
    let mut free = watched();
    free.expected = Allowance {
        cpus: CpuSet::new(),
        mems: NodeSet::default(),
        quota: Quota::AsAsked,
    };
    assert_eq!(compare(&free, &with_cpus("0", "0"), &evidence()), None);
}

#[test]
fn a_drift_says_everything_that_differs_and_who_it_was() {
    let mut found = with_cpus("0-3", "0-3");
    found.state.effective_mems = nodes(0b1);
    found.pod_cpu_time = Some(limit(50_000));
    let drift = compare(&watched(), &found, &evidence()).expect("a drift");
    assert_eq!(
        drift.to_string(),
        "container web of pod 1: CPUs 0-3 instead of 4-5, memory of nodes 0 instead of 1, \
         a limit on CPU time that was lifted; the kubelet wrote what its own managers believe"
    );
}

/// A folder that plays a machine with cgroup v1 and one container. What is given is in force.
fn machine() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let put = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    };
    put(
        "proc/self/mountinfo",
        "1 0 0:1 / /cpuset rw - cgroup cgroup rw,cpuset\n2 0 0:2 / /cpu rw - cgroup cgroup rw,cpu\n",
    );
    put("sys/devices/system/cpu/online", "0-7\n");
    for group in ["", "/kubepods", "/kubepods/pod1", GROUP] {
        put(&format!("cpuset{group}/cpuset.cpus"), "0-7\n");
        put(&format!("cpuset{group}/cpuset.mems"), "0-1\n");
        put(&format!("cpu{group}/cpu.cfs_quota_us"), "50000\n");
        put(&format!("cpu{group}/cpu.cfs_period_us"), "100000\n");
        let folder = root.path().join(format!("cpuset{group}"));
        for (file, effective) in [
            ("cpuset.cpus", "cpuset.effective_cpus"),
            ("cpuset.mems", "cpuset.effective_mems"),
        ] {
            symlink(file, folder.join(effective)).expect("a link");
        }
    }
    root
}

fn overwrite(root: &Path, cpus: &str) {
    let file = root.join(format!("cpuset{GROUP}/cpuset.cpus"));
    fs::write(file, cpus).expect("a file");
}

fn outcomes(round: &Round) -> Vec<&Outcome> {
    round.drifts.iter().map(|(_, outcome)| outcome).collect()
}

#[test]
fn what_drifted_is_put_right_and_counted() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let mut watch = Watch::default();
    let containers = [watched()];
    let now = Instant::now();
    let round = watch.round(&hierarchy, &containers, &evidence(), now);
    assert!(
        matches!(outcomes(&round)[..], [Outcome::Repaired]),
        "{round:?}"
    );
    let read = |path: &str| fs::read_to_string(root.path().join(path)).expect("a file");
    assert_eq!(read(&format!("cpuset{GROUP}/cpuset.cpus")), "4-5\n");
    assert_eq!(read(&format!("cpuset{GROUP}/cpuset.mems")), "1\n");
    for group in [GROUP, "/kubepods/pod1"] {
        assert_eq!(
            read(&format!("cpu{group}/cpu.cfs_quota_us")),
            "-1\n",
            "{group}"
        );
    }
    assert_eq!(read("cpu/kubepods/cpu.cfs_quota_us"), "50000\n");

    let quiet = watch.round(&hierarchy, &containers, &evidence(), now);
    assert!(
        quiet.drifts.is_empty() && quiet.unseen.is_empty(),
        "{quiet:?}"
    );

    overwrite(root.path(), "0-3");
    watch.round(&hierarchy, &containers, &evidence(), now);
    let tally = watch.tally(Culprit::Kubelet);
    assert_eq!((tally.drifted, tally.repaired, tally.failed), (1, 1, 0));
}

#[test]
fn whoever_is_just_being_told_something_else_has_not_drifted() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let mut watch = Watch::default();
    let (containers, now) = ([watched()], Instant::now());
    overwrite(root.path(), "0-3");
    let round = watch.round_of(&hierarchy, &containers, &evidence(), now, &|_| false);
    assert!(round.drifts.is_empty(), "{round:?}");
    assert_eq!(watch.tally(Culprit::Kubelet), Tally::default());
    let path = root.path().join(format!("cpuset{GROUP}/cpuset.cpus"));
    let found = fs::read_to_string(path).expect("a file");
    assert_eq!(found.trim(), "0-3", "nothing is written");
    let round = watch.round_of(&hierarchy, &containers, &evidence(), now, &|_| true);
    assert!(
        matches!(outcomes(&round)[..], [Outcome::Repaired]),
        "{round:?}"
    );
}

#[test]
fn a_container_that_ended_is_no_trouble() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    fs::remove_dir_all(root.path().join(format!("cpuset{GROUP}"))).expect("it can go");
    let round = Watch::default().round(&hierarchy, &[watched()], &evidence(), Instant::now());
    assert_eq!(round.gone, [watched().who]);
    assert!(round.unseen.is_empty() && round.drifts.is_empty());
}

#[test]
fn a_cpu_that_is_offline_is_told_once_and_left_alone() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let mut watch = Watch::default();
    let now = Instant::now();
    watch.round(&hierarchy, &[watched()], &evidence(), now);
    overwrite(root.path(), "4");
    let offline = Evidence {
        online: cpus("0-4"),
        ..evidence()
    };
    for _ in 0..3 {
        let round = watch.round(&hierarchy, &[watched()], &offline, now);
        assert!(
            matches!(outcomes(&round)[..], [Outcome::Beyond]),
            "{round:?}"
        );
    }
    assert_eq!(watch.tally(Culprit::CpuOffline).drifted, 1);
    // It is back, and v1 has forgotten that the group ever had it.
    let round = watch.round(&hierarchy, &[watched()], &evidence(), now);
    assert!(
        matches!(outcomes(&round)[..], [Outcome::Repaired]),
        "{round:?}"
    );
}

#[test]
fn a_repair_that_cannot_be_is_told_with_its_reason() {
    let root = machine();
    fs::write(root.path().join("cpuset/kubepods/cpuset.cpus"), "0-3").expect("a file");
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let mut watch = Watch::default();
    let round = watch.round(&hierarchy, &[watched()], &evidence(), Instant::now());
    let told = match outcomes(&round)[..] {
        [Outcome::Failed(error)] => error.to_string(),
        _ => panic!("{round:?}"),
    };
    assert!(told.contains("lacks 4-5"), "{told}");
    let failed: u64 = Culprit::ALL
        .map(|culprit| watch.tally(culprit).failed)
        .iter()
        .sum();
    assert_eq!(failed, 1);
}

#[test]
fn a_fight_is_told_and_repairs_become_rarer_until_there_is_peace() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let patience = Patience {
        repairs: 3,
        within: Duration::from_secs(120),
        first_pause: Duration::from_secs(60),
        longest_pause: Duration::from_secs(200),
    };
    let mut watch = Watch::new(patience, None);
    let start = Instant::now();
    let mut repairs = Vec::new();
    let mut told = Vec::new();
    // The kubelet overwrites every 10 seconds, for 15 minutes.
    for second in (0..900).step_by(10) {
        overwrite(root.path(), "0-3");
        let now = start + Duration::from_secs(second);
        let round = watch.round(&hierarchy, &[watched()], &evidence(), now);
        match outcomes(&round)[..] {
            [Outcome::Repaired] => repairs.push(second),
            [Outcome::HeldBack(until)] => assert!(*until > now),
            _ => panic!("{round:?}"),
        }
        told.extend(round.fights.iter().map(|fight| (second, fight.repairs)));
    }
    assert_eq!(repairs, [0, 10, 20, 80, 200, 400, 600, 800]);
    assert_eq!(
        told,
        [(20, 3), (80, 4), (200, 5), (400, 6), (600, 7), (800, 8)]
    );
    assert_eq!(watch.fights(), 1);
    let tally = watch.tally(Culprit::Kubelet);
    let repaired = tally.repaired + watch.tally(Culprit::Other).repaired;
    assert_eq!(repaired, 8);
    assert_eq!(tally.held_back, 90 - 8);

    overwrite(root.path(), "4-5");
    for (second, fights) in [(900, 1), (1000, 1), (1001, 0)] {
        let now = start + Duration::from_secs(second);
        watch.round(&hierarchy, &[watched()], &evidence(), now);
        assert_eq!(watch.fights(), fights, "after {second} seconds");
    }
}

#[test]
fn rare_repairs_are_no_fight_and_who_left_is_forgotten() {
    let root = machine();
    let hierarchy = Hierarchy::find(root.path()).expect("v1");
    let mut watch = Watch::default();
    let start = Instant::now();
    for minute in 0..10 {
        overwrite(root.path(), "0-3");
        let now = start + Duration::from_secs(minute * 61);
        let round = watch.round(&hierarchy, &[watched()], &evidence(), now);
        assert!(round.fights.is_empty(), "minute {minute}");
    }
    for _ in 0..3 {
        overwrite(root.path(), "0-3");
        watch.round(
            &hierarchy,
            &[watched()],
            &evidence(),
            start + Duration::from_secs(601),
        );
    }
    assert_eq!(watch.fights(), 1);
    watch.round(
        &hierarchy,
        &[],
        &evidence(),
        start + Duration::from_secs(602),
    );
    assert_eq!(watch.fights(), 0);
}

#[test]
fn evidence_is_gathered_from_the_machine_and_the_kubelet_s_file() {
    let root = machine();
    let file = root.path().join("cpu_manager_state");
    let gathered = Evidence::gather(root.path(), &file).expect("CPUs are online");
    assert_eq!(gathered.kubelet, None);
    let state = evidence().kubelet.expect("a state");
    for format in [CpuStateFormat::V2, CpuStateFormat::V3, CpuStateFormat::V4] {
        fs::write(&file, state.write(format)).expect("a file");
        let gathered = Evidence::gather(root.path(), &file).expect("CPUs are online");
        assert_eq!(gathered, evidence(), "{format:?}");
    }
    fs::write(&file, "{").expect("a file");
    let torn = Evidence::gather(root.path(), &file).expect("CPUs are online");
    assert_eq!(torn.kubelet, None);
}
