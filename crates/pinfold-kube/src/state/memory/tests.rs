use super::*;
use pinfold_core::fidelity::KubeletVersion;
use proptest::prelude::*;

/// A file as a kubelet without pod-level management writes it.
const V1: &str = r#"{"policyName":"Static","machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":17179869184,"systemReserved":536870912,"allocatable":16642998272,"reserved":1006632960,"free":15636365312}},"cells":[0]},"1":{"numberOfAssignments":0,"memoryMap":{"memory":{"total":17179869184,"systemReserved":268435456,"allocatable":16911433728,"reserved":0,"free":16911433728}},"cells":[1]}},"entries":{"p13":{"c0":[{"numaAffinity":[0],"type":"memory","size":1006632960}]}},"checksum":869405357}"#;

fn restore_at(
    text: &str,
    pod_level: PodLevel,
) -> Result<(MemoryManagerState, MemoryStateFormat), RestoreError> {
    let how = MemoryRestore {
        file: "memory_manager_state",
        policy: Some("Static"),
        pod_level,
        fidelity: Fidelity::Exact,
    };
    MemoryManagerState::restore(text.as_bytes(), &how)
}

fn restore(text: &str) -> Result<(MemoryManagerState, MemoryStateFormat), RestoreError> {
    restore_at(text, PodLevel::Ignored)
}

#[test]
fn a_file_is_parsed_and_written_back_byte_for_byte() {
    let (state, format) = restore(V1).expect("good");
    assert_eq!(format, MemoryStateFormat::V1);
    let node = |id| NodeId::new(id).expect("small");
    assert_eq!(state.nodes[&node(0)].memory["memory"].free, 15_636_365_312);
    assert_eq!(state.nodes[&node(1)].cells, NodeSet::single(node(1)));
    let block = &state.containers["p13"]["c0"][0];
    assert_eq!(
        (block.nodes, block.size),
        (NodeSet::single(node(0)), 1_006_632_960)
    );
    assert_eq!(state.write(format), V1);
}

#[test]
fn pod_entries_are_kept_in_format_2_only() {
    let (mut state, _) = restore(V1).expect("good");
    let block = state.containers["p13"]["c0"].clone();
    state.pods.insert("p13".into(), block);
    let text = state.write(MemoryStateFormat::V2);
    assert_eq!(
        restore_at(&text, PodLevel::Managed),
        Ok((state.clone(), MemoryStateFormat::V2))
    );
    assert!(matches!(
        *restore(&text).expect_err("unknown content").fault,
        Fault::Corrupt { .. }
    ));
    assert_eq!(state.write(MemoryStateFormat::V1), V1);
}

#[test]
fn format_3_carries_a_checked_copy() {
    let (mut state, _) = restore(V1).expect("good");
    let block = state.containers["p13"]["c0"].clone();
    state.pods.insert("p13".into(), block);
    let text = state.write(MemoryStateFormat::V3);
    let restored = restore_at(&text, PodLevel::Managed);
    assert_eq!(restored, Ok((state, MemoryStateFormat::V3)));
    // An older kubelet reads the rest as format 1.
    let (checksum, format) = MemoryManagerState::checksum(text.as_bytes()).expect("good");
    assert!(
        checksum.is_valid() && format == MemoryStateFormat::V1,
        "{text}"
    );
    let damaged = text.replace("1006632960", "1006632961");
    let message = restore(&damaged).expect_err("damaged").to_string();
    assert!(
        message.contains("could not load v3 checkpoint: checkpoint is corrupted"),
        "{message}"
    );
}

#[test]
fn a_file_with_checksum_0_is_accepted_since_1_36() {
    let unchecked = V1.replace("869405357", "0");
    for version in KubeletVersion::known() {
        let how = MemoryRestore {
            file: "memory_manager_state",
            policy: None,
            pod_level: PodLevel::Ignored,
            fidelity: Fidelity::of_kubelet(version),
        };
        let accepts = |text: &str| MemoryManagerState::restore(text.as_bytes(), &how).is_ok();
        assert!(accepts(V1), "{version}");
        let since = KubeletVersion::minor(36);
        assert_eq!(accepts(&unchecked), version >= since, "{version}");
    }
}

#[test]
fn nodes_are_written_in_the_order_of_their_names() {
    let mut state = MemoryManagerState::default();
    for id in [0, 2, 10, 11] {
        state
            .nodes
            .insert(NodeId::new(id).expect("small"), NumaNodeMemory::default());
    }
    let text = state.write(MemoryStateFormat::V1);
    let order: Vec<usize> = ["\"0\":", "\"10\":", "\"11\":", "\"2\":"]
        .iter()
        .map(|key| text.find(key).expect("written"))
        .collect();
    assert!(order.is_sorted(), "{text}");
    // The checksum is over the order of their numbers.
    let (checksum, _) = MemoryManagerState::checksum(text.as_bytes()).expect("good");
    assert!(checksum.is_valid() && checksum.text.find(" 2:<*>") < checksum.text.find(" 10:<*>"));
}

#[test]
fn a_damaged_file_is_rejected_with_the_kubelet_s_message() {
    let around = |fault: &str| {
        format!(
            "could not restore state from checkpoint: {fault}, please drain this node and delete the memory manager \
             checkpoint file \"memory_manager_state\" before restarting Kubelet"
        )
    };
    for (text, fault) in [
        (V1.replace("869405357", "1"), "checkpoint is corrupted"),
        (
            V1.replace("\"Static\"", "\"None\"")
                .replace("869405357", "0"),
            "[memorymanager] configured policy \"Static\" differs from state checkpoint policy \"None\"",
        ),
        (
            V1.replace("\"0\":{", "\"x\":{"),
            "json: cannot unmarshal number x into Go struct field MemoryManagerCheckpointV1.machineState of type int",
        ),
        (
            V1.replace("[1]", "[1.5]"),
            "json: cannot unmarshal number 1.5 into Go struct field NUMANodeState.machineState.cells of type int",
        ),
        (
            V1.replace("\"free\":16911433728", "\"free\":-1"),
            "json: cannot unmarshal number -1 into Go struct field MemoryTable.machineState.memoryMap.free of type uint64",
        ),
        (
            V1.replace("[0],\"type\":\"memory\"", "[0],\"type\":7"),
            "json: cannot unmarshal number into Go struct field Block.entries.type of type v1.ResourceName",
        ),
    ] {
        assert_eq!(restore(&text).expect_err(&text).to_string(), around(fault));
    }
}

#[test]
fn ids_that_no_machine_has_are_rejected_although_the_kubelet_accepts_them() {
    let unchecked = V1.replace("869405357", "0");
    for (text, fault) in [
        (
            unchecked.replace("\"1\":{", "\"64\":{"),
            "NUMA node 64 is not in 0 to 63",
        ),
        (
            unchecked.replace("\"numaAffinity\":[0]", "\"numaAffinity\":[-1]"),
            "NUMA node -1 is not in 0 to 63",
        ),
        (
            r#"{"policyName":"Static","machineState":{"3":null}}"#.to_owned(),
            "NUMA node 3 has a null entry",
        ),
    ] {
        let error = restore(&text).expect_err(&text);
        assert_eq!(error.fault.to_string(), fault);
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(
        damage in prop::collection::vec((0..V1.len(), any::<u8>(), 0_u8..4), 1..5), managed in any::<bool>()
    ) {
        let mut bytes = V1.replace("869405357", "0").into_bytes();
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
        let how = MemoryRestore {
            file: "f",
            policy: None,
            pod_level: if managed { PodLevel::Managed } else { PodLevel::Ignored },
            fidelity: Fidelity::Exact,
        };
        if let Ok((state, _)) = MemoryManagerState::restore(&bytes, &how) {
            let text = state.write(MemoryStateFormat::V1);
            prop_assert!(MemoryManagerState::restore(text.as_bytes(), &how).is_ok());
        }
    }
}
