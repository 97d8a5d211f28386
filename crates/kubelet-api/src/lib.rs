//! The kubelet's gRPC interfaces on the node, both sides of each, as plain Rust.
//!
//! - [`device_plugin`]: device plugins (`v1beta1`). A plugin registers at the kubelet's socket; the kubelet
//!   then calls back on the plugin's own socket.
//! - [`pod_resources`]: which pod holds which CPUs, memory and devices (`v1`).
//! - [`authority`]: requests of clients on unix sockets, whatever authority they name.
//! - [`unix`]: servers and clients on unix sockets, with a bound for everything a peer could grow.
//!
//! The structs are written by hand after the protocol. Names follow it, so that its documentation applies.
//! Maps are ordered, so the same value always has the same bytes.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kubelet_api::pod_resources::{ListPodResourcesRequest, PodResourcesListerClient};
//!
//! let channel = kubelet_api::unix::connect("/var/lib/kubelet/pod-resources/kubelet.sock").await?;
//! let mut kubelet = PodResourcesListerClient::new(channel);
//! let answer = kubelet.list(ListPodResourcesRequest {}).await?.into_inner();
//! for pod in answer.pod_resources {
//!     println!("{}/{}", pod.namespace, pod.name);
//! }
//! # Ok(())
//! # }
//! ```

pub mod authority;
pub mod device_plugin;
pub mod pod_resources;
mod service;
pub mod unix;

/// The longest message either side takes, in bytes: gRPC's own default, which the kubelet keeps.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;
