//! The files and machines that the command line names.

use std::path::{Path, PathBuf};

use pinfold_core::fidelity::Fidelity;
use pinfold_hardware::{Hardware, HardwareError};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::pod::{self, KindCounts, PodObject, TemplatePath};
use pinfold_terminal::manifest_files;

use crate::args::{MoreFilesArgs, PodFileArgs, PodFilesArgs};
use crate::exit::Failure;
use crate::output::{drop_default_namespace, remark};
pub(crate) use pinfold_terminal::Source;

/// Files and directories with pods, and how to read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodInput<'a> {
    first: &'a [PathBuf],
    more: &'a [PathBuf],
    recursive: bool,
    template_paths: &'a [TemplatePath],
}

impl<'a> From<&'a Vec<PathBuf>> for PodInput<'a> {
    fn from(first: &'a Vec<PathBuf>) -> Self {
        Self {
            first,
            more: &[],
            recursive: false,
            template_paths: &[],
        }
    }
}

impl<'a> From<&'a PodFilesArgs> for PodInput<'a> {
    fn from(args: &'a PodFilesArgs) -> Self {
        Self::with_more(&args.manifests, &args.more)
    }
}

impl<'a> From<&'a PodFileArgs> for PodInput<'a> {
    fn from(args: &'a PodFileArgs) -> Self {
        Self::with_more(args.pod.as_slice(), &args.more)
    }
}

impl<'a> PodInput<'a> {
    fn with_more(first: &'a [PathBuf], more: &'a MoreFilesArgs) -> Self {
        Self {
            first,
            more: &more.filename,
            recursive: more.recursive,
            template_paths: &more.pod_template_path,
        }
    }
}

/// The pods of some files and directories, in order. Names of pods in the namespace `default` are printed without it.
pub(crate) fn pods<'a>(input: impl Into<PodInput<'a>>) -> Result<Vec<PodObject>, Failure> {
    let input = input.into();
    let mut all: Vec<PodObject> = Vec::new();
    let mut without_pods = KindCounts::default();
    for path in input.first.iter().chain(input.more) {
        for file in manifest_files::find(path, input.recursive)? {
            let source = Source::open(&file)?;
            let read = pod::read_file(&source.name, &source.bytes, input.template_paths);
            let read = read.map_err(|findings| source.failure(&findings))?;
            source.warn(&read.warnings);
            let found = read.value;
            let is_empty = found.pods.is_empty() && found.without_pods.total() == 0;
            if is_empty && file == *path && source.is_blank() {
                return Err(Failure::BadInput(format!(
                    "{}: expected Kubernetes objects such as a Pod or a Deployment, found nothing",
                    source.name
                )));
            }
            all.extend(found.pods);
            without_pods.append(found.without_pods);
        }
    }
    if without_pods.total() > 0 {
        remark(&format!("ignored {without_pods}"));
    }
    named_once(all)
}

/// The pods of several files. Names of pods in the namespace `default` are printed without it.
pub(crate) fn named_once(mut all: Vec<PodObject>) -> Result<Vec<PodObject>, Failure> {
    for object in &mut all {
        drop_default_namespace(&mut object.pod.name);
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

/// Reads a kubelet's configuration.
pub(crate) fn kubelet(path: &Path, fidelity: Fidelity) -> Result<KubeletSettings, Failure> {
    let source = Source::open(path)?;
    let read = KubeletSettings::read(&source.name, &source.bytes, fidelity);
    let read = read.map_err(|findings| source.failure(&findings))?;
    source.warn(&read.warnings);
    Ok(read.value)
}

/// Reads a machine.
pub(crate) fn hardware(spec: &str) -> Result<Hardware, Failure> {
    pinfold_hardware::open(spec).map_err(|error| machine_failure(&error))
}

/// The failure of reading a machine: invalid input, unless `/sys` or `/proc` of this machine cannot be read.
pub(crate) fn machine_failure(error: &HardwareError) -> Failure {
    match error {
        HardwareError::Malformed { .. } | HardwareError::NoCpus { .. } => {
            Failure::Environment(error.to_string())
        }
        HardwareError::NoSuchMachine { .. } => {
            Failure::BadInput(format!("{error}\n  pinfold presets lists the presets"))
        }
        _ => Failure::BadInput(error.to_string()),
    }
}

/// The first pod, with its labels and annotations.
pub(crate) fn first_object(args: &PodFileArgs) -> Result<PodObject, Failure> {
    let mut pods = pods(args)?.into_iter();
    let Some(first) = pods.next() else {
        let mut paths = args.pod.iter().chain(&args.more.filename);
        let path = paths
            .next()
            .map(|path| pinfold_terminal::source::name(path));
        return Err(Failure::BadInput(format!(
            "{}: expected a pod, or a deployment, job or the like; found none",
            path.unwrap_or_default()
        )));
    };
    if pods.len() > 0 {
        let name = &first.pod.name;
        remark(&format!("deciding about {name}, the first pod of the file"));
    }
    Ok(first)
}
