//! Every expectation was printed by Go's `json.Unmarshal`.

use super::*;
use proptest::prelude::*;

#[test]
fn syntax_errors_have_go_s_messages() {
    for (text, expected) in [
        ("", "unexpected end of JSON input"),
        ("  ", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{\"a\"", "unexpected end of JSON input"),
        ("{\"a\":", "unexpected end of JSON input"),
        ("{\"a\":1", "unexpected end of JSON input"),
        ("[1,", "unexpected end of JSON input"),
        ("\"abc", "unexpected end of JSON input"),
        (
            "tru",
            "invalid character ' ' in literal true (expecting 'e')",
        ),
        (
            "nulL",
            "invalid character 'L' in literal null (expecting 'l')",
        ),
        ("-", "invalid character ' ' in numeric literal"),
        (
            "1.",
            "invalid character ' ' after decimal point in numeric literal",
        ),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("01", "invalid character '1' after top-level value"),
        ("{\"a\" 1}", "invalid character '1' after object key"),
        (
            "{a:1}",
            "invalid character 'a' looking for beginning of object key string",
        ),
        (
            "{\"a\":1,}",
            "invalid character '}' looking for beginning of object key string",
        ),
        (
            "[1,]",
            "invalid character ']' looking for beginning of value",
        ),
        ("[1 2]", "invalid character '2' after array element"),
        (
            "{\"a\":1]",
            "invalid character ']' after object key:value pair",
        ),
        ("{} x", "invalid character 'x' after top-level value"),
        (
            "'a'",
            "invalid character '\\'' looking for beginning of value",
        ),
        ("\"\\x\"", "invalid character 'x' in string escape code"),
        (
            "\"\\u12g\"",
            "invalid character 'g' in \\u hexadecimal character escape",
        ),
        ("\"\\", "invalid character ' ' in string escape code"),
        ("\"a\nb\"", "invalid character '\\n' in string literal"),
        (
            "\u{feff}{}",
            "invalid character 'ï' looking for beginning of value",
        ),
    ] {
        assert_eq!(parse(text.as_bytes()), Err(expected.to_owned()), "{text:?}");
    }
}

#[test]
fn nesting_is_limited_and_needs_no_stack() {
    let deep = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert!(parse(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(
        parse(&deep(MAX_DEPTH + 1)),
        Err("invalid character '[' exceeded max depth".to_owned())
    );
}

#[test]
fn strings_are_unescaped_as_go_does() {
    for (text, expected) in [
        (&br#""a\u00e9\n\/""#[..], "aé\n/"),
        (br#""\ud83d\ude00""#, "😀"),
        (br#""\ud83dx""#, "\u{fffd}x"),
        (br#""\ud83d\ud83d""#, "\u{fffd}\u{fffd}"),
        (br#""\ude00""#, "\u{fffd}"),
        (b"\"\xff\xe2\x28\"", "\u{fffd}\u{fffd}("),
        (b"\"\xe2\x82\"", "\u{fffd}\u{fffd}"),
    ] {
        assert_eq!(parse(text), Ok(Json::Text(expected.to_owned())));
    }
}

#[test]
fn strings_are_written_as_go_writes_them() {
    let mut out = String::new();
    push_string(&mut out, "a<b>&\"\\\n\u{1}\u{2028}é\x7f");
    assert_eq!(
        out,
        "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u0001\\u2028é\x7f\""
    );
}

#[test]
fn members_keep_their_order_and_duplicates() {
    let member = |key: &str, number: &str| (key.to_owned(), Json::Number(number.to_owned()));
    assert_eq!(
        parse(br#" {"b":1,"a":2e3,"b":-0} "#),
        Ok(Json::Object(vec![
            member("b", "1"),
            member("a", "2e3"),
            member("b", "-0")
        ]))
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected_as_serde_json_does(bytes in prop::collection::vec(json_byte(), 0..40)) {
        // serde_json rejects invalid UTF-8, lone surrogates and huge numbers; Go does not.
        let ours = parse(&bytes);
        if serde_json::from_slice::<serde_json::Value>(&bytes).is_ok() {
            prop_assert!(ours.is_ok());
        }
        if ours.is_ok() && std::str::from_utf8(&bytes).is_ok() {
            let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes);
            prop_assert!(theirs.is_ok(), "{:?}", theirs);
        }
    }
}

fn json_byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        8 => prop::sample::select(&b"{}[]\",:0123456789.eE+-tfnrualsd \\/"[..]),
        1 => any::<u8>(),
    ]
}
