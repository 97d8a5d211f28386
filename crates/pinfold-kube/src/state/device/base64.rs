//! Base64 with padding, by the rules of Go's `base64.StdEncoding`: line breaks are skipped, nothing else is, and unused
//! bits may have any value.

use ::base64::alphabet::STANDARD;
use ::base64::engine::{Engine, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes `text`; the error is the position at which Go stops.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, usize> {
    let symbols: Vec<u8> = symbols(text).map(|(_, byte)| byte).collect();
    LENIENT.decode(symbols).map_err(|_| end_of_valid(text))
}

/// The bytes other than line breaks, with their positions.
fn symbols(text: &str) -> impl Iterator<Item = (usize, u8)> {
    let bytes = text.bytes().enumerate();
    bytes.filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
}

/// The position at which Go stops in a text that is not base64.
fn end_of_valid(text: &str) -> usize {
    let mut symbols = symbols(text);
    let mut count = 0;
    while let Some((at, byte)) = symbols.next() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => count = (count + 1) % 4,
            // After two symbols there is another `=`, and then the end.
            b'=' if count == 2 => match symbols.next() {
                Some((_, b'=')) => return symbols.next().map_or(text.len(), |(at, _)| at),
                Some((next, _)) => return next - 1,
                None => return text.len(),
            },
            b'=' if count == 3 => return symbols.next().map_or(text.len(), |(at, _)| at),
            _ => return at,
        }
    }
    text.len() - count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_bytes_correspond() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (&[0xff, 0xfe, 0xfd], "//79"),
        ] {
            assert_eq!(LENIENT.encode(bytes), text);
            assert_eq!(decoded(text), Ok(bytes.to_vec()));
        }
    }

    #[test]
    fn line_breaks_are_skipped() {
        assert_eq!(decoded("Zm\r\n9v\n"), Ok(b"foo".to_vec()));
    }

    #[test]
    fn text_that_is_not_base64_is_rejected_where_go_stops() {
        for (text, at) in [
            ("Z", 0),
            ("Zg", 0),
            ("Zm9vZg\n", 5),
            ("Zg=", 3),
            ("Zg=x", 2),
            ("Zg==Zg==", 4),
            ("Zm8=\nZ", 5),
            ("Z===", 1),
            ("Zm9v!", 4),
            (" Zm9v", 0),
            ("=Zg=", 0),
        ] {
            assert_eq!(decoded(text), Err(at), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decoded(&LENIENT.encode(&bytes)), Ok(bytes));
        }
    }
}
