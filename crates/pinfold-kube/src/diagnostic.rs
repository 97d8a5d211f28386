//! [`Diagnostic`]: something wrong, or merely odd, in a file, told so that a person can mend it.

use std::fmt;

/// A place in a file; lines and columns count from 1.
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

/// One thing found in a file: where, what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file's name as the caller gave it.
    pub file: String,
    /// Where in the file, if it can be told.
    pub at: Option<Position>,
    /// Kind and name of the object, such as `Node/worker-1`, where a file holds many.
    pub object: Option<String>,
    /// Where in the object: `spec.containers[0].resources`. Empty for the object as a whole.
    pub path: String,
    /// Where in the text of an annotation that is itself a document.
    pub within: Option<Position>,
    /// What it is.
    pub problem: DiagnosticKind,
    /// What to do, if there is something better to say than the problem itself.
    pub hint: Option<String>,
}

/// What can be found in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiagnosticKind {
    /// More bytes than are read.
    #[error("expected at most {limit} bytes, found {found}")]
    TooLarge {
        /// How many are read.
        limit: usize,
        /// How many there are.
        found: usize,
    },
    /// Bytes that are not text.
    #[error("expected UTF-8 text, found other bytes from byte {at} on")]
    NotText {
        /// The first byte that is not.
        at: usize,
    },
    /// Text that is not YAML.
    #[error("expected YAML: {0}")]
    NotYaml(String),
    /// The same key twice in one mapping.
    #[error("found the key {0:?} twice in one mapping")]
    DuplicateKey(String),
    /// Nesting, aliases or documents beyond the limits.
    #[error("expected a plain manifest: {0}")]
    TooComplex(String),
    /// A value of the wrong kind, or text that does not say what it should.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A field that must be there and is not.
    #[error("expected {expected}, found nothing")]
    Missing {
        /// What should be there.
        expected: String,
    },
    /// A field that its object does not have.
    #[error("found the unknown field {0:?}")]
    UnknownField(String),
    /// A value that Kubernetes rejects; the words of the API server or the kubelet.
    #[error("{0}")]
    Rejected(String),
    /// An accepted value that is written in an old or unusual way.
    #[error("found {found}, read as {read_as}")]
    OldSpelling {
        /// What is there.
        found: String,
        /// What it stands for today.
        read_as: String,
    },
    /// Two statements that cannot both be true.
    #[error("{0}")]
    Contradiction(String),
    /// Something that is read and has no effect.
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

/// Everything that makes a file unusable; at least one finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl std::error::Error for Diagnostics {}

/// One finding a line.
impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        Ok(())
    }
}

/// What was read, and what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithWarnings<T> {
    /// The value.
    pub value: T,
    /// What the reader should look at, although it was accepted.
    pub warnings: Vec<Diagnostic>,
}

/// More findings than this about one file help nobody.
pub(crate) const MAX_DIAGNOSTICS: usize = 50;

/// Where something was found: in the file, and in the text of an annotation there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) at: Option<Position>,
    pub(crate) within: Option<Position>,
}

impl From<Option<Position>> for Spot {
    fn from(at: Option<Position>) -> Self {
        Self { at, within: None }
    }
}

/// Collects what is found while one file is read.
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

    /// Notes about one object of the file, which every finding names.
    pub(crate) fn about(file: &str, kind: &str, name: &str) -> Self {
        Self {
            object: Some(format!("{kind}/{name}")),
            ..Self::new(file)
        }
    }

    /// A report about the same object without findings.
    pub(crate) fn fresh(&self) -> Self {
        Self {
            object: self.object.clone(),
            ..Self::new(&self.file)
        }
    }

    /// Names the object that the next findings are about.
    pub(crate) fn turn_to(&mut self, kind: &str, name: &str) {
        self.object = Some(format!("{kind}/{name}"));
    }

    /// Notes something that makes the file unusable.
    pub(crate) fn error(
        &mut self,
        at: impl Into<Spot>,
        path: &str,
        problem: DiagnosticKind,
        hint: Option<String>,
    ) {
        let finding = self.finding(at.into(), path, problem, hint);
        if self.errors.len() < MAX_DIAGNOSTICS {
            self.errors.push(finding);
        }
    }

    /// Notes something odd.
    pub(crate) fn warning(
        &mut self,
        at: impl Into<Spot>,
        path: &str,
        problem: DiagnosticKind,
        hint: Option<String>,
    ) {
        let finding = self.finding(at.into(), path, problem, hint);
        if self.warnings.len() < MAX_DIAGNOSTICS {
            self.warnings.push(finding);
        }
    }

    fn finding(
        &self,
        spot: Spot,
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

    /// Whether nothing made the file unusable so far.
    pub(crate) fn is_usable(&self) -> bool {
        self.errors.is_empty()
    }

    /// What made the file unusable first.
    pub(crate) fn first_error(&self) -> Option<String> {
        self.errors.first().map(ToString::to_string)
    }

    /// Turns what made something unusable into warnings: for those who pass over it.
    pub(crate) fn forgive(&mut self) {
        self.warnings.append(&mut self.errors);
        self.warnings.truncate(MAX_DIAGNOSTICS);
    }

    /// The value if there is one and nothing made the file unusable.
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

    /// Takes over what was found about a value that was read elsewhere, and gives the value.
    pub(crate) fn take<T>(&mut self, read: Result<WithWarnings<T>, Diagnostics>) -> Option<T> {
        let (value, errors, warnings) = match read {
            Ok(read) => (Some(read.value), Vec::new(), read.warnings),
            Err(Diagnostics(errors)) => (None, errors, Vec::new()),
        };
        self.merge(DiagnosticReport {
            errors,
            warnings,
            ..self.fresh()
        });
        value
    }

    /// Takes over what was found elsewhere.
    pub(crate) fn merge(&mut self, other: DiagnosticReport) {
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
        self.errors.truncate(MAX_DIAGNOSTICS);
        self.warnings.truncate(MAX_DIAGNOSTICS);
    }

    /// The value if nothing made the file unusable.
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
