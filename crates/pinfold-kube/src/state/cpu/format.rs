//! The formats of the CPU file as one Go type. Names and order of the fields affect the checksum.

use pinfold_core::cpu_set::CpuSet;

use super::{CpuManagerState, CpuStateFormat};
use crate::go::json::Json;
use crate::go::record::{dump_of_pointer, go_named, go_struct};
use crate::go::value::{Decoder, GoValue, Map, unmarshal};
use crate::state::checkpoint::{Checkpoint, ChecksumField};
use crate::state::{Checksum, Fault};

go_struct! {
    /// The file; a field that its format does not have is `None`.
    struct CpuCheckpoint = "state"."CPUManagerCheckpoint" {
        policy_name: String = "PolicyName" "policyName",
        default_cpu_set: String = "DefaultCPUSet" "defaultCpuSet",
        id_entries: Option<Map<String, String>> = "Entries" "entries" omitempty,
        entries: Option<Map<String, Map<String, String>>> = "Entries" "entries" omitempty,
        pod_entries: Option<CpuPodEntries> = "PodEntries" "podEntries" omitempty,
        checksum: Option<ChecksumField> = "Checksum" "checksum",
        data: Option<String> = "Data" "data",
        data_checksum: Option<ChecksumField> = "DataChecksum" "dataChecksum",
    }
}

go_named! {
    /// CPUs by pod.
    struct CpuPodEntries(Map<String, CpuPodEntry>) = "state.PodCPUAssignments"
}

go_struct! {
    /// The JSON of a pod entry.
    struct CpuPodEntryText = "state"."podEntryJSON" {
        cpu_set: String = "CPUSet" "cpuSet" omitempty,
    }
}

/// The CPUs of one pod: text in the file, a set in memory; the checksum covers the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuPodEntry {
    pub(crate) cpus: CpuSet,
}

impl GoValue for CpuPodEntry {
    fn type_name() -> String {
        "state.PodEntry".to_owned()
    }

    fn decode_as(&mut self, json: &Json, decoder: &mut Decoder, _name: fn() -> String) {
        let mut text = CpuPodEntryText::default();
        let mut own = Decoder::default();
        text.decode(json, &mut own);
        if let Some(error) = own.into_error() {
            return decoder.stop(error);
        }
        match CpuSet::parse(&text.cpu_set) {
            Ok(cpus) => self.cpus = cpus,
            Err(error) => decoder.stop(format!("failed to parse cpuset: {error}")),
        }
    }

    fn dump(&self, out: &mut String) {
        out.push_str("{CPUSet:(cpuset.CPUSet){elems:(map[int]struct {})map[");
        for (i, cpu) in self.cpus.iter().enumerate() {
            let separator = if i == 0 { "" } else { " " };
            out.push_str(&format!("{separator}{cpu}:{{}}"));
        }
        out.push_str("]}}");
    }

    fn encode(&self, out: &mut String) {
        let cpu_set = self.cpus.to_string();
        CpuPodEntryText { cpu_set }.encode(out);
    }

    fn is_empty(&self) -> bool {
        false
    }
}

impl CpuStateFormat {
    /// The name of its Go type.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            CpuStateFormat::V1 => "state.CPUManagerCheckpointV1",
            CpuStateFormat::V2 => "state.CPUManagerCheckpointV2",
            CpuStateFormat::V3 | CpuStateFormat::V4 => "state.CPUManagerCheckpoint",
        }
    }
}

impl CpuCheckpoint {
    /// The value that the kubelet decodes a file of this format into.
    fn new(format: CpuStateFormat) -> Self {
        let by_id = format == CpuStateFormat::V1;
        let has_copy = format == CpuStateFormat::V4;
        Self {
            id_entries: by_id.then(Map::empty),
            entries: (!by_id).then(Map::empty),
            pod_entries: (format == CpuStateFormat::V3).then(|| CpuPodEntries(Map::empty())),
            checksum: Some(ChecksumField(0)),
            data: has_copy.then(String::new),
            data_checksum: has_copy.then(ChecksumField::default),
            ..Self::default()
        }
    }

    /// The file decoded in this format, as far as it could be, and the error.
    pub(super) fn decoded(bytes: &[u8], format: CpuStateFormat) -> (Self, Result<(), String>) {
        Self::decoded_as(bytes, format, format.type_name())
    }

    /// The same where the Go type of the format has this name, for messages.
    pub(super) fn decoded_as(
        bytes: &[u8],
        format: CpuStateFormat,
        type_name: &'static str,
    ) -> (Self, Result<(), String>) {
        let mut file = Self::new(format);
        let read = unmarshal(bytes, &mut file, type_name);
        (file, read)
    }

    /// The content of a file of format 4, from its checked copy; `None` if it has an older format.
    pub(super) fn of_format4(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let (file, read) = Self::decoded(bytes, CpuStateFormat::V4);
        let checksum = file.data_checksum();
        let text = file.data.unwrap_or_default();
        if text.is_empty() && checksum.stored == 0 {
            return Ok(None);
        }
        let mut copy = Self::new(CpuStateFormat::V3).into_copy();
        read.map_err(|error| format!("failed to deserialize cpu manager checkpoint: {error}"))
            .and_then(|()| {
                unmarshal(text.as_bytes(), &mut copy, "state.CPUManagerCheckpointData").map_err(
                    |error| format!("failed to deserialize cpu manager checkpoint data: {error}"),
                )
            })
            .map_err(Fault::Json)
            .and_then(|()| checksum.verify())
            .map_err(|fault| Fault::Format4(Box::new(fault)))?;
        Ok(Some(copy))
    }

    /// The file of this format. Format 1 becomes format 2.
    pub(super) fn of_state(state: &CpuManagerState, format: CpuStateFormat) -> Self {
        let containers = state.containers.iter().map(|(pod, containers)| {
            let containers = containers.iter();
            let of_pod = containers.map(|(name, cpus)| (name.to_string(), cpus.to_string()));
            (pod.to_string(), of_pod.collect())
        });
        let pods = state.pods.iter().map(|(pod, cpus)| {
            let cpus = cpus.clone();
            (pod.to_string(), CpuPodEntry { cpus })
        });
        let empty = Self::new(format.max(CpuStateFormat::V2));
        Self {
            policy_name: state.policy.clone(),
            default_cpu_set: state.default_cpus.to_string(),
            entries: Some(containers.collect()),
            pod_entries: empty
                .pod_entries
                .is_some()
                .then(|| CpuPodEntries(pods.collect())),
            ..empty
        }
    }

    /// The file of format 4: format 2 for older kubelets, and all fields once more as text.
    pub(super) fn write_format4(state: &CpuManagerState) -> String {
        let mut text = String::new();
        Self::of_state(state, CpuStateFormat::V3)
            .into_copy()
            .encode(&mut text);
        let mut file = Self::of_state(state, CpuStateFormat::V2);
        let checksum = file.checksum().computed();
        *file.checksum_field() = ChecksumField(checksum.into());
        file.data = Some(text);
        file.data_checksum = Some(ChecksumField(file.data_checksum().computed().into()));
        let mut out = String::new();
        file.encode(&mut out);
        out
    }

    /// The fields that the text inside format 4 has.
    fn into_copy(self) -> Self {
        Self {
            checksum: None,
            ..self
        }
    }

    /// The checksum of the text inside format 4.
    fn data_checksum(&self) -> Checksum {
        Checksum {
            stored: self.data_checksum.as_ref().map_or(0, |field| field.0),
            text: format!("(string){}", self.data.as_deref().unwrap_or_default()),
        }
    }
}

impl Checkpoint for CpuCheckpoint {
    fn checksum_field(&mut self) -> &mut ChecksumField {
        self.checksum.get_or_insert_default()
    }

    /// All formats are printed under the name from before formats had numbers.
    fn hashed_text(&self) -> String {
        dump_of_pointer(self, &Self::type_name())
    }
}
