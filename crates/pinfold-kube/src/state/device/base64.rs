//! Base64 with padding, by the rules of Go's `base64.StdEncoding`: line breaks are skipped, nothing else is.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The bytes of `text`, or where it stops being base64.
pub(super) fn decoded(text: &str) -> Result<Vec<u8>, usize> {
    // Positions are kept for the error.
    let symbols: Vec<(usize, u8)> = text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
        .collect();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for (quartet, last) in quartets(&symbols) {
        let padding = quartet
            .iter()
            .rev()
            .take_while(|(_, byte)| *byte == b'=')
            .count();
        let data = quartet.len().saturating_sub(padding);
        let mut bits = 0_u32;
        for (at, byte) in quartet.iter().take(data) {
            let value = ALPHABET
                .iter()
                .position(|symbol| symbol == byte)
                .ok_or(*at)?;
            bits = bits << 6 | u32::try_from(value).map_err(|_| *at)?;
        }
        let at = quartet.get(data).map_or(text.len(), |(at, _)| *at);
        if data < 2 || data + padding != 4 || (padding > 0 && !last) {
            return Err(at);
        }
        let [_, first, second, third] = (bits << (6 * padding)).to_be_bytes();
        out.extend([first, second, third].iter().take(data - 1));
    }
    Ok(out)
}

/// The symbols by four, and whether these are the last.
fn quartets(symbols: &[(usize, u8)]) -> impl Iterator<Item = (&[(usize, u8)], bool)> {
    let count = symbols.len().div_ceil(4);
    symbols
        .chunks(4)
        .enumerate()
        .map(move |(i, quartet)| (quartet, i + 1 == count))
}

/// `bytes` as text.
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
    fn text_that_is_not_base64_is_refused() {
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
