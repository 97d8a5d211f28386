//! One test vector, and what came of replaying it.

use serde::Deserialize;
use serde_json::Value;

/// One line of a vector file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// The id of the case (`case`, or `id` for machines).
    #[serde(alias = "id", rename = "case")]
    pub id: String,
    /// A free label; some labels allow a case to be set aside.
    #[serde(default)]
    pub tag: String,
    /// What the real program was given.
    #[serde(default)]
    pub input: Value,
    /// What it answered.
    #[serde(default)]
    pub expect: Value,
    /// A machine description, in the file of machines only.
    #[serde(default)]
    pub machine: Value,
    /// The family a case of a mixed file belongs to.
    #[serde(default)]
    pub family: String,
}

/// What came of replaying one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same answer.
    Passed,
    /// Another answer: what differs, for people.
    Failed(String),
    /// Not compared, for a reason that the vectors' own notes allow; our own behaviour was checked instead.
    SetAside(&'static str),
}

/// Passed if both are equal; otherwise a failure that shows the first places where they differ.
#[must_use]
pub fn check(expected: &Value, found: &Value) -> Outcome {
    let mut differences = Vec::new();
    compare("", expected, found, &mut differences);
    match differences.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(differences.join("\n")),
    }
}

/// More lines than this about one case help nobody.
const MOST_DIFFERENCES: usize = 8;

fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
    if differences.len() >= MOST_DIFFERENCES || expected == found {
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
