use super::hpack::{HpackDecoder, HpackError, literal};
use super::*;
use proptest::prelude::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SOCKET: &str = "%2Fvar%2Flib%2Fkubelet%2Fdevice-plugins%2Fkubelet.sock";

/// A request for the path and the socket above, as Go's encoder writes it.
const FIRST: &str = "\
    8386459563b8632a4615f6966321360d263d4c6d2cc6424b6741a754587b8ec545868346a8b0f5b632d054aa2c3217b9\
    8855aba2d98d5215161eb6c65a0a95d0727540027465864d833505b11f";

/// The same request once more on the same connection.
const SECOND: &str = "8386c0bfbe";

/// The bytes from 0 to 255 in Huffman code, as Go's encoder writes them.
const EVERY_BYTE: &str = "\
    ffc7fffd8fffffe2fffffe3fffffe4fffffe5fffffe6fffffe7fffffe8ffffeafffffff3fffffa7fffffabffffffdfff\
    ffebfffffecfffffedfffffeefffffefffffff0ffffff1ffffff2fffffffbfffffcffffffd3fffffd7fffffdbfffffdf\
    fffffe3fffffe7fffffebfffffed4fe3f9ffaffcabf1febfafefe7fdfd2cbb00089969b71d79fb9f7fff20ffbff3ff50\
    ddbd7f061c58f265cd9f469d5af66dddbf871e5f9cff7ff7fffc3ff9ffe45fff4719242cb34e6e9d68a6a3d7dac426de\
    fe3cfaf7fffbfe7ffbffdffffffcfffe6ffff4bfff9ffffa3fffd3ffff53fffd5ffffb3fffeb7fffdaffffb7ffff73ff\
    feeffffdeffffebffffbfffffd9ffffdbfffebffffe0ffffeeffffc3ffff8bffff1ffffe4fffee7fffb1ffff97fffd9f\
    fffcdffff9fffffbffffdafffeeffff4ffffb7fffee7fffe8ffffd3fffdeffffd5fffeeffffbdffffe1fffdfffff7fff\
    ff5ffffecffff07fff87fffe0ffff17fffedffff87ffff77fffeffffeaffff8bfffe3ffff93ffff87fffcbffff37ffff\
    1fffff83ffffe1fffebfffe3ffff3fffff2ffffa3ffffd9fffff17ffffc7fffff27ffffdefffffbffffff2fffff8ffff\
    fb7fff97fff8fffffe6fffffc1fffff87ffffe7fffffc5ffffe5fffe4ffff2fffffd1fffff4ffffffefffffe3fffffc9\
    fffff97fffb3ffffcffffb7fffcdffff4ffff9ffffd1ffffcffffeaffffafffffddffffeffffff4fffff5fffffabffff\
    a7ffffd7fffff9bffffecfffffb7fffff3fffffe8fffffd3fffffabfffff5fffffff7ffffecfffffdbfffffbbfffff7f\
    fffff0fffffbbf";

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let [.., a, b, c] = payload.len().to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

/// The bytes that the server reads when a client sends these frames after the preface.
fn passed(frames: &[Vec<u8>]) -> Result<Vec<u8>, FrameError> {
    let mut out = Vec::new();
    FrameRewriter::default().pass(&[PREFACE, &frames.concat()].concat(), &mut out)?;
    assert_eq!(out[..PREFACE.len()], *PREFACE);
    Ok(out.split_off(PREFACE.len()))
}

fn literals(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        literal(name.as_bytes(), value.as_bytes(), &mut out);
    }
    out
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits");
    digits.chunks(2).map(byte).collect()
}

fn decoded(decoder: &mut HpackDecoder, block: &str) -> Vec<(String, String)> {
    let fields = decoder.block(&hex(block)).expect("a valid block");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

#[test]
fn an_invalid_authority_is_replaced_by_localhost() {
    for (named, read) in [
        (SOCKET, "localhost"),
        ("/var/lib/kubelet/device-plugins/kubelet.sock", "localhost"),
        ("unix:///kubelet.sock", "localhost"),
        ("", "localhost"),
        ("kubelet.sock", "kubelet.sock"),
        ("localhost", "localhost"),
        ("127.0.0.1:80", "127.0.0.1:80"),
    ] {
        let request = |authority| {
            let block = literals(&[(":method", "POST"), (":authority", authority), ("te", "%")]);
            frame(1, 0x4, 1, &block)
        };
        assert_eq!(passed(&[request(named)]), Ok(request(read)), "{named:?}");
    }
}

/// Two requests as Go's encoder writes them: the second refers to the first.
#[test]
fn the_client_s_dynamic_table_is_tracked() {
    let blocks = [FIRST, SECOND].map(hex);
    let expected = literals(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/v1beta1.Registration/Register"),
        (":authority", "localhost"),
        ("te", "trailers"),
    ]);
    let sent = [frame(1, 0x4, 1, &blocks[0]), frame(1, 0x5, 3, &blocks[1])];
    let read = [frame(1, 0x4, 1, &expected), frame(1, 0x5, 3, &expected)];
    assert_eq!(passed(&sent), Ok(read.concat()));
}

/// RFC 7541, appendices C.3 and C.4: the same requests, plain and in Huffman code.
#[test]
fn the_examples_of_the_rfc_are_decoded() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    let site = (":authority", "www.example.com");
    let expected: [&[(&str, &str)]; 3] = [
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            site,
        ],
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            site,
            ("cache-control", "no-cache"),
        ],
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            site,
            ("custom-key", "custom-value"),
        ],
    ];
    for blocks in [plain, huffman] {
        let mut decoder = HpackDecoder::default();
        for (block, expected) in blocks.into_iter().zip(expected) {
            let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
            let expected: Vec<_> = expected.iter().map(own).collect();
            assert_eq!(decoded(&mut decoder, block), expected);
        }
    }
}

#[test]
fn every_byte_is_decoded_from_huffman_code() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(huffman::decode(&hex(EVERY_BYTE)), Some(all));
    for (code, why) in [
        ("ff", "eight bits of padding"),
        ("18", "padding that is not ones"),
        ("ffffffff", "the end inside a text"),
    ] {
        assert_eq!(huffman::decode(&hex(code)), None, "{why}");
    }
}

/// A table of 100 bytes has room for two headers of 34 bytes, so the third drops the first.
#[test]
fn the_oldest_headers_are_evicted_from_the_table() {
    let mut decoder = HpackDecoder::default();
    let block = "3f45 4001 6101 31 4001 6201 32 4001 6301 33 be bf";
    let names: String = decoded(&mut decoder, block)
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, "abccb");
    assert_eq!(decoder.block(&hex("c0")), Err(HpackError::Index));
    assert!(decoded(&mut decoder, "20").is_empty());
    assert_eq!(decoder.block(&hex("be")), Err(HpackError::Index));
}

#[test]
fn invalid_header_blocks_are_errors() {
    for (block, error) in [
        ("80", HpackError::Index),
        ("be", HpackError::Index),
        ("41", HpackError::Short),
        ("4105 61", HpackError::Short),
        ("7f ffff ff01", HpackError::Number),
        ("3fe2 1f", HpackError::Resize),
        ("82 20", HpackError::Resize),
        ("4181 00", HpackError::Huffman),
    ] {
        assert_eq!(
            HpackDecoder::default().block(&hex(block)),
            Err(error),
            "{block}"
        );
    }
}

/// One header of 4000 bytes, then a reference to it in every byte.
#[test]
fn the_decompressed_size_of_a_block_is_limited() {
    let mut bomb = hex("4001 617f a11e");
    bomb.extend(std::iter::repeat_n(b'x', 4000));
    bomb.extend(std::iter::repeat_n(0xbe, 10_000));
    assert_eq!(
        HpackDecoder::default().block(&bomb),
        Err(HpackError::TooLong)
    );
}

#[test]
fn padding_priority_and_continuations_are_handled() {
    let block = literals(&[(":authority", SOCKET), ("te", "trailers")]);
    let expected = frame(
        1,
        0x5,
        1,
        &literals(&[(":authority", "localhost"), ("te", "trailers")]),
    );
    let padded = [&[3][..], &block, &[0, 0, 0]].concat();
    let with_priority = [&[0, 0, 0, 0, 9][..], &block].concat();
    let both = [&[1, 0, 0, 0, 0, 9][..], &block, &[0]].concat();
    let (front, back) = block.split_at(30);
    for sent in [
        vec![frame(1, 0xd, 1, &padded)],
        vec![frame(1, 0x25, 1, &with_priority)],
        vec![frame(1, 0x2d, 1, &both)],
        vec![frame(1, 0x1, 1, front), frame(9, 0x4, 1, back)],
        vec![
            frame(1, 0x1, 1, &[]),
            frame(9, 0, 1, &block),
            frame(9, 0x4, 1, &[]),
        ],
    ] {
        assert_eq!(passed(&sent), Ok(expected.clone()));
    }
}

#[test]
fn invalid_frames_are_errors() {
    let block = literals(&[("te", "trailers")]);
    let long = vec![0; 16 * 1024 + 1];
    let endless: Vec<Vec<u8>> = std::iter::once(frame(1, 0, 1, &block))
        .chain(std::iter::repeat_n(frame(9, 0, 1, &[]), 1000))
        .collect();
    for (sent, error) in [
        (vec![frame(9, 0x4, 1, &block)], FrameError::Interrupted),
        (
            vec![frame(1, 0, 1, &block), frame(0, 0, 1, b"data")],
            FrameError::Interrupted,
        ),
        (
            vec![frame(1, 0, 1, &block), frame(9, 0x4, 3, &block)],
            FrameError::Interrupted,
        ),
        (vec![frame(1, 0x4, 1, &long)], FrameError::Frame),
        (vec![frame(1, 0xc, 1, &[9, 0, 0])], FrameError::Padding),
        (vec![frame(1, 0xc, 1, &[])], FrameError::Padding),
        (vec![frame(1, 0x24, 1, &[0, 0, 0])], FrameError::Padding),
        (endless, FrameError::HeaderBlock),
    ] {
        assert_eq!(passed(&sent), Err(error));
    }
}

#[test]
fn a_rewritten_block_longer_than_a_frame_is_continued() {
    let value = "v".repeat(10_000);
    let block = literals(&[("a", value.as_str()), ("b", value.as_str())]);
    let (front, back) = block.split_at(16 * 1024);
    let sent = [frame(1, 0x1, 1, front), frame(9, 0x4, 1, back)];
    assert_eq!(passed(&sent), Ok(sent.concat()));
}

/// A stream with all its bytes available at once.
struct Sent<'a>(&'a [u8]);

impl AsyncRead for Sent<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (front, rest) = self.0.split_at(self.0.len().min(into.remaining()));
        into.put_slice(front);
        self.0 = rest;
        Poll::Ready(Ok(()))
    }
}

/// Hundreds of blocks of a few bytes, each of which decompresses to many.
#[test]
fn the_unread_bytes_are_bounded_whatever_their_compression() {
    let mut first = hex("4001 617f a11e");
    first.extend(std::iter::repeat_n(b'x', 4000));
    let mut sent = [PREFACE.to_vec(), frame(1, 0x4, 1, &first)].concat();
    for _ in 0..2000 {
        sent.extend(frame(1, 0x4, 1, &[0xbe; 7]));
    }
    let mut readable = AuthorityStream::new(Sent(&sent), ());
    let mut context = Context::from_waker(std::task::Waker::noop());
    let (mut buffer, mut total, mut most) = ([0; 100], 0, 0);
    loop {
        let mut into = ReadBuf::new(&mut buffer);
        let read = Pin::new(&mut readable).poll_read(&mut context, &mut into);
        assert!(matches!(read, Poll::Ready(Ok(()))));
        if into.filled().is_empty() {
            break;
        }
        total += into.filled().len();
        most = most.max(readable.waiting.bytes.len());
    }
    assert!(total > 50_000_000, "{total} bytes came out");
    assert!(most < 512 * 1024, "{most} bytes waited");
}

proptest! {
    /// Any bytes, split anywhere: nothing panics, and the splits do not change the result.
    #[test]
    fn cuts_do_not_show(
        frames in prop::collection::vec(
            (prop_oneof![Just(1_u8), Just(9), 0_u8..12], 0_u8..64, 0_u8..3, prop::collection::vec(any::<u8>(), 0..40)),
            0..8,
        ),
        cut in 1_usize..50,
    ) {
        let frames: Vec<u8> = frames
            .iter()
            .flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload))
            .collect();
        let bytes = [PREFACE, &frames].concat();
        let mut whole = Vec::new();
        let ended = FrameRewriter::default().pass(&bytes, &mut whole);
        let (mut pieces, mut in_pieces) = (FrameRewriter::default(), Vec::new());
        let also = bytes.chunks(cut).try_for_each(|piece| pieces.pass(piece, &mut in_pieces));
        prop_assert_eq!(ended, also);
        prop_assert_eq!(whole, in_pieces);
    }
}
