//! One test vector, and the result of replaying it.

use pinfold_core::fidelity::KubeletDefects;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// One line of a vector file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The id of the case (`case`, or `id` for machines).
    #[serde(alias = "id", rename = "case")]
    pub id: String,
    /// A label; cases with some labels may be set aside instead of compared.
    #[serde(default)]
    pub tag: String,
    /// The input of the real program.
    #[serde(default)]
    pub input: Value,
    /// The output of the real program.
    #[serde(default)]
    pub expect: Value,
    /// A machine description, in the file of machines only.
    #[serde(default)]
    pub machine: Value,
    /// The family of the case, in files with several families.
    #[serde(default)]
    pub family: String,
}

/// The result of replaying one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// The output equals the expected one.
    Passed,
    /// The output differs; a description of the differences.
    Failed(String),
    /// Not compared, for a reason that the notes of the vectors allow; Pinfold's own invariants were checked instead.
    SetAside(&'static str),
    /// The output differs because Pinfold does not repeat these defects of the kubelet.
    Different(KubeletDefects),
}

impl Case {
    /// The input as the type of its family.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(&self.input).map_err(|error| format!("input: {error}"))
    }

    /// Compares the whole output. `Ok` so that a family can end with it.
    pub(crate) fn compare(&self, found: &Value) -> Result<ReplayOutcome, String> {
        Ok(check(&self.expect, found))
    }
}

/// Passed if both are equal; otherwise a failure that lists the first differences.
#[must_use]
pub fn check(expected: &Value, found: &Value) -> ReplayOutcome {
    let mut differences = Vec::new();
    compare("", expected, found, &mut differences);
    match differences.is_empty() {
        true => ReplayOutcome::Passed,
        false => ReplayOutcome::Failed(differences.join("\n")),
    }
}

/// The most differences that are listed for one case.
const MAX_DIFFERENCES: usize = 8;

fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
    if differences.len() >= MAX_DIFFERENCES || expected == found {
        return;
    }
    match (expected, found) {
        (Value::Object(want), Value::Object(have)) => {
            for key in want
                .keys()
                .chain(have.keys().filter(|key| !want.contains_key(*key)))
            {
                let path = format!("{path}.{key}");
                match (want.get(key), have.get(key)) {
                    (Some(want), Some(have)) => compare(&path, want, have, differences),
                    (Some(want), None) => {
                        differences.push(format!("{path}: expected {want}, found nothing"));
                    }
                    (None, Some(have)) => {
                        differences.push(format!("{path}: expected nothing, found {have}"));
                    }
                    (None, None) => {}
                }
            }
        }
        (Value::Array(want), Value::Array(have)) if want.len() == have.len() => {
            for (index, (want, have)) in want.iter().zip(have).enumerate() {
                compare(&format!("{path}[{index}]"), want, have, differences);
            }
        }
        _ => differences.push(format!("{path}: expected {expected}, found {found}")),
    }
}
