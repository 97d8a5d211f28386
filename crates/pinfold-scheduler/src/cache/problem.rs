//! [`CacheProblem`]: a problem with an object of the API server, to be logged and counted.

/// A problem with an object of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheProblem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The name of the object.
    pub object: String,
    /// A description of the problem.
    pub message: String,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A pod cannot be parsed; it is ignored.
    InvalidPod,
    /// A Node cannot be parsed; it is ignored.
    InvalidNode,
    /// A NodeResourceTopology or Numatopology cannot be used.
    InvalidReport,
    /// A report lacks pods that it should list by now.
    StaleReport,
    /// No watch event showed a binding in time; its reservation was released.
    BindingTimedOut,
}

impl ProblemKind {
    /// The label value in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::InvalidPod => "invalid-pod",
            ProblemKind::InvalidNode => "invalid-node",
            ProblemKind::InvalidReport => "invalid-report",
            ProblemKind::StaleReport => "stale-report",
            ProblemKind::BindingTimedOut => "binding-timed-out",
        }
    }
}
