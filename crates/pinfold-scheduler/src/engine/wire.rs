//! The messages of the protocol with the plugin of kube-scheduler: `scheduler-plugin/proto/engine.proto`, which says
//! what the fields mean.

use std::collections::BTreeMap;

/// The protocol version. Any change of a message that an older peer would misunderstand increases it.
pub const VERSION: u32 = 3;

kubelet_api::service! {
    /// The calls of the plugin.
    EngineCalls, EngineCallsServer, EngineCallsClient = "pinfold.engine.v1.Engine" {
        /// Starts the session of a kube-scheduler.
        unary connect(ConnectRequest) -> ConnectReply = "Connect";
        /// Evaluates a pod on all nodes.
        unary pre_filter(PreFilterRequest) -> PreFilterReply = "PreFilter";
        /// Evaluates a pod on one node as it would be with pods added and removed.
        unary filter_node(FilterNodeRequest) -> FilterNodeReply = "FilterNode";
        /// Reserves a pod on a node.
        unary reserve(ReserveRequest) -> ReserveReply = "Reserve";
        /// Releases a reservation.
        unary unreserve(UnreserveRequest) -> UnreserveReply = "Unreserve";
        /// Waits for rejected pods that a node takes now.
        unary requeues(RequeuesRequest) -> RequeuesReply = "Requeues";
    }
}

/// A pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WirePod {
    /// The uid that the kubelet uses.
    #[prost(string, tag = "1")]
    pub uid: String,
    /// Its resource version.
    #[prost(string, tag = "2")]
    pub resource_version: String,
    /// The object; empty if the engine is expected to have it.
    #[prost(bytes = "vec", tag = "3")]
    pub json: Vec<u8>,
}

/// A reserved pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WireReservation {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<WirePod>,
    /// Its node.
    #[prost(string, tag = "2")]
    pub node: String,
}

/// The start of a session.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectRequest {
    /// The protocol version of the plugin.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The kube-scheduler process.
    #[prost(uint64, tag = "2")]
    pub scheduler: u64,
    /// All its reservations.
    #[prost(message, repeated, tag = "3")]
    pub reservations: Vec<WireReservation>,
    /// The arguments of other schedulers' plugins.
    #[prost(message, optional, tag = "4")]
    pub dialects: Option<WireDialectArgs>,
}

/// The arguments of other schedulers' plugins.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WireDialectArgs {
    /// Those of Koordinator's plugin NodeNUMAResource, as JSON; empty for its defaults.
    #[prost(bytes = "vec", tag = "1")]
    pub koordinator: Vec<u8>,
    /// The weight of Volcano's plugin numa-aware; 0 for its default.
    #[prost(uint32, tag = "2")]
    pub volcano_weight: u32,
}

/// The session was started.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ConnectReply {
    /// The protocol version.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The release of the engine.
    #[prost(string, tag = "2")]
    pub release: String,
    /// Whether all pods with requests have to be evaluated.
    #[prost(bool, tag = "3")]
    pub checks_all_pods: bool,
}

/// A pod to be evaluated on all nodes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreFilterRequest {
    /// The kube-scheduler process.
    #[prost(uint64, tag = "1")]
    pub scheduler: u64,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<WirePod>,
    /// The generation of the node names that the plugin has.
    #[prost(uint64, tag = "3")]
    pub nodes_generation: u64,
    /// The resource version up to which kube-scheduler has seen the pods; 0 if it is unknown.
    #[prost(uint64, tag = "4")]
    pub pods_version: u64,
    /// The node that the pod is nominated to; empty without one.
    #[prost(string, tag = "5")]
    pub nominated_node: String,
}

/// The nodes that take a pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PreFilterReply {
    /// The object of the pod is needed.
    #[prost(bool, tag = "1")]
    pub unknown_pod: bool,
    /// The generation of the node names.
    #[prost(uint64, tag = "2")]
    pub nodes_generation: u64,
    /// The names of all nodes, if the plugin does not have them.
    #[prost(string, repeated, tag = "3")]
    pub nodes: Vec<String>,
    /// The nodes that take the pod, one bit each.
    #[prost(bytes = "vec", tag = "4")]
    pub fits: Vec<u8>,
    /// Their scores, from 0 to 100.
    #[prost(bytes = "vec", tag = "5")]
    pub scores: Vec<u8>,
    /// The other nodes by reason.
    #[prost(message, repeated, tag = "6")]
    pub rejections: Vec<WireRejection>,
    /// Whether all pods with requests have to be evaluated.
    #[prost(bool, tag = "7")]
    pub checks_all_pods: bool,
}

/// Whether an eviction can resolve a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum RejectionKind {
    /// The pod may fit after an eviction.
    Resolvable = 0,
    /// No eviction makes the pod fit.
    Unresolvable = 1,
    /// The pod fits after the next report.
    Temporary = 2,
}

/// A reason, and the nodes that reject the pod for it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct WireRejection {
    /// The reason.
    #[prost(string, tag = "1")]
    pub reason: String,
    /// Whether an eviction can resolve it.
    #[prost(enumeration = "RejectionKind", tag = "2")]
    pub kind: i32,
    /// The nodes, one bit each.
    #[prost(bytes = "vec", tag = "3")]
    pub nodes: Vec<u8>,
}

/// A pod to be evaluated on a changed node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FilterNodeRequest {
    /// The kube-scheduler process.
    #[prost(uint64, tag = "1")]
    pub scheduler: u64,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<WirePod>,
    /// The node.
    #[prost(string, tag = "3")]
    pub node: String,
    /// Pods to be added to it.
    #[prost(message, repeated, tag = "4")]
    pub added: Vec<WirePod>,
    /// The uids of pods to be removed from it.
    #[prost(string, repeated, tag = "5")]
    pub removed: Vec<String>,
}

/// Whether the changed node takes the pod.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct FilterNodeReply {
    /// The objects of the pods are needed.
    #[prost(bool, tag = "1")]
    pub unknown_pod: bool,
    /// Why it does not; `None` if it does.
    #[prost(message, optional, tag = "2")]
    pub rejection: Option<WireRejection>,
}

/// A pod to be reserved.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReserveRequest {
    /// The kube-scheduler process.
    #[prost(uint64, tag = "1")]
    pub scheduler: u64,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<WirePod>,
    /// The node.
    #[prost(string, tag = "3")]
    pub node: String,
}

/// Whether the pod was reserved.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ReserveReply {
    /// The object of the pod is needed.
    #[prost(bool, tag = "1")]
    pub unknown_pod: bool,
    /// Why it was not; empty if it was.
    #[prost(string, tag = "2")]
    pub rejection: String,
    /// The annotations that the binding writes onto the pod.
    #[prost(btree_map = "string, string", tag = "3")]
    pub annotations: BTreeMap<String, String>,
}

/// A reservation to be released.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UnreserveRequest {
    /// The kube-scheduler process.
    #[prost(uint64, tag = "1")]
    pub scheduler: u64,
    /// The pod.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Whether the binding may have happened.
    #[prost(bool, tag = "3")]
    pub maybe_bound: bool,
}

/// The reservation was released.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct UnreserveReply {}

/// A request for pods to requeue.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct RequeuesRequest {
    /// The kube-scheduler process.
    #[prost(uint64, tag = "1")]
    pub scheduler: u64,
}

/// Rejected pods that a node takes now.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RequeuesReply {
    /// Their uids.
    #[prost(string, repeated, tag = "1")]
    pub pods: Vec<String>,
    /// Whether all pods with requests have to be evaluated.
    #[prost(bool, tag = "2")]
    pub checks_all_pods: bool,
}
