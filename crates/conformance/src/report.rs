//! What a replay found, family by family.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::Outcome;

/// The result of replaying some folders.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
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
    /// How many cases the file holds.
    pub cases: usize,
    /// How many gave the same answer.
    pub passed: usize,
    /// How many gave another answer.
    pub failed: usize,
    /// How many were set aside, by reason.
    pub set_aside: BTreeMap<String, usize>,
    /// The first failures.
    pub failures: Vec<Failure>,
}

/// One case that gave another answer.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// The case.
    pub case: String,
    /// Its label.
    pub tag: String,
    /// What differs.
    pub difference: String,
}

impl Report {
    /// Whether every case passed or was set aside for an allowed reason, and there was at least one.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.families.iter().any(|family| family.cases > 0) && self.failed() == 0
    }

    /// How many cases failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.families.iter().map(|family| family.failed).sum()
    }
}

impl FamilyReport {
    pub(crate) fn record(&mut self, id: &str, tag: &str, outcome: Outcome, keep: usize) {
        self.cases += 1;
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::SetAside(reason) => *self.set_aside.entry(reason.to_owned()).or_default() += 1,
            Outcome::Failed(difference) => {
                self.failed += 1;
                if self.failures.len() < keep {
                    self.failures.push(Failure {
                        case: id.to_owned(),
                        tag: tag.to_owned(),
                        difference,
                    });
                }
            }
        }
    }
}
