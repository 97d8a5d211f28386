//! Go's ways to put text in quotes.

/// `text` as Go's `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c, '"');
    }
    out.push('"');
    out
}

/// One byte as `encoding/json` names it in a syntax error: as the character of that number.
pub(crate) fn quoted_byte(byte: u8) -> String {
    let mut out = String::from("'");
    push_escaped(&mut out, char::from(byte), '\'');
    out.push('\'');
    out
}

fn push_escaped(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        _ if c == quote => {
            out.push('\\');
            out.push(c);
        }
        _ if c < ' ' || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        _ if is_printable(c) => out.push(c),
        _ if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// Near enough to Go's `strconv.IsPrint`: everything but controls, separators and marks that show nothing.
fn is_printable(c: char) -> bool {
    !(c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'))
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
