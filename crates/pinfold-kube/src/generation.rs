//! The number by which a node and its schedulers know of which state they speak.

/// The annotation with the number of the last entry of the node's journal. On a published object it says how recent the
/// object is; on a pod, on which state of its node the scheduler decided.
pub const GENERATION: &str = "pinfold.dev/generation";
