//! [`RejectedStatus`]: the status of a pod that kube-scheduler or a kubelet rejects, as the API server shows it.

use pinfold_cluster::NodeRejection;
use pinfold_core::name::NodeName;
use serde::Serialize;

use super::NodeReason;

/// What the kubelet writes before the text of every rejection.
const REJECTED: &str = "Pod was rejected: ";

/// Phase, reason and message of a rejected pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RejectedStatus {
    /// `Pending` if no node is found, `Failed` if the kubelet rejects the pod.
    phase: &'static str,
    /// The reason of the condition `PodScheduled`, or of the status.
    reason: String,
    /// The message of the same.
    message: String,
}

impl RejectedStatus {
    /// The status of a pod that nodes reject for these reasons; `None` if it depends on more than they say: the node
    /// that kube-scheduler chooses, a preemption, or a scheduler with rules of its own.
    pub(crate) fn of(rejections: &[(NodeName, NodeReason)]) -> Option<Self> {
        if let Some(message) = NodeReason::unavailable(rejections) {
            return Some(Self {
                phase: "Pending",
                reason: "Unschedulable".to_owned(),
                message,
            });
        }
        let [(_, reason), rest @ ..] = rejections else {
            return None;
        };
        let (reason, message) = match reason {
            NodeReason::Gated(_) => {
                return Some(Self {
                    phase: "Pending",
                    reason: "SchedulingGated".to_owned(),
                    message: "Scheduling is blocked due to non-empty scheduling gates".to_owned(),
                });
            }
            _ if !rest.is_empty() => return None,
            NodeReason::Predicate(rejection) if !rejection.preempts() => {
                (rejection.reason(), rejection.to_string())
            }
            NodeReason::Rules(NodeRejection::Kubelet(rejection, _)) => {
                (rejection.reason.to_string(), rejection.message.clone())
            }
            _ => return None,
        };
        Some(Self {
            phase: "Failed",
            reason,
            message: format!("{REJECTED}{message}"),
        })
    }
}
