//! Decodes and encodes JSON strings.

/// Decodes a string literal without its quotes, whose escapes are known to be valid.
pub(super) fn unescaped(raw: &[u8]) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(backslash) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(backslash);
        push_lossy(&mut out, plain);
        let consumed = push_escape(&mut out, escape);
        rest = escape.get(consumed..).unwrap_or_default();
    }
    push_lossy(&mut out, rest);
    out
}

/// Appends the character of the escape at the start of `escape`; returns the escape's length.
fn push_escape(out: &mut String, escape: &[u8]) -> usize {
    let c = match escape.get(1) {
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let unit = unit(escape);
            let low = escape.get(6..).map_or(0, unit_if_escaped);
            let pair = char::decode_utf16([unit, low]).next();
            return match (char::from_u32(u32::from(unit)), pair) {
                (Some(c), _) => {
                    out.push(c);
                    6
                }
                (None, Some(Ok(c))) => {
                    out.push(c);
                    12
                }
                (None, _) => {
                    out.push(char::REPLACEMENT_CHARACTER);
                    6
                }
            };
        }
        Some(&other) => char::from(other),
        None => return escape.len(),
    };
    out.push(c);
    2
}

/// The UTF-16 unit of the escape `\uXXXX` that `bytes` starts with; 0 if it does not.
fn unit_if_escaped(bytes: &[u8]) -> u16 {
    match bytes {
        [b'\\', b'u', ..] => unit(bytes),
        _ => 0,
    }
}

fn unit(escape: &[u8]) -> u16 {
    escape
        .get(2..6)
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u16::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

/// Appends bytes as text; like Go, one U+FFFD for every single byte that is not UTF-8.
fn push_lossy(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Appends `text` as `json.Marshal` writes it: also `<`, `>`, `&` and the line separators are escaped.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\x1f' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
