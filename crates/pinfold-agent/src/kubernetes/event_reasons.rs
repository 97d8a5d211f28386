//! [`EventReason`]: the reasons of the agent's Kubernetes Events, beside the kubelet's reasons of rejected pods.

/// A reason of the agent's Events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventReason {
    /// The field `reason`.
    pub name: &'static str,
    /// Kind of the object that the Event is about.
    pub kind: &'static str,
    /// When the Event is sent.
    pub meaning: &'static str,
}

const fn reason(name: &'static str, kind: &'static str, meaning: &'static str) -> EventReason {
    EventReason {
        name,
        kind,
        meaning,
    }
}

/// A container ran unpinned.
pub const STARTED_UNPINNED: EventReason = reason(
    "StartedUnpinned",
    "Pod",
    "A container started while the agent was not connected to the runtime. It was pinned later, or it uses the shared pool because the node has no room for it.",
);
/// Another program overwrites a control group.
pub const CGROUP_CONFLICT: EventReason = reason(
    "CgroupConflict",
    "Pod",
    "Another program overwrites the control group of a container after every repair.",
);
/// A container may use other CPUs than it was assigned.
pub const CPUS_NOT_APPLIED: EventReason = reason(
    "CPUsNotApplied",
    "Pod",
    "A container may use other CPUs than it was assigned, and no repair can change that: a control group above it allows fewer CPUs, for example.",
);
/// A resize was rejected.
pub const RESIZE_REJECTED: EventReason = reason(
    "ResizeRejected",
    "Pod",
    "A change of the resources of a running container or pod was rejected.",
);
/// A pod was moved.
pub const MOVED: EventReason = reason(
    "Moved",
    "Pod",
    "The pod has other CPUs or memory than before, because the settings or the online CPUs of the node changed.",
);
/// The connection to the runtime was lost.
pub const RUNTIME_DISCONNECTED: EventReason = reason(
    "RuntimeDisconnected",
    "Node",
    "The agent lost its NRI connection: containers start unpinned until it is connected again.",
);
/// Another program writes a published object.
pub const OTHER_WRITER: EventReason = reason(
    "OtherWriter",
    "Node",
    "Another program writes an object that the agent publishes.",
);

/// Best-effort pods have fewer CPUs.
pub const BEST_EFFORT_LIMITED: EventReason = reason(
    "BestEffortLimited",
    "Node",
    "Best-effort pods have fewer CPUs, because other pods are busy.",
);
/// Best-effort pods have their CPUs again.
pub const BEST_EFFORT_RESTORED: EventReason = reason(
    "BestEffortRestored",
    "Node",
    "Best-effort pods have as many CPUs as on an idle node again.",
);

/// All reasons.
pub const EVENT_REASONS: &[EventReason] = &[
    STARTED_UNPINNED,
    CGROUP_CONFLICT,
    CPUS_NOT_APPLIED,
    RESIZE_REJECTED,
    MOVED,
    RUNTIME_DISCONNECTED,
    OTHER_WRITER,
    BEST_EFFORT_LIMITED,
    BEST_EFFORT_RESTORED,
];
