//! Parses and writes JSON by the rules, and with the error messages, of Go's `encoding/json`.
//!
//! It differs from other parsers: duplicate keys are kept in order (the last one wins when decoding), bytes that are
//! not UTF-8 and lone surrogates become U+FFFD, numbers stay text until they are decoded into a type, and the end of
//! the input inside a word or number counts as a blank.

use super::quote::quoted_byte;

mod text;

pub(crate) use text::push_string;

/// Deeper nesting is a syntax error, as in Go.
const MAX_DEPTH: usize = 10_000;

/// Values nested deeper than this are checked and dropped: no state file has a type that deep, and dropping a tree must
/// not need a deep stack.
const KEPT_DEPTH: usize = 32;

/// A parsed JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The number's text.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    /// Members in order, duplicates among them.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The name of the value's type in Go's error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }
}

/// Go's message about invalid JSON.
pub(crate) type SyntaxError = String;

/// Parses one JSON value that is the whole input, apart from blanks around it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Json, SyntaxError> {
    match parse_with_starts(bytes) {
        Ok((json, _)) => Ok(json),
        Err((error, _)) => Err(error),
    }
}

/// As [`parse`], with the offset of each value, a container before its members, or the offset at which parsing failed.
pub(crate) fn parse_with_starts(bytes: &[u8]) -> Result<(Json, Vec<usize>), (SyntaxError, usize)> {
    let mut reader = JsonReader {
        bytes,
        at: 0,
        open: Vec::new(),
        starts: Vec::new(),
    };
    let top = reader.value_tree().and_then(|top| {
        reader.skip_blanks();
        match reader.peek() {
            None => Ok(top),
            Some(_) => Err(reader.unexpected("after top-level value")),
        }
    });
    match top {
        Ok(top) => Ok((top, reader.starts)),
        Err(error) => Err((error, reader.at)),
    }
}

struct JsonReader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Open containers, outermost first. Not recursive, as the input determines the depth.
    open: Vec<Open>,
    /// The offset of each value that is kept.
    starts: Vec<usize>,
}

/// A container whose end has not been parsed.
struct Open {
    is_object: bool,
    /// Its values; keys are empty in an array.
    members: Vec<(String, Json)>,
    /// The key of the next value.
    key: String,
}

impl JsonReader<'_> {
    fn value_tree(&mut self) -> Result<Json, SyntaxError> {
        loop {
            let Some(mut done) = self.begin_value()? else {
                continue;
            };
            // A complete value may complete the containers around it.
            loop {
                let depth = self.open.len();
                let Some(open) = self.open.last_mut() else {
                    return Ok(done);
                };
                if depth <= KEPT_DEPTH {
                    open.members.push((std::mem::take(&mut open.key), done));
                }
                let is_object = open.is_object;
                match self.after_member(is_object)? {
                    None => break,
                    Some(container) => done = container,
                }
            }
        }
    }

    /// Parses a scalar or an empty container, or opens a container and returns `None`.
    fn begin_value(&mut self) -> Result<Option<Json>, SyntaxError> {
        self.skip_blanks();
        if self.open.len() <= KEPT_DEPTH {
            self.starts.push(self.at);
        }
        match self.peek() {
            Some(b'{') => {
                self.push(true)?;
                self.skip_blanks();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                    return Ok(self.close());
                }
                self.key()?;
                Ok(None)
            }
            Some(b'[') => {
                self.push(false)?;
                self.skip_blanks();
                if self.peek() == Some(b']') {
                    self.at += 1;
                    return Ok(self.close());
                }
                Ok(None)
            }
            Some(b'"') => Ok(Some(Json::Text(self.string()?))),
            Some(b'-' | b'0'..=b'9') => Ok(Some(Json::Number(self.number()?))),
            Some(b't') => self.word("true", Json::Bool(true)).map(Some),
            Some(b'f') => self.word("false", Json::Bool(false)).map(Some),
            Some(b'n') => self.word("null", Json::Null).map(Some),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// Parses what follows a member: a comma (and the next key), or the end of the container, which is returned.
    fn after_member(&mut self, is_object: bool) -> Result<Option<Json>, SyntaxError> {
        self.skip_blanks();
        match (self.peek(), is_object) {
            (Some(b','), true) => {
                self.at += 1;
                self.skip_blanks();
                self.key()?;
                Ok(None)
            }
            (Some(b','), false) => {
                self.at += 1;
                Ok(None)
            }
            (Some(b'}'), true) | (Some(b']'), false) => {
                self.at += 1;
                Ok(self.close())
            }
            (_, true) => Err(self.unexpected("after object key:value pair")),
            (_, false) => Err(self.unexpected("after array element")),
        }
    }

    fn push(&mut self, is_object: bool) -> Result<(), SyntaxError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.unexpected("exceeded max depth"));
        }
        self.at += 1;
        self.open.push(Open {
            is_object,
            members: Vec::new(),
            key: String::new(),
        });
        Ok(())
    }

    fn close(&mut self) -> Option<Json> {
        let Open {
            is_object, members, ..
        } = self.open.pop()?;
        Some(match is_object {
            true => Json::Object(members),
            false => Json::Array(members.into_iter().map(|(_, value)| value).collect()),
        })
    }

    /// Parses a key and its colon.
    fn key(&mut self) -> Result<(), SyntaxError> {
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        let key = self.string()?;
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        if let Some(open) = self.open.last_mut() {
            open.key = key;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let raw = self.bytes.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(text::unescaped(raw));
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|byte| byte.is_ascii_hexdigit()) {
                        return Err(self.inside("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.inside("in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.inside("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit_at_least("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digit_at_least("in exponent of numeric literal")?;
        }
        let raw = self.bytes.get(start..self.at).unwrap_or_default();
        Ok(String::from_utf8_lossy(raw).into_owned())
    }

    fn digit_at_least(&mut self, context: &str) -> Result<(), SyntaxError> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.inside(context));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &'static str, value: Json) -> Result<Json, SyntaxError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let expected = quoted_byte(expected);
                return Err(self.inside(&format!("in literal {word} (expecting {expected})")));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The error at this byte, where a blank would be skipped.
    fn unexpected(&self, context: &str) -> SyntaxError {
        match self.peek() {
            None => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character {} {context}", quoted_byte(byte)),
        }
    }

    /// The error at this byte, inside a word, number or escape: the end of the input counts as a blank.
    fn inside(&self, context: &str) -> SyntaxError {
        let byte = self.peek().unwrap_or(b' ');
        format!("invalid character {} {context}", quoted_byte(byte))
    }
}

#[cfg(test)]
mod tests;
