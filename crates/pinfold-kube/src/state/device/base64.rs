//! Base64 with padding, by the rules of Go's `base64.StdEncoding`: line breaks are skipped, nothing else is.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Decodes `text`; the error is the position at which Go stops.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, usize> {
    let mut symbols = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
        .peekable();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    while symbols.peek().is_some() {
        let mut bits = 0_u32;
        let mut count = 0;
        while count < 4 {
            let (at, byte) = symbols.next().ok_or(text.len() - count)?;
            match ALPHABET
                .iter()
                .zip(0..)
                .find(|(symbol, _)| **symbol == byte)
            {
                Some((_, value)) => bits = bits << 6 | value,
                None if byte == b'=' => {
                    padding(at, count, text.len(), &mut symbols)?;
                    break;
                }
                None => return Err(at),
            }
            count += 1;
        }
        let [_, first, second, third] = (bits << (6 * (4 - count))).to_be_bytes();
        out.extend([first, second, third].iter().take(count.saturating_sub(1)));
    }
    Ok(out)
}

/// Checks the padding from the first `=`, at `at` after `count` symbols of the last four: another `=` if needed, then
/// the end.
fn padding(
    at: usize,
    count: usize,
    end: usize,
    symbols: &mut impl Iterator<Item = (usize, u8)>,
) -> Result<(), usize> {
    if count < 2 {
        return Err(at);
    }
    if count == 2 {
        match symbols.next() {
            Some((_, b'=')) => {}
            Some((next, _)) => return Err(next - 1),
            None => return Err(end),
        }
    }
    symbols.next().map_or(Ok(()), |(at, _)| Err(at))
}

/// Encodes `bytes`.
pub(super) fn encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut triple = [0; 4];
        for (to, from) in triple.iter_mut().skip(1).zip(chunk) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(triple);
        for i in 0..4_usize {
            let symbol = (bits >> (18 - 6 * i)) & 63;
            let used = i <= chunk.len();
            out.push(match ALPHABET.get(symbol as usize) {
                Some(&symbol) if used => char::from(symbol),
                _ => '=',
            });
        }
    }
    out
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
            assert_eq!(encoded(bytes), text);
            assert_eq!(decoded(text), Ok(bytes.to_vec()));
        }
    }

    #[test]
    fn line_breaks_are_skipped() {
        assert_eq!(decoded("Zm\r\n9v\n"), Ok(b"foo".to_vec()));
    }

    #[test]
    fn text_that_is_not_base64_is_rejected() {
        for text in [
            "Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "Zm9v!", " Zm9v", "=Zg=",
        ] {
            assert!(decoded(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            prop_assert_eq!(decoded(&encoded(&bytes)), Ok(bytes));
        }
    }
}
