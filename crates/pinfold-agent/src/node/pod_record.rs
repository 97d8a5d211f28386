//! The journal's record on a pod: its origin, and the labels and annotations that affect its CPUs.
//!
//! Any user may put annotations of any length on a pod, and the journal is read as a whole when the agent starts. So only
//! the keys that are read again after a restart are journaled, and only values of a limited length.

use std::collections::BTreeMap;

use pinfold_journal::{JournalPodRecord, PodOrigin};
use pinfold_kube::generation::GENERATION;
use pinfold_kube::koordinator::keys;
use pinfold_kube::meta::ObjectMeta;
use pinfold_kube::pin::PIN;

/// The longest value that is journaled, in bytes. A `resource-status` for a machine with 64 NUMA nodes has about 6,000.
pub(super) const MAX_VALUE: usize = 16 * 1024;

const LABELS: [&str; 2] = [keys::QOS_CLASS, keys::PRIORITY_CLASS];
const ANNOTATIONS: [&str; 5] = [
    PIN,
    keys::RESOURCE_SPEC,
    keys::NUMA_SPEC,
    keys::RESOURCE_STATUS,
    GENERATION,
];

/// The record on a pod with these labels and annotations. Values that are too long are left out.
pub(super) fn record(
    origin: PodOrigin,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> JournalPodRecord {
    let pick = |known: &[&str], texts: &BTreeMap<String, String>| {
        let found = known.iter().filter_map(|key| texts.get_key_value(*key));
        found
            .filter(|(_, text)| text.len() <= MAX_VALUE)
            .map(|(key, text)| (key.clone(), text.clone()))
            .collect()
    };
    JournalPodRecord {
        origin,
        granted: false,
        labels: pick(&LABELS, labels),
        annotations: pick(&ANNOTATIONS, annotations),
        cgroups: BTreeMap::new(),
        processes: Vec::new(),
    }
}

/// Why a pod cannot be admitted by its annotations: one that affects its CPUs is too long for the journal.
pub(super) fn too_long(meta: &ObjectMeta) -> Option<String> {
    let values = LABELS.iter().map(|key| (*key, meta.labels.get(*key)));
    let annotations = ANNOTATIONS.iter();
    let values = values.chain(annotations.map(|key| (*key, meta.annotations.get(*key))));
    let mut lengths = values.filter_map(|(key, text)| Some((key, text?.len())));
    let (key, length) = lengths.find(|(_, length)| *length > MAX_VALUE)?;
    Some(format!(
        "{key}: expected at most {MAX_VALUE} bytes, found {length}"
    ))
}
