//! Numbers and flags as Go's `strconv` reads them, with its error texts: the kubelet shows these to people.

/// Text that Go's `strconv` would not read. The message is Go's.
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

/// Go's `%q`: double quotes, with escapes for what does not print.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            control if control.is_ascii_control() => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
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
