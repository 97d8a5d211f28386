//! Finds and reads vector files. Line length and file size are limited.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use pinfold_core::fidelity::{KubeletVersion, UnknownKubelet};

use crate::case::{Case, ReplayOutcome};
use crate::report::{ConformanceReport, FamilyReport};
use crate::{koordinator, kubelet, scheduler_plugins, volcano};

/// The longest line a vector file may have.
const LONGEST_LINE: u64 = 64 << 20;
/// The largest decompressed size of a vector file.
const LARGEST_FILE: u64 = 4 << 30;

/// The longest content of a file with a version.
const LONGEST_VERSION: u64 = 100;

/// The program whose decisions a folder records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// The kubelet's managers.
    Kubelet,
    /// Koordinator's NodeNUMAResource scheduler plugin.
    Koordinator,
    /// Volcano's numa-aware scheduler plugin.
    Volcano,
    /// NodeResourceTopologyMatch of scheduler-plugins.
    SchedulerPlugins,
}

/// Whose decisions are compared with the recorded ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replayed {
    /// Those of the program that made the vectors, defects included.
    #[default]
    Original,
    /// Pinfold's own, for the kubelet's vectors only: every difference is traced to defects of the kubelet.
    Pinfold,
}

/// Why vectors could not be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file that names the kubelet's version names none that is known.
    #[error("{path}: {source}")]
    Version {
        /// The path.
        path: PathBuf,
        /// The error.
        source: UnknownKubelet,
    },
    /// A line is not a valid case.
    #[error("{path} line {line}: not a test vector: {source}")]
    NotACase {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The error.
        source: serde_json::Error,
    },
    /// A folder without vector files.
    #[error("no test vectors (*.jsonl, *.jsonl.gz) in {0} or the folders below it")]
    NothingThere(PathBuf),
    /// No folder has the requested family.
    #[error("no family named {requested:?} in {path}; there are: {known}")]
    NoSuchFamily {
        /// The requested family.
        requested: String,
        /// The folder.
        path: PathBuf,
        /// The families that exist.
        known: String,
    },
}

impl System {
    /// The name of its folder.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            System::Kubelet => "kubelet",
            System::Koordinator => "koordinator",
            System::Volcano => "volcano",
            System::SchedulerPlugins => "scheduler-plugins",
        }
    }

    /// Determined by a family that only one system has, else by the folder's name.
    fn of(folder: &Path, families: &[VectorFile]) -> Option<System> {
        let has = |name: &str| families.iter().any(|file| file.family == name);
        let by_name = || {
            let name = folder.file_name()?.to_str()?;
            let all = [
                System::Kubelet,
                System::Koordinator,
                System::Volcano,
                System::SchedulerPlugins,
            ];
            all.into_iter().find(|system| name.contains(system.name()))
        };
        if has("topologies") {
            Some(System::Kubelet)
        } else if has("amplify") || has("hints_merge") || has("schedule") || has("schedule_numa") {
            Some(System::Koordinator)
        } else if has("session") || has("take") || has("sort_dependent") {
            Some(System::Volcano)
        } else if has("nrt_filter") || has("nrt_score") {
            Some(System::SchedulerPlugins)
        } else {
            by_name()
        }
    }
}

struct VectorFile {
    family: String,
    path: PathBuf,
}

/// Replays every vector file in `dir` and in the folders right below it, or only those of one family.
/// At most `keep_failures` failures are described per family.
///
/// # Errors
/// If a file cannot be read or is not a vector file. A case whose output differs is not an error: see the report.
pub fn run(
    dir: &Path,
    family: Option<&str>,
    decider: Replayed,
    keep_failures: usize,
) -> Result<ConformanceReport, ReplayError> {
    let mut report = ConformanceReport::default();
    let mut known = Vec::new();
    let mut folders = vec![dir.to_owned()];
    folders.extend(entries(dir)?.into_iter().filter(|path| path.is_dir()));
    for folder in folders {
        let files = vector_files(&folder)?;
        let Some(system) = System::of(&folder, &files) else {
            continue;
        };
        if decider == Replayed::Pinfold && system != System::Kubelet {
            continue;
        }
        let replay = Replay::new(system, decider, &folder)?;
        for file in files {
            if family.is_none_or(|requested| requested == file.family) {
                report.families.push(replay.file(&file, keep_failures)?);
            }
            known.push(file.family);
        }
    }
    match (known.is_empty(), report.families.is_empty()) {
        (true, _) => Err(ReplayError::NothingThere(dir.to_owned())),
        (false, true) => Err(ReplayError::NoSuchFamily {
            requested: family.unwrap_or_default().to_owned(),
            path: dir.to_owned(),
            known: known.join(", "),
        }),
        (false, false) => Ok(report),
    }
}

/// A folder being replayed, with the machines that its cases refer to.
enum Replay {
    Kubelet(kubelet::Machines, KubeletVersion, Replayed),
    Koordinator,
    Volcano,
    SchedulerPlugins,
}

impl Replay {
    fn new(system: System, decider: Replayed, folder: &Path) -> Result<Self, ReplayError> {
        Ok(match system {
            System::Kubelet => {
                let mut machines = kubelet::Machines::default();
                for file in vector_files(folder)?
                    .iter()
                    .filter(|file| file.family == "topologies")
                {
                    each_case(&file.path, |case| {
                        machines.add(&case);
                        Ok(())
                    })?;
                }
                Replay::Kubelet(machines, version_of(folder)?, decider)
            }
            System::Koordinator => Replay::Koordinator,
            System::Volcano => Replay::Volcano,
            System::SchedulerPlugins => Replay::SchedulerPlugins,
        })
    }

    fn system(&self) -> System {
        match self {
            Replay::Kubelet(..) => System::Kubelet,
            Replay::Koordinator => System::Koordinator,
            Replay::Volcano => System::Volcano,
            Replay::SchedulerPlugins => System::SchedulerPlugins,
        }
    }

    fn file(&self, file: &VectorFile, keep: usize) -> Result<FamilyReport, ReplayError> {
        let mut report = FamilyReport {
            system: self.system().name().to_owned(),
            family: file.family.clone(),
            ..FamilyReport::default()
        };
        each_case(&file.path, |case| {
            let outcome = self.case(&file.family, &case);
            report.record(&case.id, &case.tag, outcome, keep);
            Ok(())
        })?;
        Ok(report)
    }

    fn case(&self, family: &str, case: &Case) -> ReplayOutcome {
        match self {
            Replay::Kubelet(machines, version, Replayed::Original) => {
                kubelet::replay(*version, family, case, machines)
            }
            Replay::Kubelet(machines, _, Replayed::Pinfold) => {
                kubelet::replay_soundly(family, case, machines)
            }
            Replay::Koordinator => koordinator::replay(family, case),
            Replay::Volcano => volcano::replay(family, case),
            Replay::SchedulerPlugins => scheduler_plugins::replay(family, case),
        }
    }
}

/// The version of the kubelet that made a folder's vectors: in its file `kubelet-version`, else the default.
fn version_of(folder: &Path) -> Result<KubeletVersion, ReplayError> {
    let path = folder.join("kubelet-version");
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(KubeletVersion::default());
        }
        Err(source) => return Err(ReplayError::Read { path, source }),
    };
    let mut text = String::new();
    match file.take(LONGEST_VERSION).read_to_string(&mut text) {
        Ok(_) => text
            .trim()
            .parse()
            .map_err(|source| ReplayError::Version { path, source }),
        Err(source) => Err(ReplayError::Read { path, source }),
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, ReplayError> {
    let wrap = |source| ReplayError::Read {
        path: dir.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrap)? {
        paths.push(entry.map_err(wrap)?.path());
    }
    paths.sort();
    Ok(paths)
}

fn vector_files(folder: &Path) -> Result<Vec<VectorFile>, ReplayError> {
    let family = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let family = name
            .strip_suffix(".jsonl.gz")
            .or_else(|| name.strip_suffix(".jsonl"))?;
        Some(VectorFile {
            family: family.to_owned(),
            path: path.clone(),
        })
    };
    Ok(entries(folder)?.iter().filter_map(family).collect())
}

fn each_case(
    path: &Path,
    mut visit: impl FnMut(Case) -> Result<(), ReplayError>,
) -> Result<(), ReplayError> {
    let wrap = |source| ReplayError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(wrap)?;
    let unpacked: Box<dyn Read> = match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(flate2::read::MultiGzDecoder::new(file)),
        false => Box::new(file),
    };
    let mut reader = BufReader::new(unpacked.take(LARGEST_FILE));
    let mut text = String::new();
    for line in 1.. {
        text.clear();
        if reader
            .by_ref()
            .take(LONGEST_LINE)
            .read_line(&mut text)
            .map_err(wrap)?
            == 0
        {
            break;
        }
        if text.trim().is_empty() {
            continue;
        }
        let case = serde_json::from_str(&text).map_err(|source| ReplayError::NotACase {
            path: path.to_owned(),
            line,
            source,
        })?;
        visit(case)?;
    }
    Ok(())
}
