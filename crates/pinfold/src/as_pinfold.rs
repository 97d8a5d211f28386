//! [`AsPinfold`]: the pods about which Pinfold's agent would decide otherwise than the kubelet.
//!
//! The same steps are decided twice, as the kubelet does and as Pinfold does. A long simulation compares only its first
//! [`MOST_COMPARED`] steps, so that it does not take twice the time.

use std::collections::BTreeMap;

use pinfold_core::decision::{AdmissionResult, Decision};
use pinfold_render::placement;
use pinfold_render::text::{count, grouped, paragraph};
use serde::Serialize;

use crate::output::width;

/// The most steps that are decided twice.
pub(crate) const MOST_COMPARED: usize = 10_000;
/// The most pods that are listed.
const LISTED: usize = 50;

/// The comparison of a kubelet's decisions with Pinfold's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AsPinfold {
    /// The first pods that differ, in the order of the steps.
    differences: Vec<Difference>,
    /// How many more pods differ.
    more: usize,
    /// The number of steps that were compared, if not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    compared_steps: Option<usize>,
    /// The page that explains the differences.
    #[serde(skip)]
    page: &'static str,
}

/// A pod that Pinfold decides about otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    /// The pod's name.
    pod: String,
    /// The kubelet's decision.
    kubelet: PodOutcome,
    /// Pinfold's decision.
    pinfold: PodOutcome,
}

/// A decision about one pod, as far as it is compared: reasons and amounts may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PodOutcome {
    /// Admitted, with these NUMA nodes, CPUs and devices.
    Admitted(String),
    /// Rejected.
    Rejected,
    /// The pod kept what it had at a restart.
    Unchanged,
}

impl PodOutcome {
    /// The outcome of a decision.
    pub(crate) fn of(decision: &Decision) -> Self {
        match &decision.result {
            AdmissionResult::Admitted(assignment) => {
                Self::Admitted(placement::placement(assignment))
            }
            AdmissionResult::Rejected(_) => Self::Rejected,
        }
    }
}

impl AsPinfold {
    /// Compares the decisions about each pod, which come in the order of the steps.
    pub(crate) fn compare<'a>(
        kubelet: impl IntoIterator<Item = (&'a str, PodOutcome)>,
        pinfold: impl IntoIterator<Item = (&'a str, PodOutcome)>,
    ) -> Self {
        let mut others: BTreeMap<&str, Vec<PodOutcome>> = BTreeMap::new();
        for (pod, outcome) in pinfold {
            others.entry(pod).or_default().push(outcome);
        }
        let mut order = Vec::new();
        let mut own: BTreeMap<&str, Vec<PodOutcome>> = BTreeMap::new();
        for (pod, outcome) in kubelet {
            let outcomes = own.entry(pod).or_insert_with(|| {
                order.push(pod);
                Vec::new()
            });
            outcomes.push(outcome);
        }
        let mut found = Self {
            page: "docs/kubelet-differences.md",
            ..Self::default()
        };
        let none = Vec::new();
        for pod in order {
            let (kubelet, pinfold) = (&own[pod], others.get(pod).unwrap_or(&none));
            let Some((kubelet, pinfold)) = first_difference(kubelet, pinfold) else {
                continue;
            };
            match found.differences.len() < LISTED {
                true => found.differences.push(Difference {
                    pod: pod.to_owned(),
                    kubelet,
                    pinfold,
                }),
                false => found.more += 1,
            }
        }
        found
    }

    /// Notes that only the first steps were compared.
    pub(crate) fn of_first_steps(self, steps: usize) -> Self {
        Self {
            compared_steps: Some(steps),
            ..self
        }
    }

    /// Notes that Pinfold decides about some nodes by other rules than the kubelet's.
    pub(crate) fn by_other_rules(self) -> Self {
        Self {
            page: "docs/command-line.md, \"A cluster\"",
            ..self
        }
    }

    /// The line at the end of a text; empty if nothing differs.
    pub(crate) fn text(&self) -> String {
        let Some(first) = self.differences.first() else {
            return match self.compared_steps {
                Some(steps) => format!(
                    "\nAs pinfold: the first {} steps are decided the same way; later ones were not compared.\n",
                    grouped(steps)
                ),
                None => String::new(),
            };
        };
        let pod = &first.pod;
        let decision = match (&first.kubelet, &first.pinfold) {
            (_, PodOutcome::Rejected) => format!("pod {pod} would be rejected"),
            (PodOutcome::Admitted(_), PodOutcome::Admitted(placement)) => {
                format!("pod {pod} would get {placement}")
            }
            (_, PodOutcome::Admitted(placement)) => {
                format!("pod {pod} would be admitted: {placement}")
            }
            (_, PodOutcome::Unchanged) => format!("pod {pod} would keep what it has"),
        };
        let others = match self.differences.len() - 1 + self.more {
            0 => String::new(),
            others => format!(
                ", and {} otherwise",
                count(others, "more pod is decided", "more pods are decided")
            ),
        };
        let line = format!("{decision}{others} ({}).", self.page);
        format!("\n{}", paragraph("As pinfold: ", &line, 2, width()))
    }
}

/// The first decision that differs. A pod that is missing on one side kept what it had.
fn first_difference(
    kubelet: &[PodOutcome],
    pinfold: &[PodOutcome],
) -> Option<(PodOutcome, PodOutcome)> {
    let longest = kubelet.len().max(pinfold.len());
    let at = |outcomes: &[PodOutcome], index| {
        outcomes
            .get(index)
            .cloned()
            .unwrap_or(PodOutcome::Unchanged)
    };
    let mut pairs = (0..longest).map(|index| (at(kubelet, index), at(pinfold, index)));
    pairs.find(|(kubelet, pinfold)| kubelet != pinfold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(placement: &str) -> PodOutcome {
        PodOutcome::Admitted(placement.to_owned())
    }

    #[test]
    fn equal_decisions_give_no_line() {
        let decisions = [("a", admitted("CPUs 1-2")), ("b", PodOutcome::Rejected)];
        let found = AsPinfold::compare(decisions.clone(), decisions);
        assert_eq!(found.text(), "");
        let first = found.of_first_steps(10_000).text();
        assert!(first.contains("the first 10,000 steps"), "{first}");
    }

    #[test]
    fn the_first_pod_that_differs_is_named_and_the_others_are_counted() {
        let kubelet = [
            ("a", admitted("CPUs 1-2")),
            ("b", PodOutcome::Rejected),
            ("c", admitted("CPUs 3-4")),
        ];
        let pinfold = [
            ("a", admitted("CPUs 1-2")),
            ("b", admitted("CPUs 3-4")),
            ("c", PodOutcome::Rejected),
        ];
        let found = AsPinfold::compare(kubelet, pinfold);
        let text = found.text().replace("\n  ", " ");
        let expected = "\nAs pinfold: pod b would be admitted: CPUs 3-4, and 1 more pod is decided otherwise \
                        (docs/kubelet-differences.md).\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_pod_that_only_the_kubelet_rejects_at_a_restart_differs() {
        let kubelet = [("a", admitted("CPUs 1-2")), ("a", PodOutcome::Rejected)];
        let pinfold = [("a", admitted("CPUs 1-2"))];
        let found = AsPinfold::compare(kubelet, pinfold);
        assert!(
            found.text().contains("pod a would keep what it has"),
            "{found:?}"
        );
    }
}
