//! [`Access`]: how the API server is reached.

use std::fmt;
use std::path::PathBuf;

/// How the API server is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not at all: the node is by itself.
    #[default]
    None,
    /// As a pod's service account.
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
