//! [`Access`]: the setting `kubeconfig`.

use std::fmt;
use std::path::PathBuf;

/// The setting `kubeconfig`: how a daemon connects to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// No API server.
    #[default]
    None,
    /// With the service account of the pod that the daemon runs in.
    InCluster,
    /// With a kubeconfig file.
    File(PathBuf),
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::None => f.write_str("none"),
            Access::InCluster => f.write_str("inCluster"),
            Access::File(path) => write!(f, "{}", path.display()),
        }
    }
}
