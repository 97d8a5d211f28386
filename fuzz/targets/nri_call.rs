//! Requests and responses of ttrpc, and every call of a runtime to a plugin.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri::Plugin;
use nri::api::Events;
use nri::ttrpc::{Request, Response};
use prost::Message;

struct Nothing;

impl Plugin for Nothing {
    fn events(&self) -> Events {
        Events::ALL
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(response) = Response::decode(bytes) {
        assert_eq!(Response::decode(&*response.encode_to_vec()), Ok(response));
    }
    if let Ok(request) = Request::decode(bytes) {
        nri::handle_in_a_new_session(&mut Nothing, &request.method, &request.payload);
    }
});
