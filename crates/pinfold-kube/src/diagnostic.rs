//! [`Diagnostic`]: an error or warning about a file, with its position and a hint.

use std::fmt;

/// A position in a file; lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One error or warning: the position, the problem, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as passed by the caller.
    pub file: String,
    /// The position in the file, if known.
    pub at: Option<Position>,
    /// Kind and name of the object, such as `Node/worker-1`, in a file with many objects.
    pub object: Option<String>,
    /// The path in the object: `spec.containers[0].resources`. Empty for the whole object.
    pub path: String,
    /// The position in the text of an annotation that contains JSON.
    pub within: Option<Position>,
    /// The problem.
    pub problem: DiagnosticKind,
    /// What to do, if that does not follow from the problem.
    pub hint: Option<String>,
}

/// The kinds of problems in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiagnosticKind {
    /// The file is too large.
    #[error("expected at most {limit} bytes, found {found}")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
        /// The file's size.
        found: usize,
    },
    /// The file is not UTF-8.
    #[error("expected UTF-8 text, found other bytes from byte {at} on")]
    NotText {
        /// The offset of the first invalid byte.
        at: usize,
    },
    /// The text is not YAML.
    #[error("expected YAML: {0}")]
    NotYaml(String),
    /// The text is not JSON.
    #[error("expected JSON: {0}")]
    NotJson(String),
    /// The JSON is not made of Kubernetes objects, or one of them is too large.
    #[error("{0}")]
    NotObjects(String),
    /// A key is repeated in a mapping.
    #[error("found the key {0:?} twice in one mapping")]
    DuplicateKey(String),
    /// The nesting, aliases or number of documents exceed their limits.
    #[error("expected a plain manifest: {0}")]
    TooComplex(String),
    /// A value of the wrong type or format.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The expected value.
        expected: String,
        /// The actual value.
        found: String,
    },
    /// A required field is missing.
    #[error("expected {expected}, found nothing")]
    Missing {
        /// The expected value.
        expected: String,
    },
    /// A field is unknown.
    #[error("found the unknown field {0:?}")]
    UnknownField(String),
    /// Kubernetes rejects the value; the message of the API server or the kubelet.
    #[error("{0}")]
    Rejected(String),
    /// The value is accepted, but its spelling is obsolete or unusual.
    #[error("found {found}, read as {read_as}")]
    OldSpelling {
        /// The actual value.
        found: String,
        /// The current spelling.
        read_as: String,
    },
    /// Two values contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// An object of an unknown kind is skipped although it seems to have a pod template.
    #[error("{kind} ignored: its kind is not known, but it seems to have a pod template at {path}")]
    UnreadTemplate {
        /// The kind.
        kind: String,
        /// The path of the template.
        path: String,
    },
    /// The object does not say everything about its pods.
    #[error("{0}")]
    Assumed(String),
    /// The field or value is accepted and has no effect.
    #[error("{0} has no effect here")]
    NoEffect(String),
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        write!(f, ": ")?;
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        match (self.path.as_str(), self.within) {
            ("", None) => {}
            (path, None) => write!(f, "{path}: ")?,
            (path, Some(within)) => write!(f, "{path} (at {within} of the text): ")?,
        }
        write!(f, "{}", self.problem)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

/// The errors that make a file unusable; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl std::error::Error for Diagnostics {}

/// One diagnostic per line.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        Ok(())
    }
}

/// A parsed value and the warnings about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithWarnings<T> {
    /// The value.
    pub value: T,
    /// Problems that do not make the value unusable.
    pub warnings: Vec<Diagnostic>,
}

/// Limit of the diagnostics about one file.
pub(crate) const MAX_DIAGNOSTICS: usize = 50;

/// The position of a diagnostic: in the file, and in the text of an annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiagnosticPosition {
    pub(crate) at: Option<Position>,
    pub(crate) within: Option<Position>,
}

impl From<Option<Position>> for DiagnosticPosition {
    fn from(at: Option<Position>) -> Self {
        Self { at, within: None }
    }
}

/// Collects the errors and warnings of parsing one file.
#[derive(Clone, Debug)]
pub struct DiagnosticReport {
    file: String,
    object: Option<String>,
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl DiagnosticReport {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            object: None,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// A report about one object of the file, whose name is in every diagnostic.
    pub(crate) fn for_object(file: &str, kind: &str, name: &str) -> Self {
        Self {
            object: Some(format!("{kind}/{name}")),
            ..Self::new(file)
        }
    }

    /// An empty report about the same object.
    pub(crate) fn empty_copy(&self) -> Self {
        Self {
            object: self.object.clone(),
            ..Self::new(&self.file)
        }
    }

    /// Sets the object that the next diagnostics are about.
    pub(crate) fn set_object(&mut self, kind: &str, name: &str) {
        self.object = Some(format!("{kind}/{name}"));
    }

    /// Adds an error, which makes the file unusable.
    pub(crate) fn error(
        &mut self,
        at: impl Into<DiagnosticPosition>,
        path: &str,
        problem: DiagnosticKind,
        hint: Option<String>,
    ) {
        let diagnostic = self.diagnostic(at.into(), path, problem, hint);
        // Two readers may look at the same field.
        if self.errors.len() < MAX_DIAGNOSTICS && !self.errors.contains(&diagnostic) {
            self.errors.push(diagnostic);
        }
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        at: impl Into<DiagnosticPosition>,
        path: &str,
        problem: DiagnosticKind,
        hint: Option<String>,
    ) {
        let diagnostic = self.diagnostic(at.into(), path, problem, hint);
        if self.warnings.len() < MAX_DIAGNOSTICS {
            self.warnings.push(diagnostic);
        }
    }

    fn diagnostic(
        &self,
        spot: DiagnosticPosition,
        path: &str,
        problem: DiagnosticKind,
        hint: Option<String>,
    ) -> Diagnostic {
        Diagnostic {
            file: self.file.clone(),
            at: spot.at,
            object: self.object.clone(),
            path: path.to_owned(),
            within: spot.within,
            problem,
            hint,
        }
    }

    /// Whether there is no error so far.
    pub(crate) fn is_usable(&self) -> bool {
        self.errors.is_empty()
    }

    /// The first error.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.errors.first().map(ToString::to_string)
    }

    /// Turns all errors into warnings, for callers that ignore what cannot be parsed.
    pub(crate) fn downgrade_errors(&mut self) {
        self.warnings.append(&mut self.errors);
        self.warnings.truncate(MAX_DIAGNOSTICS);
    }

    /// The value, if there is one and there are no errors.
    pub(crate) fn finish_some<T>(
        mut self,
        value: Option<T>,
    ) -> Result<WithWarnings<T>, Diagnostics> {
        if value.is_none() && self.errors.is_empty() {
            let expected = "an object".to_owned();
            self.error(None, "", DiagnosticKind::Missing { expected }, None);
        }
        match value {
            Some(value) => self.finish(value),
            None => Err(Diagnostics(self.errors)),
        }
    }

    /// Adds the diagnostics of a value that was parsed separately, and returns the value.
    pub(crate) fn take<T>(&mut self, read: Result<WithWarnings<T>, Diagnostics>) -> Option<T> {
        let (value, errors, warnings) = match read {
            Ok(read) => (Some(read.value), Vec::new(), read.warnings),
            Err(Diagnostics(errors)) => (None, errors, Vec::new()),
        };
        self.merge(DiagnosticReport {
            errors,
            warnings,
            ..self.empty_copy()
        });
        value
    }

    /// Adds the diagnostics of another report.
    pub(crate) fn merge(&mut self, other: DiagnosticReport) {
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
        self.errors.truncate(MAX_DIAGNOSTICS);
        self.warnings.truncate(MAX_DIAGNOSTICS);
    }

    /// The value, if there are no errors.
    pub(crate) fn finish<T>(self, value: T) -> Result<WithWarnings<T>, Diagnostics> {
        match self.errors.is_empty() {
            true => Ok(WithWarnings {
                value,
                warnings: self.warnings,
            }),
            false => Err(Diagnostics(self.errors)),
        }
    }
}
