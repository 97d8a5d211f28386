//! [`Findings`]: what is wrong with a question, by the part of the page that has to change.

use pinfold_kube::diagnostic::{Diagnostic, Diagnostics};
use pinfold_page::ApiResponse;
use serde::Serialize;

use crate::exit::Failure;

/// The part of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Part {
    Machine,
    Config,
    Devices,
    Pods,
    Steps,
    /// The question as a whole.
    Question,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) part: Part,
    /// The file, if the part has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) file: String,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u64>,
    pub(crate) message: String,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Findings {
    pub(crate) findings: Vec<Finding>,
    /// Why the kubelet does not start, as `pinfold check -o json` says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_starting: Option<serde_json::Value>,
}

impl Finding {
    pub(crate) fn new(part: Part, message: impl Into<String>) -> Self {
        Self {
            part,
            file: String::new(),
            line: None,
            column: None,
            message: message.into(),
        }
    }

    pub(crate) fn of(part: Part, found: &Diagnostic) -> Self {
        let object = found.object.iter().map(|object| format!("{object}: "));
        let path = match found.path.as_str() {
            "" => String::new(),
            path => format!("{path}: "),
        };
        let hint = found.hint.iter().map(|hint| format!(" ({hint})"));
        Self {
            part,
            file: found.file.clone(),
            line: found.at.map(|at| at.line),
            column: found.at.map(|at| at.column),
            message: object
                .chain([path, found.problem.to_string()])
                .chain(hint)
                .collect(),
        }
    }
}

impl Findings {
    pub(crate) fn one(part: Part, message: impl Into<String>) -> Self {
        Self {
            findings: vec![Finding::new(part, message)],
            not_starting: None,
        }
    }

    pub(crate) fn all(part: Part, found: &Diagnostics) -> Self {
        let findings = found.0.iter().map(|one| Finding::of(part, one));
        Self {
            findings: findings.collect(),
            not_starting: None,
        }
    }

    /// A failure of a command. A kubelet that does not start is about the configuration.
    pub(crate) fn failure(part: Part, failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejected) => Self {
                findings: vec![Finding::new(Part::Config, rejected.text)],
                not_starting: Some(rejected.value),
            },
            Failure::BadInput(text) | Failure::Environment(text) => Self::one(part, text),
        }
    }

    pub(crate) fn response(&self) -> ApiResponse {
        ApiResponse {
            status: 422,
            ..ApiResponse::json(self)
        }
    }
}
