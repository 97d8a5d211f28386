//! The Kubernetes vocabulary: objects, settings and state files to core values and back.
//!
//! Types only: bytes come in, values and [`finding`]s come out; nothing here opens a file or a socket.
//!
//! | what | where |
//! |---|---|
//! | files of objects, with the place of everything that is wrong | [`manifest`], [`finding`] |
//! | pods, and deployments, jobs and others that make pods | [`pod`] |
//! | nodes, and what they report about their NUMA nodes | [`node`], [`node_resource_topology`] |
//! | Koordinator's labels, annotations and scheduler arguments | [`koordinator`] |
//! | Volcano's Numatopology, tasks and scheduler configuration | [`volcano`] |
//! | who decides: a kubelet, Pinfold, or a scheduler | [`decider`] |
//! | the scheduler plugin NodeResourceTopologyMatch's arguments | [`topology_match`] |
//! | files that mix all these | [`objects`] |
//! | what our agent adds to a report: who holds what | [`node_state`] |
//! | the generation of a node's state | [`generation`] |
//! | a cluster at one moment, with selectors and taints | [`inventory`], [`scheduling_constraints`] |
//! | the kubelet's configuration | [`kubelet_config`] |
//! | the kubelet's state files, byte for byte | [`state`] |

pub mod annotation;
pub mod cluster;
pub mod decider;
pub mod diagnostic;
pub mod generation;
mod go;
pub mod inventory;
pub mod json_value;
pub mod koordinator;
pub mod kubelet_config;
pub mod manifest;
pub mod meta;
pub mod node;
pub mod node_resource_topology;
pub mod node_state;
pub mod objects;
pub mod pod;
mod scheduler_config;
pub mod scheduling_constraints;
pub mod state;
mod suggest;
pub mod topology_match;
pub mod volcano;
pub mod written_quantity;
