use super::*;
use proptest::prelude::*;

const FILE: &str = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"p12","ContainerName":"c0","ResourceName":"example.com/gpu","DeviceIDs":{"-1":["g04","g05","g06"]},"AllocResp":""}],"RegisteredDevices":{"example.com/gpu":["g02","g03","g04","g05","g06","g00"],"example.com/nic":["n00"]}},"Checksum":1060529466}"#;

#[test]
fn a_file_is_parsed_and_written_back_byte_for_byte() {
    let state = DeviceManagerState::restore(FILE.as_bytes(), "f").expect("good");
    let entry = &state.entries[0];
    assert_eq!(
        entry.devices,
        [(None, vec!["g04".to_owned(), "g05".into(), "g06".into()])].into()
    );
    assert_eq!(state.registered["example.com/nic"], ["n00"]);
    assert_eq!(state.write(), FILE);
}

#[test]
fn without_entries_the_list_is_nil() {
    let text = DeviceManagerState::default().write();
    assert!(
        text.starts_with(r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"#),
        "{text}"
    );
    let checksum = DeviceManagerState::checksum(text.as_bytes()).expect("good");
    assert_eq!(
        checksum.text,
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)<nil> \
         RegisteredDevices:(map[string][]string)map[]}"
    );
    assert_eq!(
        DeviceManagerState::restore(text.as_bytes(), "f"),
        Ok(DeviceManagerState::default())
    );
}

#[test]
fn a_damaged_file_is_rejected() {
    for (text, fault) in [
        (FILE.replace("1060529466", "0"), "checkpoint is corrupted"),
        (FILE.replace("g05", "g07"), "checkpoint is corrupted"),
        (
            FILE.replace("\"AllocResp\":\"\"", "\"AllocResp\":\"?\""),
            "illegal base64 data at input byte 0",
        ),
        (
            FILE.replace("\"-1\"", "\"a\""),
            "json: cannot unmarshal number a into Go struct field PodDevicesEntry.Data.PodDeviceEntries.DeviceIDs of type int64",
        ),
        (String::new(), "unexpected end of JSON input"),
    ] {
        let error = DeviceManagerState::restore(text.as_bytes(), "f").expect_err(&text);
        assert_eq!(error.to_string(), fault);
    }
}

proptest! {
    #[test]
    fn any_state_survives(
        ids in prop::collection::vec(".{0,6}", 0..4), node in prop::option::of(0_i64..64),
        response in prop::collection::vec(any::<u8>(), 0..20), name in ".{0,12}"
    ) {
        let node = node.map(|id| NodeId::new(id).expect("small"));
        let state = DeviceManagerState {
            entries: vec![DeviceEntry {
                pod: name.as_str().into(),
                container: "c".into(),
                resource: "a.io/b".into(),
                devices: [(node, ids.clone()), (None, vec![])].into(),
                response,
            }],
            registered: [(name.as_str().into(), ids)].into(),
        };
        prop_assert_eq!(DeviceManagerState::restore(state.write().as_bytes(), "f"), Ok(state));
    }

    #[test]
    fn no_damage_makes_it_panic(at in 0..FILE.len(), byte in any::<u8>(), what in 0_u8..4) {
        let mut bytes = FILE.as_bytes().to_vec();
        match what {
            0 => bytes[at] = byte,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, byte),
            _ => bytes.truncate(at),
        }
        let _ = DeviceManagerState::restore(&bytes, "f");
    }
}
