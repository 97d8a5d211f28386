//! [`Configz`]: reads a kubelet's running configuration from its `/configz` endpoint.
//!
//! The kubelet authenticates the client by a bearer token and requires the permission to get `nodes/configz` (before
//! v1.33 `nodes/proxy`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::Config;
use kube::client::Body;
use pinfold_core::fidelity::Fidelity;
use pinfold_kube::kubelet_config::KubeletSettings;
use serde_json::Value;

use super::MirrorProblem;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two requests: the configuration changes only when the kubelet restarts.
const INTERVAL: Duration = Duration::from_secs(30);
/// Largest response that is read.
const MAX_BYTES: usize = 1 << 20;

/// A kubelet's `/configz` endpoint and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configz {
    /// URL of the kubelet's server, such as `https://127.0.0.1:10250`.
    pub endpoint: String,
    /// The name in its certificate: the node's name.
    pub name: String,
    /// The CA certificate that verifies the endpoint.
    pub ca_file: PathBuf,
    /// File of the bearer token. If it does not exist, the request has no token.
    pub token_file: PathBuf,
}

/// Errors of reading `/configz`. They never contain the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigzError {
    /// The endpoint is not a valid URL.
    #[error("{0:?} is not a valid URL")]
    Address(String),
    /// The CA certificate or the token cannot be used.
    #[error("cannot connect to {endpoint}: {problem}")]
    Setup {
        /// The endpoint.
        endpoint: String,
        /// What is wrong.
        problem: String,
    },
    /// The request failed or timed out.
    #[error("no response from {endpoint}: {problem}")]
    NoResponse {
        /// The endpoint.
        endpoint: String,
        /// The error of the request.
        problem: String,
    },
    /// The kubelet returned an error status.
    #[error("{endpoint} returned status {code}{}", if *.code == 401 || *.code == 403 { ": allow the agent to get nodes/configz" } else { "" })]
    Rejected {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status code.
        code: u16,
    },
    /// The response is not a valid configuration.
    #[error("{endpoint} returned an invalid configuration: {problem}")]
    Invalid {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Configz {
    /// Requests the configuration, and blocks until the response or the timeout.
    ///
    /// # Errors
    /// If the request fails, or the response is not a valid configuration.
    pub fn fetch(&self) -> Result<KubeletSettings, ConfigzError> {
        let setup = |problem: String| ConfigzError::Setup {
            endpoint: self.endpoint.clone(),
            problem,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| setup(error.to_string()))?;
        let bytes = runtime.block_on(async {
            let response = tokio::time::timeout(TIMEOUT, self.request()).await;
            response.unwrap_or_else(|_| {
                Err(ConfigzError::NoResponse {
                    endpoint: self.endpoint.clone(),
                    problem: format!("timeout after {TIMEOUT:?}"),
                })
            })
        });
        runtime.shutdown_background();
        self.read(&bytes?)
    }

    async fn request(&self) -> Result<Vec<u8>, ConfigzError> {
        let endpoint = || self.endpoint.clone();
        let address = self.endpoint.parse();
        let address = address.map_err(|_| ConfigzError::Address(endpoint()))?;
        let mut config = Config::new(address);
        config.connect_timeout = Some(TIMEOUT);
        config.default_retry = false;
        if self.endpoint.starts_with("https://") {
            config.root_cert_file = Some(self.ca_file.clone());
            // The file alone verifies. Without this the client loads the system's CAs, which an image need not have.
            config.root_cert = Some(Vec::new());
            config.tls_server_name = Some(self.name.clone());
        }
        if is_file(&self.token_file) {
            let path = self.token_file.to_string_lossy().into_owned();
            config.auth_info.token_file = Some(path);
        }
        let setup = |problem: String| ConfigzError::Setup {
            endpoint: endpoint(),
            problem,
        };
        let client = kube::Client::try_from(config).map_err(|error| setup(error.to_string()))?;
        let request = Request::get("/configz").body(Body::empty());
        let request = request.map_err(|error| setup(error.to_string()))?;
        let no_response = |problem: String| ConfigzError::NoResponse {
            endpoint: endpoint(),
            problem,
        };
        let response = client.send(request).await;
        let response = response.map_err(|error| no_response(error.to_string()))?;
        let code = response.status().as_u16();
        if code != 200 {
            let endpoint = endpoint();
            return Err(ConfigzError::Rejected { endpoint, code });
        }
        let body = Limited::new(response.into_body(), MAX_BYTES)
            .collect()
            .await;
        let body = body.map_err(|error| no_response(error.to_string()))?;
        Ok(body.to_bytes().to_vec())
    }

    /// Reads the settings of a response: `{"kubeletconfig": {...}}`, without `apiVersion` and `kind`.
    fn read(&self, bytes: &[u8]) -> Result<KubeletSettings, ConfigzError> {
        let invalid = |problem: String| ConfigzError::Invalid {
            endpoint: self.endpoint.clone(),
            problem,
        };
        let answer: Value =
            serde_json::from_slice(bytes).map_err(|_| invalid("expected JSON".to_owned()))?;
        let Some(config) = answer.get("kubeletconfig").and_then(Value::as_object) else {
            return Err(invalid("expected kubeletconfig".to_owned()));
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
            .map_err(|findings| invalid(findings.to_string()))
    }
}

fn is_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file())
}

/// Polls `/configz` at intervals, and keeps the last valid response.
#[derive(Debug)]
pub(super) struct ConfigzPoller {
    endpoint: Configz,
    last_request: Option<Instant>,
    settings: Option<KubeletSettings>,
    error: Option<String>,
}

impl ConfigzPoller {
    pub(super) fn new(endpoint: Configz) -> Self {
        Self {
            endpoint,
            last_request: None,
            settings: None,
            error: None,
        }
    }

    /// The settings of the last valid response.
    pub(super) fn settings(&self) -> Option<&KubeletSettings> {
        self.settings.as_ref()
    }

    /// Sends a request if the interval has passed. Returns whether settings or error changed.
    pub(super) fn poll(&mut self, now: Instant) -> bool {
        let recent = |at: Instant| now.saturating_duration_since(at) < INTERVAL;
        if self.last_request.is_some_and(recent) {
            return false;
        }
        self.last_request = Some(now);
        let (settings, error) = match self.endpoint.fetch() {
            Ok(settings) => (Some(settings), None),
            Err(error) => (self.settings.clone(), Some(error.to_string())),
        };
        let is_new = settings != self.settings || error != self.error;
        (self.settings, self.error) = (settings, error);
        is_new
    }

    /// The problem of the last request; `None` if it succeeded.
    pub(super) fn problem(&self) -> Option<MirrorProblem> {
        let problem = self.error.clone()?;
        let kept = self.settings.is_some();
        Some(MirrorProblem::Configz { problem, kept })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use pinfold_core::policy::TopologyPolicy;
    use pinfold_core::settings::CpuManagerPolicy;

    fn kubelet(endpoint: String, token_file: PathBuf) -> Configz {
        Configz {
            endpoint,
            name: "node".to_owned(),
            ca_file: "/nowhere".into(),
            token_file,
        }
    }

    /// Starts a server that responds to one request. Joining its thread returns the request.
    fn serve_once(status: &str, body: &str) -> (String, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.ends_with(b"\r\n\r\n") {
                let length = stream.read(&mut buffer).expect("a request");
                assert!(length > 0, "the request ended early");
                request.extend_from_slice(&buffer[..length]);
            }
            stream.write_all(answer.as_bytes()).expect("sent");
            String::from_utf8(request).expect("text")
        });
        (endpoint, server)
    }

    #[test]
    fn the_running_configuration_is_requested_with_a_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "secret-word").expect("written");
        let body = r#"{"kubeletconfig": {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "2"},
            "topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}}"#;
        let (endpoint, server) = serve_once("200 OK", body);
        let settings = kubelet(endpoint, token).fetch().expect("a configuration");
        let settings = settings.settings(1 << 30, Fidelity::Exact);
        assert_eq!(settings.cpu_policy, CpuManagerPolicy::Static);
        assert_eq!(settings.topology_policy, TopologyPolicy::Restricted);
        assert_eq!(settings.cpu_options["full-pcpus-only"], "true");
        let request = server.join().expect("a request").to_ascii_lowercase();
        assert!(request.starts_with("get /configz "), "{request}");
        assert!(
            request.contains("authorization: bearer secret-word"),
            "{request}"
        );
    }

    #[test]
    fn errors_name_the_cause_and_never_contain_the_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let token = folder.path().join("token");
        std::fs::write(&token, "secret-word").expect("written");
        for (status, body, expected) in [
            (
                "403 Forbidden",
                "",
                "returned status 403: allow the agent to get nodes/configz",
            ),
            ("200 OK", "<html>", "expected JSON"),
            ("200 OK", "{}", "expected kubeletconfig"),
            (
                "200 OK",
                r#"{"kubeletconfig": {"cpuManagerPolicy": "dynamic"}}"#,
                "cpuManagerPolicy",
            ),
        ] {
            let (endpoint, server) = serve_once(status, body);
            let error = kubelet(endpoint, token.clone())
                .fetch()
                .expect_err("an error");
            let message = error.to_string();
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("secret-word"), "{message}");
            server.join().expect("a request");
        }
    }

    const CA: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBezCCASGgAwIBAgIUJQYCwFhaU2PPyrdDC1WTGvavcTIwCgYIKoZIzj0EAwIw\n\
EjEQMA4GA1UEAwwHdGVzdC1jYTAgFw0yNjExMTgwODE5MTZaGA8yMTI2MTAyNTA4\n\
MTkxNlowEjEQMA4GA1UEAwwHdGVzdC1jYTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABCRqhZsJBowjBHLpAQrABn4WpjuZ4DuqooM5aVSzp+Qx4q8jqlJtg4f+MfaK\n\
Z94/qfDuDLCN4qlTSA2mHTIcWhijUzBRMB0GA1UdDgQWBBSSRd1XuW8RKSCFfH3D\n\
j3tUIg/CtjAfBgNVHSMEGDAWgBSSRd1XuW8RKSCFfH3Dj3tUIg/CtjAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQCay8cyagzB6NlVoBWT/kqWH29l\n\
Qj7JMAiQrZyp7T08NgIgcEOgfRV0OO+ZzRaw1//61w9wUqvSkXWIzBHA1rCTTI4=\n\
-----END CERTIFICATE-----\n";

    #[test]
    fn a_system_without_ca_certificates_is_no_obstacle() {
        let child = "mirror::configz::tests::connects_with_its_own_ca";
        let mut command = std::process::Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", child, "--ignored"]);
        command.env("SSL_CERT_FILE", "/nowhere");
        command.env("SSL_CERT_DIR", "/nowhere");
        let output = command.output().expect("started");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("1 passed"), "{printed}");
    }

    #[test]
    #[ignore = "run by the test above, in an environment of its own"]
    fn connects_with_its_own_ca() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut kubelet = kubelet("https://127.0.0.1:1".to_owned(), "/nowhere".into());
        kubelet.ca_file = folder.path().join("ca.crt");
        std::fs::write(&kubelet.ca_file, CA).expect("written");
        let error = kubelet.fetch().expect_err("no server");
        assert!(
            matches!(error, ConfigzError::NoResponse { .. }),
            "the request was sent: {error}"
        );
    }

    #[test]
    fn while_the_kubelet_does_not_respond_its_last_response_is_used() {
        let (endpoint, server) = serve_once("200 OK", r#"{"kubeletconfig": {}}"#);
        let mut poller = ConfigzPoller::new(kubelet(endpoint, "/nowhere".into()));
        let start = Instant::now();
        assert!(poller.poll(start));
        assert!(poller.settings().is_some() && poller.problem().is_none());
        server.join().expect("a request");
        assert!(!poller.poll(start), "the interval has not passed");
        assert!(poller.poll(start + INTERVAL));
        assert!(poller.settings().is_some());
        assert!(matches!(
            poller.problem(),
            Some(MirrorProblem::Configz { kept: true, .. })
        ));
    }
}
