use super::*;
use pinfold_core::fidelity::KubeletVersion;
use proptest::prelude::*;

/// A file as a kubelet without pod-level management writes it.
const V2: &str = r#"{"policyName":"static","defaultCpuSet":"0-1","entries":{"p0":{"c0":"2-3"},"p1":{"c0":"4-5","init0":"4","init1":"4"},"p8":{"c0":"6-7"}},"checksum":2133433939}"#;
/// The same with pod-level management, and one pod managed as a whole.
const V3: &str = r#"{"policyName":"static","defaultCpuSet":"0-2,6,10,12-15","entries":{"p12":{"c0":"5,9"},"p13":{"c0":"3,7"},"p9":{"c0":"4,8"}},"podEntries":{"p13":{"cpuSet":"3,7,11"},"p9":{"cpuSet":"4,8"}},"checksum":615895690}"#;
/// The oldest format.
const V1: &str =
    r#"{"policyName":"static","defaultCpuSet":"0-3","entries":{"id1":"4-5"},"checksum":0}"#;

fn restore_at(
    text: &str,
    pod_level: PodLevel,
) -> Result<(CpuManagerState, CpuStateFormat), RestoreError> {
    restore_by(text, pod_level, KubeletVersion::DEFAULT)
}

fn restore_by(
    text: &str,
    pod_level: PodLevel,
    version: KubeletVersion,
) -> Result<(CpuManagerState, CpuStateFormat), RestoreError> {
    let running = [("id1".to_owned(), ("podA".into(), "c0".into()))].into();
    let how = CpuRestore {
        file: "cpu_manager_state",
        policy: Some("static"),
        pod_level,
        running: &running,
        fidelity: Fidelity::of_kubelet(version),
    };
    CpuManagerState::restore(text.as_bytes(), &how)
}

fn restore(text: &str) -> Result<(CpuManagerState, CpuStateFormat), RestoreError> {
    restore_at(text, PodLevel::Ignored)
}

fn fault(text: &str) -> Fault {
    *restore(text).expect_err(text).fault
}

fn sample() -> CpuManagerState {
    let cpus = |text| CpuSet::parse(text).expect("a set");
    CpuManagerState {
        policy: "static".into(),
        default_cpus: cpus("0-1"),
        containers: [(
            "p<0>".into(),
            [("c0".into(), cpus("2-3")), ("c1".into(), cpus(""))].into(),
        )]
        .into(),
        pods: [("p<0>".into(), cpus("2-4,10"))].into(),
    }
}

#[test]
fn every_format_is_recognised() {
    for (text, pod_level, format) in [
        (V1, PodLevel::Ignored, CpuStateFormat::V1),
        (V1, PodLevel::Managed, CpuStateFormat::V1),
        (V2, PodLevel::Ignored, CpuStateFormat::V2),
        (V2, PodLevel::Managed, CpuStateFormat::V2),
        (V3, PodLevel::Managed, CpuStateFormat::V3),
    ] {
        let (_, found) = restore_at(text, pod_level).expect(text);
        assert_eq!(found, format, "{text}");
    }
}

#[test]
fn a_file_is_written_back_byte_for_byte() {
    for (text, pod_level) in [(V2, PodLevel::Ignored), (V3, PodLevel::Managed)] {
        let (state, format) = restore_at(text, pod_level).expect(text);
        assert_eq!(state.write(format), text);
    }
}

#[test]
fn format_4_carries_a_checked_copy() {
    let mut state = sample();
    let text = state.write(CpuStateFormat::V4);
    assert_eq!(
        restore_at(&text, PodLevel::Managed),
        Ok((state.clone(), CpuStateFormat::V4))
    );
    // An older kubelet reads the rest as format 2.
    let (checksum, format) = CpuManagerState::checksum(text.as_bytes()).expect("good");
    assert!(
        checksum.is_valid() && format == CpuStateFormat::V2,
        "{text}"
    );
    // Without pod-level management the pod entries do not count.
    state.pods.clear();
    assert_eq!(restore(&text), Ok((state, CpuStateFormat::V4)));
    // A damaged copy is rejected, not replaced by the unchecked rest.
    let damaged = text.replacen("2-3", "2-9", 2);
    let message = restore(&damaged).expect_err("damaged").to_string();
    assert!(
        message.contains("could not load v4 checkpoint: checkpoint is corrupted"),
        "{message}"
    );
}

#[test]
fn each_version_tries_its_formats_in_its_order() {
    let fault = |text: &str, minor| {
        let version = KubeletVersion::minor(minor);
        let restored = restore_by(text, PodLevel::Ignored, version);
        restored.err().map(|error| error.fault.to_string())
    };
    let damaged = V2.replace("2-3", "2-9");
    let unknown = V1.replace("id1", "id2");
    for (text, minor, expected) in [
        (&damaged, 35, Some("checkpoint is corrupted")),
        (
            &damaged,
            36,
            Some(
                "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string",
            ),
        ),
        (&damaged, 37, Some("checkpoint is corrupted")),
        (&V1.to_owned(), 35, None),
        (&V1.to_owned(), 36, None),
        (
            &V1.to_owned(),
            37,
            Some(
                "json: cannot unmarshal string into Go struct field CPUManagerCheckpointV2.entries of type map[string]string",
            ),
        ),
        (
            &unknown,
            35,
            Some(
                "error migrating v1 checkpoint state to v2 checkpoint state: \
                 containerID 'id2' not found in initial containers list",
            ),
        ),
        (
            &unknown,
            36,
            Some(
                "failed to migrate checkpoint from v1 to v2: containerID 'id2' not found in initial containers list",
            ),
        ),
    ] {
        assert_eq!(fault(text, minor).as_deref(), expected, "1.{minor}: {text}");
    }
    for version in KubeletVersion::known() {
        let (state, _) =
            restore_by(V2, PodLevel::Ignored, version).expect("every version knows format 2");
        assert_eq!(state.containers.len(), 3, "{version}");
    }
    // 1.37 reads format 3 whether or not pod-level management is on.
    let newest = KubeletVersion::minor(37);
    let (state, format) = restore_by(V3, PodLevel::Ignored, newest).expect("format 3");
    assert_eq!((format, state.pods.len()), (CpuStateFormat::V3, 0));
}

#[test]
fn keys_are_found_in_any_case_and_the_last_one_counts() {
    let text =
        r#"{"POLICYNAME":"x","policyname":"static","defaultCPUSet":"0","x":[{}],"Entries":null}"#;
    let (state, _) = restore(text).expect(text);
    assert_eq!(
        (state.policy.as_str(), state.default_cpus.to_string()),
        ("static", "0".into())
    );
}

#[test]
fn a_damaged_file_is_rejected_with_the_kubelet_s_message() {
    let around = |fault: &str| {
        format!(
            "could not restore state from checkpoint: {fault}, please drain this node and delete the CPU manager \
             checkpoint file \"cpu_manager_state\" before restarting Kubelet"
        )
    };
    for (text, fault) in [
        (
            V2.replace("2-3", "2-9"),
            "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string",
        ),
        (V2[..40].to_owned(), "unexpected end of JSON input"),
        (
            V2.replace("\"static\"", "\"none\"")
                .replace("2133433939", "0"),
            "configured policy \"static\" differs from state checkpoint policy \"none\"",
        ),
        (
            V2.replace("0-1", "1-0").replace("2133433939", "0"),
            "could not parse default cpu set \"1-0\": invalid range \"1-0\" (1 > 0)",
        ),
        (
            V2.replace("2-3", "a").replace("2133433939", "0"),
            "could not parse cpuset \"a\" for container \"c0\" in pod \"p0\": strconv.Atoi: parsing \"a\": invalid syntax",
        ),
        (
            V1.replace("id1", "id2"),
            "failed to migrate checkpoint from v1 to v2: containerID 'id2' not found in initial containers list",
        ),
        (
            "[]".to_owned(),
            "json: cannot unmarshal array into Go value of type state.CPUManagerCheckpointV1",
        ),
    ] {
        assert_eq!(restore(&text).expect_err(&text).to_string(), around(fault));
    }
}

#[test]
fn pod_entries_need_pod_level_management() {
    // Without it they are not part of the content, so the checksum does not fit.
    assert!(matches!(fault(V3), Fault::Json(_)));
    // Unchecked files are accepted; whether the pod entries are used depends on the gate alone.
    let unchecked = V3.replace("615895690", "0");
    let pods = |pod_level| {
        restore_at(&unchecked, pod_level)
            .expect("unchecked")
            .0
            .pods
            .len()
    };
    assert_eq!((pods(PodLevel::Ignored), pods(PodLevel::Managed)), (0, 2));
}

#[test]
fn a_file_above_the_size_limit_is_rejected() {
    let large = vec![b' '; crate::state::MAX_FILE_BYTES + 1];
    let how = CpuRestore {
        file: "f",
        policy: None,
        pod_level: PodLevel::Ignored,
        running: &BTreeMap::new(),
        fidelity: Fidelity::Exact,
    };
    let error = CpuManagerState::restore(&large, &how).expect_err("too large");
    assert_eq!(*error.fault, Fault::TooLarge(large.len()));
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic_and_every_changed_byte_is_detected(
        at in 0..V2.len(), byte in any::<u8>(), what in 0_u8..4
    ) {
        let mut bytes = V2.as_bytes().to_vec();
        match what {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        let how = CpuRestore {
            file: "f",
            policy: Some("static"),
            pod_level: PodLevel::Ignored,
            running: &BTreeMap::new(),
            fidelity: Fidelity::Exact,
        };
        if let Ok((state, _)) = CpuManagerState::restore(&bytes, &how) {
            let (original, _) = restore(V2).expect("good");
            // The checksum field itself may be damaged into nothing or 0, which is accepted.
            let unchecked = CpuManagerState::checksum(&bytes).is_ok_and(|(checksum, _)| checksum.stored == 0);
            prop_assert!(state == original || unchecked, "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn any_state_survives_every_format(
        cpus in prop::collection::vec(prop::collection::vec(0_u32..4096, 0..6), 1..4), name in ".{0,12}"
    ) {
        let sets: Vec<CpuSet> = cpus
            .iter()
            .map(|ids| ids.iter().filter_map(|&id| pinfold_core::cpu_set::CpuId::new(id)).collect())
            .collect();
        let mut state = CpuManagerState {
            policy: "static".into(),
            default_cpus: sets[0].clone(),
            ..CpuManagerState::default()
        };
        for (i, set) in sets.iter().enumerate() {
            let of_pod = state.containers.entry(name.as_str().into()).or_default();
            of_pod.insert(format!("c{i}").into(), set.clone());
            state.pods.insert(format!("{name}{i}").into(), set.clone());
        }
        for format in [CpuStateFormat::V3, CpuStateFormat::V4] {
            let restored = restore_at(&state.write(format), PodLevel::Managed);
            prop_assert_eq!(restored, Ok((state.clone(), format)));
        }
        state.pods.clear();
        prop_assert_eq!(restore(&state.write(CpuStateFormat::V2)), Ok((state, CpuStateFormat::V2)));
    }
}
