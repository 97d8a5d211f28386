//! Bytes of an NRI trunk. However they are split, they decode as the same messages, which are equal after sending.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nri::frame::{ConnectionId, frames};
use nri::message::Message;
use nri::mux::Demultiplexer;

fn received(bytes: &[u8], size: usize) -> (Vec<(ConnectionId, Message)>, Option<String>) {
    let mut demultiplexer = Demultiplexer::default();
    let problem = bytes
        .chunks(size)
        .find_map(|piece| demultiplexer.feed(piece).err())
        .map(|error| error.to_string());
    (
        std::iter::from_fn(|| demultiplexer.pop()).collect(),
        problem,
    )
}

fuzz_target!(|bytes: &[u8]| {
    let at_once = received(bytes, bytes.len().max(1));
    assert_eq!(at_once, received(bytes, 7));
    let sent: Vec<u8> = at_once
        .0
        .iter()
        .flat_map(|(to, message)| frames(*to, &message.encode()))
        .collect();
    assert_eq!(received(&sent, 1000), (at_once.0, None));
});
