//! Kubernetes objects, settings and state files, converted to core values and back.
//!
//! Parsing only: bytes in, values and [`diagnostic`]s out; this crate opens no file and no socket.
//!
//! | input | module |
//! |---|---|
//! | files of objects, with the position of every error | [`manifest`], [`diagnostic`] |
//! | objects in the API server's JSON | [`api_object`], [`pod::ApiPod`] |
//! | pods, and Deployments, Jobs and other objects that create pods | [`pod`] |
//! | nodes, and their NodeResourceTopology objects | [`node`], [`node_resource_topology`] |
//! | Koordinator's labels, annotations and scheduler arguments | [`koordinator`] |
//! | Volcano's Numatopology, tasks and scheduler configuration | [`volcano`] |
//! | who decides: a kubelet, Pinfold, or a scheduler | [`decider`] |
//! | the scheduler plugin NodeResourceTopologyMatch's arguments | [`topology_match`] |
//! | files with objects of all these kinds | [`objects`] |
//! | the annotation with the resources of each pod, which our agent adds to a NodeResourceTopology | [`node_state`] |
//! | the generation of a node's state | [`generation`] |
//! | the objects of a cluster without what decisions do not read, and with other names | [`snapshot`] |
//! | kube-scheduler's filters and the kubelet's predicates | [`admission`] |
//! | how many replicas of a pod start on each node | [`capacity`] |
//! | the kubelet's configuration | [`kubelet_config`] |
//! | the kubelet's state files, byte for byte | [`state`] |
//! | what changes on a node when its kubelet moves to another version | [`upgrade`] |

pub mod admission;
pub mod annotation;
pub mod api_object;
pub mod capacity;
pub mod cluster;
pub mod core_numbers;
pub mod decider;
pub mod diagnostic;
pub mod generation;
mod go;
pub mod json_value;
pub mod koordinator;
pub mod kubelet_config;
pub mod manifest;
pub mod meta;
pub mod node;
pub mod node_resource_topology;
pub mod node_state;
pub mod objects;
pub mod pin;
pub mod pod;
pub mod pod_fingerprint;
mod scheduler_config;
pub mod scheduling_constraints;
pub mod snapshot;
pub mod state;
mod suggest;
pub mod topology_match;
pub mod upgrade;
pub mod volcano;
pub mod written_quantity;
