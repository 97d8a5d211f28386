//! [`Source`]: a file named on the command line, and error messages that show the line they are about.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use pinfold_kube::diagnostic::{Diagnostic, Diagnostics, Position};

use crate::exit::Failure;
use crate::output::remark;

/// The largest file that is read, after decompression. The parsers have lower limits of their own.
const MAX_BYTES: u64 = 64 << 20;
/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The name and content of a file.
pub struct Source {
    /// The path as the user wrote it, or `standard input`.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Source {
    /// Reads a file, decompressed if it is a gzip file; `-` is standard input.
    ///
    /// # Errors
    /// If the file cannot be read, or is larger than the limit.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let name = name(path);
        let failure = |error: io::Error| Failure::BadInput(format!("cannot read {name}: {error}"));
        let mut bytes = Vec::new();
        let mut from = open(path).map_err(failure)?.take(MAX_BYTES + 1);
        from.read_to_end(&mut bytes).map_err(failure)?;
        match bytes.len() as u64 > MAX_BYTES {
            true => Err(Failure::BadInput(format!(
                "{name}: expected at most {} MiB, found more",
                MAX_BYTES >> 20
            ))),
            false => Ok(Self { name, bytes }),
        }
    }

    /// Whether there is nothing but blank lines, comments and separators of documents.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let mut lines = self.bytes.split(|byte| *byte == b'\n');
        lines.all(|line| {
            let line = line.trim_ascii();
            line.starts_with(b"#") || matches!(line, b"" | b"---" | b"..." | b"null")
        })
    }

    /// A failure with one paragraph per finding.
    #[must_use]
    pub fn failure(&self, findings: &Diagnostics) -> Failure {
        let paragraphs: Vec<String> = findings
            .0
            .iter()
            .map(|finding| self.describe(finding))
            .collect();
        Failure::BadInput(paragraphs.join("\n"))
    }

    /// Prints warnings to standard error.
    pub fn warn(&self, warnings: &[Diagnostic]) {
        for warning in warnings {
            remark(&format!("warning: {}", self.describe(warning)));
        }
    }

    /// A finding with its position, its object and the line of the file it is about.
    #[must_use]
    pub fn describe(&self, finding: &Diagnostic) -> String {
        let mut text = finding.file.clone();
        if let Some(at) = finding.at {
            text.push_str(&format!(":{at}"));
        }
        if let Some(object) = &finding.object {
            text.push_str(&format!(": {object}"));
        }
        if !finding.path.is_empty() {
            text.push_str(&format!(": {}", finding.path));
        }
        if let Some(within) = finding.within {
            text.push_str(&format!(" (at {within} of the text)"));
        }
        text.push_str(&format!("\n  {}", finding.problem));
        if let Some(at) = finding.at {
            text.push_str(&self.excerpt(at));
        }
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("\n  {hint}"));
        }
        text
    }

    /// The line at a position with a caret below the column; empty if the column is too far to the right.
    #[must_use]
    pub fn excerpt(&self, at: Position) -> String {
        const MAX_COLUMNS: usize = 100;
        let text = String::from_utf8_lossy(&self.bytes);
        let number = usize::try_from(at.line).unwrap_or(usize::MAX);
        let column = usize::try_from(at.column).unwrap_or(usize::MAX);
        let line = number
            .checked_sub(1)
            .and_then(|index| text.lines().nth(index));
        match line {
            Some(line) if column <= MAX_COLUMNS => {
                let line: String = line
                    .chars()
                    .take(MAX_COLUMNS)
                    .map(|letter| if letter.is_control() { ' ' } else { letter })
                    .collect();
                let digits = number.to_string().len().max(4);
                let blanks = column.saturating_sub(1);
                format!(
                    "\n  {number:>digits$} | {line}\n  {:digits$} | {:blanks$}^",
                    "", ""
                )
            }
            _ => String::new(),
        }
    }
}

/// The path as the user wrote it, or `standard input`.
#[must_use]
pub fn name(path: &Path) -> String {
    match path.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// The content of a file, decompressed if it begins like a gzip file; `-` is standard input.
///
/// # Errors
/// If the file cannot be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    const BUFFER: usize = 1 << 16;
    let plain: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let mut plain = BufReader::with_capacity(BUFFER, plain);
    let is_gzip = plain.fill_buf()?.starts_with(&GZIP);
    Ok(match is_gzip {
        true => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(plain))),
        false => Box::new(plain),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn gzip_files_are_recognized_by_their_first_bytes_and_bounded() {
        let path = std::env::temp_dir().join(format!("pinfold-source-{}", std::process::id()));
        let write = |text: &[u8]| {
            let file = File::create(&path).expect("writable");
            let mut zip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            zip.write_all(text)
                .and_then(|()| zip.finish())
                .expect("writable");
        };
        write(b"kind: Pod\n");
        assert_eq!(Source::open(&path).expect("readable").bytes, b"kind: Pod\n");
        let most = usize::try_from(MAX_BYTES).expect("64 bits");
        write(&vec![b' '; most + 1]);
        let failure = Source::open(&path).err().expect("too large").to_string();
        assert!(
            failure.ends_with("expected at most 64 MiB, found more"),
            "{failure}"
        );
        std::fs::remove_file(&path).expect("it is there");
    }
}
