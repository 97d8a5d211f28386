//! The results of a replay by family.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::ReplayOutcome;

/// The result of replaying some folders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConformanceReport {
    /// One row per vector file, in the order they were replayed.
    pub families: Vec<FamilyReport>,
}

/// The result of one vector file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FamilyReport {
    /// Whose vectors: `kubelet`, `koordinator`, `volcano`, `scheduler-plugins`.
    pub system: String,
    /// The family: the file's name without its endings.
    pub family: String,
    /// The number of cases in the file.
    pub cases: usize,
    /// The number of cases whose output was equal.
    pub passed: usize,
    /// The number of cases whose output differed.
    pub failed: usize,
    /// The number of cases set aside, by reason.
    pub set_aside: BTreeMap<String, usize>,
    /// The number of cases that Pinfold decides differently because of the kubelet's defects. Such a case counts as
    /// neither passed nor failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub different: usize,
    /// The same by defect: the methods of `Fidelity`. A case may need several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub defects: BTreeMap<&'static str, usize>,
    /// The first failures.
    pub failures: Vec<ReplayFailure>,
}

/// A case whose output differed.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayFailure {
    /// The case.
    pub case: String,
    /// Its label.
    pub tag: String,
    /// The differences.
    pub difference: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl ConformanceReport {
    /// Whether every case passed or was set aside for an allowed reason, and there was at least one.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.families.iter().any(|family| family.cases > 0) && self.failed() == 0
    }

    /// The number of failed cases.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.families.iter().map(|family| family.failed).sum()
    }
}

impl FamilyReport {
    pub(crate) fn record(&mut self, id: &str, tag: &str, outcome: ReplayOutcome, keep: usize) {
        self.cases += 1;
        match outcome {
            ReplayOutcome::Passed => self.passed += 1,
            ReplayOutcome::SetAside(reason) => {
                *self.set_aside.entry(reason.to_owned()).or_default() += 1;
            }
            ReplayOutcome::Different(defects) => {
                self.different += 1;
                for name in defects.names() {
                    *self.defects.entry(name).or_default() += 1;
                }
            }
            ReplayOutcome::Failed(difference) => {
                self.failed += 1;
                if self.failures.len() < keep {
                    self.failures.push(ReplayFailure {
                        case: id.to_owned(),
                        tag: tag.to_owned(),
                        difference,
                    });
                }
            }
        }
    }
}
