//! The files and machines that the command line names.

use std::path::Path;
use std::sync::Arc;

use pinfold_core::fidelity::Fidelity;
use pinfold_core::pod::Pod;
use pinfold_hardware::{Hardware, HardwareError};
use pinfold_kube::kubelet_config::KubeletSettings;
use pinfold_kube::pod::PodObject;

use crate::exit::Failure;
use crate::output::{drop_default_namespace, remark};
pub(crate) use pinfold_terminal::Source;

/// The pods of some files, in order. Names of pods in the namespace `default` are printed without it.
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
        _ => Failure::BadInput(error.to_string()),
    }
}

/// The first pod of a file, with its name.
pub(crate) fn first_pod(path: &Path) -> Result<(String, Arc<Pod>), Failure> {
    let first = first_object(path)?;
    Ok((first.pod.name.clone(), Arc::new(first.pod)))
}

/// The first pod of a file, with its labels and annotations.
pub(crate) fn first_object(path: &Path) -> Result<PodObject, Failure> {
    let mut pods = pods(&[path])?.into_iter();
    let Some(first) = pods.next() else {
        return Err(Failure::BadInput(format!(
            "{}: expected a pod, or a deployment, job or the like; found none",
            path.display()
        )));
    };
    if pods.len() > 0 {
        let name = &first.pod.name;
        remark(&format!("deciding about {name}, the first pod of the file"));
    }
    Ok(first)
}
