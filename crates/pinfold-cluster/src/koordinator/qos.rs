//! Koordinator's QoS and priority classes, and which pods may bind CPUs.
//!
//! Mirrors `GetPodQoSClassWithDefault`, `GetPodPriorityClassWithDefault`, `AllowUseCPUSet` and the pod
//! webhook's checks. Its design document adds rules that today's code lacks; they hold in sound mode.

use crate::koordinator::KoordinatorDefects;
use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MILLI};
use pinfold_core::fidelity::Fidelity;

/// Koordinator's quality-of-service classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum KoordinatorQos {
    /// Bound CPUs that no other pod uses.
    Lse,
    /// Bound CPUs that best-effort pods may also use.
    Lsr,
    /// The shared pool.
    Ls,
    /// The best-effort pool.
    Be,
    /// System agents of the node.
    System,
}

/// Whether the kubelet pins CPUs itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KubeletPinning {
    /// CPU manager policy `none`.
    #[default]
    None,
    /// CPU manager policy `static`.
    Static,
}

impl KoordinatorQos {
    /// Parses the label; `None` for any other text.
    #[must_use]
    pub fn from_label(text: &str) -> Option<Self> {
        Some(match text {
            "LSE" => KoordinatorQos::Lse,
            "LSR" => KoordinatorQos::Lsr,
            "LS" => KoordinatorQos::Ls,
            "BE" => KoordinatorQos::Be,
            "SYSTEM" => KoordinatorQos::System,
            _ => return None,
        })
    }

    /// The value of the label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KoordinatorQos::Lse => "LSE",
            KoordinatorQos::Lsr => "LSR",
            KoordinatorQos::Ls => "LS",
            KoordinatorQos::Be => "BE",
            KoordinatorQos::System => "SYSTEM",
        }
    }

    /// Whether pods of this class bind CPUs.
    #[must_use]
    pub(crate) fn binds_cpus(self) -> bool {
        matches!(self, KoordinatorQos::Lse | KoordinatorQos::Lsr)
    }
}

/// Koordinator's priority classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Priority {
    /// `koord-prod`, 9000 to 9999.
    Prod,
    /// `koord-mid`, 7000 to 7999.
    Mid,
    /// `koord-batch`, 5000 to 5999.
    Batch,
    /// `koord-free`, 3000 to 3999.
    Free,
}

impl Priority {
    /// The class of the label `priority-class` or, without the label, of the priority number. A label with any other
    /// text results in `None`, whatever the number.
    #[must_use]
    pub fn from_label_or_number(label: Option<&str>, number: Option<i32>) -> Option<Self> {
        match (label, number) {
            (Some("koord-prod"), _) | (None, Some(9000..=9999)) => Some(Priority::Prod),
            (Some("koord-mid"), _) | (None, Some(7000..=7999)) => Some(Priority::Mid),
            (Some("koord-batch"), _) | (None, Some(5000..=5999)) => Some(Priority::Batch),
            (Some("koord-free"), _) | (None, Some(3000..=3999)) => Some(Priority::Free),
            _ => None,
        }
    }

    /// The class of a pod with neither label nor number.
    #[must_use]
    pub fn of_qos(qos: KoordinatorQos) -> Self {
        match qos {
            KoordinatorQos::Be => Priority::Batch,
            _ => Priority::Prod,
        }
    }
}

/// Whether a pod may bind CPUs: it is labelled LSE or LSR, and its priority class is production.
#[must_use]
pub(crate) fn may_bind_cpus(label: Option<KoordinatorQos>, priority: Option<Priority>) -> bool {
    let Some(qos) = label.filter(|qos| qos.binds_cpus()) else {
        return false;
    };
    priority.unwrap_or(Priority::of_qos(qos)) == Priority::Prod
}

/// Why the class of a pod is not valid for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QosError {
    /// The class binds CPUs, but the pod requests none.
    #[error("{} Pod must declare the requested CPUs", .0.as_str())]
    NoCpus(KoordinatorQos),
    /// The class binds CPUs, but the pod requests a fraction of one.
    #[error("the requested CPUs of {} Pod must be integer", .0.as_str())]
    FractionalCpus(KoordinatorQos),
    /// The class binds CPUs, but the CPU limit differs from the request (sound mode only).
    #[error("the CPU limit of {} Pod must equal its request: {request}m requested, limit {limit}m", .qos.as_str())]
    LimitDiffers {
        /// The class.
        qos: KoordinatorQos,
        /// The request in milli-CPUs.
        request: i64,
        /// The limit in milli-CPUs.
        limit: i64,
    },
    /// The class is not allowed with the priority class.
    #[error("must not combine qosClass {} with this priority class", .0.as_str())]
    Priority(KoordinatorQos),
}

/// Checks the class of a pod against its requests and priority.
///
/// # Errors
/// See [`QosError`]; the first problem is reported.
pub fn check(
    qos: KoordinatorQos,
    priority: Option<Priority>,
    requests: &Amounts,
    limits: &Amounts,
    fidelity: Fidelity,
) -> Result<(), QosError> {
    let is_allowed = match qos {
        KoordinatorQos::Be => !matches!(priority, None | Some(Priority::Prod)),
        KoordinatorQos::Lsr => priority == Some(Priority::Prod),
        _ => true,
    };
    if !is_allowed {
        return Err(QosError::Priority(qos));
    }
    if !qos.binds_cpus() {
        return Ok(());
    }
    let (request, limit) = (requests.get(CPU), limits.get(CPU));
    if request <= 0 {
        return Err(QosError::NoCpus(qos));
    }
    if request % MILLI != 0 {
        return Err(QosError::FractionalCpus(qos));
    }
    match limit == request || fidelity.accepts_unequal_limits() {
        true => Ok(()),
        false => Err(QosError::LimitDiffers {
            qos,
            request,
            limit,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lse_and_lsr_pods_need_whole_cpus_and_in_sound_mode_an_equal_limit() {
        let cpu = |milli| Amounts::from([("cpu", milli)]);
        let checked = |request, limit, fidelity| {
            check(
                KoordinatorQos::Lsr,
                Some(Priority::Prod),
                &cpu(request),
                &cpu(limit),
                fidelity,
            )
        };
        assert_eq!(checked(2000, 2000, Fidelity::Sound), Ok(()));
        let fraction = Err(QosError::FractionalCpus(KoordinatorQos::Lsr));
        assert_eq!(checked(1500, 1500, Fidelity::Sound), fraction);
        assert!(matches!(
            checked(2000, 4000, Fidelity::Sound),
            Err(QosError::LimitDiffers { .. })
        ));
        assert_eq!(checked(2000, 4000, Fidelity::Exact), Ok(()));
        assert_eq!(
            checked(0, 0, Fidelity::Exact),
            Err(QosError::NoCpus(KoordinatorQos::Lsr))
        );
    }

    #[test]
    fn a_class_with_a_priority_that_it_does_not_allow_is_rejected() {
        let nothing = Amounts::new();
        for (qos, priority, is_allowed) in [
            (KoordinatorQos::Be, None, false),
            (KoordinatorQos::Be, Some(Priority::Prod), false),
            (KoordinatorQos::Be, Some(Priority::Batch), true),
            (KoordinatorQos::Lsr, Some(Priority::Mid), false),
            (KoordinatorQos::Ls, Some(Priority::Mid), true),
        ] {
            let rejected = check(qos, priority, &nothing, &nothing, Fidelity::Sound)
                == Err(QosError::Priority(qos));
            assert_eq!(rejected, !is_allowed, "{qos:?} {priority:?}");
        }
    }

    #[test]
    fn an_invalid_priority_label_still_overrides_the_priority_number() {
        assert_eq!(
            Priority::from_label_or_number(Some("koord-batch"), Some(9500)),
            Some(Priority::Batch)
        );
        assert_eq!(
            Priority::from_label_or_number(Some("gold"), Some(5500)),
            None
        );
        assert_eq!(
            Priority::from_label_or_number(None, Some(5500)),
            Some(Priority::Batch)
        );
        assert_eq!(Priority::from_label_or_number(None, Some(6500)), None);
    }

    #[test]
    fn only_labelled_production_pods_bind_cpus() {
        assert!(may_bind_cpus(Some(KoordinatorQos::Lse), None));
        assert!(may_bind_cpus(
            Some(KoordinatorQos::Lsr),
            Some(Priority::Prod)
        ));
        assert!(!may_bind_cpus(
            Some(KoordinatorQos::Lsr),
            Some(Priority::Batch)
        ));
        assert!(!may_bind_cpus(
            Some(KoordinatorQos::Ls),
            Some(Priority::Prod)
        ));
        assert!(!may_bind_cpus(None, Some(Priority::Prod)));
    }
}
