//! Reading what the user names: files with places in their errors.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::Pod;
use pinfold_hardware::{Hardware, HardwareError};
use pinfold_kube::diagnostic::{Diagnostic, Diagnostics, Position};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::pod::PodObject;

use crate::exit::Failure;
use crate::output::remark;

/// No file of ours is larger; the readers have limits of their own below it.
const LARGEST: u64 = 64 << 20;

/// A file as it was read, for messages that show the line.
pub(crate) struct Source {
    /// What the user called it.
    pub(crate) name: String,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
}

impl Source {
    /// Reads a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        let is_stdin = path.as_os_str() == "-";
        let read = match is_stdin {
            true => std::io::stdin()
                .lock()
                .take(LARGEST)
                .read_to_end(&mut bytes),
            false => std::fs::File::open(path)
                .and_then(|file| file.take(LARGEST).read_to_end(&mut bytes)),
        };
        let name = match is_stdin {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        match read {
            Ok(_) => Ok(Self { name, bytes }),
            Err(error) => Err(Failure::BadInput(format!("cannot read {name}: {error}"))),
        }
    }

    /// The failure that these findings are.
    pub(crate) fn failure(&self, findings: &Diagnostics) -> Failure {
        let told: Vec<String> = findings
            .0
            .iter()
            .map(|finding| self.tell(finding))
            .collect();
        Failure::BadInput(told.join("\n"))
    }

    /// Tells what is odd, on standard error.
    pub(crate) fn warn(&self, warnings: &[Diagnostic]) {
        for warning in warnings {
            remark(&format!("warning: {}", self.tell(warning)));
        }
    }

    /// A finding with the line it is about.
    pub(crate) fn tell(&self, finding: &Diagnostic) -> String {
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

    /// The line at a place, with a mark below the column; nothing if it cannot be shown.
    pub(crate) fn excerpt(&self, at: Position) -> String {
        const WIDEST: usize = 100;
        let text = String::from_utf8_lossy(&self.bytes);
        let number = usize::try_from(at.line).unwrap_or(usize::MAX);
        let column = usize::try_from(at.column).unwrap_or(usize::MAX);
        let line = number
            .checked_sub(1)
            .and_then(|index| text.lines().nth(index));
        match line {
            Some(line) if column <= WIDEST => {
                let line: String = line
                    .chars()
                    .take(WIDEST)
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

/// The pods of some files, in order. Pods of the namespace `default` go by their bare name.
pub(crate) fn pods(paths: &[impl AsRef<Path>]) -> Result<Vec<PodObject>, Failure> {
    let mut all: Vec<PodObject> = Vec::new();
    for path in paths {
        let source = Source::open(path.as_ref())?;
        let read = pinfold_kube::pod::read(&source.name, &source.bytes);
        let read = read.map_err(|findings| source.failure(&findings))?;
        source.warn(&read.warnings);
        all.extend(read.value);
    }
    for object in &mut all {
        call_by_bare_name(&mut object.pod);
    }
    let mut uids: Vec<_> = all.iter().map(|object| &object.pod.uid).collect();
    uids.sort_unstable();
    match uids.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::BadInput(format!(
            "two of the files have a pod {}: rename one of them, or give it another uid",
            pair[0]
        ))),
        None => Ok(all),
    }
}

pub(crate) fn call_by_bare_name(pod: &mut Pod) {
    if let Some(name) = pod.name.strip_prefix("default/") {
        pod.name = name.to_owned();
    }
}

/// A kubelet's configuration.
pub(crate) fn kubelet(path: &Path, fidelity: Fidelity) -> Result<KubeletSettings, Failure> {
    let source = Source::open(path)?;
    let read = KubeletSettings::read(&source.name, &source.bytes, fidelity);
    let read = read.map_err(|findings| source.failure(&findings))?;
    source.warn(&read.warnings);
    Ok(read.value)
}

/// A machine.
pub(crate) fn hardware(spec: &str) -> Result<Hardware, Failure> {
    pinfold_hardware::open(spec).map_err(|error| machine_failure(&error))
}

/// This machine failing to tell what it is, is not the user's fault.
pub(crate) fn machine_failure(error: &HardwareError) -> Failure {
    match error {
        HardwareError::Malformed { .. } | HardwareError::NoCpus { .. } => {
            Failure::Environment(error.to_string())
        }
        _ => Failure::BadInput(error.to_string()),
    }
}

/// The one pod that a command is about, and what people call it.
pub(crate) fn first_pod(path: &Path) -> Result<(String, Arc<Pod>), Failure> {
    let first = first_object(path)?;
    Ok((first.pod.name.clone(), Arc::new(first.pod)))
}

/// The same with its labels and annotations.
pub(crate) fn first_object(path: &Path) -> Result<PodObject, Failure> {
    let mut pods = pods(&[path])?.into_iter();
    let Some(first) = pods.next() else {
        return Err(Failure::BadInput(format!(
            "{}: expected a pod, or something that makes pods; found none",
            path.display()
        )));
    };
    if pods.len() > 0 {
        let name = &first.pod.name;
        remark(&format!("this is about {name}, the first pod of the file"));
    }
    Ok(first)
}
