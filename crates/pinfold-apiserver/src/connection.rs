//! [`Connection`]: the address of the API server and the credentials for it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Timeout for establishing a connection; requests have their own timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The address of the API server and the credentials for it. Connections are opened later, per request.
#[derive(Clone)]
pub struct Connection {
    config: Config,
}

/// Errors of setting up access to the API server. They never contain credentials.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig file is missing or not readable.
    #[error("cannot read the kubeconfig {path}: {error}; name another one or fix its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not a kubeconfig.
    #[error("{path} is not a kubeconfig: expected YAML with clusters, users and contexts")]
    NotKubeconfig {
        /// The file.
        path: PathBuf,
    },
    /// The kubeconfig, or a file that it references, is invalid.
    #[error("the kubeconfig {path} cannot be used: {problem}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The process does not run in a pod with a service account token.
    #[error(
        "no kubeconfig, and not in a pod with a service account token ({problem}); set KUBECONFIG or name a kubeconfig"
    )]
    NotInCluster {
        /// The missing file or variable.
        problem: String,
    },
    /// A certificate, a key or the proxy cannot be used.
    #[error("cannot set up the connection to {url}: {problem}")]
    Setup {
        /// The address of the API server.
        url: String,
        /// The problem.
        problem: String,
    },
    /// The thread or runtime for requests cannot be started.
    #[error("cannot start the thread for API requests: {0}")]
    Thread(std::io::Error),
    /// Not a valid name of a node.
    #[error("{0:?} is not a node name: expected lower case letters, digits, '-' and '.'")]
    NodeName(String),
}

impl Connection {
    /// Searches as kubectl does: `path`, else the files in `KUBECONFIG`, else `~/.kube/config`, with `context` or the
    /// current context; without any of these files, the service account of this pod.
    ///
    /// # Errors
    /// If none of them exists, or the first one that exists cannot be used.
    pub fn find(path: Option<&Path>, context: Option<&str>) -> Result<Self, ConnectionError> {
        if let Some(path) = path {
            return Self::in_context(path, context);
        }
        let shown = Path::new("KUBECONFIG");
        if let Some(file) = Kubeconfig::from_env().map_err(|error| unusable(shown, error))? {
            return Self::of_file(shown, file, context);
        }
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let usual = home.map(|home| home.join(".kube/config"));
        match usual.filter(|path| path.exists()) {
            Some(path) => Self::in_context(&path, context),
            None => Self::in_cluster(),
        }
    }

    /// Uses the current context of a kubeconfig: client certificates, tokens or a credential plugin.
    ///
    /// # Errors
    /// If the file, or one that it references, cannot be read or used.
    pub fn from_kubeconfig(path: &Path) -> Result<Self, ConnectionError> {
        Self::in_context(path, None)
    }

    fn in_context(path: &Path, context: Option<&str>) -> Result<Self, ConnectionError> {
        let file = Kubeconfig::read_from(path).map_err(|error| unusable(path, error))?;
        Self::of_file(path, file, context)
    }

    fn of_file(
        path: &Path,
        file: Kubeconfig,
        context: Option<&str>,
    ) -> Result<Self, ConnectionError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .map_err(ConnectionError::Thread)?;
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = runtime
            .block_on(Config::from_custom_kubeconfig(file, &options))
            .map_err(|error| unusable(path, error))?;
        Ok(Self::new(config))
    }

    /// Uses the service account of this pod. Its token is read again when it is rotated.
    ///
    /// # Errors
    /// If the process does not run in a pod with a service account token.
    pub fn in_cluster() -> Result<Self, ConnectionError> {
        let config = Config::incluster().map_err(|error| ConnectionError::NotInCluster {
            problem: error.to_string(),
        })?;
        Ok(Self::new(config))
    }

    fn new(mut config: Config) -> Self {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A watch may be idle for a minute; ApiClient limits other requests.
        config.read_timeout = None;
        config.write_timeout = Some(CONNECT_TIMEOUT);
        // Callers retry.
        config.default_retry = false;
        Self { config }
    }

    /// The address of the API server.
    #[must_use]
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Builds the client. Must be called within a Tokio runtime.
    pub(crate) fn client(&self) -> Result<kube::Client, ConnectionError> {
        kube::Client::try_from(self.config.clone()).map_err(|error| ConnectionError::Setup {
            url: self.url(),
            problem: crate::api_client::error_chain(&error),
        })
    }
}

/// Converts the error of reading a kubeconfig.
fn unusable(path: &Path, error: KubeconfigError) -> ConnectionError {
    match error {
        KubeconfigError::ReadConfig(error, path) => ConnectionError::Unreadable { path, error },
        // The text of a parse error quotes the file, which contains secrets.
        KubeconfigError::Parse(_) => ConnectionError::NotKubeconfig {
            path: path.to_owned(),
        },
        other => ConnectionError::Unusable {
            path: path.to_owned(),
            problem: other.to_string(),
        },
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Connection");
        shown.field("url", &self.url()).finish_non_exhaustive()
    }
}
