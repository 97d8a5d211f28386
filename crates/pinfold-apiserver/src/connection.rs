//! [`Connection`]: where the API server is and who we are to it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// How long reaching the server may take; requests have a limit of their own.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the API server is, and the credentials to use there. Nothing is opened yet.
#[derive(Clone)]
pub struct Connection {
    config: Config,
}

/// Why there is no way to reach an API server. Nothing of a credential is ever part of it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The file is not there, or may not be read.
    #[error("cannot read the kubeconfig {path}: {error}; name another one or fix its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path} is no kubeconfig: expected YAML with clusters, users and contexts")]
    NotKubeconfig {
        /// The file.
        path: PathBuf,
    },
    /// Something in the file, or in a file that it names, cannot be used.
    #[error("the kubeconfig {path} cannot be used: {problem}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// This is not a pod, or one without a service account.
    #[error(
        "not inside a cluster ({problem}); name a kubeconfig, or let the pod mount its service account token"
    )]
    NotInCluster {
        /// What is missing.
        problem: String,
    },
    /// Certificates, keys or a proxy that cannot be used.
    #[error("cannot set up the connection to {url}: {problem}")]
    Setup {
        /// The server.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// The system has no thread left.
    #[error("cannot start the thread that speaks to the API server: {0}")]
    Thread(std::io::Error),
    /// The name cannot be that of a node.
    #[error("{0:?} is no name of a node: expected lower case letters, digits, '-' and '.'")]
    NodeName(String),
}

impl Connection {
    /// As kubectl finds it: this file or those of `KUBECONFIG`, else `~/.kube/config`, in this context or the current
    /// one; where there is no such file, the service account of this pod.
    ///
    /// # Errors
    /// If nothing of that is there, or cannot be used.
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

    /// As the current context of a kubeconfig says: client certificates, tokens, or a program that makes them.
    ///
    /// # Errors
    /// If the file, or one that it names, cannot be read or used.
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

    /// As the service account of this pod says. Its token is read again when it is renewed.
    ///
    /// # Errors
    /// If this is not a pod with a service account.
    pub fn in_cluster() -> Result<Self, ConnectionError> {
        let config = Config::incluster().map_err(|error| ConnectionError::NotInCluster {
            problem: error.to_string(),
        })?;
        Ok(Self::new(config))
    }

    fn new(mut config: Config) -> Self {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A watch is silent for a minute; requests are limited where they are made.
        config.read_timeout = None;
        config.write_timeout = Some(CONNECT_TIMEOUT);
        // What to do about a failure is decided by who asked.
        config.default_retry = false;
        Self { config }
    }

    /// The address of the server.
    #[must_use]
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// The client. Must be called where a runtime runs.
    pub(crate) fn client(&self) -> Result<kube::Client, ConnectionError> {
        kube::Client::try_from(self.config.clone()).map_err(|error| ConnectionError::Setup {
            url: self.url(),
            problem: crate::api::told(&error),
        })
    }
}

/// What is wrong with a kubeconfig.
fn unusable(path: &Path, error: KubeconfigError) -> ConnectionError {
    match error {
        KubeconfigError::ReadConfig(error, path) => ConnectionError::Unreadable { path, error },
        // Its text quotes the file, and the file holds secrets.
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
