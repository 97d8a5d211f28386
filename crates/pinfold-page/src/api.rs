//! [`PageApi`]: what a program answers to the page.

use serde::Serialize;

/// A request below `/api/`.
#[derive(Clone, Copy, Debug)]
pub struct ApiRequest<'a> {
    /// The path after `/api/`.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// The body; empty for GET.
    pub body: &'a [u8],
}

/// An answer in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// The JSON.
    pub body: Vec<u8>,
}

/// A program that answers the page. Answers change nothing.
pub trait PageApi: Send + Sync {
    /// Answers one request.
    fn answer(&self, request: &ApiRequest<'_>) -> ApiResponse;

    /// A number that differs when answers may have changed; `None` if they never change by themselves. Called at most
    /// four times a second per open page.
    fn generation(&self) -> Option<u64> {
        None
    }
}

impl ApiRequest<'_> {
    /// The decoded value of a parameter of the query.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(own, _)| *own == name)?;
        decode(value)
    }
}

impl ApiResponse {
    /// An answer.
    pub fn json<T: Serialize>(value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self { status: 200, body },
            Err(error) => Self::error(500, &format!("cannot write the answer as JSON: {error}")),
        }
    }

    /// An error for the reader of the page.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let body = serde_json::json!({ "error": message });
        Self {
            status,
            body: body.to_string().into_bytes(),
        }
    }

    /// There is nothing of this name.
    #[must_use]
    pub fn not_found() -> Self {
        Self::error(404, "there is no such page or question here")
    }
}

/// Decodes `%41` and `+`; `None` if the result is not UTF-8 or an escape is incomplete.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_malformed_ones_are_absent() {
        let request = |query| ApiRequest {
            path: "node",
            query,
            body: b"",
        };
        for (query, expected) in [
            ("name=a", Some("a")),
            ("x=1&name=a%2Fb+c", Some("a/b c")),
            ("name=", Some("")),
            ("name=%4", None),
            ("name=%zz", None),
            ("name=%ff", None),
            ("names=a", None),
            ("", None),
        ] {
            let found = request(query).parameter("name");
            assert_eq!(found.as_deref(), expected, "{query}");
        }
    }
}
