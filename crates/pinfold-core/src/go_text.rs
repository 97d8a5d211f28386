//! Numbers and booleans as Go's `strconv` parses them, with its error messages, which the kubelet shows.

/// Text that Go's `strconv` does not parse. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {text}: {problem}", text = quoted(text))]
pub struct GoTextError {
    function: &'static str,
    text: String,
    problem: &'static str,
}

/// `strconv.Atoi`: an optional sign, then decimal digits only.
pub(crate) fn integer(text: &str) -> Result<i64, GoTextError> {
    let error = |problem| GoTextError {
        function: "Atoi",
        text: text.to_owned(),
        problem,
    };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(error("invalid syntax"));
    }
    text.parse().map_err(|_| error("value out of range"))
}

/// `strconv.ParseBool`.
pub(crate) fn boolean(text: &str) -> Result<bool, GoTextError> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(GoTextError {
            function: "ParseBool",
            text: text.to_owned(),
            problem: "invalid syntax",
        }),
    }
}

/// `text` as Go's `%q` prints it.
#[must_use]
pub fn quoted(text: &str) -> String {
    between('"', text.chars())
}

/// One character as Go's `%q` prints it.
#[must_use]
pub fn quoted_char(character: char) -> String {
    between('\'', std::iter::once(character))
}

fn between(quote: char, characters: impl Iterator<Item = char>) -> String {
    let mut quoted = String::from(quote);
    for character in characters {
        let code = u32::from(character);
        match character {
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character == quote => quoted.extend(['\\', quote]),
            _ if character.is_ascii_control() => quoted.push_str(&format!("\\x{code:02x}")),
            _ if is_printable(character) => quoted.push(character),
            '\0'..='\u{ffff}' => quoted.push_str(&format!("\\u{code:04x}")),
            _ => quoted.push_str(&format!("\\U{code:08x}")),
        }
    }
    quoted.push(quote);
    quoted
}

/// Whether a character is printable according to Unicode, which Go uses too.
fn is_printable(character: char) -> bool {
    matches!(character, '\'' | '"') || character.escape_debug().len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_digits_only() {
        assert_eq!(integer("+7"), Ok(7));
        assert_eq!(integer("-0"), Ok(0));
        let error = |text| integer(text).unwrap_err().to_string();
        assert_eq!(error(""), r#"strconv.Atoi: parsing "": invalid syntax"#);
        assert_eq!(
            error("\t1"),
            r#"strconv.Atoi: parsing "\t1": invalid syntax"#
        );
        assert_eq!(
            error("9223372036854775808"),
            r#"strconv.Atoi: parsing "9223372036854775808": value out of range"#
        );
    }

    #[test]
    fn quoting_is_that_of_go() {
        for (text, expected) in [
            ("", r#""""#),
            ("it's \"so\"\\", r#""it's \"so\"\\""#),
            ("\t1\n", r#""\t1\n""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("٣", r#""٣""#),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quoted(text), expected);
        }
        assert_eq!(quoted_char('\''), r"'\''");
        assert_eq!(quoted_char('"'), "'\"'");
    }

    #[test]
    fn flags_have_twelve_spellings() {
        for (text, value) in [
            ("1", true),
            ("T", true),
            ("True", true),
            ("0", false),
            ("FALSE", false),
        ] {
            assert_eq!(boolean(text), Ok(value));
        }
        let error = boolean("yes").unwrap_err().to_string();
        assert_eq!(error, r#"strconv.ParseBool: parsing "yes": invalid syntax"#);
    }
}
