//! [`Admin`]: a client of the API server that sends one request at a time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long an answer may take: many deletions are one request.
const LIMIT: Duration = super::PATIENCE;

/// A user of the API server.
pub(crate) struct Admin {
    runtime: Runtime,
    client: kube::Client,
}

impl Admin {
    /// The user of the kubeconfig.
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let file = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
        let client = runtime.block_on(async {
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options).await;
            let mut config = config.map_err(|error| error.to_string())?;
            config.default_retry = false;
            kube::Client::try_from(config).map_err(|error| error.to_string())
        })?;
        Ok(Self { runtime, client })
    }

    /// One request; the number of the answer and its body, if it is JSON.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Value), String> {
        let (code, bytes) = self.send(method, path, body)?;
        Ok((code, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// A page of text.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        match self.send("GET", path, None)? {
            (200, bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            (code, _) => Err(format!("GET {path}: {code}")),
        }
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Vec<u8>), String> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Body::from(
                body.map(Value::to_string).unwrap_or_default().into_bytes(),
            ))
            .map_err(|error| error.to_string())?;
        let asked = async {
            let response = self
                .client
                .send(request)
                .await
                .map_err(|error| error.to_string())?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await;
            let bytes = bytes.map_err(|error| error.to_string())?;
            Ok((code, bytes.to_vec()))
        };
        let limited = async { timeout(LIMIT, asked).await };
        self.runtime
            .block_on(limited)
            .map_err(|_| format!("{method} {path}: no answer"))?
    }

    /// A request that must succeed.
    pub(crate) fn expect(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        match self.ask(method, path, body)? {
            (200..=299, answer) => Ok(answer),
            (code, answer) => Err(format!("{method} {path}: {code} {}", answer["message"])),
        }
    }

    /// Creates every object of a file that is not there yet.
    pub(crate) fn create(&self, file: &Path) -> Result<(), String> {
        let shown = file.display();
        let text = fs::read_to_string(file).map_err(|error| format!("{shown}: {error}"))?;
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| format!("{shown}: {error}"))?;
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let path = match kind {
                "Namespace" => "/api/v1/namespaces".to_owned(),
                "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
                "Role" | "RoleBinding" => {
                    let plural = format!("{}s", kind.to_lowercase());
                    format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{plural}")
                }
                "ClusterRole" => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
                "ClusterRoleBinding" => {
                    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned()
                }
                "CustomResourceDefinition" => {
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()
                }
                other => return Err(format!("{shown}: no path is known for {other:?}")),
            };
            match self.ask("POST", &path, Some(&object))? {
                // Several files make the namespace.
                (200..=299 | 409, _) => {}
                (code, answer) => {
                    return Err(format!("POST {path}: {code} {}", answer["message"]));
                }
            }
        }
        Ok(())
    }

    /// A token of a service account in `pinfold-system`.
    pub(crate) fn token(&self, account: &str) -> Result<String, String> {
        let path = format!("/api/v1/namespaces/pinfold-system/serviceaccounts/{account}/token");
        let wish = serde_json::json!({ "spec": { "expirationSeconds": 7200 } });
        let answer = self.expect("POST", &path, Some(&wish))?;
        let token = answer["status"]["token"].as_str();
        token
            .map(str::to_owned)
            .ok_or_else(|| format!("{path}: no token"))
    }
}
