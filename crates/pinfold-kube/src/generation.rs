//! The annotation with the generation of a node's state.

/// The annotation with the sequence number of the last entry in the node's journal. On a published object it is the
/// state that the object describes; on a pod, the state of the node that the scheduler decided on.
pub const GENERATION: &str = "pinfold.dev/generation";
