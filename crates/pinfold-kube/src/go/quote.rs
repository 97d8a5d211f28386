//! Quotes text as Go does.

pub(crate) use pinfold_core::go_text::quoted;

/// One byte as `encoding/json` prints it in a syntax error: as the character with that code point.
pub(crate) fn quoted_byte(byte: u8) -> String {
    pinfold_core::go_text::quoted_char(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_prints_it() {
        for (text, expected) in [
            ("static", r#""static""#),
            ("", r#""""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("tab\there\n", r#""tab\there\n""#),
            ("\0\x7f", r#""\x00\x7f""#),
            ("é\u{a0}\u{feff}", "\"é\\u00a0\\ufeff\""),
            ("it's", "\"it's\""),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn a_byte_is_quoted_as_the_character_of_its_number() {
        for (byte, expected) in [
            (b'x', "'x'"),
            (b'\'', "'\\''"),
            (b'"', "'\"'"),
            (b'\n', "'\\n'"),
            (0, "'\\x00'"),
            (0xe9, "'é'"),
            (0x80, "'\\u0080'"),
        ] {
            assert_eq!(quoted_byte(byte), expected);
        }
    }
}
