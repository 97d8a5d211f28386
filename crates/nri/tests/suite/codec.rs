//! The codecs: the same messages are decoded from any chunks of bytes, and invalid input is rejected.

use nri::frame::{
    ConnectionId, FIRST_FRAME, FRAME_HEADER, FrameDecoder, MAX_PAYLOAD, TrunkFrameError, frames,
};
use nri::message::{MAX_DATA, MESSAGE_HEADER, Message, MessageDecoder, MessageError, MessageKind};
use nri::mux::{Demultiplexer, TrunkError};
use proptest::collection::vec;
use proptest::prelude::*;

fn message() -> impl Strategy<Value = Message> {
    let kind = prop_oneof![
        Just(MessageKind::Request),
        Just(MessageKind::Response),
        Just(MessageKind::Data)
    ];
    let length = prop_oneof![0..64usize, 4080..4100usize, 8000..20_000usize];
    (any::<u32>(), kind, any::<u8>(), length).prop_map(|(stream, kind, flags, length)| {
        let data = (0..length).map(|at| at.to_le_bytes()[0]).collect();
        let mut message = Message::new(stream, kind, data).unwrap();
        message.flags = flags;
        message
    })
}

fn connection() -> impl Strategy<Value = ConnectionId> {
    prop_oneof![Just(ConnectionId::PLUGIN), Just(ConnectionId::RUNTIME)]
}

/// Feeds bytes in chunks of these sizes, repeatedly.
fn feed(
    bytes: &[u8],
    sizes: &[usize],
) -> Result<(Vec<(ConnectionId, Message)>, Demultiplexer), TrunkError> {
    let mut demultiplexer = Demultiplexer::default();
    let mut messages = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        let (now, later) = rest.split_at((*size).min(rest.len()));
        demultiplexer.feed(now)?;
        messages.extend(std::iter::from_fn(|| demultiplexer.pop()));
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    Ok((messages, demultiplexer))
}

proptest! {
    #[test]
    fn messages_survive_the_trunk_however_their_bytes_arrive(
        sent in vec((connection(), message()), 0..6),
        sizes in vec(1..5000usize, 1..8),
    ) {
        let bytes: Vec<u8> = sent.iter().flat_map(|(to, message)| frames(*to, &message.encode())).collect();
        let (received, end) = feed(&bytes, &sizes).unwrap();
        prop_assert_eq!(received, sent);
        prop_assert!(end.is_between_messages());
    }

    #[test]
    fn a_connection_may_be_cut_into_any_frames(
        sent in vec(message(), 1..4),
        cuts in vec(1..3000usize, 1..8),
        sizes in vec(1..5000usize, 1..8),
    ) {
        let stream: Vec<u8> = sent.iter().flat_map(Message::encode).collect();
        let mut bytes = Vec::new();
        let mut rest = stream.as_slice();
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            bytes.extend(ConnectionId::PLUGIN.0.to_be_bytes());
            bytes.extend(u32::try_from(now.len()).unwrap().to_be_bytes());
            bytes.extend(now);
            // Of other connections, and of no length: neither changes anything.
            bytes.extend([0, 0, 0, 9, 0, 0, 0, 3, 1, 2, 3]);
            bytes.extend([0, 0, 0, 1, 0, 0, 0, 0]);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        let (received, _) = feed(&bytes, &sizes).unwrap();
        let received: Vec<Message> = received.into_iter().map(|(_, message)| message).collect();
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn any_bytes_give_the_same_result_at_once_and_one_by_one(bytes in vec(any::<u8>(), 0..200)) {
        let at_once = feed(&bytes, &[bytes.len().max(1)]).map(|(messages, _)| messages);
        let one_by_one = feed(&bytes, &[1]).map(|(messages, _)| messages);
        prop_assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
    }

    #[test]
    fn a_frame_that_begins_a_message_is_small_and_there_are_two_at_most(message in message()) {
        let encoded = message.encode();
        let bytes = frames(ConnectionId::RUNTIME, &encoded);
        let mut lengths = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((header, payload)) = rest.split_at_checked(FRAME_HEADER) {
            let length = u32::from_be_bytes(header[4..8].try_into().unwrap());
            lengths.push(usize::try_from(length).unwrap());
            rest = &payload[*lengths.last().unwrap()..];
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(lengths[0], encoded.len().min(FIRST_FRAME));
        prop_assert_eq!(lengths.iter().sum::<usize>(), encoded.len());
        prop_assert!(lengths.len() <= 2);
    }
}

#[test]
fn a_frame_with_a_too_large_length_is_rejected_before_its_payload_arrives() {
    let length = u32::try_from(MAX_PAYLOAD).unwrap();
    for (length, good) in [(length, true), (length + 1, false), (u32::MAX, false)] {
        let header = [7u32.to_be_bytes(), length.to_be_bytes()].concat();
        let outcome = FrameDecoder::default().next(&mut header.as_slice());
        let connection = ConnectionId(7);
        let expected = match good {
            true => Ok(None),
            false => Err(TrunkFrameError::TooLong { connection, length }),
        };
        assert_eq!(outcome, expected);
    }
}

#[test]
fn a_message_with_an_invalid_header_is_rejected_before_its_data_arrives() {
    let header = |length: u32, kind: u8| {
        let mut bytes = [length.to_be_bytes(), 5u32.to_be_bytes()].concat();
        bytes.extend([kind, 0]);
        bytes
    };
    let most = u32::try_from(MAX_DATA).unwrap();
    let too_long = |length: usize| MessageError::TooLong { stream: 5, length };
    let unknown = |kind| MessageError::UnknownKind { stream: 5, kind };
    let table = [
        (header(most, 1), Ok(None)),
        (header(most + 1, 1), Err(too_long(MAX_DATA + 1))),
        (header(u32::MAX, 2), Err(too_long(0xffff_ffff))),
        (header(0, 0), Err(unknown(0))),
        (header(0, 4), Err(unknown(4))),
        (header(0, 255), Err(unknown(255))),
    ];
    for (bytes, expected) in table {
        let outcome = MessageDecoder::default().next(&mut bytes.as_slice());
        assert_eq!(outcome, expected, "{bytes:?}");
    }
}

#[test]
fn the_largest_message_is_accepted_and_one_byte_more_is_not() {
    let message = Message::new(1, MessageKind::Request, vec![7; MAX_DATA]).unwrap();
    let bytes = frames(ConnectionId::PLUGIN, &message.encode());
    assert_eq!(bytes.len(), MAX_DATA + MESSAGE_HEADER + 2 * FRAME_HEADER);
    let (received, _) = feed(&bytes, &[60_000]).unwrap();
    assert_eq!(received, [(ConnectionId::PLUGIN, message)]);
    assert!(Message::new(1, MessageKind::Request, vec![7; MAX_DATA + 1]).is_err());
}
