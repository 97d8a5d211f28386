//! The kubelet's gRPC APIs on the node, client and server, as plain Rust.
//!
//! - [`device_plugin`]: the device plugin API (`v1beta1`). A plugin registers at the kubelet's socket; the kubelet
//!   then calls the plugin on the plugin's own socket.
//! - [`pod_resources`]: the pod resources API (`v1`): the CPUs, memory and devices of each pod.
//! - [`authority`]: accepts requests of clients on unix sockets with any `:authority`.
//! - [`mod@service`]: generates gRPC services from lists of their calls.
//! - [`unix`]: servers and clients on unix sockets; everything that a peer could make grow is bounded.
//!
//! The structs are written by hand. Their names follow the protocol, so that its documentation applies. Maps are
//! ordered, so that equal values have equal bytes.
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
pub mod service;
pub mod unix;

/// Limit of the size of a message, in bytes: gRPC's default, which the kubelet uses too.
pub const MAX_MESSAGE: usize = 4 * 1024 * 1024;
