//! Name types: of pods, containers, resources, devices and cluster nodes. Cheap to clone, distinct for the compiler.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::steps;

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl Clone for $type {
            fn clone(&self) -> Self {
                steps::add(1);
                Self(Arc::clone(&self.0))
            }
        }

        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                steps::add(1);
                self.0 == other.0
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                steps::add(1);
                self.0.cmp(&other.0)
            }
        }

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

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
                steps::add(1);
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
    /// The UID of a pod, its key in a ledger.
    PodUid
}
name! {
    /// The name of a container, unique inside its pod.
    ContainerName
}
name! {
    /// The ID that a container runtime assigned to a container, unique on its node.
    ContainerId
}
name! {
    /// The name of a resource as Kubernetes writes it: `cpu`, `memory`, `hugepages-2Mi`, `vendor.com/device`.
    ResourceName
}
name! {
    /// The ID of a device as its plugin reports it, unique inside its resource.
    DeviceId
}
name! {
    /// The name of a Kubernetes node, unique in its cluster. Not a NUMA node's ID.
    NodeName
}
