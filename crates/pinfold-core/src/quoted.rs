//! [`Quoted`]: text in double quotes as Go's `%q` writes it, for messages that must be the original's.

use std::fmt::{self, Write};

/// Prints the text quoted, with Go's escapes for what cannot be printed.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            let code = u32::from(letter);
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{b}' => f.write_str("\\v")?,
                _ if letter.is_ascii_control() => write!(f, "\\x{code:02x}")?,
                _ if is_printable(letter) => f.write_char(letter)?,
                '\0'..='\u{ffff}' => write!(f, "\\u{code:04x}")?,
                _ => write!(f, "\\U{code:08x}")?,
            }
        }
        f.write_char('"')
    }
}

/// Rust's own idea of a printable character, which is Unicode's, as is Go's.
fn is_printable(letter: char) -> bool {
    letter == '\'' || letter.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_that_of_go() {
        for (text, quoted) in [
            ("", r#""""#),
            ("yes", r#""yes""#),
            ("it's \"so\"\\", r#""it's \"so\"\\""#),
            ("\t1\n", r#""\t1\n""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("٣", r#""٣""#),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }
}
