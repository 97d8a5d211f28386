//! Who may ask: the token of the printed address, its cookie, and the headers that show from where a request comes.
//!
//! | attack | what stops it |
//! |---|---|
//! | another user of this computer opens the port | the token, which only the terminal shows |
//! | a site whose name suddenly resolves to 127.0.0.1 (DNS rebinding) | `Host` must be an IP address or `localhost` |
//! | a page of another site sends requests | `Origin` and `Sec-Fetch-Site` must be our own; the cookie is `SameSite=Strict` |
//!
//! The page itself has no secrets and needs no token, so that a link to it works from anywhere; every answer below
//! `/api/` needs the cookie.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

use crate::request::HttpRequest;

/// A secret for the address that a program prints.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A random token of 128 bits.
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(
            bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    }

    /// The token as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a text is the token; the time does not depend on how much of it is right.
    fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        let differing = own.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == other.len() && differing == 0
    }
}

/// The rules by which requests are let in.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    token: Token,
    /// The name of the cookie: cookies of one host are shared by all its ports.
    cookie: String,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// `Host` is a name that may belong to anybody.
    Host,
    /// The request comes from another site.
    CrossSite,
    /// There is no valid cookie.
    NoToken,
}

impl Denied {
    /// The message for the reader.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => {
                "expected an IP address or localhost as host: open the address that the program printed"
            }
            Self::CrossSite => "expected a request of this page, found one of another site",
            Self::NoToken => {
                "this browser has not opened the address with the token that the program printed: open it once"
            }
        }
    }
}

impl Access {
    pub(crate) fn new(token: Token, port: u16) -> Self {
        let cookie = format!("pinfold-{port}");
        Self { token, cookie }
    }

    /// Checks where a request comes from. Every request must pass.
    pub(crate) fn check_source(&self, request: &HttpRequest) -> Result<(), Denied> {
        let host = request.host.as_deref().unwrap_or_default();
        if !is_unambiguous(host) {
            return Err(Denied::Host);
        }
        let is_own = |origin: &String| origin.strip_prefix("http://") == Some(host);
        if !request.origin.iter().all(is_own) {
            return Err(Denied::CrossSite);
        }
        Ok(())
    }

    /// Checks whether a request below `/api/` comes from our page in a browser that knows the token.
    pub(crate) fn check_question(&self, request: &HttpRequest) -> Result<(), Denied> {
        let site = request.fetch_site.as_deref();
        if !matches!(site, None | Some("same-origin" | "none")) {
            return Err(Denied::CrossSite);
        }
        let cookies = request.cookie.as_deref().unwrap_or_default().split(';');
        let mut cookies = cookies.filter_map(|cookie| cookie.trim().split_once('='));
        match cookies.any(|(name, value)| name == self.cookie && self.token.is(value)) {
            true => Ok(()),
            false => Err(Denied::NoToken),
        }
    }

    /// The value of `Set-Cookie` for a request with the right token in its query.
    pub(crate) fn cookie_for(&self, query: &str) -> Option<String> {
        let token = query
            .split('&')
            .find_map(|pair| pair.strip_prefix("token="))?;
        self.token.is(token).then(|| {
            format!(
                "{}={}; Path=/; HttpOnly; SameSite=Strict",
                self.cookie,
                self.token.as_str()
            )
        })
    }
}

/// Whether no DNS server can say where the host is: an IP address or `localhost`, with or without a port.
fn is_unambiguous(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (
                name,
                port.strip_prefix(':').or(port.is_empty().then_some("0")),
            ),
            None => return false,
        },
        None => match host.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (host, Some("0")),
        },
    };
    let has_port = port.is_some_and(|port| port.parse::<u16>().is_ok());
    has_port && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new(Token("0123456789abcdef".to_owned()), 8095)
    }

    fn request(headers: &[(&str, &str)]) -> HttpRequest {
        let mut request = HttpRequest::default();
        for (name, value) in headers {
            request.set_header(name, value.as_bytes());
        }
        request
    }

    #[test]
    fn a_host_that_dns_could_point_here_is_denied() {
        for (host, allowed) in [
            ("127.0.0.1:8095", true),
            ("localhost:8095", true),
            ("LOCALHOST", true),
            ("[::1]:8095", true),
            ("[::1]", true),
            ("192.0.2.7:1", true),
            ("pinfold.example:8095", false),
            ("localhost.example:8095", false),
            ("127.0.0.1.example", false),
            ("127.0.0.1:99999", false),
            ("[::1", false),
            ("", false),
        ] {
            let found = access().check_source(&request(&[("Host", host)]));
            assert_eq!(found.is_ok(), allowed, "{host}: {found:?}");
        }
        assert_eq!(access().check_source(&request(&[])), Err(Denied::Host));
    }

    #[test]
    fn a_request_of_another_origin_is_denied() {
        for (origin, allowed) in [
            ("http://127.0.0.1:8095", true),
            ("http://127.0.0.1:8096", false),
            ("https://127.0.0.1:8095", false),
            ("http://pinfold.example", false),
            ("null", false),
        ] {
            let found = request(&[("Host", "127.0.0.1:8095"), ("Origin", origin)]);
            let found = access().check_source(&found);
            assert_eq!(found.is_ok(), allowed, "{origin}");
        }
    }

    #[test]
    fn questions_need_the_cookie_and_our_own_page() {
        let right = "a=b; pinfold-8095=0123456789abcdef";
        for (headers, expected) in [
            (&[("Cookie", right)][..], Ok(())),
            (
                &[("Cookie", right), ("Sec-Fetch-Site", "same-origin")],
                Ok(()),
            ),
            (
                &[("Cookie", right), ("Sec-Fetch-Site", "cross-site")],
                Err(Denied::CrossSite),
            ),
            (
                &[("Cookie", right), ("Sec-Fetch-Site", "same-site")],
                Err(Denied::CrossSite),
            ),
            (
                &[("Cookie", "pinfold-8095=0123456789abcdee")],
                Err(Denied::NoToken),
            ),
            (&[("Cookie", "pinfold-8095=")], Err(Denied::NoToken)),
            (
                &[("Cookie", "pinfold-1=0123456789abcdef")],
                Err(Denied::NoToken),
            ),
            (&[], Err(Denied::NoToken)),
        ] {
            assert_eq!(
                access().check_question(&request(headers)),
                expected,
                "{headers:?}"
            );
        }
    }

    #[test]
    fn only_the_right_token_becomes_a_cookie() {
        let cookie = access().cookie_for("token=0123456789abcdef");
        let cookie = cookie.expect("the right token");
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(access().cookie_for("token=0123456789abcde"), None);
        assert_eq!(access().cookie_for("tokens=0123456789abcdef"), None);
    }

    #[test]
    fn tokens_differ() {
        let tokens = [Token::random(), Token::random()];
        let [one, other] = tokens.map(|token| token.expect("random numbers").0);
        assert_ne!(one, other);
        assert_eq!(one.len(), 32);
    }
}
