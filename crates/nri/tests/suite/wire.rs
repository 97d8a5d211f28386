//! Encodings that the protocol definition requires, written by hand: tags and wrappers.

use nri::api::{
    ConfigureRequest, ConfigureResponse, Container, ContainerAdjustment, ContainerUpdate,
    LinuxMemory, LinuxResources, PodSandbox, RegisterPluginRequest, SynchronizeResponse,
};
use nri::ttrpc::{Code, Response, Status};
use prost::Message;

#[test]
fn an_optional_number_is_encoded_as_a_message_and_zero_differs_from_unset() {
    let some = |limit| LinuxMemory {
        limit,
        ..LinuxMemory::default()
    };
    assert_eq!(some(None).encode_to_vec(), []);
    assert_eq!(some(Some(0)).encode_to_vec(), [0x0a, 0]);
    assert_eq!(some(Some(5)).encode_to_vec(), [0x0a, 2, 0x08, 5]);
    let class = LinuxResources {
        rdt_class: Some("a".to_owned()),
        ..LinuxResources::default()
    };
    assert_eq!(class.encode_to_vec(), [0x2a, 3, 0x0a, 1, b'a']);
}

#[test]
fn cpus_of_an_adjustment_are_encoded_as_runtimes_read_them() {
    // adjustment 6 linux { 2 resources { 2 cpu { 6 cpus "1", 7 mems "0" } } }
    let expected = [0x32, 10, 0x12, 8, 0x12, 6, 0x32, 1, b'1', 0x3a, 1, b'0'];
    let adjustment = ContainerAdjustment::new().cpus("1").mems("0");
    assert_eq!(adjustment.encode_to_vec(), expected);
    // update 1 id, 2 linux { 1 resources { 2 cpu { 6 cpus } } }, 3 ignore failure
    let expected = [
        0x0a, 1, b'c', 0x12, 7, 0x0a, 5, 0x12, 3, 0x32, 1, b'1', 0x18, 1,
    ];
    let update = ContainerUpdate::new("c").cpus("1").ignore_failure();
    assert_eq!(update.encode_to_vec(), expected);
}

#[test]
fn the_first_messages_of_a_session_have_the_expected_bytes() {
    let register = RegisterPluginRequest {
        plugin_name: "p".to_owned(),
        plugin_idx: "07".to_owned(),
        nri_version: String::new(),
    };
    assert_eq!(
        register.encode_to_vec(),
        [0x0a, 1, b'p', 0x12, 2, b'0', b'7']
    );
    // The field is number 2; there never was a number 1.
    assert_eq!(ConfigureResponse { events: 8 }.encode_to_vec(), [0x10, 8]);
    let configure = ConfigureRequest::decode([0x20, 136, 39, 0x28, 208, 15].as_slice()).unwrap();
    assert_eq!(
        (configure.registration_timeout, configure.request_timeout),
        (5000, 2000)
    );
    let more = SynchronizeResponse {
        update: Vec::new(),
        more: true,
    };
    assert_eq!(more.encode_to_vec(), [0x10, 1]);
    let rejected = Response {
        status: Some(Status::new(Code::Unknown, "no")),
        payload: Vec::new(),
    };
    assert_eq!(
        rejected.encode_to_vec(),
        [0x0a, 6, 0x08, 2, 0x12, 2, b'n', b'o']
    );
}

#[test]
fn unknown_fields_are_skipped() {
    let bytes = [0x0a, 1, b'x', 0xfa, 0x3f, 2, 9, 9, 0x22, 1, b'n'];
    let pod = PodSandbox::decode(bytes.as_slice()).unwrap();
    assert_eq!((pod.id.as_str(), pod.namespace.as_str()), ("x", "n"));
}

#[test]
fn an_unknown_container_state_decodes_as_unknown() {
    let container = Container::decode([0x20, 77].as_slice()).unwrap();
    assert_eq!(container.state, 77);
    assert_eq!(container.state(), nri::api::ContainerState::Unknown);
}
