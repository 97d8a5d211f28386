//! [`Configz`]: the configuration that a kubelet runs with, asked at its own endpoint.
//!
//! The kubelet serves it at `/configz` to whoever may get `nodes/configz` (or `nodes/proxy` before v1.33), by a token.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::Config;
use kube::client::Body;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::kubelet_config::KubeletSettings;
use serde_json::Value;

use super::Remark;

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How often the kubelet is asked: its configuration changes when it restarts.
const EVERY: Duration = Duration::from_secs(30);
/// No configuration is larger.
const LARGEST: usize = 1 << 20;

/// Where a kubelet tells its configuration, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configz {
    /// `https://127.0.0.1:10250`.
    pub endpoint: String,
    /// The name in its certificate: the node's.
    pub name: String,
    /// The certificate that it is known by.
    pub authority: PathBuf,
    /// The file of the token to ask with. Without one nobody is named.
    pub token: PathBuf,
}

/// Why a kubelet did not tell its configuration. Nothing of the token is ever part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigzError {
    /// The endpoint is none.
    #[error("{0:?} is no address")]
    Address(String),
    /// Certificate or token cannot be used.
    #[error("cannot ask {endpoint}: {problem}")]
    Setup {
        /// Whom.
        endpoint: String,
        /// Why not.
        problem: String,
    },
    /// There was no answer.
    #[error("{endpoint} does not answer: {problem}")]
    Silent {
        /// Who.
        endpoint: String,
        /// What came of it.
        problem: String,
    },
    /// It said no.
    #[error("{endpoint} answers {code}{}", if *.code == 401 || *.code == 403 { ": allow the agent to get nodes/configz" } else { "" })]
    Rejected {
        /// Who.
        endpoint: String,
        /// The status.
        code: u16,
    },
    /// The answer is no configuration.
    #[error("{endpoint} tells no configuration: {problem}")]
    Garbage {
        /// Who.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Configz {
    /// Asks. Waits for a bounded time.
    ///
    /// # Errors
    /// If there is no answer, or it is no configuration.
    pub fn ask(&self) -> Result<KubeletSettings, ConfigzError> {
        let setup = |problem: String| ConfigzError::Setup {
            endpoint: self.endpoint.clone(),
            problem,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| setup(error.to_string()))?;
        let bytes = runtime.block_on(async {
            let asked = tokio::time::timeout(ANSWER_TIME, self.fetch()).await;
            asked.unwrap_or_else(|_| {
                Err(ConfigzError::Silent {
                    endpoint: self.endpoint.clone(),
                    problem: format!("nothing within {ANSWER_TIME:?}"),
                })
            })
        });
        runtime.shutdown_background();
        self.read(&bytes?)
    }

    async fn fetch(&self) -> Result<Vec<u8>, ConfigzError> {
        let endpoint = || self.endpoint.clone();
        let address = self.endpoint.parse();
        let address = address.map_err(|_| ConfigzError::Address(endpoint()))?;
        let mut config = Config::new(address);
        config.connect_timeout = Some(ANSWER_TIME);
        config.default_retry = false;
        if self.endpoint.starts_with("https://") {
            config.root_cert_file = Some(self.authority.clone());
            config.tls_server_name = Some(self.name.clone());
        }
        if is_file(&self.token) {
            let path = self.token.to_string_lossy().into_owned();
            config.auth_info.token_file = Some(path);
        }
        let setup = |problem: String| ConfigzError::Setup {
            endpoint: endpoint(),
            problem,
        };
        let client = kube::Client::try_from(config).map_err(|error| setup(error.to_string()))?;
        let request = Request::get("/configz").body(Body::empty());
        let request = request.map_err(|error| setup(error.to_string()))?;
        let silent = |problem: String| ConfigzError::Silent {
            endpoint: endpoint(),
            problem,
        };
        let response = client.send(request).await;
        let response = response.map_err(|error| silent(error.to_string()))?;
        let code = response.status().as_u16();
        if code != 200 {
            let endpoint = endpoint();
            return Err(ConfigzError::Rejected { endpoint, code });
        }
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| silent(error.to_string()))?;
        Ok(body.to_bytes().to_vec())
    }

    /// The settings in an answer: `{"kubeletconfig": {...}}`, without saying what it is.
    fn read(&self, bytes: &[u8]) -> Result<KubeletSettings, ConfigzError> {
        let garbage = |problem: String| ConfigzError::Garbage {
            endpoint: self.endpoint.clone(),
            problem,
        };
        let answer: Value =
            serde_json::from_slice(bytes).map_err(|_| garbage("expected JSON".to_owned()))?;
        let Some(config) = answer.get("kubeletconfig").and_then(Value::as_object) else {
            return Err(garbage("expected kubeletconfig".to_owned()));
        };
        let mut config = config.clone();
        config.insert(
            "apiVersion".to_owned(),
            "kubelet.config.k8s.io/v1beta1".into(),
        );
        config.insert("kind".to_owned(), "KubeletConfiguration".into());
        let text = Value::Object(config).to_string();
        let read = KubeletSettings::read("/configz", text.as_bytes(), Fidelity::Exact);
        read.map(|read| read.value)
            .map_err(|findings| garbage(findings.to_string()))
    }
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}

/// A kubelet that is asked now and then.
#[derive(Debug)]
pub(super) struct Live {
    kubelet: Configz,
    asked: Option<Instant>,
    good: Option<KubeletSettings>,
    problem: Option<String>,
}

impl Live {
    pub(super) fn new(kubelet: Configz) -> Self {
        Self {
            kubelet,
            asked: None,
            good: None,
            problem: None,
        }
    }

    /// What it told last.
    pub(super) fn good(&self) -> Option<&KubeletSettings> {
        self.good.as_ref()
    }

    /// Asks if it is time. Whether anything is new.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        let lately = |at: Instant| now.saturating_duration_since(at) < EVERY;
        if self.asked.is_some_and(lately) {
            return false;
        }
        self.asked = Some(now);
        let (good, problem) = match self.kubelet.ask() {
            Ok(settings) => (Some(settings), None),
            Err(error) => (self.good.clone(), Some(error.to_string())),
        };
        let is_new = good != self.good || problem != self.problem;
        (self.good, self.problem) = (good, problem);
        is_new
    }

    pub(super) fn remark(&self) -> Option<Remark> {
        let problem = self.problem.clone()?;
        let kept = self.good.is_some();
        Some(Remark::Configz { problem, kept })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn kubelet(endpoint: String, token: PathBuf) -> Configz {
        Configz {
            endpoint,
            name: "node".to_owned(),
            authority: "/nowhere".into(),
            token,
        }
    }

    /// Answers one request with this, and gives back what was asked.
    fn answering(status: &str, body: &str) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut asked = Vec::new();
            let mut buffer = [0; 4096];
            while !asked.ends_with(b"\r\n\r\n") {
                let length = stream.read(&mut buffer).expect("a request");
                assert!(length > 0, "the request ended early");
                asked.extend_from_slice(&buffer[..length]);
            }
            stream.write_all(answer.as_bytes()).expect("sent");
            String::from_utf8(asked).expect("text")
        });
        (endpoint, server)
    }

    #[test]
    fn the_configuration_that_the_kubelet_runs_with_is_asked_with_a_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "secret-word").expect("written");
        let body = r#"{"kubeletconfig": {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "2"},
            "topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}}"#;
        let (endpoint, server) = answering("200 OK", body);
        let told = kubelet(endpoint, token).ask().expect("told");
        let settings = told.settings(1 << 30, Fidelity::Exact);
        assert_eq!(settings.cpu_policy, "static");
        assert_eq!(settings.topology_policy, "restricted");
        assert_eq!(settings.cpu_options["full-pcpus-only"], "true");
        let asked = server.join().expect("asked").to_ascii_lowercase();
        assert!(asked.starts_with("get /configz "), "{asked}");
        assert!(
            asked.contains("authorization: bearer secret-word"),
            "{asked}"
        );
    }

    #[test]
    fn a_kubelet_that_says_no_or_nonsense_is_told_without_the_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "secret-word").expect("written");
        for (status, body, expected) in [
            (
                "403 Forbidden",
                "",
                "answers 403: allow the agent to get nodes/configz",
            ),
            ("200 OK", "<html>", "expected JSON"),
            ("200 OK", "{}", "expected kubeletconfig"),
            (
                "200 OK",
                r#"{"kubeletconfig": {"cpuManagerPolicy": "dynamic"}}"#,
                "cpuManagerPolicy",
            ),
        ] {
            let (endpoint, server) = answering(status, body);
            let error = kubelet(endpoint, token.clone()).ask().expect_err("none");
            let words = error.to_string();
            assert!(words.contains(expected), "{words}");
            assert!(!words.contains("secret-word"), "{words}");
            server.join().expect("asked");
        }
    }

    #[test]
    fn a_silent_kubelet_is_a_remark_and_what_it_told_last_counts() {
        let (endpoint, server) = answering("200 OK", r#"{"kubeletconfig": {}}"#);
        let mut live = Live::new(kubelet(endpoint, "/nowhere".into()));
        let start = Instant::now();
        assert!(live.look(start));
        assert!(live.good().is_some() && live.remark().is_none());
        server.join().expect("asked");
        assert!(!live.look(start), "it is not asked all the time");
        assert!(live.look(start + EVERY));
        assert!(live.good().is_some());
        assert!(matches!(
            live.remark(),
            Some(Remark::Configz { kept: true, .. })
        ));
    }
}
