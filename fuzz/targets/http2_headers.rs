//! HTTP/2 frames of a client before the HTTP/2 library reads them. The result does not depend on how the bytes are
//! split, and the output passes unchanged a second time.
#![no_main]

use kubelet_api::authority::FrameRewriter;
use libfuzzer_sys::fuzz_target;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn passed<'a>(mut pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, bool) {
    let mut frames = FrameRewriter::default();
    let mut out = Vec::new();
    let is_well = pieces.all(|piece| frames.pass(piece, &mut out).is_ok());
    (out, is_well)
}

fuzz_target!(|input: &[u8]| {
    let bytes = [PREFACE, input].concat();
    let (out, is_well) = passed([bytes.as_slice()].into_iter());
    assert_eq!(passed(bytes.chunks(7)), (out.clone(), is_well));
    if is_well {
        assert_eq!(passed([out.as_slice()].into_iter()), (out.clone(), true));
    }
});
