//! Names: of pods, containers, resources and cluster nodes. Cheap to clone, impossible to mix up.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $type {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $type {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name! {
    /// The unique id of a pod: the key under which a ledger knows it.
    PodUid
}
name! {
    /// The name of a container, unique inside its pod.
    ContainerName
}
name! {
    /// The id that a runtime gave to a running container, unique on its node.
    ContainerId
}
name! {
    /// The name of a resource as Kubernetes writes it: `cpu`, `memory`, `hugepages-2Mi`, `vendor.com/device`.
    ResourceName
}
name! {
    /// The id of a device as its plugin reports it, unique inside its resource.
    DeviceId
}
name! {
    /// The name of a Kubernetes node, unique in its cluster. Not to be mixed up with a NUMA node's id.
    NodeName
}
