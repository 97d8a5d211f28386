//! Koordinator's quality-of-service and priority classes, and which pods may have CPUs of their own.
//!
//! Mirrors `GetPodQoSClassWithDefault`, `GetPodPriorityClassWithDefault`, `AllowUseCPUSet` and the pod
//! webhook's checks. Its design document adds rules that today's code lacks; they hold in sound mode.

use serde::{Deserialize, Serialize};

use super::amounts::{Amounts, CPU, MILLI};
use crate::fidelity::Fidelity;
use crate::qos::QosClass;

/// Koordinator's quality-of-service classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum KoordinatorQos {
    /// CPUs of its own that nobody else uses.
    Lse,
    /// CPUs of its own that best-effort pods may use while they idle.
    Lsr,
    /// The shared pool.
    Ls,
    /// What is left.
    Be,
    /// Agents of the node itself.
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
    /// The class a label names; nothing for any other text.
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

    /// The class as its label.
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

    /// The class of a pod without a label that is not running yet. The original counts a Guaranteed pod as
    /// LSR, its design document as LS.
    #[must_use]
    pub fn of_new(kube: QosClass, fidelity: Fidelity) -> Self {
        match kube {
            QosClass::Guaranteed if fidelity.counts_guaranteed_as_lsr() => KoordinatorQos::Lsr,
            QosClass::Guaranteed | QosClass::Burstable => KoordinatorQos::Ls,
            QosClass::BestEffort => KoordinatorQos::Be,
        }
    }

    /// The class of a running pod without a label: a Guaranteed pod has CPUs of its own only where the kubelet pins.
    #[must_use]
    pub fn of_running(kube: QosClass, kubelet: KubeletPinning) -> Self {
        match (kube, kubelet) {
            (QosClass::Guaranteed, KubeletPinning::Static) => KoordinatorQos::Lsr,
            (QosClass::Guaranteed, KubeletPinning::None) | (QosClass::Burstable, _) => {
                KoordinatorQos::Ls
            }
            (QosClass::BestEffort, _) => KoordinatorQos::Be,
        }
    }

    /// Whether pods of this class have CPUs of their own.
    #[must_use]
    pub fn has_own_cpus(self) -> bool {
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
    /// What the label `priority-class` says or, without the label, the number. A label with any other text
    /// says nothing, and hides the number.
    #[must_use]
    pub fn stated(label: Option<&str>, number: Option<i32>) -> Option<Self> {
        match (label, number) {
            (Some("koord-prod"), _) | (None, Some(9000..=9999)) => Some(Priority::Prod),
            (Some("koord-mid"), _) | (None, Some(7000..=7999)) => Some(Priority::Mid),
            (Some("koord-batch"), _) | (None, Some(5000..=5999)) => Some(Priority::Batch),
            (Some("koord-free"), _) | (None, Some(3000..=3999)) => Some(Priority::Free),
            _ => None,
        }
    }

    /// The class of a pod that states none.
    #[must_use]
    pub fn of_qos(qos: KoordinatorQos) -> Self {
        match qos {
            KoordinatorQos::Be => Priority::Batch,
            _ => Priority::Prod,
        }
    }
}

/// Whether a pod may have CPUs of its own: it is labelled LSE or LSR, and production.
#[must_use]
pub fn may_bind_cpus(label: Option<KoordinatorQos>, stated: Option<Priority>) -> bool {
    let Some(qos) = label.filter(|qos| qos.has_own_cpus()) else {
        return false;
    };
    stated.unwrap_or(Priority::of_qos(qos)) == Priority::Prod
}

/// Why a pod's class does not suit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QosError {
    /// CPUs of its own, but none asked for.
    #[error("{} Pod must declare the requested CPUs", .0.as_str())]
    NoCpus(KoordinatorQos),
    /// CPUs of its own, but not whole ones.
    #[error("the requested CPUs of {} Pod must be integer", .0.as_str())]
    FractionalCpus(KoordinatorQos),
    /// CPUs of its own, but a limit that differs from the request (sound mode only).
    #[error("the CPU limit of {} Pod must equal its request: {request}m requested, limit {limit}m", .qos.as_str())]
    LimitDiffers {
        /// The class.
        qos: KoordinatorQos,
        /// Requested thousandths.
        request: i64,
        /// Limit in thousandths.
        limit: i64,
    },
    /// Class and priority exclude each other.
    #[error("must not combine qosClass {} with this priority class", .0.as_str())]
    Priority(KoordinatorQos),
}

/// Checks a pod's class against its requests and priority.
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
    let suits = match qos {
        KoordinatorQos::Be => !matches!(priority, None | Some(Priority::Prod)),
        KoordinatorQos::Lsr => priority == Some(Priority::Prod),
        _ => true,
    };
    if !suits {
        return Err(QosError::Priority(qos));
    }
    if !qos.has_own_cpus() {
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
    fn lse_and_lsr_ask_for_whole_cpus_and_sound_mode_for_an_equal_limit() {
        let cpu = |milli| Amounts::from([("cpu", milli)]);
        let verdict = |request, limit, fidelity| {
            check(
                KoordinatorQos::Lsr,
                Some(Priority::Prod),
                &cpu(request),
                &cpu(limit),
                fidelity,
            )
        };
        assert_eq!(verdict(2000, 2000, Fidelity::Sound), Ok(()));
        let fraction = Err(QosError::FractionalCpus(KoordinatorQos::Lsr));
        assert_eq!(verdict(1500, 1500, Fidelity::Sound), fraction);
        assert!(matches!(
            verdict(2000, 4000, Fidelity::Sound),
            Err(QosError::LimitDiffers { .. })
        ));
        assert_eq!(verdict(2000, 4000, Fidelity::Exact), Ok(()));
        assert_eq!(
            verdict(0, 0, Fidelity::Exact),
            Err(QosError::NoCpus(KoordinatorQos::Lsr))
        );
    }

    #[test]
    fn classes_and_priorities_that_exclude_each_other_are_rejected() {
        let nothing = Amounts::new();
        for (qos, priority, suits) in [
            (KoordinatorQos::Be, None, false),
            (KoordinatorQos::Be, Some(Priority::Prod), false),
            (KoordinatorQos::Be, Some(Priority::Batch), true),
            (KoordinatorQos::Lsr, Some(Priority::Mid), false),
            (KoordinatorQos::Ls, Some(Priority::Mid), true),
        ] {
            let rejected = check(qos, priority, &nothing, &nothing, Fidelity::Sound)
                == Err(QosError::Priority(qos));
            assert_eq!(rejected, !suits, "{qos:?} {priority:?}");
        }
    }

    #[test]
    fn a_label_hides_the_priority_number_even_if_it_says_nothing() {
        assert_eq!(
            Priority::stated(Some("koord-batch"), Some(9500)),
            Some(Priority::Batch)
        );
        assert_eq!(Priority::stated(Some("gold"), Some(5500)), None);
        assert_eq!(Priority::stated(None, Some(5500)), Some(Priority::Batch));
        assert_eq!(Priority::stated(None, Some(6500)), None);
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

    #[test]
    fn a_guaranteed_pod_without_label_is_classed_by_who_pins() {
        let running = |kubelet| KoordinatorQos::of_running(QosClass::Guaranteed, kubelet);
        assert_eq!(running(KubeletPinning::Static), KoordinatorQos::Lsr);
        assert_eq!(running(KubeletPinning::None), KoordinatorQos::Ls);
        let new = |fidelity| KoordinatorQos::of_new(QosClass::Guaranteed, fidelity);
        assert_eq!(new(Fidelity::Exact), KoordinatorQos::Lsr);
        assert_eq!(new(Fidelity::Sound), KoordinatorQos::Ls);
    }
}
